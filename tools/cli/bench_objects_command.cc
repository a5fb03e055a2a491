#include "bench_objects_command.h"

#include "bench/objects/cost.h"
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
// The first argument of a rank that the command starts.
constexpr char kAsRank[] = "as-rank";

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

int complain(absl::string_view text, int code) {
  std::fprintf(stderr, "distwrap bench objects: %s\n",
               std::string(text).c_str());
  return code;
}

struct Options {
  int ranks = 2, rounds = 31;
  std::string backend = "shm";
  int64_t bytes = 1024;
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
  absl::Status status = number(typed, "--ranks", kMostRanks, &options.ranks);
  if (status.ok())
    status = number(typed, "--rounds", kMostRounds, &options.rounds);
  if (!status.ok()) return status;
  const absl::StatusOr<int64_t> bytes =
      bench::parse_size(typed.value("--bytes").value_or("1K"));
  if (!bytes.ok() || *bytes < 1 || *bytes > kMostBytes)
    return absl::InvalidArgumentError(
        "--bytes: it takes a size of 1 to 1G, such as 1K");
  options.bytes = *bytes;
  return options;
}

int run_as_rank(const Words& words) {
  int64_t bytes = 0;
  int rounds = 0;
  if (words.size() != 5 || !absl::SimpleAtoi(words[2], &bytes) ||
      !absl::SimpleAtoi(words[3], &rounds))
    return complain("as-rank is reserved for the ranks that it starts", kUsage);
  const absl::Status status =
      bench::measure_objects(words[1], bytes, rounds, words[4]);
  return status.ok() ? 0 : complain(status.message(), kFailed);
}

}  // namespace

CommandText bench_objects_text() { return text_of(kObjects); }

int bench_objects_command(const Words& words) {
  if (!words.empty() && words[0] == kAsRank) return run_as_rank(words);
  Typed typed;
  if (const auto code = parse(kObjects, words, &typed)) return *code;
  const absl::StatusOr<Options> options = check(typed);
  if (!options.ok()) return complain(options.status().message(), kUsage);
  if (inside_a_job())
    return complain("it starts its ranks itself: run it without a launcher",
                    kUsage);
  const absl::StatusOr<std::string> self = own_path();
  if (!self.ok()) return complain(self.status().message(), kFailed);
  const bench::Progress progress;
  progress.show("objects in turns with all_gathers");
  const absl::StatusOr<std::string> told = told_by_ranks(
      options->ranks,
      {*self, "bench", "objects", kAsRank, options->backend,
       absl::StrCat(options->bytes), absl::StrCat(options->rounds)});
  progress.clear();
  if (!told.ok()) return complain(told.status().message(), kFailed);
  absl::StatusOr<bench::ObjectBlocks> blocks = bench::read_blocks(*told);
  if (!blocks.ok()) return complain(blocks.status().message(), kFailed);
  const bench::ObjectCost cost{options->backend, options->ranks, options->bytes,
                               *std::move(blocks)};
  std::fputs(typed.has("--json") ? bench::cost_json(cost).c_str()
                                 : bench::show_cost(cost).c_str(),
             stdout);
  return 0;
}

}  // namespace distwrap::cli
