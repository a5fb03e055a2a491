// Ranks that are processes and are killed or stopped.
#include "base/settings.h"
#include "distwrap/store.h"
#include "errors/fault.h"
#include "store/run_directory.h"
#include "store/server_thread.h"
#include "unit/cli/process.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace distwrap::faults {
namespace {

using cli::Process;
using nlohmann::json;

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

// The processes of one job, which meet in a store of this process.
class Job {
 public:
  Job(int ranks, const std::string& scenario,
      const std::map<std::string, std::string>& settings)
      : directory_(*store::RunDirectory::make(base::Environment::of_process())),
        server_(*store::ServerThread::start(directory_.path() + "/store")) {
    for (int rank = 0; rank < ranks; ++rank)
      start(rank, ranks, scenario, settings);
  }

  Process& start(int rank, int size, const std::string& scenario,
                 std::map<std::string, std::string> settings) {
    settings["DISTWRAP_RANK"] = std::to_string(rank);
    settings["DISTWRAP_WORLD_SIZE"] = std::to_string(size);
    settings["DISTWRAP_STORE"] = server_->address();
    ranks_.push_back(std::make_unique<Process>(
        std::vector<std::string>{"/proc/self/exe", "--rank", scenario},
        Process::Options{.env = settings}));
    return *ranks_.back();
  }

  Process& rank(int r) { return *ranks_[static_cast<size_t>(r)]; }
  void wait_until_ready() {
    for (const auto& rank : ranks_) rank->read_until("ready\n", 1);
  }
  // The error that the process of a rank has printed.
  json error(int r) {
    rank(r).wait();
    const std::string& out = rank(r).out();
    const size_t at = out.find("error ");
    if (at == std::string::npos) return error_json(absl::OkStatus());
    return json::parse(out.substr(at + 6, out.find('\n', at) - at - 6));
  }

 private:
  store::RunDirectory directory_;
  std::unique_ptr<store::ServerThread> server_;
  std::vector<std::unique_ptr<Process>> ranks_;
};

struct Operation {
  const char *name, *scenario;
};

const std::vector<Operation> kOperations = {{"all_reduce", "all_reduce"},
                                            {"barrier", "barrier"},
                                            {"broadcast", "broadcast"}};

// Reports the errors of all ranks except `lost`.
void report_loss(Job& job, const std::string& fault, int ranks, int lost,
                 const std::string& op, const std::string& how,
                 std::optional<HowLong> how_long, const std::string& next) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == lost) continue;
    report(
        fault, job.error(rank),
        {.reason = Reason::kPeerLost,
         .what = {how},
         .where = Where{.op = op, .rank = rank},
         .who =
             Who{.ranks = {lost}, .pids = {job.rank(lost).pid()}, .seen = true},
         .how_long = how_long,
         .next = next});
  }
}

void killed(Choices& choices, const std::string& backend) {
  constexpr int kRanks = 3;
  const Operation& op = choices.of(kOperations);
  const int lost = choices.below(kRanks);
  Job job(kRanks, op.scenario, {{"DISTWRAP_BACKEND", backend}});
  job.wait_until_ready();
  job.rank(lost).signal(SIGKILL);
  report_loss(job, "killed_rank_over_" + backend, kRanks, lost, op.name,
              "a rank has ended", std::nullopt, "that rank's own output");
}

void stopped(Choices& choices) {
  constexpr int kRanks = 3;
  const Operation& op = choices.of(kOperations);
  const int lost = choices.below(kRanks);
  Job job(kRanks, op.scenario,
          {{"DISTWRAP_BACKEND", "gloo"}, {"DISTWRAP_HEARTBEAT", "0.5"}});
  job.wait_until_ready();
  job.rank(lost).signal(SIGSTOP);
  report_loss(job, "stopped_rank", kRanks, lost, op.name, "stopped running",
              HowLong{absl::Milliseconds(500), "DISTWRAP_HEARTBEAT"},
              "stopped");
  job.rank(lost).signal(SIGKILL);
}

void exits(Choices& choices) {
  constexpr int kRanks = 2;
  const int lost = choices.below(kRanks);
  Job job(kRanks, "exits_" + std::to_string(lost),
          {{"DISTWRAP_BACKEND", "gloo"}});
  report_loss(job, "rank_that_exits", kRanks, lost, "all_reduce",
              "a rank has ended", std::nullopt, "that rank's own output");
}

void taken(Choices& choices) {
  constexpr int kRanks = 2;
  const int twice = choices.below(kRanks);
  const std::map<std::string, std::string> settings = {
      {"DISTWRAP_BACKEND", "gloo"}};
  Job job(kRanks, "barrier", settings);
  job.wait_until_ready();
  job.start(twice, kRanks, "barrier", settings);
  report("rank_that_is_taken", job.error(kRanks),
         {.reason = Reason::kRefused,
          .what = {"rank " + std::to_string(twice), "taken"},
          .where = Where{.op = "init", .rank = twice},
          .who = Who{.ranks = {twice}, .pids = {job.rank(twice).pid()}},
          .next = "start each rank once"});
  for (int rank = 0; rank < kRanks; ++rank) job.rank(rank).signal(SIGKILL);
}

}  // namespace

int rank_main(const std::string& scenario) {
  const absl::StatusOr<Session> session = init_process_group();
  if (!session.ok()) {
    say("error " + error_json(session.status()).dump());
    return 3;
  }
  std::vector<float> x(1024);
  const auto once = [&]() -> absl::Status {
    if (scenario == "barrier") return barrier().status();
    if (scenario == "broadcast")
      return broadcast(TensorView(x), Peer::group(0)).status();
    return all_reduce(TensorView(x), ReduceOp::kMax).status();
  };
  absl::Status status = once();
  if (status.ok()) say("ready");
  if (scenario == "exits_" + std::to_string(session->rank())) std::_Exit(7);
  while (status.ok()) status = once();
  say("error " + error_json(status).dump());
  destroy_process_group().IgnoreError();
  return 0;
}

void of_processes(Choices& choices) {
  killed(choices, "gloo");
  killed(choices, "shm");
  stopped(choices);
  exits(choices);
  taken(choices);
}

}  // namespace distwrap::faults
