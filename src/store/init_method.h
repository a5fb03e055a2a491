// The text that says how ranks meet: "env://", "tcp://host:port",
// "file:///path" or "unix:/path". The first three may be followed by
// "?rank=0&world_size=2".
//
// Threads: pure functions.
//
//   auto method =
//       parse_init_method("tcp://localhost:29500?rank=0&world_size=2");
#ifndef DISTWRAP_SRC_STORE_INIT_METHOD_H_
#define DISTWRAP_SRC_STORE_INIT_METHOD_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>

namespace distwrap::store {

struct InitMethod {
  enum Kind { kEnvironment, kTcp, kFile, kUnix } kind = kEnvironment;
  std::string place = {};  // "localhost:29500" or "/path"; "" for env://
  int rank = -1, world_size = -1;  // -1: not given
};

// An empty text means the environment. Errors: kInvalidArgument.
absl::StatusOr<InitMethod> parse_init_method(absl::string_view text);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_INIT_METHOD_H_
