// The nodes of one job: each is a `distwrap run` on a host of its own. They
// gather at the store that node 0 serves, count the ranks, and hear from each
// other when a node has failed, has gone or is done.
//
// Threads: the thread that made it; the work, which waits for the network, is
// done in a thread of its own, which calls `wake` when there is news.
// Ownership: destruction ends the thread.
//
//   Nodes nodes({.count = 2, .node = 1}, [] { uv_async_send(&async); });
//   nodes.join(place, 4, "");
//   if (nodes.joined()) start_ranks(nodes.joined()->first_rank);
#ifndef DISTWRAP_TOOLS_CLI_NODES_H_
#define DISTWRAP_TOOLS_CLI_NODES_H_

#include "base/mutex.h"
#include "distwrap/deadline.h"
#include "store/client.h"
#include "store/news_line.h"
#include "store/store_place.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace distwrap::cli {

class Nodes final : private store::NewsLine::Listener {
 public:
  struct Plan {
    int count = 1, node = 0;
    absl::Duration patience;  // for the other nodes
    absl::Duration silence;   // after this time a node counts as lost
  };
  // The result that the nodes have agreed on.
  struct Joined {
    int first_rank = 0, world_size = 0;
    std::string job_id = {};
    std::string root = {};  // where node 0 listens
  };

  Nodes(Plan plan, std::function<void()> wake)
      : plan_(plan), wake_(std::move(wake)) {}
  ~Nodes();

  // Starts to gather, with so many ranks here. `job_id` and `root` are node
  // 0's. Errors: of base::start_thread.
  absl::Status join(store::StorePlace place, int ranks, std::string job_id,
                    std::string root);

  // Nullopt as long as nodes are missing. Errors: kRefused when the node is
  // taken, late or started otherwise, with both hosts and processes; kTimedOut
  // with the missing nodes; those of connect_to.
  std::optional<absl::StatusOr<Joined>> joined();
  // Why the job fails on other nodes, each text once.
  std::vector<std::string> take_failures();
  // Whether every node is done, or has failed.
  bool all_ended();
  // Whether nobody needs the store of node 0 any more.
  bool may_leave();

  void tell_failure(const std::string& text);
  // All ranks here have ended well.
  void tell_done();
  // This node is about to leave.
  void tell_leaving();

 private:
  absl::StatusOr<Joined> gather();
  absl::Status take_place();
  absl::Status check_terms();
  absl::StatusOr<Joined> count_ranks(const std::vector<std::string>& cards);
  absl::StatusOr<std::vector<std::string>> wait_for_all();
  void run();
  void say(std::string entry);
  bool ends();

  // store::NewsLine::Listener
  void on_news(absl::string_view text) override;
  void on_line_lost(absl::string_view cause, bool is_silent) override;

  const Plan plan_;
  const std::function<void()> wake_;
  std::optional<store::StorePlace> place_;
  int ranks_ = 0;
  std::string job_id_, root_;
  Deadline until_;
  std::shared_ptr<store::ClientStore> store_;  // the thread's
  std::unique_ptr<store::NewsLine> line_;      // the thread's

  base::Mutex mutex_;
  base::CondVar changed_;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::StatusOr<Joined>> joined_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> failures_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> outbox_ ABSL_GUARDED_BY(mutex_);
  std::set<int> done_ ABSL_GUARDED_BY(mutex_), left_ ABSL_GUARDED_BY(mutex_);
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_NODES_H_
