// Commands that start ranks, which are this program again, and print what these
// have measured, such as `distwrap bench objects`: the common part.
//
// Threads: one.
#ifndef DISTWRAP_TOOLS_CLI_RANKS_BENCH_H_
#define DISTWRAP_TOOLS_CLI_RANKS_BENCH_H_

#include "bench/progress.h"
#include "command_line.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>

namespace distwrap::cli {

constexpr int64_t kMostRanks = 128, kMostRounds = 10000;

// Reads an option's value, if it is given: a number of `least` to `most`.
absl::Status read_number(const Typed& typed, const char* option, int64_t least,
                         int64_t most, int64_t* value);
absl::Status read_number(const Typed& typed, const char* option, int64_t least,
                         int64_t most, int* value);
// Reads --seconds: a number above 0 and at most 3600.
absl::Status read_seconds(const Typed& typed, double* seconds);

// Prints why the command ends, and returns `code`.
int complain(const CommandRow& row, absl::string_view text, int code);
// The exit code of a command that a launcher has started as a rank.
std::optional<int> refuse_in_job(const CommandRow& row);

// Starts this command as ranks, and returns what they wrote to a file. The
// name of the command is `row.name`.
absl::StatusOr<std::string> ask_ranks(const CommandRow& row, int ranks,
                                      const Words& rank_words);
// Whether these are the words of such a rank: then they become `rank_words` and
// the file to write.
bool take_as_rank(Words* words);
// The exit code of a rank; it was given other words when there is no status.
int end_rank(const CommandRow& row, const std::optional<absl::Status>& ended);

// A command that only asks its ranks.
template <class Options>
struct RanksBench {
  const CommandRow& row;
  const char* progress;  // shown while the ranks run
  absl::StatusOr<Options> (*check)(const Typed& typed);
  Words (*rank_words)(const Options& options);
  // Measures as one of the ranks. Nothing for words that it does not know.
  std::optional<absl::Status> (*measure)(const Words& words);
  // Prints what the ranks wrote. Returns the exit code.
  absl::StatusOr<int> (*print)(const Options& options, const std::string& told,
                               bool json);
  int run(Words words) const;
};

template <class Options>
int RanksBench<Options>::run(Words words) const {
  if (take_as_rank(&words)) return end_rank(row, measure(words));
  Typed typed;
  if (const auto code = parse(row, words, &typed)) return *code;
  const absl::StatusOr<Options> options = check(typed);
  if (!options.ok()) return complain(row, options.status().message(), kUsage);
  if (const auto code = refuse_in_job(row)) return *code;
  const bench::Progress line;
  line.show(progress);
  const absl::StatusOr<std::string> told =
      ask_ranks(row, options->ranks, rank_words(*options));
  line.clear();
  if (!told.ok()) return complain(row, told.status().message(), kFailed);
  const absl::StatusOr<int> code = print(*options, *told, typed.has("--json"));
  return code.ok() ? *code : complain(row, code.status().message(), kFailed);
}

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_RANKS_BENCH_H_
