// The processes of a try, as the director sees them: each runs this program
// again, as one rank. They meet at a store of the director, which is on the
// first host. The director is the agent of each other host, or a rank there is.
//
// Threads: one. Ownership: processes that still run are killed with the object.
//
//   Job job(setting, patience);
//   if (!job.wait_until([&] { return job.page(0).ready.load(); })) ...
//   job.wait_for_all();
#ifndef DISTWRAP_TESTS_CHAOS_JOB_H_
#define DISTWRAP_TESTS_CHAOS_JOB_H_

#include "chaos/ledger.h"
#include "chaos/setting.h"
#include "distwrap/deadline.h"
#include "hosts/hosts.h"
#include "store/run_directory.h"
#include "store/server_thread.h"
#include "unit/store/agent_thread.h"

#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace distwrap::chaos {

class Job {
 public:
  // `preload`: a library for LD_PRELOAD, or empty. `hosts`: of a setting with
  // several.
  Job(const Setting& setting, absl::Duration patience,
      const std::string& preload, const hosts_test::Hosts* hosts);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Ledger& ledger() { return *memory_; }
  RankPage& page(int rank) {
    return (*memory_).ranks[static_cast<size_t>(rank)];
  }
  int size() const { return static_cast<int>(ranks_.size()); }

  // The port of the store between hosts.
  static constexpr int kStorePort = 29600;
  const hosts_test::Hosts& hosts() const { return *hosts_; }
  // Whether all ranks have said that they are ready.
  bool all_ready();
  // Ends the store, or the agent of another host than the first.
  void end_store() { server_.reset(); }
  // The present number of the store's clients, strangers among them.
  size_t clients_of_store() const { return server_->server().connections(); }
  void end_agent(int host) { agents_[static_cast<size_t>(host) - 1].reset(); }

  // The rank that is the agent of a host; -1 while none is.
  int agent_of(const Setting& setting, int host) const;

  void signal(int rank, int number) const;
  pid_t pid(int rank) const { return at(rank).pid; }
  // False when the condition did not become true within the patience of the
  // try, or all ranks ended before.
  bool wait_until(const std::function<bool()>& condition);
  // Waits until all have ended; false when the patience is over.
  bool wait_for_all();
  // Exit code, 128 + signal, or -1 while the rank runs.
  int end_of(int rank) const { return at(rank).end; }
  // The rank's output on stdout and stderr.
  std::string said(int rank) const;
  // The ranks that still run, with their last entries in the ledger.
  std::string who_hangs();

 private:
  struct Rank {
    pid_t pid = -1;
    int end = -1;
    int output = -1;
  };
  std::unique_ptr<store::ServerThread> serve(const Setting& setting);
  std::string store_for(int host) const;
  const Rank& at(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  void start(const Setting& setting, int rank, const std::string& preload);
  // Whether any rank still runs.
  bool reap();

  LedgerMemory memory_;
  store::RunDirectory directory_;
  const hosts_test::Hosts* const hosts_;
  // The first one is on host 1.
  std::vector<std::unique_ptr<store::AgentThread>> agents_;
  std::unique_ptr<store::ServerThread> server_;
  const Deadline deadline_;
  pid_t process_group_ = 0;
  std::vector<Rank> ranks_;
};

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_JOB_H_
