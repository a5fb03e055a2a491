// The frame of every function of the C API: nothing is thrown across the
// border, and a failure becomes a code and, where the caller wants one, an
// error.
//
//   return entry("abort", error, [&] { return abort(...); });
//
// Threads: any.
#ifndef DISTWRAP_SRC_CAPI_ENTRY_H_
#define DISTWRAP_SRC_CAPI_ENTRY_H_

#include "capi/boxes.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstring>
#include <cxxabi.h>
#include <map>
#include <string>

namespace distwrap::capi {

// Code of a status that is not OK; `*error` gets the rest.
int32_t fail(const absl::Status& status, distwrap_error* error);
// The exception that is being handled.
int32_t fail_of_exception(const char* call, distwrap_error* error);

// kInvalidArgument.
absl::Status refuse(const char* call, std::string what, std::string next_step);
// `what` ("out") is NULL and may not be.
absl::Status refuse_null(const char* call, const char* what);
// A handle that find() did not find.
absl::Status refuse_handle(const char* call, uint64_t handle, Kind wanted);
// No more handles.
absl::Status too_many_handles(const char* call);
// By the size that its caller says it has.
absl::Status refuse_struct(const char* call, const char* what, uint32_t size,
                           uint32_t known);

template <class Body>
int32_t entry(const char* call, distwrap_error* error, const Body& body) {
  if (error != nullptr) *error = nullptr;
  try {
    const absl::Status status = body();
    return status.ok() ? DW_OK : fail(status, error);
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is being cancelled
  } catch (...) {
    return fail_of_exception(call, error);
  }
}

// An options struct as this library knows it: from a caller that knew less, the
// rest is zero; one that asks for what is not known here is refused. NULL is
// all zero.
template <class Options>
absl::Status read_options(const char* call, const Options* from, Options* to) {
  uint32_t size = 0;
  if (from != nullptr) memcpy(&size, from, sizeof size);
  // A copy of fixed size is a few moves.
  if (size == sizeof(Options)) [[likely]] {
    memcpy(to, from, sizeof(Options));
    return absl::OkStatus();
  }
  *to = {};
  to->struct_size = sizeof(Options);
  if (from == nullptr) return absl::OkStatus();
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  bool known = size >= 2 * sizeof(uint32_t);
  for (size_t i = sizeof(Options); known && i < size; ++i)
    known = bytes[i] == 0;
  if (!known) return refuse_struct(call, "options", size, sizeof(Options));
  memcpy(to, from, size < sizeof(Options) ? size : sizeof(Options));
  return absl::OkStatus();
}

// The other way: what both sides know.
template <class Info>
absl::Status write_info(const char* call, Info from, Info* to) {
  if (to == nullptr) return refuse_null(call, "info");
  const uint32_t size = to->struct_size;
  if (size < 2 * sizeof(uint32_t))
    return refuse_struct(call, "info", size, sizeof(Info));
  from.struct_size = size;
  memcpy(to, &from, size < sizeof(Info) ? size : sizeof(Info));
  if (size > sizeof(Info))
    memset(reinterpret_cast<char*>(to) + sizeof(Info), 0, size - sizeof(Info));
  return absl::OkStatus();
}

template <class Handle>
absl::StatusOr<Held<Handle>> held(const char* call, Handle handle) {
  if (Held<Handle> found = find(handle)) return found;
  return refuse_handle(call, number_of(handle), BoxOf<Handle>::kKind);
}

// A group or, for none, no group, which means the world.
absl::StatusOr<Group> group_of(const char* call, distwrap_group handle);

// A new handle for `box` in `*handle`; its caller has cleared that.
template <class Handle>
absl::Status hand_out(const char* call, typename BoxOf<Handle>::Box box,
                      Handle* handle) {
  *handle = give<Handle>(std::move(box));
  return *handle == nullptr ? too_many_handles(call) : absl::OkStatus();
}
absl::Status hand_out_group(const char* call, const Group& group,
                            distwrap_group* handle);

// Nanoseconds, where DW_FOREVER has no end.
inline absl::Duration duration_of(int64_t timeout) {
  return timeout == DW_FOREVER ? absl::InfiniteDuration()
                               : absl::Nanoseconds(timeout);
}

absl::StatusOr<std::map<std::string, std::string>> pairs_of(
    const char* call, const distwrap_pair* pairs, uint64_t count);

// NULL is "".
inline std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

}  // namespace distwrap::capi

#endif  // DISTWRAP_SRC_CAPI_ENTRY_H_
