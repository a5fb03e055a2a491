#include "base/secrets.h"

#include <absl/strings/escaping.h>

#include <array>
#include <memory>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

namespace distwrap::base {

absl::Status check_secrets() { return absl::OkStatus(); }

bool random_secret(uint8_t* bytes, size_t size) {
  return RAND_priv_bytes(bytes, static_cast<int>(size)) == 1;
}

bool derive_secret(const uint8_t* key, size_t key_size, absl::string_view label,
                   uint8_t* secret, size_t size) {
  EVP_KDF* const kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* const context = kdf == nullptr ? nullptr : EVP_KDF_CTX_new(kdf);
  char digest[] = "SHA256";
  OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY,
                                        const_cast<uint8_t*>(key), key_size),
      OSSL_PARAM_construct_octet_string(
          OSSL_KDF_PARAM_INFO, const_cast<char*>(label.data()), label.size()),
      OSSL_PARAM_construct_end()};
  const bool derived =
      context != nullptr && EVP_KDF_derive(context, secret, size, params) == 1;
  EVP_KDF_CTX_free(context);
  EVP_KDF_free(kdf);
  return derived;
}

std::optional<std::string> sha256_of(std::istream& in) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(
      EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  if (context == nullptr ||
      EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1)
    return std::nullopt;
  std::array<char, 1 << 16> buffer;
  while (in.read(buffer.data(), buffer.size()) || in.gcount() > 0)
    EVP_DigestUpdate(context.get(), buffer.data(),
                     static_cast<size_t>(in.gcount()));
  std::array<unsigned char, 32> digest;
  EVP_DigestFinal_ex(context.get(), digest.data(), nullptr);
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(digest.data()), digest.size()));
}

}  // namespace distwrap::base
