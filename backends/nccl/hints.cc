#include "hints.h"

#include "sdk/fail.h"
#include "sdk/read_op.h"

#include <cerrno>
#include <cstdlib>
#include <iterator>

namespace nccl_backend {
namespace {

int32_t refuse(const char* name, const std::string& value,
               const std::string& allowed, dw_error* error) {
  const std::string text =
      std::string("nccl: hint ") + name + "=" + value + " is not " + allowed;
  return dw_invalid(error, text.c_str());
}

bool find(const dw_hint* given, uint64_t n, const dw_str& key,
          std::string* value) {
  const dw_str found = dw_find_hint(given, n, key);
  if (found.data == nullptr) return false;
  value->assign(found.data, found.size);
  return true;
}

int32_t read_int(const char* name, const std::string& value, int least,
                 int most, int* number, dw_error* error) {
  errno = 0;
  char* end = nullptr;
  const long read = std::strtol(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || errno != 0 || read < least ||
      read > most)
    return refuse(name, value,
                  "a number from " + std::to_string(least) + " to " +
                      std::to_string(most),
                  error);
  *number = static_cast<int>(read);
  return DW_OK;
}

}  // namespace

std::string Hints::common() const {
  std::string text;
#define NCCL_INT_HINT(name, least, most) \
  if (name != kUnset) text += #name "=" + std::to_string(name) + " ";
#define NCCL_FIELD_HINT(name, field, since, least, most) \
  if (name != kUnset) text += #name "=" + std::to_string(name) + " ";
#include "hints.def"
  // Ranks without a key cannot reach those with one.
  text += encryption_key_file.empty() ? "" : "encrypted ";
  return text;
}

int32_t read_hints(const dw_hint* given, uint64_t n, Hints* hints,
                   dw_error* error) {
  if (const dw_hint* const unknown =
          dw_unknown_hint(given, n, kHints, std::size(kHints))) {
    const std::string text = "nccl: there is no hint " +
                             std::string(unknown->key.data, unknown->key.size) +
                             "; backends/nccl/README.md lists the hints";
    return dw_invalid(error, text.c_str());
  }
  std::string value;
#define NCCL_TEXT_HINT(name) \
  if (find(given, n, {#name, sizeof #name - 1}, &value)) hints->name = value;
#define NCCL_INT_HINT(name, least, most)                              \
  if (find(given, n, {#name, sizeof #name - 1}, &value))              \
    if (int32_t code =                                                \
            read_int(#name, value, least, most, &hints->name, error)) \
      return code;
#define NCCL_FIELD_HINT(name, field, since, least, most) \
  NCCL_INT_HINT(name, least, most)
#include "hints.def"
  if (hints->tags != "" && hints->tags != "in_order")
    return refuse("tags", hints->tags, "in_order", error);
  return DW_OK;
}

}  // namespace nccl_backend
