#include "bench_command.h"

#include "base/settings.h"
#include "bench/help.h"
#include "bench/mpi/contestant.h"
#include "bench/options.h"
#include "bench/rank.h"
#include "bench/sweep.h"
#include "launcher.h"
#include "store/launch_info.h"

#include <CLI/CLI.hpp>
#include <absl/strings/str_cat.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
namespace distwrap::cli {
namespace {

constexpr char kName[] = "distwrap bench";
constexpr char kAbout[] =
    "Measures operations between ranks: latency, bandwidth, correctness.";

int complain(absl::string_view text, int code) {
  std::fprintf(stderr, "distwrap bench: %s\n", std::string(text).c_str());
  return code;
}

// Binds every option to its word.
void describe(CLI::App& app, bench::Words& words) {
  app.add_option("ops,--op", words.ops, "Operations, or all")
      ->default_str("all")
      ->type_name("NAME");
  const char* const job = "Job";
  app.add_option("--ranks", words.ranks, "How many ranks to start")
      ->capture_default_str()
      ->group(job)
      ->type_name("N");
  app.add_option(
         "--backend", words.backends,
         "Backends, separated by commas, which take turns; with --vs also none")
      ->capture_default_str()
      ->group(job)
      ->type_name("NAME,...");
  app.add_option("--hint", words.hints, "key=value for the backends")
      ->group(job)
      ->type_name("KEY=VALUE");
  app.add_option(
         "--pin", words.pin,
         "Bind rank i to core i, cyclically if there are more ranks: 0 or 1")
      ->group(job)
      ->type_name("0|1");
  app.add_option("--timeout", words.timeout,
                 "Deadline of every operation, seconds")
      ->capture_default_str()
      ->group(job)
      ->type_name("S");

  const char* const sizes = "Data";
  app.add_option("--sizes", words.sizes, "Sizes, such as 8,4K,1M")
      ->group(sizes)
      ->type_name("SIZE,...");
  app.add_option("-b,--min", words.min, "Smallest size")
      ->capture_default_str()
      ->group(sizes)
      ->type_name("SIZE");
  app.add_option("-e,--max", words.max, "Largest size")
      ->capture_default_str()
      ->group(sizes)
      ->type_name("SIZE");
  app.add_option("-f,--factor", words.factor,
                 "Factor from one size to the next")
      ->capture_default_str()
      ->group(sizes)
      ->type_name("N");
  app.add_option("-i,--step", words.step, "Bytes to add, in place of -f")
      ->group(sizes)
      ->type_name("SIZE");
  app.add_option("-d,--dtype", words.dtype, "Element type")
      ->capture_default_str()
      ->group(sizes)
      ->type_name("TYPE");
  app.add_option("-o,--reduce", words.reduce, "sum, product, min or max")
      ->capture_default_str()
      ->group(sizes)
      ->type_name("NAME");
  app.add_option("-r,--root", words.root, "Root of operations that have one")
      ->capture_default_str()
      ->group(sizes)
      ->type_name("RANK");
  app.add_option("--depth", words.depth,
                 "Puts of win_put_rate before a flush, 1 to 64")
      ->capture_default_str()
      ->group(sizes)
      ->type_name("N");
  app.add_option(
         "--memory", words.memory,
         "Buffers of distwrap: private, or shared, allocated by its backend")
      ->capture_default_str()
      ->group(sizes)
      ->type_name("WHERE");
  app.add_option("--pattern", words.pattern,
                 "Amounts between ranks, for operations with counts; see below "
                 "(linear)")
      ->group(sizes)
      ->type_name("PATTERN");

  const char* const measuring = "Measuring";
  app.add_option("--seconds", words.seconds,
                 "Time limit for each contestant at each size, over all rounds")
      ->capture_default_str()
      ->group(measuring)
      ->type_name("S");
  app.add_option("--rounds", words.rounds,
                 "Timed loops for each contestant; contestants alternate. Use "
                 "21 for claims (6 to 20, until precise)")
      ->group(measuring)
      ->type_name("N");
  app.add_option(
         "--precision", words.precision,
         "Half width of the 95 % interval that ends the rounds, percent (2)")
      ->group(measuring)
      ->type_name("PCT");
  app.add_option("-n,--iters", words.iterations,
                 "Iterations of a loop, in place of --seconds")
      ->group(measuring)
      ->type_name("N");
  app.add_option("-w,--warmup", words.warmup, "Warm-up calls")
      ->group(measuring)
      ->type_name("N");
  app.add_option("-c,--check", words.check, "Check results: 0 or 1")
      ->capture_default_str()
      ->group(measuring)
      ->type_name("0|1");
  app.add_option("--vs", words.vs, "Libraries to compare with, see below")
      ->group(measuring)
      ->type_name("NAME,...");
  app.add_flag("--control", words.control,
               "Also compare the baseline with a copy of itself")
      ->group(measuring);
  app.add_flag("--overhead", words.overhead,
               "Measure the cost of distwrap itself: calls of one rank through "
               "it and directly into the loopback's table")
      ->group(measuring);
  app.add_flag("--limit", words.limit,
               "Measure the machine's own limit for each row")
      ->group(measuring);
  app.add_flag("--cold", words.cold,
               "Empty the caches before every call; buffers rotate")
      ->group(measuring);
  app.add_option("--compare", words.compare,
                 "Compare with an earlier --json-file; exit code 1 when slower")
      ->group(measuring)
      ->type_name("FILE");
  app.add_option("--threshold", words.threshold,
                 "Slowdown to report, in percent beyond the noise")
      ->capture_default_str()
      ->group(measuring)
      ->type_name("PCT");

  const char* const output = "Output";
  app.add_flag("--json", words.json, "One JSON line for each result")
      ->group(output);
  app.add_option("--json-file", words.json_file, "The whole run as JSON")
      ->group(output)
      ->type_name("FILE");
  app.add_option("--csv", words.csv, "Results as CSV; to stdout without a file")
      ->group(output)
      ->type_name("FILE");
  app.add_flag("--nccl", words.nccl, "The columns of nccl-tests")
      ->group(output);
  app.add_option("--plot", words.plot,
                 "Latency and bandwidth as SVG; without a file as text")
      ->group(output)
      ->type_name("FILE");
}

// Reports files that cannot be written before the measurement begins.
absl::Status check_files(const bench::Options& options) {
  for (const std::string& path :
       {options.json_file, options.csv, options.plot}) {
    if (path.empty() || path == "-") continue;
    if (!std::ofstream(path, std::ios::app)) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot write '", path, "': ", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

int run_as_rank(const bench::Options& options,
                const std::vector<bench::ContestantKind>& kinds,
                const store::LaunchInfo& launch,
                const std::optional<bench::OldRun>& old) {
  auto store = Store::connect(launch.store_address,
                              Deadline::after(absl::Seconds(options.timeout)));
  if (!store.ok()) return complain(store.status().message(), kFailed);
  const bench::Place place{launch.rank, launch.world_size, launch.local_rank,
                           launch.local_world_size, *store};
  bool told = false;
  const auto tell = [&](const absl::Status& failure) {
    if (!told && (place.rank == 0 || !bench::told_by_rank_0(failure)))
      complain(failure.message(), kFailed);
    told = true;
  };
  const absl::Status status = bench::run_rank(options, kinds, place, old, tell);
  if (status.ok()) return 0;
  tell(status);
  return kFailed;
}

int start_ranks(const bench::Options& options,
                const std::vector<std::string>& words,
                const std::vector<std::string>& arguments) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return complain("cannot tell its own path: " + error.message(), kFailed);
  }
  LaunchOptions launch_options;
  launch_options.ranks = options.ranks;
  launch_options.argv = {self.string()};
  for (const auto* more : {&words, &arguments}) {
    launch_options.argv.insert(launch_options.argv.end(), more->begin(),
                               more->end());
  }
  // The ranks have nothing to save when one of them has failed.
  launch_options.grace = absl::Seconds(1);
  const auto code = launch(launch_options);
  if (!code.ok()) return complain(code.status().message(), kFailed);
  return *code;
}

}  // namespace

CommandText bench_text() {
  bench::Words words;
  CLI::App app(kAbout, kName);
  describe(app, words);
  std::vector<bench::ContestantKind> kinds = bench::mpi::kinds();
  // The help text is equal on every machine.
  for (bench::ContestantKind& kind : kinds) kind.missing.clear();
  app.footer(bench::help_footer(kinds));
  return text_of(app);
}

int bench_command(const std::vector<std::string>& arguments) {
  return run_bench({"bench"}, arguments, bench::mpi::kinds());
}

int run_bench(const std::vector<std::string>& words,
              const std::vector<std::string>& arguments,
              const std::vector<bench::ContestantKind>& kinds) {
  bench::Words typed;
  CLI::App app(kAbout, kName);
  describe(app, typed);
  app.footer(bench::help_footer(kinds));
  if (const auto code = parse(app, bench::spell_out(arguments))) return *code;

  if (typed.overhead) {
    if (app.count("--backend") > 0) {
      return complain("--overhead: it is the loopback's, without --backend",
                      kUsage);
    }
    typed.backends = "loopback";
    if (app.count("--ranks") == 0) typed.ranks = 1;
    const bool sized =
        app.count("--sizes") + app.count("--min") + app.count("--max") > 0;
    if (!sized) typed.sizes = "8";
  }
  const auto environment = base::Environment::of_process();
  const bool is_rank = environment.get(base::Setting::kRank).has_value();
  store::LaunchInfo place;
  if (is_rank) {
    auto launch = store::detect_launch(environment);
    if (!launch.ok()) return complain(launch.status().message(), kUsage);
    place = *launch;
    if (app.count("--ranks") > 0 && typed.ranks != place.world_size) {
      return complain(absl::StrCat("--ranks ", typed.ranks,
                                   ": the launcher started ", place.world_size),
                      kUsage);
    }
    typed.ranks = place.world_size;
  }
  const auto options = bench::check(typed);
  if (!options.ok()) return complain(options.status().message(), kUsage);
  absl::Status status = bench::check_kinds(*options, kinds);
  if (status.ok()) status = check_files(*options);
  if (!status.ok()) return complain(status.message(), kUsage);

  for (const std::string& name : options->left_out) {
    if (!is_rank) complain(absl::StrCat(name, " is not measured here"), 0);
  }
  if (options->ops.empty()) return 0;
  const auto old = bench::read_old_run(*options);
  if (!old.ok()) return complain(old.status().message(), kUsage);
  if (is_rank) return run_as_rank(*options, kinds, place, *old);
  return start_ranks(*options, words, arguments);
}

}  // namespace distwrap::cli
