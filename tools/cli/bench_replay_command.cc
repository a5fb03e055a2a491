#include "bench_replay_command.h"

#include "bench/progress.h"
#include "bench/replay/play.h"
#include "bench/replay/read.h"
#include "distwrap/distwrap.h"
#include "ranks_bench.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <cstdio>
#include <fstream>

namespace distwrap::cli {
namespace {

constexpr int kMostRepeats = 1'000'000;

constexpr OptionRow kOptions[] = {
    {"dump", "PATH",
     "Folder of recordings or of PARAM traces, or one such file"},
    {"--backend", "NAME", "Backend to replay on (shm)"},
    {"--ranks", "N", "Number of ranks, if not the job's"},
    {"--repeat", "N", "How often (1)"},
    {"--dry-run", nullptr, "Check the input and print the plan"},
    {"--json", nullptr, "As JSON"},
};

constexpr CommandRow kReplay = {
    "bench replay", "Repeats the operations of a job and measures them.",
    kOptions,
    "PATH is a folder that the recorder saved (DISTWRAP_RECORDER_DIR), or "
    "comms traces of\nPARAM's commsTraceReplay: rank0.json, rank1.json, ... or "
    "one for all ranks. Groups,\nsizes, element types, roots, peers and the "
    "order are those of the job; the data are\nzeros, and the time between the "
    "calls is left out. The whole input is checked before\nanything starts.\n\n"
    "Examples:\n"
    "  distwrap bench replay recordings --dry-run\n"
    "  distwrap bench replay recordings --backend shm --ranks 8 --json\n\n"
    "Exit code: 0; 1 when ranks failed; 2 for bad options and for what cannot "
    "be replayed."};

struct Options {
  std::string dump, backend = "shm";
  int ranks = 0, repeat = 1;
};

absl::StatusOr<bench::ReplayScript> script_for(const Options& options) {
  absl::StatusOr<bench::ReplayScript> script = bench::read_replay(options.dump);
  if (!script.ok() || options.ranks == 0) return script;
  return bench::scaled(*script, options.ranks);
}

absl::Status play_as_rank(const Options& options, const std::string& path) {
  const absl::StatusOr<bench::ReplayScript> script = script_for(options);
  if (!script.ok()) return script.status();
  const absl::StatusOr<Session> session =
      init_process_group({.backend = options.backend});
  if (!session.ok()) return session.status();
  const absl::StatusOr<bench::ReplayTimes> times =
      bench::play(*script, options.repeat);
  if (!times.ok()) return times.status();
  if (get_rank() == 0) std::ofstream(path) << bench::write_times(*times);
  return destroy_process_group();
}

std::optional<absl::Status> measure(const Words& words) {
  Options options;
  if (words.size() != 5 || !absl::SimpleAtoi(words[2], &options.ranks) ||
      !absl::SimpleAtoi(words[3], &options.repeat))
    return std::nullopt;
  options.dump = words[0];
  options.backend = words[1];
  return play_as_rank(options, words[4]);
}

absl::StatusOr<Options> check(const Typed& typed) {
  Options options;
  options.dump = typed.value("dump").value_or("");
  if (options.dump.empty())
    return absl::InvalidArgumentError(
        "no input: give the PATH of what to replay");
  options.backend = typed.value("--backend").value_or(options.backend);
  absl::Status read =
      read_number(typed, "--ranks", 1, bench::kMostReplayRanks, &options.ranks);
  if (read.ok())
    read = read_number(typed, "--repeat", 1, kMostRepeats, &options.repeat);
  if (!read.ok()) return read;
  return options;
}

}  // namespace

CommandText bench_replay_text() { return text_of(kReplay); }

int bench_replay_command(const Words& given) {
  Words words = given;
  if (take_as_rank(&words)) return end_rank(kReplay, measure(words));
  Typed typed;
  if (const auto code = parse(kReplay, words, &typed)) return *code;
  const absl::StatusOr<Options> options = check(typed);
  if (!options.ok())
    return complain(kReplay, options.status().message(), kUsage);
  if (const auto code = refuse_in_job(kReplay)) return *code;
  const absl::StatusOr<bench::ReplayScript> script = script_for(*options);
  if (!script.ok()) return complain(kReplay, script.status().message(), kUsage);
  if (typed.has("--dry-run")) {
    std::fputs(
        typed.has("--json")
            ? bench::replay_json(*script, nullptr, options->backend, 0).c_str()
            : bench::show_plan(*script, options->backend).c_str(),
        stdout);
    return 0;
  }
  const bench::Progress progress;
  progress.show(absl::StrCat("replaying on ", script->size(), " ranks\n"));
  const absl::StatusOr<std::string> told =
      ask_ranks(kReplay, script->size(),
                {options->dump, options->backend, absl::StrCat(options->ranks),
                 absl::StrCat(options->repeat)});
  if (!told.ok()) return complain(kReplay, told.status().message(), kFailed);
  const absl::StatusOr<bench::ReplayTimes> times =
      bench::read_replay_times(*told);
  if (!times.ok()) return complain(kReplay, times.status().message(), kFailed);
  std::fputs(typed.has("--json")
                 ? bench::replay_json(*script, &*times, options->backend,
                                      options->repeat)
                       .c_str()
                 : bench::show_replay(*script, *times, options->backend,
                                      options->repeat)
                       .c_str(),
             stdout);
  return 0;
}

}  // namespace distwrap::cli
