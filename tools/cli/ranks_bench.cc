#include "ranks_bench.h"

#include "told_by_ranks.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <cstdio>

namespace distwrap::cli {
namespace {

// The first argument of a rank that a command starts.
constexpr char kAsRank[] = "as-rank";

}  // namespace

absl::Status read_number(const Typed& typed, const char* option, int64_t least,
                         int64_t most, int64_t* value) {
  const auto text = typed.value(option);
  if (!text.has_value()) return absl::OkStatus();
  int64_t number = 0;
  if (!absl::SimpleAtoi(*text, &number) || number < least || number > most)
    return absl::InvalidArgumentError(absl::StrCat(
        option, ": '", *text, "' is not a number of ", least, "..", most));
  *value = number;
  return absl::OkStatus();
}

absl::Status read_number(const Typed& typed, const char* option, int64_t least,
                         int64_t most, int* value) {
  int64_t number = *value;
  absl::Status read = read_number(typed, option, least, most, &number);
  *value = static_cast<int>(number);
  return read;
}

absl::Status read_seconds(const Typed& typed, double* seconds) {
  const auto text = typed.value("--seconds");
  if (!text.has_value() ||
      (absl::SimpleAtod(*text, seconds) && *seconds > 0 && *seconds <= 3600))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--seconds: '", *text, "' is not above 0 and at most 3600"));
}

int complain(const CommandRow& row, absl::string_view text, int code) {
  std::fprintf(stderr, "distwrap %s: %s\n", row.name,
               std::string(text).c_str());
  return code;
}

std::optional<int> refuse_in_job(const CommandRow& row) {
  if (!inside_a_job()) return std::nullopt;
  return complain(row, "it starts its ranks itself: run it without a launcher",
                  kUsage);
}

absl::StatusOr<std::string> ask_ranks(const CommandRow& row, int ranks,
                                      const Words& rank_words) {
  const absl::StatusOr<std::string> self = own_path();
  if (!self.ok()) return self.status();
  Words argv = {*self};
  for (const absl::string_view word : absl::StrSplit(row.name, ' '))
    argv.emplace_back(word);
  argv.emplace_back(kAsRank);
  argv.insert(argv.end(), rank_words.begin(), rank_words.end());
  return told_by_ranks(ranks, argv);
}

bool take_as_rank(Words* words) {
  if (words->empty() || words->front() != kAsRank) return false;
  words->erase(words->begin());
  return true;
}

int end_rank(const CommandRow& row, const std::optional<absl::Status>& ended) {
  if (!ended.has_value())
    return complain(row, "as-rank is reserved for the ranks that it starts",
                    kUsage);
  return ended->ok() ? 0 : complain(row, ended->message(), kFailed);
}

}  // namespace distwrap::cli
