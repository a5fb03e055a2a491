#include "store/job_key.h"

#include "base/error.h"
#include "base/mutex.h"
#include "base/secrets.h"
#include "base/settings.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace distwrap::store {
namespace {

constexpr size_t kLeastDigits = 64, kMostDigits = 128;
constexpr char kMake[] =
    "make a key by `distwrap run --make-key FILE`, copy FILE to all hosts and "
    "set DISTWRAP_JOB_KEY=file:FILE there";

absl::Status bad(std::string what, std::string expected = {},
                 std::string actual = {}) {
  return base::make_error({.reason = Reason::kAuthFailed,
                           .what = std::move(what),
                           .op = "init",
                           .expected = std::move(expected),
                           .actual = std::move(actual),
                           .next_step = kMake});
}

void wipe(std::string* text) { explicit_bzero(text->data(), text->size()); }

// Reads all of a descriptor, which has a key's digits and perhaps a line's end.
absl::StatusOr<std::string> read_all(int fd, absl::string_view origin) {
  std::string text(kMostDigits + 8, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return bad(absl::StrCat("the job key cannot be read from ", origin), "",
                 base::errno_text(errno));
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  return text;
}

absl::StatusOr<std::string> read_file(const std::string& path) {
  const std::string origin = absl::StrCat("file ", path);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0)
    return bad(absl::StrCat("the job key cannot be read from ", origin), "",
               base::errno_text(errno));
  const absl::Cleanup close_it = [fd] { close(fd); };
  struct stat info = {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
    return bad(absl::StrCat("the job key's ", origin, " is no regular file"));
  if (info.st_uid != geteuid() && info.st_uid != 0)
    return bad(
        absl::StrCat("the job key's ", origin, " belongs to another user"),
        absl::StrCat("user id ", geteuid()),
        absl::StrCat("user id ", info.st_uid));
  if ((info.st_mode & 077) != 0)
    return bad(
        absl::StrCat("the job key's ", origin, " can be read by other users"),
        "mode 0600",
        absl::StrCat("mode 0", absl::Hex(info.st_mode >> 6 & 7),
                     absl::Hex(info.st_mode >> 3 & 7),
                     absl::Hex(info.st_mode & 7)));
  return read_all(fd, origin);
}

// Copies the variable and overwrites it where the process started with it.
std::optional<std::string> take_variable(const char* name) {
  char* const value = secure_getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  std::string text = value;
  explicit_bzero(value, strlen(value));
  unsetenv(name);
  return text;
}

}  // namespace

absl::StatusOr<JobKey> JobKey::derive(const uint8_t* bytes, size_t size) {
  JobKey key;
  if (!base::derive_secret(bytes, size, "distwrap control 1",
                           key.control_.data(), key.control_.size()))
    return bad("OpenSSL has no HKDF with SHA-256");
  return key;
}

absl::StatusOr<JobKey> JobKey::of_digits(std::string digits,
                                         absl::string_view origin) {
  const absl::Cleanup forget = [&digits] { wipe(&digits); };
  const absl::string_view trimmed = absl::StripAsciiWhitespace(digits);
  for (const char c : trimmed)
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c)))
      return bad(absl::StrCat("the job key in ", origin,
                              " has a character that is no hexadecimal digit"));
  if (trimmed.size() < kLeastDigits || trimmed.size() > kMostDigits ||
      trimmed.size() % 2 != 0)
    return bad(absl::StrCat("the job key in ", origin, " has a wrong length"),
               absl::StrCat(kLeastDigits, " to ", kMostDigits,
                            " hexadecimal digits, an even number"),
               absl::StrCat(trimmed.size()));
  std::vector<uint8_t> bytes(trimmed.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto digit = [&](size_t at) {
      const char c =
          absl::ascii_tolower(static_cast<unsigned char>(trimmed[at]));
      return c <= '9' ? c - '0' : c - 'a' + 10;
    };
    bytes[i] = static_cast<uint8_t>(digit(2 * i) << 4 | digit(2 * i + 1));
  }
  absl::StatusOr<JobKey> key = derive(bytes.data(), bytes.size());
  explicit_bzero(bytes.data(), bytes.size());
  return key;
}

absl::StatusOr<JobKey> JobKey::read(absl::string_view text) {
  if (absl::Status status = base::check_secrets(); !status.ok()) return status;
  absl::string_view rest = text;
  if (rest == "none") {
    constexpr uint8_t kNothing[32] = {};
    absl::StatusOr<JobKey> key = derive(kNothing, sizeof kNothing);
    if (key.ok()) key->is_public_ = true;
    return key;
  }
  if (absl::ConsumePrefix(&rest, "file:")) {
    if (rest.empty() || rest.front() != '/')
      return bad("the job key's file has no absolute path", "file:/path",
                 std::string(text));
    absl::StatusOr<std::string> digits = read_file(std::string(rest));
    if (!digits.ok()) return digits.status();
    return of_digits(*std::move(digits), absl::StrCat("file ", rest));
  }
  if (absl::ConsumePrefix(&rest, "fd:")) {
    int fd = -1;
    if (!absl::SimpleAtoi(rest, &fd) || fd < 0)
      return bad("the job key's descriptor is no number", "fd:N",
                 std::string(text));
    absl::StatusOr<std::string> digits =
        read_all(fd, absl::StrCat("descriptor ", fd));
    if (!digits.ok()) return digits.status();
    close(fd);
    return of_digits(*std::move(digits), absl::StrCat("descriptor ", fd));
  }
  if (absl::StartsWith(text, "/"))
    return bad("DISTWRAP_JOB_KEY begins like a path", "file:/path for a file");
  return of_digits(std::string(text), "DISTWRAP_JOB_KEY");
}

absl::StatusOr<std::optional<JobKey>> JobKey::of_process() {
  static base::Mutex mutex;
  static absl::StatusOr<std::optional<JobKey>>* known = nullptr;
  base::MutexLock lock(mutex);
  const std::string name(base::setting_name(base::Setting::kJobKey));
  // A program may set the variable after its first session.
  std::optional<std::string> text = take_variable(name.c_str());
  if (!text.has_value() && known != nullptr) return *known;
  absl::StatusOr<std::optional<JobKey>> key = std::optional<JobKey>();
  if (text.has_value()) {
    const absl::StatusOr<JobKey> made = read(*text);
    wipe(&*text);
    key = made.ok() ? absl::StatusOr<std::optional<JobKey>>(*made)
                    : made.status();
  }
  delete known;
  known = new absl::StatusOr<std::optional<JobKey>>(key);
  return key;
}

absl::Status JobKey::make_file(const std::string& path) {
  if (absl::Status status = base::check_secrets(); !status.ok()) return status;
  const auto failed = [&](int error) {
    return base::make_error(
        {.reason = Reason::kInvalidArgument,
         .what = absl::StrCat("the key file ", path, " cannot be made"),
         .op = "make-key",
         .cause = base::errno_text(error),
         .next_step = "name a file that does not exist, in a folder of yours"});
  };
  uint8_t bytes[kLeastDigits / 2];
  if (!base::random_secret(bytes, sizeof bytes)) return failed(EAGAIN);
  std::string text;
  for (const uint8_t byte : bytes)
    absl::StrAppend(&text, absl::Hex(byte, absl::kZeroPad2));
  text += '\n';
  const absl::Cleanup forget = [&] {
    wipe(&text);
    explicit_bzero(bytes, sizeof bytes);
  };
  const int fd = open(
      path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return failed(errno);
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (close(fd) != 0 || !written) {
    unlink(path.c_str());
    return failed(error);
  }
  return absl::OkStatus();
}

absl::Status JobKey::missing(absl::string_view what,
                             absl::string_view address) {
  if (absl::Status status = base::check_secrets(); !status.ok()) return status;
  return base::make_error(
      {.reason = Reason::kAuthFailed,
       .what = absl::StrCat(what, " ", address,
                            " needs the job's key, and DISTWRAP_JOB_KEY is not "
                            "set"),
       .op = "init",
       .next_step =
           absl::StrCat(kMake,
                        "; in a closed network, where everybody may join, set "
                        "DISTWRAP_JOB_KEY=none on all hosts")});
}

}  // namespace distwrap::store
