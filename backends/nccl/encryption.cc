#include "encryption.h"

#include "sdk/fail.h"

#include <fcntl.h>
#include <functional>
#include <map>
#include <mutex>
#include <string.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace nccl_backend {
namespace {

constexpr int kSince = version_code(2, 32, 3);
// NCCL takes no shorter key; a longer one than this is none.
constexpr size_t kLeast = 32, kMost = 4096;

int32_t refuse(const std::string& file, const std::string& why,
               dw_error* error) {
  const std::string text =
      "nccl: hint encryption_key_file=" + file + ": " + why;
  return dw_invalid(error, text.c_str());
}

// A key that leaves no copy behind.
struct Key {
  char text[kMost + 1] = {};
  size_t size = 0;

  ~Key() { explicit_bzero(text, sizeof text); }
};

int32_t read_key(const std::string& file, Key* key, dw_error* error) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return refuse(file, "it cannot be opened", error);
  struct stat is = {};
  const bool own = fstat(fd, &is) == 0 && S_ISREG(is.st_mode) &&
                   is.st_uid == geteuid() &&
                   (is.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  const ssize_t got = own ? read(fd, key->text, sizeof key->text) : 0;
  close(fd);
  if (!own)
    return refuse(file, "it is no file of this user that others cannot read",
                  error);
  key->size = got > 0 ? static_cast<size_t>(got) : 0;
  while (key->size > 0 &&
         (key->text[key->size - 1] == '\n' || key->text[key->size - 1] == '\r'))
    --key->size;
  if (key->size < kLeast || key->size > kMost)
    return refuse(file, "the key has to have 32 to 4096 bytes", error);
  key->text[key->size] = '\0';
  for (size_t i = 0; i < key->size; ++i)
    if (key->text[i] == '\0')
      return refuse(file, "the key is no text: it has a zero byte", error);
  return DW_OK;
}

// Hashes of the keys that the libraries of this process have, by
// ncclSetEncryption.
struct Known {
  using Library = int (*)(const ncclEncryptionConfig*);

  std::mutex mutex;
  std::map<Library, size_t> keys;
};
Known& known() {
  static Known* const kKnown = new Known;
  return *kKnown;
}

}  // namespace

int32_t set_encryption(const Nccl& nccl, const std::string& file,
                       dw_error* error) {
  if (nccl.ncclSetEncryption == nullptr)
    return refuse(file,
                  "NCCL encrypts from " + version_text(kSince) +
                      " on; this is NCCL " + version_text(nccl.version),
                  error);
  Key key;
  if (int32_t code = read_key(file, &key, error)) return code;
  const std::lock_guard<std::mutex> lock(known().mutex);
  const size_t hash = std::hash<std::string_view>()({key.text, key.size});
  const auto before = known().keys.find(nccl.ncclSetEncryption);
  if (before != known().keys.end())
    return before->second == hash
               ? int32_t{DW_OK}
               : refuse(file, "this process has another key in use already",
                        error);
  ncclEncryptionConfig config = {};
  config.size = sizeof config;
  config.magic = kConfigMagic;
  config.version = static_cast<unsigned>(nccl.version);
  config.mode = NCCL_ENCRYPTION_MODE_PSK;
  config.psk = key.text;
  if (int result = nccl.ncclSetEncryption(&config); result != ncclSuccess)
    return fail_nccl(nccl, "ncclSetEncryption", result, nullptr, error);
  known().keys[nccl.ncclSetEncryption] = hash;
  return DW_OK;
}

}  // namespace nccl_backend
