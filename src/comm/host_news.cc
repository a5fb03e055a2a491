#include "comm/host_news.h"

#include "base/error.h"
#include "base/log.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <string>
#include <unistd.h>
#include <utility>

namespace distwrap::comm {
namespace {

// The time for an entry about a failure. Without the store nobody can be told.
constexpr absl::Duration kSay = absl::Seconds(1);
// The time in which the end of a connection comes to all ranks.
constexpr absl::Duration kEndOfLine = absl::Milliseconds(200);
constexpr char kHostGone[] = "the host of a rank cannot be reached";

}  // namespace

absl::StatusOr<std::shared_ptr<HostNews>> HostNews::open(
    std::shared_ptr<store::ClientStore> store, Plan plan, Deadline deadline) {
  std::shared_ptr<HostNews> news(
      new HostNews(std::move(store), std::move(plan)));
  absl::StatusOr<std::unique_ptr<store::NewsLine>> line =
      store::NewsLine::open({news->store_->place(), news->plan_.log,
                             absl::StrCat("lost ", news->plan_.rank, " ",
                                          getpid(), " ", news->plan_.host),
                             news->plan_.silence},
                            *news, deadline);
  if (!line.ok()) return line.status();
  news->line_ = *std::move(line);
  return news;
}

HostNews::~HostNews() { line_.reset(); }

void HostNews::leave(Deadline deadline) {
  {
    base::MutexLock lock(mutex_);
    if (std::exchange(leaving_, true)) return;
  }
  store_->append(plan_.log, absl::StrCat("left ", plan_.rank), deadline)
      .status()
      .IgnoreError();  // then the others hear that the rank is lost
  line_.reset();
}

void HostNews::on_news(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  if (parts.size() < 2) return;
  int rank = -1;
  if (parts[0] == "left" && absl::SimpleAtoi(parts[1], &rank)) {
    show_end(rank, false);
    base::MutexLock lock(mutex_);
    left_.insert(rank);
  } else if (parts[0] == "lost" && absl::SimpleAtoi(parts[1], &rank)) {
    Lost lost{.what = "a rank has ended or cannot be reached"};
    if (parts.size() > 2 && !absl::SimpleAtoi(parts[2], &lost.process))
      lost.process = 0;
    if (parts.size() > 3) lost.host = std::string(parts[3]);
    on_lost(rank, lost);
  } else if (uint64_t uid = 0; parts[0] == "broken" && parts.size() == 3 &&
                               absl::SimpleHexAtoi(parts[1], &uid) &&
                               absl::SimpleAtoi(parts[2], &rank)) {
    on_broken(uid, rank);
  } else if (parts[0] == "calls" && parts.size() > 2 &&
             absl::SimpleHexAtoi(parts[1], &uid)) {
    on_calls(uid, text.substr(parts[0].size() + parts[1].size() + 2));
  }
}

// For `distwrap info --live`.
void HostNews::show_end(int rank, bool is_lost) const {
  if (plan_.board != nullptr && rank >= 0 && rank < plan_.world_size)
    plan_.board->far_rank_ended(rank, is_lost);
}

void HostNews::on_lost(int rank, const Lost& lost) {
  show_end(rank, true);
  base::MutexLock lock(mutex_);
  if (leaving_ || !left_.insert(rank).second) return;
  lost_.emplace_back(rank, lost);
  changed_.notify_all();
  const std::vector<GroupNews*> all = groups_;
  for (GroupNews* const group : all) {
    // Another thread may have ended the group while a listener ran.
    if (std::find(groups_.begin(), groups_.end(), group) == groups_.end())
      continue;
    std::optional<ErrorInfo> found = loss_of(*group, rank, lost);
    if (found.has_value()) tell(*group, *std::move(found));
  }
}

// The error that a group hears of a lost rank; nullopt when that is no member.
std::optional<ErrorInfo> HostNews::loss_of(const GroupNews& group, int rank,
                                           const Lost& lost) const {
  const std::vector<int>& members = group.place_.global_ranks;
  const auto member = std::find(members.begin(), members.end(), rank);
  if (member == members.end()) return std::nullopt;
  const int number = static_cast<int>(member - members.begin());
  return ErrorInfo{.reason = Reason::kPeerLost,
                   .what = rank == plan_.rank
                               ? "the other ranks have given this rank up"
                               : lost.what,
                   .ranks = {number},
                   .cause = lost.cause,
                   .next_step =
                       "look at that rank's own output and at the "
                       "network between the hosts",
                   .seen = {RankSeen{.rank = number,
                                     .global_rank = rank,
                                     .host = lost.host,
                                     .pid = lost.process}}};
}

void HostNews::on_broken(uint64_t uid, int rank) {
  base::MutexLock lock(mutex_);
  GroupNews* const group = find(uid);
  if (leaving_ || group == nullptr || group->place_.rank == rank) return;
  tell(*group, {.reason = Reason::kAborted,
                .what = absl::StrCat("rank ", rank, " gave up"),
                .ranks = {rank},
                .next_step = "look at that rank's own output: it died, was "
                             "killed, or gave up"});
}

void HostNews::on_calls(uint64_t uid, absl::string_view text) {
  base::MutexLock lock(mutex_);
  GroupNews* const group = find(uid);
  if (leaving_ || group == nullptr || group->listener_ == nullptr) return;
  run(*group,
      [text](GroupBoard::Listener& listener) { listener.board_hears(text); });
}

GroupNews* HostNews::find(uint64_t uid) {
  const auto group = std::find_if(
      groups_.begin(), groups_.end(),
      [uid](const GroupNews* one) { return one->place_.uid == uid; });
  return group == groups_.end() ? nullptr : *group;
}

// A store that has closed the line and still answers has given this rank up,
// which was silent for too long.
bool HostNews::is_expelled() {
  constexpr char kNever[] = "?";  // a compare_set that changes nothing
  return store_
      ->compare_set(kNever, kNever, kNever, Deadline::after(kEndOfLine))
      .ok();
}

// The host of the store is gone, or this host is cut off: its ranks are lost to
// this one. Groups without them go on, and hear no more news.
void HostNews::on_line_lost(absl::string_view cause, bool is_silent) {
  {
    base::MutexLock lock(mutex_);
    // A store in rank 0's process ends with it, after rank 0 has left.
    if (leaving_ || left_.count(0) != 0) return;
  }
  // A rank that has ended took the line with it if it was this host's agent.
  // Where the store has ended before this rank came back to it, no news tell of
  // that rank, and the store may have ended because of it.
  if (plan_.board != nullptr)
    for (const Board::Ended& ended : plan_.board->look_for_ended())
      on_lost(ended.rank, {.host = plan_.host,
                           .process = ended.process,
                           .what = "a rank has ended"});
  {
    base::MutexLock lock(mutex_);
    line_lost_ = std::string(cause);
    changed_.notify_all();
  }
  if (is_silent)
    store_->give_up(cause);
  else if (is_expelled())
    return on_lost(plan_.rank, {.cause = std::string(cause)});
  for (const int rank : plan_.store_host)
    if (rank != plan_.rank)
      on_lost(rank, {.what = kHostGone, .cause = std::string(cause)});
  base::MutexLock lock(mutex_);
  // A group that has been told is over, and needs no news.
  if (std::any_of(groups_.begin(), groups_.end(),
                  [](const GroupNews* group) { return !group->told_; }))
    base::log(
        base::LogLevel::kWarning,
        absl::StrCat("rank ", plan_.rank,
                     " hears nothing of other hosts any more: the store at ",
                     store_->address(), " is gone: ", cause));
}

std::optional<ErrorInfo> HostNews::first_loss_of(const GroupNews& group) const {
  for (const auto& [rank, lost] : lost_)
    if (auto found = loss_of(group, rank, lost); found.has_value())
      return found;
  return std::nullopt;
}

std::optional<ErrorInfo> HostNews::loss_of_store(const GroupNews& group,
                                                 bool does_not_answer) {
  // The line ends at once where the store refuses connections. A line that is
  // merely silent ends on all ranks within one pause, and a line that is not
  // silent has a store that is slow.
  const absl::Duration pause = store::NewsLine::longest_pause(plan_.silence);
  const Deadline deadline = Deadline::after(
      kEndOfLine + (does_not_answer ? pause : absl::ZeroDuration()));
  base::MutexLock lock(mutex_);
  // The store of rank 0 ends also where rank 0 gives up because another rank is
  // lost, which the news have told or are about to tell.
  if (auto lost = first_loss_of(group); lost.has_value()) return lost;
  // The line stays until `leave` has told that it leaves.
  if (leaving_ || (does_not_answer && line_->pause() < 2 * pause))
    return std::nullopt;
  while (!line_lost_.has_value() && changed_.wait_until(mutex_, deadline))
    if (auto lost = first_loss_of(group); lost.has_value()) return lost;
  if (!line_lost_.has_value()) return std::nullopt;
  for (const int rank : plan_.store_host) {
    std::optional<ErrorInfo> found;
    if (rank != plan_.rank)
      found = loss_of(group, rank, {.what = kHostGone, .cause = *line_lost_});
    if (found.has_value()) return found;
  }
  return std::nullopt;
}

void HostNews::tell(GroupNews& group, ErrorInfo found) {
  if (group.listener_ == nullptr || std::exchange(group.told_, true)) return;
  found.group = group.place_.group;
  found.my_rank = group.place_.rank;
  found.group_size = static_cast<int>(group.place_.global_ranks.size());
  run(group, [&found](GroupBoard::Listener& listener) {
    listener.board_found(std::move(found));
  });
}

template <class Body>
void HostNews::run(GroupNews& group, const Body& body) {
  telling_ = &group;
  teller_ = std::this_thread::get_id();
  GroupBoard::Listener* const listener = group.listener_;
  mutex_.unlock();
  body(*listener);
  mutex_.lock();
  telling_ = nullptr;
  changed_.notify_all();
}

void HostNews::wait_until_told(const GroupNews& group) {
  while (telling_ == &group && teller_ != std::this_thread::get_id())
    changed_.wait(mutex_);
}

void HostNews::say(std::string text) {
  // Not in the caller's thread, which may have little time.
  plan_.watchdog->callbacks().post(
      [store = store_, log = plan_.log, text = std::move(text)] {
        store->append(log, text, Deadline::after(kSay)).status().IgnoreError();
      });
}

std::shared_ptr<GroupNews> GroupNews::open(
    const std::shared_ptr<HostNews>& news, GroupBoard::Place place) {
  if (news == nullptr || place.global_ranks.size() < 2) return nullptr;
  std::shared_ptr<GroupNews> group(new GroupNews(news, std::move(place)));
  base::MutexLock lock(news->mutex_);
  news->groups_.push_back(group.get());
  return group;
}

GroupNews::~GroupNews() {
  const std::shared_ptr<HostNews> news = news_.lock();
  if (news == nullptr) return;
  base::MutexLock lock(news->mutex_);
  news->wait_until_told(*this);
  std::vector<GroupNews*>& all = news->groups_;
  all.erase(std::remove(all.begin(), all.end(), this), all.end());
}

void GroupNews::tell(GroupBoard::Listener* listener) {
  const std::shared_ptr<HostNews> news = news_.lock();
  if (news == nullptr) return;
  base::MutexLock lock(news->mutex_);
  news->wait_until_told(*this);
  listener_ = listener;
}

void GroupNews::break_off() {
  const std::shared_ptr<HostNews> news = news_.lock();
  if (news == nullptr) return;
  {
    base::MutexLock lock(news->mutex_);
    // A failure that all members have heard needs no second entry.
    if (std::exchange(told_, true) || news->leaving_) return;
  }
  news->say(absl::StrCat("broken ", absl::Hex(place_.uid), " ", place_.rank));
}

std::optional<ErrorInfo> GroupNews::loss_of_store(bool does_not_answer) {
  const std::shared_ptr<HostNews> news = news_.lock();
  if (news == nullptr) return std::nullopt;
  return news->loss_of_store(*this, does_not_answer);
}

void GroupNews::say_calls(absl::string_view text) {
  if (const std::shared_ptr<HostNews> news = news_.lock(); news != nullptr)
    news->say(absl::StrCat("calls ", absl::Hex(place_.uid), " ", text));
}

}  // namespace distwrap::comm
