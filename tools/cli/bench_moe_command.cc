#include "bench_moe_command.h"

#include "bench/moe/layer.h"
#include "ranks_bench.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <cstdio>
#include <utility>

namespace distwrap::cli {
namespace {

constexpr OptionRow kOptions[] = {
    {"--ranks", "N", "Number of ranks to start (2)"},
    {"--backend", "NAME", "Backend of the ranks (shm)"},
    {"--tokens", "T", "Tokens of each rank (4096)"},
    {"--hidden", "H", "Elements of a token, f32 (1024)"},
    {"--experts", "X", "Experts, a multiple of the ranks (64)"},
    {"--topk", "K", "Experts of each token (8)"},
    {"--skew", "S",
     "An expert's probability falls with 1 / (number + 1)^S (0)"},
    {"--layout", "LAYOUT", "rank_major or expert_major (expert_major)"},
    {"--dedup", "LEVEL", "auto, none, rank or node (auto)"},
    {"--rounds", "N", "Timed blocks of each; the two take turns (21)"},
    {"--json", nullptr, "As JSON"},
};

constexpr CommandRow kMoe = {
    "bench moe",
    "Compares plan, dispatch and combine with sorting, all_to_all_single and "
    "adding by hand.",
    kOptions,
    "The ratio is the median over the rounds, with its 95 % interval. "
    "Expert-major sums are compared\nwith those by hand.\n\n"
    "Example:\n"
    "  distwrap bench moe --ranks 4 --tokens 128 --skew 1\n\n"
    "Exit code: 0; 1 when ranks failed or sums differ; 2 for bad options."};

absl::Status refuse(absl::string_view option, absl::string_view text,
                    absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": '", text, "' is not ", wanted));
}

struct Options {
  int ranks = 2, rounds = 21;
  std::string backend = "shm";
  bench::MoeLayerSpec spec;
};

absl::StatusOr<Options> check(const Typed& typed) {
  Options options;
  bench::MoeLayerSpec& spec = options.spec;
  options.backend = typed.value("--backend").value_or(options.backend);
  absl::Status read =
      read_number(typed, "--ranks", 1, kMostRanks, &options.ranks);
  if (read.ok())
    read = read_number(typed, "--rounds", 1, kMostRounds, &options.rounds);
  struct Number {
    const char* option;
    int64_t most;
    int64_t* value;
  };
  for (const Number& one : {Number{"--tokens", 1 << 20, &spec.tokens},
                            {"--hidden", 1 << 16, &spec.hidden},
                            {"--experts", 1 << 16, &spec.experts},
                            {"--topk", 64, &spec.topk}})
    if (read.ok())
      read = read_number(typed, one.option, 1, one.most, one.value);
  if (!read.ok()) return read;
  if (const auto text = typed.value("--skew");
      text.has_value() && (!absl::SimpleAtod(*text, &spec.skew) ||
                           !(spec.skew >= 0) || spec.skew > 10))
    return refuse("--skew", *text, "a number of 0 to 10");
  spec.layout = typed.value("--layout").value_or(spec.layout);
  if (spec.layout != "rank_major" && spec.layout != "expert_major")
    return refuse("--layout", spec.layout, "rank_major or expert_major");
  spec.dedup = typed.value("--dedup").value_or(spec.dedup);
  if (spec.dedup != "auto" && spec.dedup != "none" && spec.dedup != "rank" &&
      spec.dedup != "node")
    return refuse("--dedup", spec.dedup, "auto, none, rank or node");
  if (spec.experts % options.ranks != 0)
    return refuse("--experts", absl::StrCat(spec.experts),
                  absl::StrCat("a multiple of ", options.ranks, " ranks"));
  if (spec.topk > spec.experts)
    return refuse("--topk", absl::StrCat(spec.topk),
                  absl::StrCat("at most ", spec.experts, " experts"));
  return options;
}

Words rank_words(const Options& options) {
  const bench::MoeLayerSpec& spec = options.spec;
  return {options.backend,
          absl::StrCat(spec.tokens),
          absl::StrCat(spec.hidden),
          absl::StrCat(spec.experts),
          absl::StrCat(spec.topk),
          absl::StrCat(spec.skew),
          spec.layout,
          spec.dedup,
          absl::StrCat(options.rounds)};
}

std::optional<absl::Status> measure(const Words& words) {
  bench::MoeLayerSpec spec;
  int rounds = 0;
  if (words.size() != 10 || !absl::SimpleAtoi(words[1], &spec.tokens) ||
      !absl::SimpleAtoi(words[2], &spec.hidden) ||
      !absl::SimpleAtoi(words[3], &spec.experts) ||
      !absl::SimpleAtoi(words[4], &spec.topk) ||
      !absl::SimpleAtod(words[5], &spec.skew) ||
      !absl::SimpleAtoi(words[8], &rounds))
    return std::nullopt;
  spec.layout = words[6];
  spec.dedup = words[7];
  return bench::measure_moe(words[0], spec, rounds, words[9]);
}

absl::StatusOr<int> print(const Options& options, const std::string& told,
                          bool json) {
  absl::StatusOr<bench::MoeCost> cost = bench::read_moe(told);
  if (!cost.ok()) return cost.status();
  const bench::MoeReport report{options.backend, options.ranks, options.rounds,
                                options.spec, *std::move(cost)};
  std::fputs(
      json ? bench::moe_json(report).c_str() : bench::show_moe(report).c_str(),
      stdout);
  return report.cost.equal ? 0 : kFailed;
}

constexpr RanksBench<Options> kBench = {
    kMoe,    "mixtures of experts in turns with calls by hand",
    check,   rank_words,
    measure, print};

}  // namespace

CommandText bench_moe_text() { return text_of(kMoe); }

int bench_moe_command(const Words& words) { return kBench.run(words); }

}  // namespace distwrap::cli
