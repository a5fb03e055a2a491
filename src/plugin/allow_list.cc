#include "plugin/allow_list.h"

#include "base/error.h"
#include "base/read_file.h"
#include "plugin/refusal.h"

#include <absl/strings/ascii.h>
#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <array>
#include <errno.h>
#include <fstream>
#include <memory>
#include <openssl/evp.h>
#include <optional>

namespace distwrap::plugin {
namespace {

constexpr size_t kDigits = 64;

absl::Status bad_list(std::string what, absl::string_view actual) {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = std::move(what),
                           .op = "init",
                           .expected = "lines as sha256sum prints them",
                           .actual = absl::StrCat("'", actual, "'"),
                           .next_step = "correct or unset "
                                        "DISTWRAP_PLUGIN_ALLOW"});
}

bool is_hash(absl::string_view text) {
  return text.size() == kDigits &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

}  // namespace

absl::StatusOr<AllowList> AllowList::parse(absl::string_view text) {
  AllowList list;
  list.restricts_ = true;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const absl::string_view hash = line.substr(0, line.find_first_of(" \t"));
    if (!is_hash(hash))
      return bad_list(
          absl::StrCat("line ", number, " of the allow-list is no hash"),
          line.substr(0, kDigits));
    list.hashes_.insert(absl::AsciiStrToLower(hash));
  }
  return list;
}

absl::StatusOr<AllowList> AllowList::read(const std::string& path) {
  if (path.empty() || path.front() != '/')
    return bad_list("the path of the allow-list is not absolute", path);
  const std::optional<std::string> text = base::read_file(path);
  if (!text.has_value())
    return bad_list(absl::StrCat("the allow-list cannot be read: ",
                                 base::errno_text(errno)),
                    path);
  return parse(*text);
}

absl::StatusOr<std::string> sha256_of_file(const std::string& path) {
  const auto unreadable = [&](absl::string_view cause) {
    return refuse(Refusal::kUnreadable, path, {.cause = std::string(cause)});
  };
  std::ifstream file(path, std::ios::binary);
  if (!file) return unreadable(base::errno_text(errno));
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(
      EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  if (context == nullptr ||
      EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1)
    return unreadable("OpenSSL has no SHA-256");
  std::array<char, 1 << 16> buffer;
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0)
    EVP_DigestUpdate(context.get(), buffer.data(),
                     static_cast<size_t>(file.gcount()));
  if (!file.eof()) return unreadable(base::errno_text(errno));
  std::array<unsigned char, kDigits / 2> digest;
  EVP_DigestFinal_ex(context.get(), digest.data(), nullptr);
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(digest.data()), digest.size()));
}

}  // namespace distwrap::plugin
