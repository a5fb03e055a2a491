#include "group/session_state.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "base/guard_door.h"
#include "base/host_identity.h"
#include "base/log.h"
#include "group/group_build.h"
#include "group/group_end.h"
#include "group/split_plan.h"
#include "store/client.h"
#include "store/exchange.h"
#include "store/interrupt.h"
#include "store/rendezvous.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <unistd.h>
#include <utility>
#include <vector>

namespace distwrap::group {
namespace {

// The time for a failure note to ranks that come later, and for telling waiting
// ranks why this rank failed. It takes moments unless the machine is
// overloaded; ranks that are not told wait until their own deadline.
constexpr absl::Duration kLeave = absl::Milliseconds(50);
constexpr absl::Duration kTell = absl::Seconds(2);
constexpr int kMostTold = 1024;
// The time to write a recording of a failure, unless the disk hangs.
constexpr absl::Duration kRecordingSaved = absl::Milliseconds(300);

uint64_t random_number() {
  std::random_device source;
  return uint64_t{source()} << 32 | source();
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// The deadline for telling other ranks. An error may be reported at most 100 ms
// after its deadline; the rest of that time is used, and at least a little.
Deadline leave_by(Deadline deadline) {
  constexpr int64_t kLateNs = 95'000'000, kLeastNs = 20'000'000;
  const Deadline soon = Deadline::after(kTell);
  if (deadline.is_never()) return soon;
  return Deadline::earlier(
      soon, Deadline::at_ns(std::max(deadline.ns() + kLateNs,
                                     Deadline::now_ns() + kLeastNs)));
}

// Why this rank gave up, in one line, for ranks that cannot ask it any more.
std::string failure_note(const absl::Status& status, int rank) {
  const ErrorInfo info = error_info(status).value_or(ErrorInfo{});
  if (info.actual.empty()) return info.what;
  const std::string here = absl::StrCat(" (rank ", rank, ")");
  return absl::StrCat(info.what, ": ",
                      absl::StrReplaceAll(info.expected, {{" (here)", here}}),
                      " and ", info.actual);
}

// The note on this rank's failure for the other ranks.
ErrorInfo cannot_start(int rank, const absl::Status& status) {
  return {.reason = Reason::kAborted,
          .what = "another rank could not start",
          .ranks = {rank},
          .cause = std::string(status.message()),
          .next_step = "fix the cause on that rank"};
}

// Whether the store still answers after this error.
bool store_answers(const absl::Status& status) {
  const ErrorInfo info = error_info(status).value_or(ErrorInfo{});
  return info.reason != Reason::kStoreUnreachable &&
         (info.reason != Reason::kTimedOut || !info.ranks.empty());
}

}  // namespace

SessionState::SessionState(const SessionPlan& plan)
    : wish_(plan.guard),
      rank_(plan.rank),
      world_size_(plan.world_size),
      init_timeout_(plan.init_timeout),
      close_limit_(plan.close_limit),
      drop_in_(plan.drop_in),
      clear_data_(plan.clear_data),
      device_id_(plan.device_id),
      plugins_(plan.plugin_folders, plan.linked_in, {}, plan.allowed_plugins),
      instances_(
          plugins_,
          plan.trace_folder.empty()
              ? ""
              : absl::StrCat(plan.trace_folder, "/rank-", plan.rank, "-"),
          plan.tuning, plan.place.own_address) {}

SessionState::~SessionState() {
  // The session was not closed: abort, whatever handles exist.
  base::guarded("", [this] {
    if (world_ != nullptr) drop_group(*world_);
    return absl::OkStatus();
  }).IgnoreError();  // communicators that are left end with their owners
  message_stragglers_.reset();
  if (news_ != nullptr) news_->leave(Deadline::after(kLeave));
  if (board_ != nullptr) board_->leave();
  if (recording_ != nullptr)
    recording_->wait_until_saved(Deadline::after(kRecordingSaved));
}

absl::StatusOr<std::shared_ptr<SessionState>> SessionState::create(
    const SessionPlan& plan) {
  const auto drop = [](SessionState* session) {
    if (!session->is_of_parent()) delete session;
  };
  std::shared_ptr<SessionState> session(new SessionState(plan), drop);
  absl::StatusOr<GuardHold> guard = GuardHold::take(plan.guard);
  if (!guard.ok()) return guard.status();
  session->guard_ = *std::move(guard);
  const base::OwnWork own_work;
  if (absl::Status status = session->start(plan); !status.ok()) return status;
  return session;
}

absl::Status SessionState::start(const SessionPlan& plan) {
  const int64_t started_ns = Deadline::now_ns();
  const Deadline deadline = Deadline::after(plan.init_timeout);
  absl::StatusOr<std::vector<BackendChoice>> choices =
      parse_backends(plan.backend, plugins_);
  // "auto" takes a device besides the host's memory only where its backend can
  // be opened. Ranks compare what they have chosen.
  if (choices.ok() && has_auto(*choices))
    std::erase_if(*choices, [&](const BackendChoice& choice) {
      return choice.device_type != kCpu.type &&
             !instances_
                  .open("nccl", {choice.device_type, device_id_}, plan.hints)
                  .ok();
    });
  absl::Status status =
      choices.ok() ? settle_backends(*choices, plugins_) : choices.status();
  // The error is equal on all ranks.
  if (!status.ok())
    return base::amend_error(status, [](ErrorInfo& info) { info.op = "init"; });
  status = make(plan, *std::move(choices), deadline);
  if (status.ok()) return status;
  return base::amend_error(status, [&](ErrorInfo& info) {
    if (info.op.empty() || info.op == "exchange") info.op = "init";
    if (info.group.empty()) {
      info.group = plan.group_name;
      info.my_rank = rank_;
      info.group_size = world_size_;
    }
    if (info.reason != Reason::kTimedOut &&
        (info.reason != Reason::kStoreUnreachable || !deadline.passed()))
      return;
    info.elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns);
    info.deadline = plan.init_timeout;
    info.setting = base::kInitLimit;
  });
}

absl::Status SessionState::make(const SessionPlan& plan,
                                std::vector<BackendChoice> choices,
                                Deadline deadline) {
  const store::Interrupt interrupt(plan.interrupt_fd);
  store_ = plan.store;
  if (store_ == nullptr) {
    absl::StatusOr<std::shared_ptr<Store>> store = base::guarded(
        "init", [&] { return store::meet(plan.place, deadline); });
    if (!store.ok()) {
      // Rank 0 cannot serve: the others need not wait for it.
      const Reason reason = error_reason(store.status());
      if (reason == Reason::kResourceLimit || reason == Reason::kOutOfMemory ||
          reason == Reason::kAborted)
        store::leave_note(plan.place, failure_note(store.status(), rank_));
      return store.status();
    }
    store_ = *std::move(store);
  }
  absl::Status status = base::guarded("init", [&] {
    // All ranks have to ask for protected data, or none.
    return enter_round(
        plan,
        absl::StrCat(terms_of(choices),
                     clear_data_ ? "" : ", data encrypted between hosts"),
        deadline);
  });
  if (status.ok())
    status = base::guarded("init", [&] {
      if (!one_host() && has_auto(choices))
        if (absl::Status chosen = choose_between_hosts(plan, deadline);
            !chosen.ok())
          return chosen;
      resolve_auto(&choices, world_size_, one_host(), plugins_, between_hosts_);
      if (absl::Status reach =
              check_reach(choices, one_host(), clear_data_, plugins_);
          !reach.ok())
        return reach;
      if (absl::Status news = open_news(plan, deadline); !news.ok()) {
        comm::refuse_communicator(*store_, world_setup(plan), news, deadline);
        return news;
      }
      return make_world(plan, std::move(choices), deadline);
    });
  if (status.ok()) {
    store::remove_note(plan.place);
    return status;
  }
  if (round_.has_value()) round_->leave(leave_by(deadline));
  store::leave_note(plan.place, failure_note(status, rank_));
  // Rank 0 may have ended while this rank tried to reach it.
  return store::why_store_is_gone(plan.place, std::move(status));
}

absl::Status SessionState::enter_round(const SessionPlan& plan,
                                       const std::string& backend,
                                       Deadline deadline) {
  const std::string terms = terms_of_session(world_size_, backend);
  Hello mine{hash_text(terms), getpid(), random_number(), {}, {}};
  if (world_size_ > 1) mine.host = base::host_identity();
  if (plan.ranks_per_node > 0)
    mine.host = absl::StrCat("forced ", rank_ / plan.ranks_per_node, " of ",
                             plan.ranks_per_node, ", ", mine.host);
  const auto in_group = [&](const absl::Status& status) {
    if (status.ok()) return status;
    return base::amend_error(status, [&](ErrorInfo& info) {
      info.op = "init";
      info.group = plan.group_name;
      info.my_rank = rank_;
      info.group_size = world_size_;
      if (info.reason != Reason::kTimedOut) return;
      info.next_step = "look at the output of the missing ranks";
    });
  };
  absl::StatusOr<store::Round> round = store::Round::enter(
      store_, {plan.place.job, rank_, world_size_, terms}, deadline);
  if (!round.ok()) return in_group(round.status());
  round_ = *std::move(round);
  if (absl::Status status = round_->agree(deadline); !status.ok()) {
    if (error_reason(status) == Reason::kCallMismatch) {
      round_->give_up(failure_note(status, rank_), leave_by(deadline));
      tell_mismatch(
          absl::StrCat(terms, ", process ", getpid(), " on ", host_name()),
          *error_info(status), deadline);
    }
    return in_group(status);
  }
  std::optional<comm::DescriptorHandover> handover;
  if (absl::Status status =
          base::guarded("init", [&] { return prepare(plan, &handover); });
      !status.ok()) {
    round_->give_up(failure_note(status, rank_), leave_by(deadline));
    tell_why(cannot_start(rank_, status), deadline);
    return in_group(status);
  }
  if (handover.has_value()) mine.handover = handover->name();
  absl::Status met;
  try {
    met = say_hello(plan, terms, mine, std::move(handover), deadline);
  } catch (...) {
    // An exception ended the exchange half-way, so the other ranks were not
    // told.
    met = base::error_of_exception("init");
    tell_why(cannot_start(rank_, met), deadline);
  }
  if (!met.ok()) {
    // Ranks that found the round complete wait for this rank's next step.
    if (store_answers(met) &&
        !round_->give_up(failure_note(met, rank_), leave_by(deadline)))
      comm::refuse_communicator(*store_, world_setup(plan), met, deadline);
    return in_group(met);
  }
  return in_group(round_->close(deadline));
}

absl::Status SessionState::prepare(
    const SessionPlan& plan,
    std::optional<comm::DescriptorHandover>* handover) {
  absl::StatusOr<std::shared_ptr<comm::Watchdog>> watchdog =
      comm::Watchdog::make();
  if (!watchdog.ok()) return watchdog.status();
  watchdog_ = *std::move(watchdog);
  full_check_ = plan.full_check;
  if (!plan.check || world_size_ == 1) return absl::OkStatus();
  absl::StatusOr<comm::DescriptorHandover> opened =
      comm::DescriptorHandover::open();
  if (opened.ok()) *handover = *std::move(opened);
  return opened.status();
}

void SessionState::tell_mismatch(const std::string& own,
                                 const ErrorInfo& mismatch, Deadline deadline) {
  ErrorInfo why = mismatch;
  why.expected = mismatch.actual;
  why.actual = own;
  why.ranks = {rank_};
  tell_why(why, deadline);
}

// Tells waiting and later ranks at once why this rank does not take part.
void SessionState::tell_why(const ErrorInfo& why, Deadline deadline) {
  store::give_up_exchange(*store_, round_->key("hello"), rank_,
                          std::min(round_->first_size(), kMostTold), why,
                          Deadline::earlier(deadline, Deadline::after(kTell)));
}

absl::Status SessionState::say_hello(
    const SessionPlan& plan, const std::string& terms, const Hello& mine,
    std::optional<comm::DescriptorHandover> handover, Deadline deadline) {
  const absl::StatusOr<std::vector<std::string>> hellos =
      store::exchange(*store_, round_->key("hello"), rank_, world_size_,
                      encode(mine), deadline);
  if (!hellos.ok()) return hellos.status();
  uid_ = decode(hellos->front()).draw;
  std::vector<comm::BoardOffer> offers;
  for (size_t rank = 0; rank < hellos->size(); ++rank) {
    const Hello theirs = decode((*hellos)[rank]);
    offers.push_back({theirs.host, theirs.handover, theirs.draw});
    if (theirs.terms == mine.terms) continue;
    // Terms were compared before, so this rank has agreed with a rank that has
    // left since.
    return base::make_error(
        {.reason = Reason::kCallMismatch,
         .what = "ranks were started differently",
         .op = "init",
         .group = plan.group_name,
         .my_rank = rank_,
         .group_size = world_size_,
         .ranks = {static_cast<int>(rank)},
         .expected = absl::StrCat(terms, ", process ", mine.pid, " (here)"),
         .actual = absl::StrCat(round_->other_terms(deadline), ", process ",
                                theirs.pid),
         .next_step = "start all ranks with the same options"});
  }
  host_of_ = number_hosts(offers);
  if (!handover.has_value()) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<comm::Board>> board =
      comm::Board::meet({.rank = rank_,
                         .heartbeat = plan.heartbeat,
                         .watchdog = watchdog_,
                         .straggler = plan.straggler,
                         .job = uid_,
                         .world_size = world_size_,
                         .host = host_name(),
                         .guard = static_cast<int>(plan.guard),
                         .hears_hosts = !one_host()},
                        *std::move(handover), offers, deadline);
  if (board.ok()) board_ = *std::move(board);
  return board.status();
}

comm::SetupPlan SessionState::world_setup(const SessionPlan& plan) const {
  return {.group = plan.group_name,
          .uid = uid_,
          .epoch = 0,
          .rank = rank_,
          .size = world_size_,
          .hints = plan.hints,
          .keys = first_channel_keys(round_->key("group/"))};
}

absl::Status SessionState::choose_between_hosts(const SessionPlan& plan,
                                                Deadline deadline) {
  const std::string first = "ucx";
  const bool mine = plugins_.find(first).ok() &&
                    instances_.open(first, kCpu, plan.hints).ok();
  const absl::StatusOr<std::vector<std::string>> all =
      store::exchange(*store_, round_->key("between"), rank_, world_size_,
                      mine ? first : "", deadline);
  if (!all.ok()) return all.status();
  if (std::all_of(all->begin(), all->end(),
                  [&](const std::string& one) { return one == first; }))
    between_hosts_ = first;
  if (rank_ == 0)
    base::log(base::LogLevel::kInfo,
              absl::StrCat("between hosts, auto means ", between_hosts_));
  return absl::OkStatus();
}

absl::Status SessionState::open_news(const SessionPlan& plan,
                                     Deadline deadline) {
  if (one_host() || !plan.check) return absl::OkStatus();
  auto store = std::dynamic_pointer_cast<store::ClientStore>(store_);
  // Ranks that are threads share a store in memory, and a host.
  if (store == nullptr) return absl::OkStatus();
  comm::HostNews::Plan news{.log = round_->key("news"),
                            .rank = rank_,
                            .world_size = world_size_,
                            .host = host_name(),
                            .silence = plan.heartbeat,
                            .watchdog = watchdog_,
                            .board = board_};
  // Rank 0's host serves the store.
  for (int rank = 0; rank < world_size_; ++rank)
    if (host_of_[static_cast<size_t>(rank)] == 0)
      news.store_host.push_back(rank);
  absl::StatusOr<std::shared_ptr<comm::HostNews>> opened =
      comm::HostNews::open(std::move(store), std::move(news), deadline);
  if (!opened.ok()) return opened.status();
  news_ = *std::move(opened);
  return absl::OkStatus();
}

absl::Status SessionState::make_world(const SessionPlan& plan,
                                      std::vector<BackendChoice> choices,
                                      Deadline deadline) {
  recording_ = comm::SessionRecording::make(
      plan.recording, {.job = absl::StrCat(absl::Hex(uid_, absl::kZeroPad16)),
                       .host = host_name(),
                       .rank = rank_,
                       .world_size = world_size_});
  if (recording_ != nullptr && world_size_ > 1)
    message_stragglers_.emplace(recording_->recorder(), *watchdog_,
                                plan.straggler);
  // Member by member: see make_child.
  GroupPlan world;
  world.op = "init";
  world.device_id = device_id_;
  GroupParts& parts = world.parts;
  parts.name = plan.group_name;
  parts.description = plan.group_name;
  parts.uid = uid_;
  parts.rank = rank_;
  parts.global_ranks.resize(static_cast<size_t>(world_size_));
  std::iota(parts.global_ranks.begin(), parts.global_ranks.end(), 0);
  parts.host_of = host_of_;
  parts.choices = std::move(choices);
  parts.hints = plan.hints;
  parts.timeout = plan.timeout;
  parts.recording = recording_;
  parts.board = board_;
  parts.news = news_;
  parts.store = store_;
  parts.key_prefix = round_->key("group/");
  parts.session = weak_from_this();
  absl::StatusOr<std::shared_ptr<GroupState>> built =
      build_group(std::move(world), instances_, watchdog_, deadline);
  if (!built.ok()) return built.status();
  world_ = *std::move(built);
  return registry_.create(Group(world_), world_->global_ranks(),
                          world_->description());
}

absl::Status SessionState::close(absl::Duration timeout) {
  if (is_of_parent()) return base::make_error(base::of_parent("the session"));
  // Hooks see the end, and a hook may ask for the end again.
  static thread_local const SessionState* closing = nullptr;
  if (closing == this) return absl::OkStatus();
  base::MutexLock lock(closing_);
  if (closed_.exchange(true, std::memory_order_acq_rel))
    return absl::OkStatus();
  const SessionState* const outer = std::exchange(closing, this);
  const absl::Cleanup no_longer = [&] { closing = outer; };
  const base::OwnWork own_work;
  absl::Status status = end_group(*world_, Deadline::after(timeout));
  if (news_ != nullptr) news_->leave(Deadline::after(kLeave));
  if (board_ != nullptr) board_->leave();
  round_->leave(Deadline::after(kLeave));
  guard_ = GuardHold();
  return status;
}

}  // namespace distwrap::group
