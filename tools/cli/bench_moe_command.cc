#include "bench_moe_command.h"

#include "bench/moe/layer.h"
#include "bench/moe/show_simulated.h"
#include "bench/mpi/moe_others.h"
#include "distwrap/types.h"
#include "ranks_bench.h"
#include "told_by_ranks.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

namespace distwrap::cli {
namespace {

constexpr OptionRow kOptions[] = {
    {"--ranks", "N", "Number of ranks to start (2)"},
    {"--backend", "NAME", "Backend of the ranks (shm)"},
    {"--tokens", "T", "Tokens of each rank (4096)"},
    {"--hidden", "H", "Elements of a token (1024)"},
    {"--experts", "X", "Experts, a multiple of the ranks (64)"},
    {"--topk", "K", "Experts of each token (8)"},
    {"--skew", "S",
     "An expert's probability falls with 1 / (number + 1)^S (0)"},
    {"--groups", "G:M",
     "Experts in G equal groups, of which a token's experts are in M"},
    {"--router", "FILE",
     "Experts of each token: a line of K ids for each token, rank by rank"},
    {"--layout", "LAYOUT", "rank_major or expert_major (expert_major)"},
    {"--dedup", "LEVEL", "auto, none, rank or node (auto)"},
    {"--memory", "WHERE",
     "Rows of distwrap: private, or shared, allocated by its backend "
     "(private)"},
    {"--rounds", "N", "Timed blocks of each; the two take turns (21)"},
    {"--vs", "LIST",
     "Libraries to measure as well, each in a run of its own: torch, openmpi, "
     "mpich"},
    {"--python", "PATH", "A Python with torch, for --vs torch (python3)"},
    {"--simulate", "NxL",
     "Starts no ranks: plans for N nodes of L ranks, and a model of their "
     "links"},
    {"--links", "LINKS",
     "Links of a simulated rank: net, local and memory in GB/s, hop in us "
     "(net=50,local=160,memory=2000,hop=5)"},
    {"--dtype", "TYPE",
     "Element type: f32 or bf16 (f32); any in a simulated dispatch (bf16)"},
    {"--combine-dtype", "TYPE", "Element type of a simulated combine (bf16)"},
    {"--capacity", "C", "Most pairs of an expert; others are dropped"},
    {"--json", nullptr, "As JSON"},
};

constexpr CommandRow kMoe = {
    "bench moe",
    "Compares plan, dispatch and combine with sorting, all_to_all_single and "
    "adding by hand.",
    kOptions,
    "The ratio is the median over the rounds, with its 95 % interval. "
    "Expert-major sums without a\ncapacity are compared with those by hand. "
    "The limit is the time in which the host's memory\nreads each token and "
    "writes each row once, as fast as a memcpy does.\n\n"
    "Examples:\n"
    "  distwrap bench moe --ranks 4 --tokens 128 --skew 1\n"
    "  distwrap bench moe --dtype bf16 --hidden 7168 --capacity 160\n"
    "  distwrap bench moe --vs openmpi,torch --python venv/bin/python\n"
    "  distwrap bench moe --simulate 8x8 --experts 256 --links net=50,local=160"
    "\n\n"
    "Exit code: 0; 1 when ranks failed or sums differ; 2 for bad options."};

absl::Status refuse(absl::string_view option, absl::string_view text,
                    absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": '", text, "' is not ", wanted));
}

struct Options {
  int ranks = 2, rounds = 21;
  std::string backend = "shm", python = "python3";
  bench::MoeLayerSpec spec;
  std::vector<std::string> others;
  // Simulated.
  bool simulated = false;
  bench::MoeGrid grid;
  bench::MoeLinks links;
  int64_t dispatch_row = 0, combine_row = 0;  // bytes
  std::vector<std::vector<int64_t>> ids;      // by rank; empty: drawn
};

absl::Status read_groups(const Typed& typed, bench::RouterSpec* router) {
  const auto text = typed.value("--groups");
  if (!text.has_value()) return absl::OkStatus();
  const std::vector<std::string> words =
      absl::StrSplit(*text, absl::MaxSplits(':', 1));
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &router->groups) ||
      !absl::SimpleAtoi(words[1], &router->most_groups) || router->groups < 1 ||
      router->experts % router->groups != 0 || router->most_groups < 1 ||
      router->most_groups > router->groups ||
      router->experts / router->groups * router->most_groups < router->topk)
    return refuse("--groups", *text,
                  "G:M with G equal groups, M of which have enough experts");
  return absl::OkStatus();
}

// Bytes of a token.
absl::Status read_row(const Typed& typed, const char* option, int64_t hidden,
                      int64_t* bytes) {
  const std::string name = typed.value(option).value_or("bf16");
  for (size_t d = 0; d < sizeof internal::kDTypeBytes; ++d)
    if (dtype_name(static_cast<DType>(d)) == name) {
      *bytes = hidden * internal::kDTypeBytes[d];
      return absl::OkStatus();
    }
  return refuse(option, name, "an element type, such as bf16");
}

// The element type of ranks that run.
absl::Status read_dtype(const Typed& typed, DType* dtype) {
  const std::string name = typed.value("--dtype").value_or("f32");
  if (name != "f32" && name != "bf16")
    return refuse("--dtype", name, "f32 or bf16");
  *dtype = name == "f32" ? DType::kF32 : DType::kBF16;
  return absl::OkStatus();
}

absl::Status check_simulated(const Typed& typed, Options* options) {
  const absl::StatusOr<bench::MoeGrid> grid =
      bench::parse_grid(*typed.value("--simulate"));
  if (!grid.ok())
    return absl::InvalidArgumentError(
        absl::StrCat("--simulate: ", grid.status().message()));
  options->grid = *grid;
  options->ranks = grid->ranks();
  if (const auto text = typed.value("--links")) {
    const absl::StatusOr<bench::MoeLinks> links = bench::parse_links(*text);
    if (!links.ok())
      return absl::InvalidArgumentError(
          absl::StrCat("--links: ", links.status().message()));
    options->links = *links;
  }
  absl::Status read =
      read_row(typed, "--dtype", options->spec.hidden, &options->dispatch_row);
  if (read.ok())
    read = read_row(typed, "--combine-dtype", options->spec.hidden,
                    &options->combine_row);
  return read;
}

absl::Status check_others(const Typed& typed, Options* options) {
  options->python = typed.value("--python").value_or(options->python);
  const auto list = typed.value("--vs");
  if (!list.has_value()) return absl::OkStatus();
  for (const absl::string_view name : absl::StrSplit(*list, ',')) {
    if (name != "torch" && name != "openmpi" && name != "mpich")
      return refuse("--vs", name, "torch, openmpi or mpich");
    options->others.emplace_back(name);
  }
  return absl::OkStatus();
}

absl::StatusOr<Options> check(const Typed& typed) {
  Options options;
  bench::MoeLayerSpec& spec = options.spec;
  bench::RouterSpec& router = spec.router;
  options.simulated = typed.has("--simulate");
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
  for (const Number& one : {Number{"--tokens", 1 << 20, &router.tokens},
                            {"--hidden", 1 << 16, &spec.hidden},
                            {"--experts", 1 << 16, &router.experts},
                            {"--topk", 64, &router.topk}})
    if (read.ok())
      read = read_number(typed, one.option, 1, one.most, one.value);
  if (!read.ok()) return read;
  if (const auto text = typed.value("--skew");
      text.has_value() && (!absl::SimpleAtod(*text, &router.skew) ||
                           !(router.skew >= 0) || router.skew > 10))
    return refuse("--skew", *text, "a number of 0 to 10");
  spec.layout = typed.value("--layout").value_or(spec.layout);
  if (spec.layout != "rank_major" && spec.layout != "expert_major")
    return refuse("--layout", spec.layout, "rank_major or expert_major");
  spec.dedup = typed.value("--dedup").value_or(spec.dedup);
  if (spec.dedup != "auto" && spec.dedup != "none" && spec.dedup != "rank" &&
      spec.dedup != "node")
    return refuse("--dedup", spec.dedup, "auto, none, rank or node");
  const std::string memory = typed.value("--memory").value_or("private");
  if (memory != "private" && memory != "shared")
    return refuse("--memory", memory, "private or shared");
  spec.shared_memory = memory == "shared";
  if (router.topk > router.experts)
    return refuse("--topk", absl::StrCat(router.topk),
                  absl::StrCat("at most ", router.experts, " experts"));
  if (read = read_groups(typed, &router); !read.ok()) return read;
  if (read = check_others(typed, &options); !read.ok()) return read;
  read = read_number(typed, "--capacity", 1, INT64_MAX / 2, &spec.capacity);
  if (read.ok())
    read = options.simulated ? check_simulated(typed, &options)
                             : read_dtype(typed, &spec.dtype);
  if (!read.ok()) return read;
  if (router.experts % options.ranks != 0)
    return refuse("--experts", absl::StrCat(router.experts),
                  absl::StrCat("a multiple of ", options.ranks, " ranks"));
  spec.router_file = typed.value("--router").value_or("");
  if (!spec.router_file.empty()) {
    // A fault of the file is found before ranks are started.
    auto ids = bench::read_experts(spec.router_file, router, options.ranks);
    if (!ids.ok())
      return absl::InvalidArgumentError(
          absl::StrCat("--router: ", ids.status().message()));
    options.ids = *std::move(ids);
  }
  return options;
}

Words rank_words(const Options& options) {
  const bench::MoeLayerSpec& spec = options.spec;
  const bench::RouterSpec& router = spec.router;
  return {options.backend,
          absl::StrCat(router.tokens),
          absl::StrCat(spec.hidden),
          absl::StrCat(router.experts),
          absl::StrCat(router.topk),
          absl::StrCat(router.skew),
          spec.layout,
          spec.dedup,
          absl::StrCat(options.rounds),
          absl::StrCat(router.groups),
          absl::StrCat(router.most_groups),
          spec.dtype == DType::kF32 ? "f32" : "bf16",
          absl::StrCat(spec.capacity),
          spec.router_file.empty() ? "-" : spec.router_file,
          spec.shared_memory ? "shared" : "private"};
}

std::optional<absl::Status> measure(const Words& words) {
  bench::MoeLayerSpec spec;
  bench::RouterSpec& router = spec.router;
  int rounds = 0;
  if (words.size() != 16 || !absl::SimpleAtoi(words[1], &router.tokens) ||
      !absl::SimpleAtoi(words[2], &spec.hidden) ||
      !absl::SimpleAtoi(words[3], &router.experts) ||
      !absl::SimpleAtoi(words[4], &router.topk) ||
      !absl::SimpleAtod(words[5], &router.skew) ||
      !absl::SimpleAtoi(words[8], &rounds) ||
      !absl::SimpleAtoi(words[9], &router.groups) ||
      !absl::SimpleAtoi(words[10], &router.most_groups) ||
      !absl::SimpleAtoi(words[12], &spec.capacity))
    return std::nullopt;
  spec.dtype = words[11] == "bf16" ? DType::kBF16 : DType::kF32;
  spec.layout = words[6];
  spec.dedup = words[7];
  if (words[13] != "-") spec.router_file = words[13];
  spec.shared_memory = words[14] == "shared";
  return bench::measure_moe(words[0], spec, rounds, words[15]);
}

// The libraries that were named, one after the other. One that cannot run is
// said and left out.
absl::StatusOr<std::vector<bench::OtherCost>> measure_others(
    const Options& options, const bench::Progress& progress) {
  std::vector<bench::OtherCost> costs;
  if (options.others.empty()) return costs;
  std::string file = options.spec.router_file;
  std::string made;
  if (file.empty()) {
    made = (std::filesystem::temp_directory_path() / "distwrap_moe_XXXXXX")
               .string();
    const int descriptor = mkstemp(made.data());
    if (descriptor < 0)
      return absl::UnavailableError(absl::StrCat("cannot write '", made, "'"));
    close(descriptor);
    file = made;
    if (absl::Status wrote =
            bench::write_experts(file, options.spec, options.ranks);
        !wrote.ok())
      return wrote;
  }
  absl::Status failed;
  for (const std::string& name : options.others) {
    progress.show(absl::StrCat("mixtures of experts with ", name));
    const auto program =
        bench::other_program(name, options.python, file, options.spec,
                             options.ranks, options.rounds);
    if (!program.ok()) {
      complain(kMoe, program.status().message(), 0);
      continue;
    }
    const auto told =
        told_by_ranks(program->one ? 1 : options.ranks, program->words);
    auto cost = told.ok() ? bench::read_other(name, *told)
                          : absl::StatusOr<bench::OtherCost>(told.status());
    if (!cost.ok()) {
      failed = cost.status();
      break;
    }
    costs.push_back(*std::move(cost));
  }
  progress.clear();
  if (!made.empty()) std::filesystem::remove(made);
  if (!failed.ok()) return failed;
  return costs;
}

int simulate(const Options& options, bool json) {
  bench::SimulatedReport report;
  report.spec = {.grid = options.grid,
                 .links = options.links,
                 .experts = options.spec.router.experts,
                 .topk = options.spec.router.topk,
                 .capacity = options.spec.capacity};
  report.router = options.spec.router;
  report.hidden = options.spec.hidden;
  std::vector<std::vector<int64_t>> ids = options.ids;
  for (int r = 0; ids.size() < static_cast<size_t>(options.ranks); ++r)
    ids.push_back(bench::draw_experts(options.spec.router, r));
  for (const bool back : {false, true}) {
    bench::SimulateSpec spec = report.spec;
    spec.row_bytes = back ? options.combine_row : options.dispatch_row;
    report.phases.push_back({back ? "combine" : "dispatch", spec.row_bytes,
                             bench::simulate(spec, ids)});
  }
  std::fputs(json ? bench::simulated_json(report).c_str()
                  : bench::show_simulated(report).c_str(),
             stdout);
  return 0;
}

int run(const Options& options, bool json) {
  const bench::Progress progress;
  progress.show("mixtures of experts in turns with calls by hand");
  const absl::StatusOr<std::string> told =
      ask_ranks(kMoe, options.ranks, rank_words(options));
  progress.clear();
  if (!told.ok()) return complain(kMoe, told.status().message(), kFailed);
  absl::StatusOr<bench::MoeCost> cost = bench::read_moe(*told);
  if (!cost.ok()) return complain(kMoe, cost.status().message(), kFailed);
  auto others = measure_others(options, progress);
  if (!others.ok()) return complain(kMoe, others.status().message(), kFailed);
  const bench::MoeReport report{options.backend,  options.ranks,
                                options.rounds,   options.spec,
                                *std::move(cost), *std::move(others)};
  std::fputs(
      json ? bench::moe_json(report).c_str() : bench::show_moe(report).c_str(),
      stdout);
  return report.cost.equal ? 0 : kFailed;
}

}  // namespace

CommandText bench_moe_text() { return text_of(kMoe); }

int bench_moe_command(const Words& given) {
  Words words = given;
  if (take_as_rank(&words)) return end_rank(kMoe, measure(words));
  Typed typed;
  if (const auto code = parse(kMoe, words, &typed)) return *code;
  const absl::StatusOr<Options> options = check(typed);
  if (!options.ok()) return complain(kMoe, options.status().message(), kUsage);
  if (options->simulated) return simulate(*options, typed.has("--json"));
  if (const auto code = refuse_in_job(kMoe)) return *code;
  return run(*options, typed.has("--json"));
}

}  // namespace distwrap::cli
