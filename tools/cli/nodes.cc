#include "nodes.h"

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/thread.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace distwrap::cli {
namespace {

constexpr char kLog[] = "nodes/news";
// The thread looks this often whether it is to end.
constexpr absl::Duration kStep = absl::Milliseconds(200);
constexpr absl::Duration kReportEvery = absl::Seconds(5);
// The time for an entry of the log.
constexpr absl::Duration kTell = absl::Seconds(2);

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

std::string process_here() {
  return absl::StrCat("process ", getpid(), " on ", host_name());
}

std::string key_of(int node) { return absl::StrCat("nodes/", node); }

absl::Status refused(std::string what, std::string expected, std::string actual,
                     std::string next_step) {
  return base::make_error({.reason = Reason::kRefused,
                           .what = std::move(what),
                           .op = "launch",
                           .expected = std::move(expected),
                           .actual = std::move(actual),
                           .next_step = std::move(next_step)});
}

}  // namespace

Nodes::~Nodes() {
  {
    base::MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status Nodes::join(store::StorePlace place, int ranks, std::string job_id,
                         std::string root) {
  place_ = std::move(place);
  ranks_ = ranks;
  job_id_ = std::move(job_id);
  root_ = std::move(root);
  until_ = Deadline::after(plan_.patience);
  absl::StatusOr<std::thread> thread =
      base::start_thread("dw-nodes", [this] { run(); });
  if (!thread.ok()) return thread.status();
  thread_ = *std::move(thread);
  return absl::OkStatus();
}

bool Nodes::ends() {
  base::MutexLock lock(mutex_);
  return ends_;
}

std::optional<absl::StatusOr<Nodes::Joined>> Nodes::joined() {
  base::MutexLock lock(mutex_);
  return joined_;
}

std::vector<std::string> Nodes::take_failures() {
  base::MutexLock lock(mutex_);
  return std::exchange(failures_, {});
}

bool Nodes::all_ended() {
  base::MutexLock lock(mutex_);
  return failed_ || done_.size() == static_cast<size_t>(plan_.count);
}

bool Nodes::may_leave() {
  base::MutexLock lock(mutex_);
  if (!outbox_.empty()) return false;
  const size_t others = left_.size() - left_.count(0);
  return plan_.node != 0 || others + 1 >= static_cast<size_t>(plan_.count);
}

void Nodes::tell_failure(const std::string& text) {
  {
    base::MutexLock lock(mutex_);
    failed_ = true;
  }
  say(absl::StrCat("failed ", plan_.node, " node ", plan_.node, " (",
                   host_name(), "): ", text));
}

void Nodes::tell_done() { say(absl::StrCat("done ", plan_.node)); }

void Nodes::tell_leaving() { say(absl::StrCat("left ", plan_.node)); }

void Nodes::say(std::string entry) {
  base::MutexLock lock(mutex_);
  outbox_.push_back(std::move(entry));
  changed_.notify_all();
}

absl::Status Nodes::check_terms() {
  const std::string mine = absl::StrCat("distwrap ", base::library_version(),
                                        ", ", plan_.count, " nodes");
  const std::string text =
      absl::StrCat(mine, " (node ", plan_.node, ", ", process_here(), ")");
  const absl::StatusOr<std::string> first =
      store_->compare_set("nodes/terms", "", text, until_);
  if (!first.ok()) return first.status();
  if (first->substr(0, first->rfind(" (")) == mine) return absl::OkStatus();
  return refused("nodes were started differently", *first, text,
                 "give all nodes the same --nnodes, and install one version");
}

absl::Status Nodes::take_place() {
  const std::string card =
      absl::StrCat(ranks_, "\n", process_here(), "\n", job_id_, "\n", root_);
  const absl::StatusOr<std::string> holder =
      store_->compare_set(key_of(plan_.node), "", card, until_);
  if (!holder.ok()) return holder.status();
  if (*holder == card) return absl::OkStatus();
  const std::vector<std::string> lines = absl::StrSplit(*holder, '\n');
  return refused(absl::StrCat("node ", plan_.node, " of this job is taken"),
                 absl::StrCat("a --node-rank from 0 to ", plan_.count - 1,
                              " that no other node has"),
                 absl::StrCat("node ", plan_.node, " for ",
                              lines.size() > 1 ? lines[1] : "a process",
                              " and for ", process_here()),
                 "give each node a --node-rank of its own, and each job an "
                 "address of its own");
}

// Waits for the cards of all nodes, and says for whom it waits.
absl::StatusOr<std::vector<std::string>> Nodes::wait_for_all() {
  std::vector<std::string> keys;
  for (int node = 0; node < plan_.count; ++node) keys.push_back(key_of(node));
  Deadline report = Deadline::after(kReportEvery);
  for (;;) {
    absl::StatusOr<std::vector<std::string>> cards = store_->get_all(
        keys, Deadline::earlier(until_, Deadline::after(kStep)));
    if (cards.ok() || error_reason(cards.status()) != Reason::kTimedOut)
      return cards;
    if (ends()) return absl::CancelledError("ended");
    std::vector<std::string> missing;
    const std::string listed = error_info(cards.status())->expected;
    for (const absl::string_view key :
         absl::StrSplit(listed, '\n', absl::SkipEmpty()))
      missing.emplace_back(key.substr(key.rfind('/') + 1));
    const std::string who =
        absl::StrCat(missing.size() == 1 ? "node " : "nodes ",
                     absl::StrJoin(missing, ", "), " of ", plan_.count);
    if (until_.passed())
      return base::make_error(
          {.reason = Reason::kTimedOut,
           .what = absl::StrCat(who, " did not come"),
           .op = "launch",
           .deadline = plan_.patience,
           .setting = "DISTWRAP_INIT_TIMEOUT",
           .next_step = "start `distwrap run` on these hosts, and look at its "
                        "output there"});
    if (!report.passed()) continue;
    report = Deadline::after(kReportEvery);
    base::log(base::LogLevel::kWarning,
              absl::StrCat("node ", plan_.node, " waits for ", who));
  }
}

absl::StatusOr<Nodes::Joined> Nodes::count_ranks(
    const std::vector<std::string>& cards) {
  Joined joined;
  for (int node = 0; node < plan_.count; ++node) {
    const std::vector<std::string> lines =
        absl::StrSplit(cards[static_cast<size_t>(node)], '\n');
    int ranks = 0;
    if (lines.size() != 4 || !absl::SimpleAtoi(lines[0], &ranks) || ranks < 1)
      return refused(absl::StrCat("node ", node, " is no node of distwrap"), "",
                     "", "give the job a store of its own");
    if (node < plan_.node) joined.first_rank += ranks;
    joined.world_size += ranks;
    if (node != 0) continue;
    joined.job_id = lines[2];
    joined.root = lines[3];
  }
  return joined;
}

absl::StatusOr<Nodes::Joined> Nodes::gather() {
  Deadline report = Deadline::after(kReportEvery);
  while (store_ == nullptr) {
    bool hopeless = false;
    absl::StatusOr<std::shared_ptr<store::ClientStore>> store =
        store::connect_to(*place_,
                          Deadline::earlier(until_, Deadline::after(5 * kStep)),
                          &hopeless);
    if (store.ok()) {
      store_ = *std::move(store);
      break;
    }
    if (error_reason(store.status()) != Reason::kStoreUnreachable || hopeless ||
        until_.passed())
      return store.status();
    if (ends()) return absl::CancelledError("ended");
    if (!report.passed()) continue;
    report = Deadline::after(kReportEvery);
    base::log(base::LogLevel::kWarning,
              absl::StrCat("node ", plan_.node, " waits for node 0 at ",
                           place_->address()));
  }
  if (absl::Status status = check_terms(); !status.ok()) return status;
  if (absl::Status status = take_place(); !status.ok()) return status;
  const absl::StatusOr<std::vector<std::string>> cards = wait_for_all();
  if (!cards.ok()) return cards.status();
  absl::StatusOr<std::unique_ptr<store::NewsLine>> line = store::NewsLine::open(
      {*place_, kLog,
       absl::StrCat("lost ", plan_.node, " node ", plan_.node, " (",
                    process_here(), ") has ended or cannot be reached"),
       plan_.silence},
      *this, until_);
  if (!line.ok()) return line.status();
  line_ = *std::move(line);
  return count_ranks(*cards);
}

void Nodes::run() {
  absl::StatusOr<Joined> joined = gather();
  const bool goes_on = joined.ok();
  {
    base::MutexLock lock(mutex_);
    joined_ = std::move(joined);
  }
  wake_();
  for (;;) {
    std::string entry;
    {
      base::MutexLock lock(mutex_);
      while (goes_on && !ends_ && outbox_.empty()) changed_.wait(mutex_);
      if (ends_ || !goes_on) break;
      entry = outbox_.front();
    }
    // A store that is gone is reported by the line.
    store_->append(kLog, entry, Deadline::after(kTell)).status().IgnoreError();
    {
      base::MutexLock lock(mutex_);
      outbox_.pop_front();
    }
    wake_();
  }
  line_.reset();
}

void Nodes::on_news(absl::string_view text) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(' ', 2));
  int node = -1;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[1], &node)) return;
  {
    base::MutexLock lock(mutex_);
    const absl::string_view what = parts[0];
    if (what == "done") done_.insert(node);
    // A node that vanishes is told of even when ranks here have failed because
    // of it before; of failures that follow from each other, the first counts.
    const bool vanished =
        what == "lost" && done_.count(node) == 0 && left_.count(node) == 0;
    if (what == "left" || what == "lost") left_.insert(node);
    if (node != plan_.node && (vanished || (what == "failed" && !failed_))) {
      failed_ = true;
      failures_.emplace_back(parts.size() > 2 ? parts[2] : text);
    }
  }
  wake_();
}

void Nodes::on_line_lost(absl::string_view cause, bool /*is_silent*/) {
  {
    base::MutexLock lock(mutex_);
    // Node 0 says that it leaves before it does.
    if (left_.insert(0).second &&
        done_.size() < static_cast<size_t>(plan_.count)) {
      failed_ = true;
      failures_.push_back(absl::StrCat(
          "node 0, which serves the job, cannot be reached: ", cause));
    }
  }
  wake_();
}

}  // namespace distwrap::cli
