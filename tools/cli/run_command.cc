#include "run_command.h"

#include "launcher.h"

#include <CLI/CLI.hpp>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdio>

namespace distwrap::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr char kFooter[] =
    "Each rank gets DISTWRAP_RANK, _WORLD_SIZE, _LOCAL_RANK, "
    "_LOCAL_WORLD_SIZE, _STORE and\n_JOB_ID. Rank 0 reads the standard input "
    "unless it is a terminal.\n\n"
    "Signals (INT, TERM, HUP, QUIT, USR1, USR2) go to all ranks. When a rank "
    "fails, the\nothers have the grace period to end by themselves, then they "
    "get TERM, then KILL.\n\n"
    "Exit code: 0; that of the first rank that failed, 128 + signal if it was "
    "killed;\n127 program not found; 126 not executable; 2 bad options; 1 not "
    "started.\n\n"
    "Examples:\n"
    "  distwrap run -n 4 ./train --epochs 3\n"
    "  distwrap run -n 2 --output logs -- python3 train.py";

int complain(absl::string_view text, int code) {
  std::fprintf(stderr, "distwrap run: %s\n", std::string(text).c_str());
  return code;
}

}  // namespace

int run_command(const std::vector<std::string>& arguments) {
  LaunchOptions options;
  std::string output = "prefix";
  double grace = absl::ToDoubleSeconds(options.grace);

  CLI::App app(
      "Runs N ranks of a program on this host:\n  distwrap run -n N [options] "
      "[--] program [arguments]",
      "distwrap run");
  app.footer(kFooter);
  // The first word that is no option is the program; all else is its own.
  app.prefix_command();
  app.add_option("-n,--ranks", options.ranks, "How many ranks")->required();
  app.add_option("--output", output,
                 "prefix: '[rank] ' before each line; raw: as it is; else a "
                 "folder for rank-<rank>.out and .err")
      ->capture_default_str();
  app.add_option("--grace", grace, "Seconds the others have once a rank failed")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e9));
  app.add_flag("--pin", options.pin, "Rank i on core i, if there are enough");
  try {
    std::vector<std::string> words = arguments;
    std::reverse(words.begin(), words.end());  // as CLI11 wants a vector
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }

  options.argv = app.remaining();
  if (!options.argv.empty() && options.argv.front() == "--")
    options.argv.erase(options.argv.begin());
  if (options.argv.empty())
    return complain("no program is given; see distwrap run --help", kUsage);
  if (absl::StartsWith(options.argv.front(), "-"))
    return complain(absl::StrCat("unknown option ", options.argv.front(),
                                 "; see distwrap run --help"),
                    kUsage);
  if (options.ranks < 1)
    return complain(
        absl::StrCat("-n ", options.ranks, ": at least one rank is needed"),
        kUsage);
  options.grace = absl::Seconds(grace);
  if (output == "raw") {
    options.output = LaunchOptions::kPassThrough;
  } else if (output == "prefix") {
    options.output = LaunchOptions::kPrefix;
  } else {
    options.output = LaunchOptions::kFiles;
    options.output_dir = output;
  }
  const absl::StatusOr<int> code = launch(options);
  if (!code.ok()) return complain(code.status().message(), kFailed);
  return *code;
}

}  // namespace distwrap::cli
