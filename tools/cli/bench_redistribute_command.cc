#include "bench_redistribute_command.h"

#include "bench/plans/moves.h"
#include "bench/progress.h"
#include "bench/size.h"
#include "told_by_ranks.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <cstdio>
#include <utility>

namespace distwrap::cli {
namespace {

constexpr int kMostRanks = 128, kMostRounds = 10000;
constexpr int64_t kMostBytes = int64_t{1} << 30;
constexpr char kSizes[] = "4K,64K,1M,16M";
// The first argument of a rank that the command starts.
constexpr char kAsRank[] = "as-rank";

constexpr OptionRow kOptions[] = {
    {"--ranks", "N", "Number of ranks to start (2)"},
    {"--backend", "NAME", "Backend of the ranks (shm)"},
    {"--sizes", "SIZE,...",
     "Bytes of a rank's part where the matrix is cut (4K,64K,1M,16M)"},
    {"--rounds", "N", "Timed blocks of each; the two take turns (31)"},
    {"--json", nullptr, "As JSON"},
};

constexpr CommandRow kRedistribute = {
    "bench redistribute",
    "Compares redistribute with the calls that a program would write for the "
    "same move.",
    kOptions,
    "A square matrix is moved between layouts on a mesh of one axis. The ratio "
    "is the median over\nthe rounds, with its 95 % interval. The elements of "
    "both are compared.\n\n"
    "Example:\n"
    "  distwrap bench redistribute --ranks 4 --sizes 64K,4M\n\n"
    "Exit code: 0; 1 when ranks failed or elements differ; 2 for bad options."};

int complain(absl::string_view text, int code) {
  std::fprintf(stderr, "distwrap bench redistribute: %s\n",
               std::string(text).c_str());
  return code;
}

struct Options {
  int ranks = 2, rounds = 31;
  std::string backend = "shm", sizes = kSizes;
};

absl::Status number(const Typed& typed, const char* option, int most,
                    int* value) {
  const auto text = typed.value(option);
  if (!text.has_value() ||
      (absl::SimpleAtoi(*text, value) && *value >= 1 && *value <= most))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": '", *text, "' is not a number of 1..", most));
}

absl::StatusOr<Options> check(const Typed& typed) {
  Options options;
  options.backend = typed.value("--backend").value_or(options.backend);
  options.sizes = typed.value("--sizes").value_or(options.sizes);
  absl::Status status = number(typed, "--ranks", kMostRanks, &options.ranks);
  if (status.ok())
    status = number(typed, "--rounds", kMostRounds, &options.rounds);
  if (!status.ok()) return status;
  const auto sizes = bench::parse_sizes(options.sizes);
  if (!sizes.ok())
    return absl::InvalidArgumentError(
        absl::StrCat("--sizes: ", sizes.status().message()));
  for (const int64_t bytes : *sizes)
    if (bytes < 1 || bytes > kMostBytes)
      return absl::InvalidArgumentError("--sizes: it takes sizes of 1 to 1G");
  return options;
}

int run_as_rank(const Words& words) {
  int rounds = 0;
  if (words.size() != 5 || !absl::SimpleAtoi(words[3], &rounds))
    return complain("as-rank is reserved for the ranks that it starts", kUsage);
  const auto sizes = bench::parse_sizes(words[2]);
  if (!sizes.ok()) return complain(sizes.status().message(), kUsage);
  const absl::Status status =
      bench::measure_moves(words[1], *sizes, rounds, words[4]);
  return status.ok() ? 0 : complain(status.message(), kFailed);
}

}  // namespace

CommandText bench_redistribute_text() { return text_of(kRedistribute); }

int bench_redistribute_command(const Words& words) {
  if (!words.empty() && words[0] == kAsRank) return run_as_rank(words);
  Typed typed;
  if (const auto code = parse(kRedistribute, words, &typed)) return *code;
  const absl::StatusOr<Options> options = check(typed);
  if (!options.ok()) return complain(options.status().message(), kUsage);
  if (inside_a_job())
    return complain("it starts its ranks itself: run it without a launcher",
                    kUsage);
  const absl::StatusOr<std::string> self = own_path();
  if (!self.ok()) return complain(self.status().message(), kFailed);
  const bench::Progress progress;
  progress.show("redistributions in turns with calls by hand");
  const absl::StatusOr<std::string> told =
      told_by_ranks(options->ranks,
                    {*self, "bench", "redistribute", kAsRank, options->backend,
                     options->sizes, absl::StrCat(options->rounds)});
  progress.clear();
  if (!told.ok()) return complain(told.status().message(), kFailed);
  absl::StatusOr<std::vector<bench::MoveCost>> moves = bench::read_moves(*told);
  if (!moves.ok()) return complain(moves.status().message(), kFailed);
  const bench::MovesReport report{options->backend, options->ranks,
                                  options->rounds, *std::move(moves)};
  std::fputs(typed.has("--json") ? bench::moves_json(report).c_str()
                                 : bench::show_moves(report).c_str(),
             stdout);
  for (const bench::MoveCost& one : report.moves)
    if (!one.equal) return kFailed;
  return 0;
}

}  // namespace distwrap::cli
