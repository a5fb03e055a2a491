#include "run_command.h"

#include "launcher.h"
#include "plugin/module_paths.h"
#include "store/job_key.h"

#include <CLI/CLI.hpp>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

namespace distwrap::cli {
namespace {

constexpr char kName[] = "distwrap run";
constexpr char kAbout[] =
    "Runs N ranks of a program on this host:\n  distwrap run -n N [options] "
    "[--] program [arguments]\nor this host's part of a job on several hosts:"
    "\n  distwrap run --nnodes M --node-rank K --rdzv HOST:PORT -n N program";
constexpr char kFooter[] =
    "Each rank gets DISTWRAP_RANK, _WORLD_SIZE, _LOCAL_RANK, "
    "_LOCAL_WORLD_SIZE, _STORE and\n_JOB_ID. Rank 0 reads the standard input "
    "unless it is a terminal.\n\n"
    "Signals (INT, TERM, HUP, QUIT, USR1, USR2) go to all ranks. When a rank "
    "fails, the\nothers have the grace period to end by themselves; then they "
    "get TERM, then KILL.\n\n"
    "With several nodes, node 0 serves the job at HOST:PORT, which asks for "
    "the job's key\n(DISTWRAP_JOB_KEY); the other nodes wait for it. A node "
    "that fails ends all.\n\n"
    "Exit code: 0; that of the first rank that failed, 128 + signal if it was "
    "killed;\n127 program not found; 126 not executable; 2 bad options; 1 not "
    "started.\n\n"
    "Examples:\n"
    "  distwrap run -n 4 ./train --epochs 3\n"
    "  distwrap run -n 2 --output logs -- python3 train.py\n"
    "  distwrap run --make-key job.key";

constexpr int kMostNodes = 4096;

// The fault of the options about several nodes; "" for none.
std::string fault_of_nodes(const LaunchOptions& options,
                           const std::string& meeting) {
  if (options.nodes < 1 || options.nodes > kMostNodes)
    return absl::StrCat("--nnodes ", options.nodes, ": 1 to ", kMostNodes,
                        " are possible");
  if (options.node < 0 || options.node >= options.nodes)
    return absl::StrCat("--node-rank ", options.node, ": ", options.nodes,
                        " nodes have the numbers 0 to ", options.nodes - 1);
  if (options.nodes > 1 && meeting.empty())
    return "--nnodes needs --rdzv HOST:PORT, the address of node 0";
  if (!meeting.empty() && !store::HostPort::parse(meeting).has_value())
    return absl::StrCat("--rdzv ", meeting,
                        ": HOST:PORT is needed, the port from 1 to 65535");
  return "";
}

// The number of this host by the system that has started the command there.
std::optional<int> node_of_environment() {
  for (const char* const name : {"JOB_COMPLETION_INDEX", "SLURM_NODEID"}) {
    int node = 0;
    const char* const text = std::getenv(name);
    if (text != nullptr && absl::SimpleAtoi(text, &node)) return node;
  }
  return std::nullopt;
}

int complain(absl::string_view text, int code) {
  std::fprintf(stderr, "distwrap run: %s\n", std::string(text).c_str());
  return code;
}

struct RunWords {
  LaunchOptions options = {};
  std::string output = "prefix", meeting = {}, key_file = {};
  std::optional<int> node = {};
  bool guard = false;
  double grace = absl::ToDoubleSeconds(LaunchOptions{}.grace);
};

void describe(CLI::App& app, RunWords& words) {
  app.footer(kFooter);
  // The first word that is no option is the program; the words behind it are
  // the program's.
  app.prefix_command();
  app.add_option("-n,--ranks", words.options.ranks,
                 "Number of ranks on this host")
      ->type_name("N");
  app.add_option("--nnodes", words.options.nodes, "Number of hosts")
      ->capture_default_str()
      ->type_name("M");
  app.add_option("--node-rank", words.node,
                 "Number of this host, from 0 on; without it that of "
                 "Kubernetes (JOB_COMPLETION_INDEX) or Slurm (SLURM_NODEID)")
      ->type_name("K");
  app.add_option("--rdzv", words.meeting,
                 "Address of node 0 that all hosts reach")
      ->type_name("HOST:PORT");
  app.add_option("--make-key", words.key_file,
                 "Write a new job key to FILE, and run nothing")
      ->type_name("FILE");
  app.add_option("--output", words.output,
                 "prefix: '[rank] ' before each line; raw: unchanged; "
                 "otherwise a folder for rank-<rank>.out and .err")
      ->capture_default_str()
      ->type_name("HOW");
  app.add_option("--grace", words.grace,
                 "Seconds that other ranks have to end after a rank failed")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e9).description(""))
      ->type_name("S");
  app.add_flag("--guard", words.guard,
               "Preload the door that refuses direct calls of NCCL, MPI, UCX "
               "and Gloo, and set DISTWRAP_GUARD=block unless it is set");
  app.add_flag("--pin", words.options.pin,
               "Bind rank i to core i, if there are enough cores");
}

}  // namespace

CommandText run_text() {
  RunWords words;
  CLI::App app(kAbout, kName);
  describe(app, words);
  return text_of(app);
}

int run_command(const Words& arguments) {
  RunWords words;
  CLI::App app(kAbout, kName);
  describe(app, words);
  if (const std::optional<int> code = parse(app, arguments)) return *code;

  LaunchOptions& options = words.options;
  if (!words.key_file.empty()) {
    const absl::Status made = store::JobKey::make_file(words.key_file);
    return made.ok() ? 0 : complain(made.message(), kFailed);
  }
  options.argv = app.remaining();
  if (!options.argv.empty() && absl::StartsWith(options.argv.front(), "-") &&
      options.argv.front() != "--")
    return complain(unknown_option(app, options.argv.front()), kUsage);
  if (!options.argv.empty() && options.argv.front() == "--")
    options.argv.erase(options.argv.begin());
  if (app.count("--ranks") == 0)
    return complain("--ranks (-n) is required", kUsage);
  if (app.count("--nnodes") == 0 &&
      (words.node.has_value() || !words.meeting.empty()))
    return complain(
        "--node-rank and --rdzv need --nnodes M, the number of hosts", kUsage);
  if (!words.node.has_value() && options.nodes > 1)
    words.node = node_of_environment();
  options.node = words.node.value_or(0);
  if (const std::string fault = fault_of_nodes(options, words.meeting);
      !fault.empty())
    return complain(fault, kUsage);
  if (options.nodes > 1 && !words.node.has_value())
    return complain("--nnodes needs --node-rank K, the number of this host",
                    kUsage);
  if (options.nodes > 1)
    options.meeting = *store::HostPort::parse(words.meeting);
  if (options.argv.empty())
    return complain("no program is given; see distwrap run --help", kUsage);
  if (options.ranks < 1)
    return complain(
        absl::StrCat("-n ", options.ranks, ": at least one rank is needed"),
        kUsage);
  options.grace = absl::Seconds(words.grace);
  if (words.output == "raw") {
    options.output = LaunchOptions::kPassThrough;
  } else if (words.output == "prefix") {
    options.output = LaunchOptions::kPrefix;
  } else {
    options.output = LaunchOptions::kFiles;
    options.output_dir = words.output;
  }
  if (words.guard) {
    const std::string door = plugin::guard_path();
    if (door.empty())
      return complain("--guard: this installation has no libdistwrap_guard.so",
                      kUsage);
    const char* const before = getenv("LD_PRELOAD");
    options.env["LD_PRELOAD"] =
        before == nullptr ? door : absl::StrCat(door, ":", before);
    if (getenv("DISTWRAP_GUARD") == nullptr)
      options.env["DISTWRAP_GUARD"] = "block";
  }
  const absl::StatusOr<int> code = launch(options);
  if (!code.ok()) return complain(code.status().message(), kFailed);
  return *code;
}

}  // namespace distwrap::cli
