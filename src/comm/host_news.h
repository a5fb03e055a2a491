// News between hosts: which ranks have ended or cannot be reached, which groups
// have failed where, and what their members call. Ranks of one host see each
// other on the board; this brings the same news to the ranks of all hosts, over
// the job's store.
//
// The store keeps one log for a session, and each rank has a line to it
// (news_line.h). The store itself adds that a rank is lost when the rank's line
// ends, so a killed process, a host that vanishes and a cut cable are all news
// within moments, or after the heartbeat.
//
//   lost <rank> <process> <host>     added by the store
//   left <rank>                      the rank has closed its session
//   broken <uid> <rank>              the group has failed on that member
//   calls <uid> <text>               what members of a host have called, for
//                                    GroupBoard::hear
//
// Threads: any. Ownership: the session holds it; groups refer to it weakly.
//
//   auto news = HostNews::open(store, plan, deadline);
//   auto group_news = GroupNews::open(*news, place);
#ifndef DISTWRAP_SRC_COMM_HOST_NEWS_H_
#define DISTWRAP_SRC_COMM_HOST_NEWS_H_

#include "base/mutex.h"
#include "comm/board/board.h"
#include "comm/board/group_board.h"
#include "comm/watchdog.h"
#include "store/client.h"
#include "store/news_line.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::comm {

class GroupNews;

class HostNews final : private store::NewsLine::Listener {
 public:
  struct Plan {
    std::string log;  // this session's only
    int rank = 0, world_size = 0;
    std::string host = {};
    // After this time without a sign a rank counts as lost.
    absl::Duration silence;
    std::shared_ptr<Watchdog> watchdog;
    // Shows who is gone; null: nothing does.
    std::shared_ptr<Board> board = nullptr;
    // The ranks of the host on which the store is served.
    std::vector<int> store_host = {};
  };

  // Errors: as of NewsLine::open.
  static absl::StatusOr<std::shared_ptr<HostNews>> open(
      std::shared_ptr<store::ClientStore> store, Plan plan, Deadline deadline);
  ~HostNews();

  // Tells the others that this rank closes its session, and hears no more.
  void leave(Deadline deadline);

 private:
  friend class GroupNews;
  // A rank that is gone.
  struct Lost {
    std::string host = {};
    int64_t process = 0;
    std::string what = {}, cause = {};
  };

  HostNews(std::shared_ptr<store::ClientStore> store, Plan plan)
      : store_(std::move(store)), plan_(std::move(plan)) {}

  // store::NewsLine::Listener
  void on_news(absl::string_view text) override;
  void on_line_lost(absl::string_view cause, bool is_silent) override;

  void show_end(int rank, bool is_lost) const;
  bool is_expelled();
  void on_lost(int rank, const Lost& lost);
  std::optional<ErrorInfo> loss_of(const GroupNews& group, int rank,
                                   const Lost& lost) const;
  std::optional<ErrorInfo> first_loss_of(const GroupNews& group) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<ErrorInfo> loss_of_store(const GroupNews& group,
                                         bool does_not_answer);
  void on_broken(uint64_t uid, int rank);
  void on_calls(uint64_t uid, absl::string_view text);
  GroupNews* find(uint64_t uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs `body` with the group's listener and without the lock; the group and
  // its listener stay meanwhile.
  template <class Body>
  void run(GroupNews& group, const Body& body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the listener of a group, without the lock; each group once.
  void tell(GroupNews& group, ErrorInfo found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void wait_until_told(const GroupNews& group)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds an entry soon, on another thread.
  void say(std::string text);

  const std::shared_ptr<store::ClientStore> store_;
  const Plan plan_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::set<int> left_ ABSL_GUARDED_BY(mutex_);
  // In the order in which they were lost.
  std::vector<std::pair<int, Lost>> lost_ ABSL_GUARDED_BY(mutex_);
  std::vector<GroupNews*> groups_ ABSL_GUARDED_BY(mutex_);
  GroupNews* telling_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread::id teller_ ABSL_GUARDED_BY(mutex_);
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  // Why nothing more is heard, once that is so.
  std::optional<std::string> line_lost_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<store::NewsLine> line_;  // ended before the rest
};

// A group's part of the news.
class GroupNews {
 public:
  // Null without news, and for a group whose members are all on this host.
  static std::shared_ptr<GroupNews> open(const std::shared_ptr<HostNews>& news,
                                         GroupBoard::Place place);
  ~GroupNews();
  GroupNews(const GroupNews&) = delete;
  GroupNews& operator=(const GroupNews&) = delete;

  // As GroupBoard::tell.
  void tell(GroupBoard::Listener* listener);
  // The group has failed on this rank: members on other hosts hear it.
  void break_off();
  // Tells members on other hosts what this host's have called.
  void say_calls(absl::string_view text);
  // The member that was lost first, by the news or because the store's host is
  // gone. For a rank that has got no answer of the store: it waits for the
  // moment in which all ranks come to know that. Otherwise a failure would have
  // as many causes as there are ranks that see each other give up.
  std::optional<ErrorInfo> loss_of_store(bool does_not_answer);

 private:
  friend class HostNews;
  GroupNews(const std::shared_ptr<HostNews>& news, GroupBoard::Place place)
      : news_(news), place_(std::move(place)) {}

  const std::weak_ptr<HostNews> news_;
  const GroupBoard::Place place_;
  // Guarded by the lock of HostNews.
  GroupBoard::Listener* listener_ = nullptr;
  bool told_ = false;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_HOST_NEWS_H_
