// Keeps strangers out of a job: secrets, random bytes and hashes, by
// OpenSSL. A build without it has none of them (no_secrets.cc), and so its jobs
// run on one host.
//
// Threads: any.
#ifndef DISTWRAP_SRC_BASE_SECRETS_H_
#define DISTWRAP_SRC_BASE_SECRETS_H_

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>

namespace distwrap::base {

// kUnsupported in a build without OpenSSL.
absl::Status check_secrets();

// Fills `bytes` with what nobody can guess; false when there is nothing.
bool random_secret(uint8_t* bytes, size_t size);

// Derives a secret from a key by HKDF with SHA-256 (RFC 5869); secrets for
// other uses get other labels. false when there is no HKDF.
bool derive_secret(const uint8_t* key, size_t key_size, absl::string_view label,
                   uint8_t* secret, size_t size);

// The SHA-256 of what a stream still has, as 64 hexadecimal digits; nothing
// when there is no SHA-256. The stream's state tells whether it was read to its
// end.
std::optional<std::string> sha256_of(std::istream& in);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_SECRETS_H_
