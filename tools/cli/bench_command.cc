#include "bench_command.h"

#include "base/settings.h"
#include "bench/options.h"
#include "bench/rank.h"
#include "bench/sweep.h"
#include "launcher.h"
#include "store/launch_info.h"

#include <CLI/CLI.hpp>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
namespace distwrap::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int complain(absl::string_view text, int code) {
  std::fprintf(stderr, "distwrap bench: %s\n", std::string(text).c_str());
  return code;
}

std::string footer(const std::vector<bench::ContestantKind>& kinds) {
  std::string text =
      "Operations: barrier all_reduce all_gather reduce_scatter broadcast "
      "all_to_all send_recv all\n\n";
  if (!kinds.empty()) {
    text += "To compare with (--vs):\n";
    for (const auto& kind : kinds) {
      absl::StrAppend(&text, "  ", kind.name, ": ", kind.summary, "\n");
    }
    text += "\n";
  }
  text +=
      "Bytes are those of the larger buffer of a rank. algbw is bytes / p50, "
      "busbw what the\nbusiest link carries. All results are checked, outside "
      "of what is timed.\n\n"
      "Examples:\n"
      "  distwrap bench\n"
      "  distwrap bench all_reduce -b 8 -e 64M -f 2 --ranks 4\n"
      "  distwrap bench all --backend gloo --rounds 21 --plot result.svg\n"
      "  distwrap run -n 2 distwrap bench all_reduce --sizes 8,4K,1M\n\n"
      "Exit code: 0; 1 when it failed or a result was wrong; 2 for bad "
      "options.";
  return text;
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
         "Backends, separated by commas; they take turns. none with --vs")
      ->capture_default_str()
      ->group(job)
      ->type_name("NAME,...");
  app.add_option("--hint", words.hints, "key=value for the backends")
      ->group(job)
      ->type_name("KEY=VALUE");
  app.add_option("--pin", words.pin, "Rank i on core i: 0 or 1")
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
  app.add_option("-f,--factor", words.factor, "From one size to the next")
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
  app.add_option("-r,--root", words.root, "Root of a broadcast")
      ->capture_default_str()
      ->group(sizes)
      ->type_name("RANK");

  const char* const measuring = "Measuring";
  app.add_option("--seconds", words.seconds,
                 "Time of one timed loop, for each contestant and round")
      ->capture_default_str()
      ->group(measuring)
      ->type_name("S");
  app.add_option("--rounds", words.rounds,
                 "Loops for each; contestants alternate. 21 for claims")
      ->capture_default_str()
      ->group(measuring)
      ->type_name("N");
  app.add_option("-n,--iters", words.iterations,
                 "Iterations of a loop, in place of --seconds")
      ->group(measuring)
      ->type_name("N");
  app.add_option("-w,--warmup", words.warmup, "Calls to warm up by")
      ->group(measuring)
      ->type_name("N");
  app.add_option("-c,--check", words.check, "Check results: 0 or 1")
      ->capture_default_str()
      ->group(measuring)
      ->type_name("0|1");
  app.add_option("--vs", words.vs, "What to compare with, see below")
      ->group(measuring)
      ->type_name("NAME,...");
  app.add_flag("--control", words.control,
               "Also compare the yardstick with a copy of itself")
      ->group(measuring);

  const char* const output = "Output";
  app.add_flag("--json", words.json, "One JSON line for each result")
      ->group(output);
  app.add_option("--json-file", words.json_file, "The whole run as JSON")
      ->group(output)
      ->type_name("FILE");
  app.add_option("--csv", words.csv, "As CSV, without a file to stdout")
      ->group(output)
      ->type_name("FILE");
  app.add_option("--plot", words.plot, "Latency and bandwidth as SVG")
      ->group(output)
      ->type_name("FILE");
}

// What cannot be written is said before anything is measured.
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
                const store::LaunchInfo& launch) {
  auto store = Store::connect(launch.store_address,
                              Deadline::after(absl::Seconds(options.timeout)));
  if (!store.ok()) return complain(store.status().message(), kFailed);
  const bench::Place place{launch.rank, launch.world_size, launch.local_rank,
                           launch.local_world_size, *store};
  const absl::Status status = bench::run_rank(options, kinds, place);
  if (status.ok()) return 0;
  if (place.rank != 0 && bench::told_by_rank_0(status)) return kFailed;
  return complain(status.message(), kFailed);
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
  // Our ranks have nothing to save when one of them is gone.
  launch_options.grace = absl::Seconds(1);
  const auto code = launch(launch_options);
  if (!code.ok()) return complain(code.status().message(), kFailed);
  return *code;
}

}  // namespace

int bench_command(const std::vector<std::string>& arguments) {
  return run_bench({"bench"}, arguments, {});
}

int run_bench(const std::vector<std::string>& words,
              const std::vector<std::string>& arguments,
              const std::vector<bench::ContestantKind>& kinds) {
  bench::Words typed;
  CLI::App app(
      "Measures operations between ranks: latency, bandwidth, correctness.",
      "distwrap bench");
  describe(app, typed);
  app.footer(footer(kinds));
  try {
    auto spelled = bench::spell_out(arguments);
    std::reverse(spelled.begin(), spelled.end());  // as CLI11 wants a vector
    app.parse(std::move(spelled));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
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
  if (is_rank) return run_as_rank(*options, kinds, place);
  return start_ranks(*options, words, arguments);
}

}  // namespace distwrap::cli
