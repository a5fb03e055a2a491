// Where exceptions end. The library throws none by itself, but each allocation
// may throw: a public function that allocates runs its body in `guarded`, and
// what the body throws becomes an error.
//
//   return base::guarded("split_group", [&]() -> absl::StatusOr<Group> {
//     ...
//   });
//
// Threads: any.
#ifndef DISTWRAP_SRC_BASE_EXCEPTIONS_H_
#define DISTWRAP_SRC_BASE_EXCEPTIONS_H_

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

namespace distwrap::base {

// Makes the error of the exception that is being handled. Call it within a
// `catch`. kOutOfMemory with the limits in force; kBackendFailed for exceptions
// of other libraries. Throws nothing: if there is no memory for the text, it
// returns a kOutOfMemory that was made when the program started. The exception
// that ends a cancelled thread is thrown again.
absl::Status error_of_exception(absl::string_view call);

// The error kOutOfMemory; takes no memory.
absl::Status no_memory_error();

// A call whose body returns absl::Status or absl::StatusOr.
template <class Body>
auto guarded(absl::string_view call, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    return error_of_exception(call);
  }
}

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_EXCEPTIONS_H_
