#include "bench_redistribute_command.h"

#include "bench/plans/moves.h"
#include "bench/plans/torch_moves.h"
#include "bench/size.h"
#include "ranks_bench.h"
#include "told_by_ranks.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <cstdio>
#include <utility>

namespace distwrap::cli {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;
constexpr char kSizes[] = "4K,64K,1M,16M";

constexpr OptionRow kOptions[] = {
    {"--ranks", "N", "Number of ranks to start (2)"},
    {"--backend", "NAME", "Backend of the ranks (shm)"},
    {"--sizes", "SIZE,...",
     "Bytes of a rank's part where the matrix is cut (4K,64K,1M,16M)"},
    {"--rounds", "N", "Timed blocks of each; the two take turns (31)"},
    {"--python", "PATH",
     "A Python with torch, to measure DTensor over Gloo as well, in a run of "
     "its own"},
    {"--json", nullptr, "As JSON"},
};

constexpr CommandRow kRedistribute = {
    "bench redistribute",
    "Compares redistribute with the calls that a program would write for the "
    "same move.",
    kOptions,
    "A square matrix is moved between layouts on a mesh of one axis; in the "
    "last row of a size 64\ntensors share its bytes and move together, or each "
    "by a call. The ratio is the median over\nthe rounds, with its 95 % "
    "interval. The elements of both are compared.\n\n"
    "Examples:\n"
    "  distwrap bench redistribute --ranks 4 --sizes 64K,4M\n"
    "  distwrap bench redistribute --python venv/bin/python\n\n"
    "Exit code: 0; 1 when ranks failed or elements differ; 2 for bad options."};

struct Options {
  int ranks = 2, rounds = 31;
  std::string backend = "shm", sizes = kSizes, python;
};

absl::StatusOr<Options> check(const Typed& typed) {
  Options options;
  options.backend = typed.value("--backend").value_or(options.backend);
  options.sizes = typed.value("--sizes").value_or(options.sizes);
  options.python = typed.value("--python").value_or("");
  absl::Status status =
      read_number(typed, "--ranks", 1, kMostRanks, &options.ranks);
  if (status.ok())
    status = read_number(typed, "--rounds", 1, kMostRounds, &options.rounds);
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

Words rank_words(const Options& options) {
  return {options.backend, options.sizes, absl::StrCat(options.rounds)};
}

std::optional<absl::Status> measure(const Words& words) {
  int rounds = 0;
  if (words.size() != 4 || !absl::SimpleAtoi(words[2], &rounds))
    return std::nullopt;
  const auto sizes = bench::parse_sizes(words[1]);
  if (!sizes.ok()) return std::nullopt;
  return bench::measure_moves(words[0], *sizes, rounds, words[3]);
}

absl::StatusOr<int> print(const Options& options, const std::string& told,
                          bool json) {
  absl::StatusOr<std::vector<bench::MoveCost>> moves = bench::read_moves(told);
  if (!moves.ok()) return moves.status();
  if (!options.python.empty()) {
    const auto torch = told_by_ranks(
        options.ranks,
        bench::torch_words(options.python, *bench::parse_sizes(options.sizes),
                           options.rounds));
    if (!torch.ok()) return torch.status();
    if (absl::Status added = bench::add_torch(*torch, &*moves); !added.ok())
      return added;
  }
  const bench::MovesReport report{options.backend, options.ranks,
                                  options.rounds, *std::move(moves)};
  std::fputs(json ? bench::moves_json(report).c_str()
                  : bench::show_moves(report).c_str(),
             stdout);
  for (const bench::MoveCost& one : report.moves)
    if (!one.equal) return kFailed;
  return 0;
}

constexpr RanksBench<Options> kBench = {
    kRedistribute, "redistributions in turns with calls by hand",
    check,         rank_words,
    measure,       print};

}  // namespace

CommandText bench_redistribute_text() { return text_of(kRedistribute); }

int bench_redistribute_command(const Words& words) { return kBench.run(words); }

}  // namespace distwrap::cli
