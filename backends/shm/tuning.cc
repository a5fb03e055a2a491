#include "tuning.h"

#include "sdk/fail.h"

#include <charconv>
#include <cstdio>
#include <string_view>

namespace shm_backend {
namespace {

struct Row {
  std::string_view name;
  uint64_t Tuning::*value;
};

constexpr Row kRows[] = {
#define SHM_TUNING(name, bytes, what, way) {#name, &Tuning::name},
#include "tuning.def"
};

bool in_range(uint64_t bytes) {
  return bytes >= Tuning::kLeast && bytes <= Tuning::kMost;
}

// Refuses `part` of the hint.
int32_t refuse(std::string_view part, const char* why, dw_error* error) {
  char text[200];
  std::snprintf(text, sizeof text, "shm: hint 'tuning': '%.*s' %s",
                static_cast<int>(part.size() < 60 ? part.size() : 60),
                part.data(), why);
  return dw_invalid(error, text);
}

const Row* find(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace

bool Tuning::is_sane() const {
  for (const Row& row : kRows)
    if (!in_range(this->*row.value)) return false;
  return true;
}

int32_t read_tuning(dw_str given, Tuning* tuning, dw_error* error) {
  std::string_view text(given.data == nullptr ? "" : given.data, given.size);
  Tuning read = *tuning;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(part.size() < text.size() ? part.size() + 1
                                                 : text.size());
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return refuse(part, "is not name=bytes", error);
    const Row* const row = find(part.substr(0, equals));
    if (row == nullptr)
      return refuse(part.substr(0, equals),
                    "is no threshold; `distwrap bench tune` writes those "
                    "that there are",
                    error);
    const char* const end = part.data() + part.size();
    uint64_t bytes = 0;
    const auto [stopped, failed] =
        std::from_chars(part.data() + equals + 1, end, bytes);
    if (failed == std::errc::invalid_argument || stopped != end)
      return refuse(part, "does not give a whole number of bytes", error);
    if (failed != std::errc() || !in_range(bytes))
      return refuse(part, "is not from 1024 to 1073741824", error);
    read.*row->value = bytes;
  }
  *tuning = read;
  return DW_OK;
}

}  // namespace shm_backend
