#include "commands.h"

#include "bench_command.h"
#include "bench_groups_command.h"
#include "bench_objects_command.h"
#include "bench_replay_command.h"
#include "bench_tune_command.h"
#include "doctor_command.h"
#include "info_command.h"
#include "manual_command.h"
#include "run_command.h"

namespace distwrap::cli {

absl::Span<const Command> commands() {
  static constexpr Command kCommands[] = {
      {"bench", "measure operations between ranks", bench_command, bench_text},
      {"bench groups", "measure what making and ending groups costs",
       bench_groups_command, bench_groups_text},
      {"bench objects", "measure what objects between ranks cost",
       bench_objects_command, bench_objects_text},
      {"bench replay", "do again what a job did, and measure it",
       bench_replay_command, bench_replay_text},
      {"bench tune", "measure from which sizes on other ways are faster",
       bench_tune_command, bench_tune_text},
      {"completion", "print completion for a shell", completion_command,
       completion_text},
      {"doctor", "look for what would break or slow a job here", doctor_command,
       doctor_text},
      {"info", "show build, backends, settings and launcher", info_command,
       info_text},
      {"man", "print the manual page", man_command, man_text},
      {"run", "run N ranks of a program on this host", run_command, run_text},
  };
  return kCommands;
}

}  // namespace distwrap::cli
