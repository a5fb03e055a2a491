// The frame of every function of the C API: no exception crosses the border,
// and a failure becomes a code and, if the caller wants it, an error handle.
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
#include <type_traits>
#include <utility>

namespace distwrap::capi {

// The code of a failed status; `*error` gets a handle with the details.
int32_t fail(const absl::Status& status, distwrap_error* error);
// The code and error of the exception that is being handled.
int32_t fail_of_exception(const char* call, distwrap_error* error);

// Makes a kInvalidArgument.
absl::Status refuse(const char* call, std::string what, std::string next_step);
// The error for an argument, such as "out", that is NULL and must not be.
absl::Status refuse_null(const char* call, const char* what);
// The error for a handle that find() did not find.
absl::Status refuse_handle(const char* call, uint64_t handle, Kind wanted);
// The error for a full table of handles.
absl::Status too_many_handles(const char* call);
// The error for a struct whose `struct_size` cannot be right.
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

// Copies an options struct. Fields that an older caller does not have become
// zero; a newer caller's unknown fields must be zero, otherwise the call is
// refused. NULL means that all fields are zero.
template <class Options>
absl::Status read_options(const char* call, const Options* from, Options* to) {
  uint32_t size = 0;
  if (from != nullptr) memcpy(&size, from, sizeof size);
  // A copy of fixed size compiles to a few moves.
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

// Copies the fields that both sides know to the caller's struct.
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

// The group of a handle; an empty Group, which means the world, for NULL.
absl::StatusOr<Group> group_of(const char* call, distwrap_group handle);

// Puts a new handle for `box` into `*handle`, which the caller has cleared.
template <class Handle>
absl::Status hand_out(const char* call, typename BoxOf<Handle>::Box box,
                      Handle* handle) {
  *handle = give<Handle>(std::move(box));
  return *handle == nullptr ? too_many_handles(call) : absl::OkStatus();
}
absl::Status hand_out_group(const char* call, const Group& group,
                            distwrap_group* handle);

// Calls `start`, and gives its result out as a handle. The slot is reserved
// first: nothing starts for which the caller could not get a handle.
template <class Handle, class Start>
absl::Status hand_out_started(const char* call, Handle* handle,
                              const Start& start) {
  using Box = typename BoxOf<Handle>::Box;
  auto reserved = table<Handle>.reserve();
  if (!reserved) return too_many_handles(call);
  absl::StatusOr<Box> begun = start();
  if (!begun.ok()) return std::move(begun).status();
  if constexpr (std::is_same_v<Box, Group>)
    if (!*begun) return absl::OkStatus();  // this rank is not a member
  *handle = handle_of<Handle>(
      table<Handle>.add(std::move(reserved), *std::move(begun)));
  return absl::OkStatus();
}

// Nanoseconds as a duration; DW_FOREVER becomes InfiniteDuration.
inline absl::Duration duration_of(int64_t timeout) {
  return timeout == DW_FOREVER ? absl::InfiniteDuration()
                               : absl::Nanoseconds(timeout);
}

absl::StatusOr<std::map<std::string, std::string>> pairs_of(
    const char* call, const distwrap_pair* pairs, uint64_t count);

// The text; "" for NULL.
inline std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

}  // namespace distwrap::capi

#endif  // DISTWRAP_SRC_CAPI_ENTRY_H_
