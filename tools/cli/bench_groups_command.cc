#include "bench_groups_command.h"

#include "bench/groups/making.h"
#include "bench/groups/show.h"
#include "bench/machine.h"
#include "bench/progress.h"
#include "ranks_bench.h"
#include "told_by_ranks.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <cstdio>
#include <fstream>
#include <utility>

namespace distwrap::cli {
namespace {

constexpr int kMostSimulated = 1 << 20;

constexpr OptionRow kOptions[] = {
    {"--ranks", "N,...",
     "Numbers of ranks to start, one after the other, for groups over a "
     "backend (2)"},
    {"--backend", "NAME", "Backend of these ranks (shm)"},
    {"--python", "PATH",
     "A Python with torch, to measure torch.distributed as well (python3)"},
    {"--max", "N", "Largest number of simulated ranks (16384)"},
    {"--seconds", "S", "Time for each figure (0.2)"},
    {"--plot", "FILE",
     "Planning time and requests over the number of ranks, as SVG"},
    {"--json", nullptr, "As JSON"},
};

constexpr CommandRow kGroups = {
    "bench groups", "Measures the cost of making and ending groups.", kOptions,
    "The planning is measured in one thread, without a backend, for 2 ranks up "
    "to --max: the\ntime of a rank to plan its own group of all ranks, and to "
    "check and compare lists of\neight ranks; and for each rank the requests "
    "to the store of split_group and\nsplit_group_by_color.\n\n"
    "The making is measured between processes of this host, which meet before "
    "each call:\n"
    "groups of all ranks are made by split_group and new_group, then ended.\n\n"
    "Examples:\n"
    "  distwrap bench groups\n"
    "  distwrap bench groups --ranks 2,4 --python venv/bin/python --json\n\n"
    "Exit code: 0; 1 when ranks failed; 2 for bad options."};

struct Options {
  std::vector<int> ranks = {2};
  std::string backend = "shm", python = "python3", plot;
  int most = 16384;
  double seconds = 0.2;
  bool json = false, python_given = false;
};

absl::Status refuse(absl::string_view option, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", why));
}

absl::StatusOr<Options> check(const Typed& typed) {
  Options options;
  if (const auto text = typed.value("--ranks")) {
    options.ranks.clear();
    for (const absl::string_view word : absl::StrSplit(*text, ',')) {
      int ranks = 0;
      if (!absl::SimpleAtoi(word, &ranks) || ranks < 1 || ranks > kMostRanks)
        return refuse(
            "--ranks",
            absl::StrCat("'", *text, "' is not a list of 1..", kMostRanks));
      options.ranks.push_back(ranks);
    }
  }
  absl::Status read =
      read_number(typed, "--max", 2, kMostSimulated, &options.most);
  if (read.ok()) read = read_seconds(typed, &options.seconds);
  if (!read.ok()) return read;
  options.backend = typed.value("--backend").value_or(options.backend);
  options.python_given = typed.has("--python");
  options.python = typed.value("--python").value_or(options.python);
  options.plot = typed.value("--plot").value_or("");
  options.json = typed.has("--json");
  if (!options.plot.empty() && !std::ofstream(options.plot, std::ios::app))
    return refuse("--plot", absl::StrCat("cannot write '", options.plot, "'"));
  return options;
}

absl::StatusOr<bench::MakingRow> row_of(const absl::StatusOr<std::string>& told,
                                        std::string engine, int ranks) {
  if (!told.ok()) return told.status();
  absl::StatusOr<bench::MakingRow> row = bench::read_times(*told);
  if (!row.ok()) return row;
  row->engine = std::move(engine);
  row->ranks = ranks;
  return row;
}

absl::StatusOr<bench::MakingRow> run_ours(const Options& options, int ranks) {
  return row_of(ask_ranks(kGroups, ranks,
                          {options.backend, absl::StrCat(options.seconds)}),
                absl::StrCat("distwrap/", options.backend), ranks);
}

absl::StatusOr<bench::MakingRow> run_torch(const Options& options, int ranks) {
  return row_of(
      told_by_ranks(ranks, {options.python, "-c", bench::kTorchProgram,
                            absl::StrCat(options.seconds)}),
      "torch/gloo", ranks);
}

// A quick look, because importing torch takes seconds.
bool has_torch(const std::string& python) {
  const absl::StatusOr<std::string> told = told_by_ranks(
      1, {"/bin/sh", "-c",
          "\"$0\" -c 'import importlib.util as u, sys; "
          "open(sys.argv[1], \"w\").write(\"x\" if u.find_spec(\"torch\") "
          "else \"\")' \"$1\" 2>/dev/null; exit 0",
          python});
  return told.ok() && !told->empty();
}

absl::StatusOr<std::vector<bench::MakingRow>> measure_all(
    const Options& options, const bench::Progress& progress) {
  const bool torch = has_torch(options.python);
  if (!torch)
    complain(
        kGroups,
        absl::StrCat("torch is not measured: ", options.python, " has none",
                     options.python_given
                         ? ""
                         : "; name a Python that has it with --python"),
        0);
  std::vector<bench::MakingRow> rows;
  for (const int ranks : options.ranks) {
    progress.show(absl::StrCat("making groups, ", ranks, " ranks"));
    auto row = run_ours(options, ranks);
    if (!row.ok()) return row.status();
    rows.push_back(*std::move(row));
    if (!torch) continue;
    progress.show(absl::StrCat("torch.distributed, ", ranks, " ranks"));
    row = run_torch(options, ranks);
    if (!row.ok()) return row.status();
    rows.push_back(*std::move(row));
  }
  progress.clear();
  return rows;
}

std::optional<absl::Status> measure(const Words& words) {
  double seconds = 0;
  if (words.size() != 3 || !absl::SimpleAtod(words[1], &seconds))
    return std::nullopt;
  return bench::measure_making(words[0], seconds, words[2]);
}

}  // namespace

CommandText bench_groups_text() { return text_of(kGroups); }

int bench_groups_command(const Words& given) {
  Words words = given;
  if (take_as_rank(&words)) return end_rank(kGroups, measure(words));
  Typed typed;
  if (const auto code = parse(kGroups, words, &typed)) return *code;
  const absl::StatusOr<Options> options = check(typed);
  if (!options.ok())
    return complain(kGroups, options.status().message(), kUsage);
  if (const auto code = refuse_in_job(kGroups)) return *code;

  const bench::Progress progress;
  bench::GroupsReport report;
  report.machine = bench::this_machine();
  for (const int ranks : bench::planning_sizes(options->most)) {
    progress.show(absl::StrCat("planning, ", ranks, " ranks"));
    report.planning.push_back(bench::measure_planning(ranks, options->seconds));
  }
  progress.clear();
  if (!options->json) std::fputs(bench::show_planning(report).c_str(), stdout);
  std::fflush(stdout);
  auto making = measure_all(*options, progress);
  if (!making.ok())
    return complain(kGroups, making.status().message(), kFailed);
  report.making = *std::move(making);
  std::fputs(options->json ? bench::groups_json(report).c_str()
                           : bench::show_making(report).c_str(),
             stdout);
  if (!options->plot.empty()) {
    std::ofstream file(options->plot, std::ios::trunc);
    file << bench::plot_planning(report);
    if (!file.flush())
      return complain(
          kGroups, absl::StrCat("cannot write '", options->plot, "'"), kFailed);
  }
  return 0;
}

}  // namespace distwrap::cli
