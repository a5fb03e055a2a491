#include "bench_objects_command.h"

#include "bench/objects/cost.h"
#include "bench/size.h"
#include "ranks_bench.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <cstdio>
#include <utility>

namespace distwrap::cli {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;

constexpr OptionRow kOptions[] = {
    {"--ranks", "N", "Number of ranks to start (2)"},
    {"--backend", "NAME", "Backend of the ranks (shm)"},
    {"--bytes", "SIZE", "Bytes of each rank's object (1K)"},
    {"--rounds", "N", "Timed blocks of each call; the calls take turns (31)"},
    {"--json", nullptr, "As JSON"},
};

constexpr CommandRow kObjects = {
    "bench objects",
    "Compares all_gather_object with two all_gathers of as many bytes.",
    kOptions,
    "The ratio is the median over the rounds, with its 95 % interval; the last "
    "line compares the\nraw calls with themselves.\n\n"
    "Example:\n"
    "  distwrap bench objects --bytes 1K --rounds 31\n\n"
    "Exit code: 0; 1 when ranks failed; 2 for bad options."};

struct Options {
  int ranks = 2, rounds = 31;
  std::string backend = "shm";
  int64_t bytes = 1024;
};

absl::StatusOr<Options> check(const Typed& typed) {
  Options options;
  options.backend = typed.value("--backend").value_or(options.backend);
  absl::Status status =
      read_number(typed, "--ranks", 1, kMostRanks, &options.ranks);
  if (status.ok())
    status = read_number(typed, "--rounds", 1, kMostRounds, &options.rounds);
  if (!status.ok()) return status;
  const absl::StatusOr<int64_t> bytes =
      bench::parse_size(typed.value("--bytes").value_or("1K"));
  if (!bytes.ok() || *bytes < 1 || *bytes > kMostBytes)
    return absl::InvalidArgumentError(
        "--bytes: it takes a size of 1 to 1G, such as 1K");
  options.bytes = *bytes;
  return options;
}

Words rank_words(const Options& options) {
  return {options.backend, absl::StrCat(options.bytes),
          absl::StrCat(options.rounds)};
}

std::optional<absl::Status> measure(const Words& words) {
  int64_t bytes = 0;
  int rounds = 0;
  if (words.size() != 4 || !absl::SimpleAtoi(words[1], &bytes) ||
      !absl::SimpleAtoi(words[2], &rounds))
    return std::nullopt;
  return bench::measure_objects(words[0], bytes, rounds, words[3]);
}

absl::StatusOr<int> print(const Options& options, const std::string& told,
                          bool json) {
  absl::StatusOr<bench::ObjectBlocks> blocks = bench::read_blocks(told);
  if (!blocks.ok()) return blocks.status();
  const bench::ObjectCost cost{options.backend, options.ranks, options.bytes,
                               *std::move(blocks)};
  std::fputs(
      json ? bench::cost_json(cost).c_str() : bench::show_cost(cost).c_str(),
      stdout);
  return 0;
}

constexpr RanksBench<Options> kBench = {
    kObjects, "objects in turns with all_gathers", check, rank_words, measure,
    print};

}  // namespace

CommandText bench_objects_text() { return text_of(kObjects); }

int bench_objects_command(const Words& words) { return kBench.run(words); }

}  // namespace distwrap::cli
