#include "bench/size.h"

#include <absl/status/status.h>
#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

#include <iterator>

namespace distwrap::bench {
namespace {

absl::Status no_size(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not a size; write bytes such as 8, 4K or 1M"));
}

// The bytes of a unit; 0 for an unknown unit.
int64_t unit_bytes(absl::string_view unit) {
  const std::string upper = absl::AsciiStrToUpper(unit);
  if (upper.empty() || upper == "B") return 1;
  if (upper.size() > 1 && upper.substr(1) != "B" && upper.substr(1) != "IB") {
    return 0;
  }
  switch (upper[0]) {
    case 'K':
      return int64_t{1} << 10;
    case 'M':
      return int64_t{1} << 20;
    case 'G':
      return int64_t{1} << 30;
    default:
      return 0;
  }
}

}  // namespace

absl::StatusOr<int64_t> parse_size(absl::string_view text) {
  size_t digits = 0;
  while (digits < text.size() &&
         absl::ascii_isdigit(static_cast<unsigned char>(text[digits])))
    ++digits;
  int64_t number = 0;
  if (digits == 0 || digits > 18 ||
      !absl::SimpleAtoi(text.substr(0, digits), &number)) {
    return no_size(text);
  }
  const int64_t unit = unit_bytes(text.substr(digits));
  if (unit == 0) return no_size(text);
  if (number > kMaxBytes / unit) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is more than 1024G"));
  }
  return number * unit;
}

absl::StatusOr<std::vector<int64_t>> parse_sizes(absl::string_view list) {
  std::vector<int64_t> sizes;
  for (absl::string_view text : absl::StrSplit(list, ',')) {
    const auto size = parse_size(text);
    if (!size.ok()) return size.status();
    if (*size == 0) {
      return absl::InvalidArgumentError("a size of 0 moves nothing");
    }
    sizes.push_back(*size);
  }
  return sizes;
}

absl::StatusOr<std::vector<int64_t>> size_range(int64_t least, int64_t most,
                                                int64_t factor, int64_t step) {
  if (least <= 0) return absl::InvalidArgumentError("--min has to be above 0");
  if (most < least) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max ", most, " is below --min ", least));
  }
  if (step == 0 && factor < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("--factor ", factor, " does not grow; give 2 or more"));
  }
  constexpr int kMost = 4096;
  std::vector<int64_t> sizes;
  for (int64_t size = least; size <= most;
       size = step > 0 ? size + step : size * factor) {
    sizes.push_back(size);
    if (sizes.size() > kMost) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMost, " sizes; give a larger --step"));
    }
    if (step == 0 && size > most / factor) break;
  }
  return sizes;
}

std::string format_size(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.4g %s", value, kUnits[unit]);
}

}  // namespace distwrap::bench
