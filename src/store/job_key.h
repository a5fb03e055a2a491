// The secret of a job that runs on several hosts. Whoever has it may join, so
// it travels neither in arguments nor in anything that is printed.
//
// DISTWRAP_JOB_KEY has one of these forms:
//   64 to 128 hexadecimal digits   the key itself
//   file:/path                     a file with the digits, mode 0600
//   fd:N                           an open descriptor with the digits
//   none                           no secret: for closed networks only
//
// Threads: any. Ownership: values; the digits are overwritten once they are
// read, and only derived secrets remain.
#ifndef DISTWRAP_SRC_STORE_JOB_KEY_H_
#define DISTWRAP_SRC_STORE_JOB_KEY_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace distwrap::store {

class JobKey {
 public:
  using Secret = std::array<uint8_t, 32>;

  // Errors: kAuthFailed with the form that was given, the fault and how to make
  // a key; in a build without OpenSSL kUnsupported, here and below. No error
  // contains a digit of the key.
  static absl::StatusOr<JobKey> read(absl::string_view text);
  // The key that DISTWRAP_JOB_KEY gives, read once in a process; nullopt when
  // the variable is unset. The variable is overwritten in the process's
  // environment, so /proc/<pid>/environ does not show it afterwards. Errors:
  // those of `read`, at every call.
  static absl::StatusOr<std::optional<JobKey>> of_process();
  // Writes a new key to a file that only this user can read. Errors:
  // kInvalidArgument when the file exists or cannot be made.
  static absl::Status make_file(const std::string& path);
  // The error of a rank that has no key, with both remedies. `address`: where
  // it would listen, or what it would reach.
  static absl::Status missing(absl::string_view what,
                              absl::string_view address);

  // The secret of control connections.
  const Secret& control() const { return control_; }
  // Whether anybody could have made it.
  bool is_public() const { return is_public_; }

 private:
  static absl::StatusOr<JobKey> of_digits(std::string digits,
                                          absl::string_view origin);
  static absl::StatusOr<JobKey> derive(const uint8_t* bytes, size_t size);

  Secret control_ = {};
  bool is_public_ = false;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_JOB_KEY_H_
