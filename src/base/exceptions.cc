#include "base/exceptions.h"

#include "base/error.h"
#include "sdk/limits.h"

#include <absl/strings/str_cat.h>

#include <cxxabi.h>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace distwrap::base {
namespace {

absl::Status no_memory(absl::string_view call, std::string what) {
  char limits[DW_LIMITS_TEXT];
  dw_say_memory_limits(limits, sizeof limits);
  return make_error(
      {.reason = Reason::kOutOfMemory,
       .what = std::move(what),
       .op = std::string(call),
       .setting = limits,
       .next_step = limits[0] == '\0'
                        ? "free memory, or use smaller buffers"
                        : absl::StrCat("raise ", limits, ", or free memory")});
}

const absl::Status& spare() {
  static const auto* const kSpare = new absl::Status(
      make_error({.reason = Reason::kOutOfMemory,
                  .what = "out of memory, even for a more exact error"}));
  return *kSpare;
}
[[maybe_unused]] const absl::Status& made_at_start = spare();

absl::Status described(absl::string_view call) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return no_memory(call, "an allocation failed");
  } catch (const std::length_error& length) {
    return no_memory(
        call, absl::StrCat("a container would be too large: ", length.what()));
  } catch (const std::exception& other) {
    return make_error({.reason = Reason::kBackendFailed,
                       .what = absl::StrCat("an exception: ", other.what()),
                       .op = std::string(call),
                       .next_step = "report this error"});
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return make_error({.reason = Reason::kBackendFailed,
                       .what = "an exception of an unknown type",
                       .op = std::string(call),
                       .next_step = "report this error"});
  }
}

}  // namespace

absl::Status error_of_exception(absl::string_view call) {
  try {
    return described(call);
  } catch (const std::bad_alloc&) {
    return no_memory_error();
  }
}

absl::Status no_memory_error() { return spare(); }

}  // namespace distwrap::base
