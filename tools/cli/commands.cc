#include "commands.h"

#include "bench_command.h"
#include "bench_dispatch_command.h"
#include "bench_groups_command.h"
#include "bench_moe_command.h"
#include "bench_objects_command.h"
#include "bench_redistribute_command.h"
#include "bench_replay_command.h"
#include "bench_tune_command.h"
#include "doctor_command.h"
#include "info_command.h"
#include "manual_command.h"
#include "plan_command.h"
#include "run_command.h"

namespace distwrap::cli {

absl::Span<const Command> commands() {
  static constexpr Command kCommands[] = {
      {"bench", "measure operations between ranks", bench_command, bench_text},
      {"bench dispatch", "measure the cost of calling operators",
       bench_dispatch_command, bench_dispatch_text},
      {"bench groups", "measure the cost of making and ending groups",
       bench_groups_command, bench_groups_text},
      {"bench moe", "measure exchanges of mixtures of experts",
       bench_moe_command, bench_moe_text},
      {"bench objects", "measure the cost of objects between ranks",
       bench_objects_command, bench_objects_text},
      {"bench redistribute", "measure moves of tensors between layouts",
       bench_redistribute_command, bench_redistribute_text},
      {"bench replay", "repeat the operations of a job and measure them",
       bench_replay_command, bench_replay_text},
      {"bench tune", "measure the sizes from which other methods are faster",
       bench_tune_command, bench_tune_text},
      {"completion", "print completion for a shell", completion_command,
       completion_text},
      {"doctor", "look for problems that would break or slow a job",
       doctor_command, doctor_text},
      {"info", "show build, backends, settings and launcher", info_command,
       info_text},
      {"man", "print the manual page", man_command, man_text},
      {"plan", "show how a tensor gets from one layout to another",
       plan_command, plan_text},
      {"run", "run N ranks of a program on this host", run_command, run_text},
  };
  return kCommands;
}

}  // namespace distwrap::cli
