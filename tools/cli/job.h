// A running job: its store, its ranks, its end.
//
// Threads: the thread that made it. Ownership: everything that the job starts.
#ifndef DISTWRAP_TOOLS_CLI_JOB_H_
#define DISTWRAP_TOOLS_CLI_JOB_H_

#include "child.h"
#include "launcher.h"
#include "nodes.h"
#include "output.h"
#include "store/relay.h"
#include "store/run_directory.h"
#include "store/server.h"

#include <absl/status/status.h>
#include <absl/time/time.h>
#include <uv.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::cli {

class Job {
 public:
  explicit Job(const LaunchOptions& options);
  // Ends the ranks that still run.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  absl::Status start(const std::string& program);
  // Runs until all ranks have ended and their output is written; returns the
  // exit code.
  int run();

 private:
  struct Rank {
    int number = 0;  // in the job
    pid_t pid = -1;
    bool lives = false;
    std::unique_ptr<Source> out, err;
  };
  // The end of a rank.
  struct End {
    Rank* rank;
    int code;    // exit code
    int signal;  // signal that killed the rank, else 0
  };
  enum class Stage { kGathering, kRunning, kGrace, kTerm, kKill };
  // The time for ranks to end after SIGTERM, and for other nodes to hear that
  // this one leaves.
  static constexpr absl::Duration kTermTime = absl::Seconds(2);

  // ---- job_nodes.cc ----

  // Serves the store, or carries that of node 0, and waits for all nodes.
  absl::Status open_store();
  absl::Status gather();
  void on_nodes();
  bool nodes_have_ended();

  // ---- job_ranks.cc ----

  absl::Status start_rank(int local, const std::string& program);
  absl::Status open_descriptors(Rank* rank, ChildSpec* spec,
                                std::vector<int>* to_close);
  std::vector<std::string> environment_of(int local) const;

  // ---- job.cc ----

  void take_signals();
  void on_signal(int signal);
  void on_children();
  void on_end(const End& end);
  void next_stage();
  void set_timer(absl::Duration after);
  void signal_all(int signal);
  bool is_done();
  void close_sources();
  void say(absl::string_view text);
  int living() const;

  const LaunchOptions& options_;
  SignalState signal_state_;
  uv_loop_t loop_ = {};
  uv_timer_t timer_ = {};
  std::vector<std::unique_ptr<uv_signal_t>> signals_;
  std::optional<store::RunDirectory> directory_;
  std::unique_ptr<store::Server> server_;
  std::unique_ptr<store::Relay> relay_;
  std::string job_id_;
  // With several nodes only; `news_` wakes the loop for them.
  uv_async_t news_ = {};
  std::unique_ptr<Nodes> nodes_;
  store::TlsPsk meeting_psk_;
  bool told_leaving_ = false, leaves_ = false;
  int first_rank_ = 0, world_size_ = 0;
  std::string own_address_;  // this host's, in the network of the nodes
  std::vector<int> cores_;   // one core for each rank, or empty
  std::optional<Sink> out_, err_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  Stage stage_ = Stage::kGathering;
  int signalled_ = 0;  // the signal that asked the job to end
  int code_ = 0;
};

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_JOB_H_
