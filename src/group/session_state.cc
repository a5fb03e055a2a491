#include "group/session_state.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "group/group_build.h"
#include "group/group_end.h"
#include "store/exchange.h"
#include "store/rendezvous.h"

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

constexpr size_t kMaxHelloText = 4096;
// What a note to those who come later may take, and what telling those who
// wait why it failed: moments, unless the machine is overloaded; and who is not
// told waits on.
constexpr absl::Duration kLeave = absl::Milliseconds(50);
constexpr absl::Duration kTell = absl::Seconds(2);
constexpr int kMostTold = 1024;
// For a recording of what failed to reach a disk, unless it stands still.
constexpr absl::Duration kRecordingSaved = absl::Milliseconds(300);

// What each rank tells the others first.
struct Hello {
  std::string version, backend;
  int rank = 0, world_size = 0;
  int64_t pid = 0;
  uint64_t draw = 0;  // at random; rank 0's becomes the world's uid
  std::string host;   // empty: cannot be told
  std::string door;   // of the board; empty: none
};

std::string encode(const Hello& hello) {
  base::ByteWriter out;
  out.text(hello.version);
  out.text(hello.backend);
  out.i64(hello.rank);
  out.i64(hello.world_size);
  out.i64(hello.pid);
  out.u64(hello.draw);
  out.text(hello.host);
  out.text(hello.door);
  return out.take();
}

Hello decode(absl::string_view bytes) {
  base::ByteReader in(bytes);
  Hello hello;
  hello.version = std::string(in.text(kMaxHelloText));
  hello.backend = std::string(in.text(kMaxHelloText));
  hello.rank = static_cast<int>(in.i64());
  hello.world_size = static_cast<int>(in.i64());
  hello.pid = in.i64();
  hello.draw = in.u64();
  hello.host = std::string(in.text(kMaxHelloText));
  hello.door = std::string(in.text(kMaxHelloText));
  return in.done() ? hello : Hello{};
}

uint64_t random_number() {
  std::random_device source;
  return uint64_t{source()} << 32 | source();
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// What all ranks must have in common.
std::string terms(const Hello& hello) {
  return absl::StrCat("distwrap ", hello.version, ", world size ",
                      hello.world_size, ", backend ", hello.backend);
}

std::string describe(const Hello& hello) {
  return absl::StrCat(terms(hello), ", pid ", hello.pid);
}

// Before the deadline there is time to tell; at it, what is left of the 100 ms
// that an error may come late, and a little in any case.
Deadline leave_by(Deadline deadline) {
  constexpr int64_t kLateNs = 95'000'000, kLeastNs = 20'000'000;
  const Deadline soon = Deadline::after(kTell);
  if (deadline.is_never()) return soon;
  return Deadline::earlier(
      soon, Deadline::at_ns(std::max(deadline.ns() + kLateNs,
                                     Deadline::now_ns() + kLeastNs)));
}

// Why this rank gave up, in one line, for those that cannot ask it any more.
std::string last_words(const absl::Status& status, int rank) {
  const ErrorInfo info = error_info(status).value_or(ErrorInfo{});
  if (info.actual.empty()) return info.what;
  const std::string here = absl::StrCat(" (rank ", rank, ")");
  return absl::StrCat(info.what, ": ",
                      absl::StrReplaceAll(info.expected, {{" (here)", here}}),
                      " and ", info.actual);
}

// Whether others can still be told of this.
bool store_answers(const absl::Status& status) {
  const ErrorInfo info = error_info(status).value_or(ErrorInfo{});
  return info.reason != Reason::kStoreUnreachable &&
         (info.reason != Reason::kTimedOut || !info.ranks.empty());
}

}  // namespace

SessionState::SessionState(const SessionPlan& plan)
    : rank_(plan.rank),
      world_size_(plan.world_size),
      init_timeout_(plan.init_timeout),
      goodbye_(plan.goodbye),
      drop_in_(plan.drop_in),
      device_id_(plan.device_id),
      plugins_(plan.plugin_folders, plan.linked_in, {}, plan.allowed_plugins),
      instances_(
          plugins_,
          plan.trace_folder.empty()
              ? ""
              : absl::StrCat(plan.trace_folder, "/rank-", plan.rank, "-"),
          plan.tuning) {}

SessionState::~SessionState() {
  // Not closed: abort, whatever handles exist.
  if (world_ != nullptr) drop_group(*world_);
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
  if (absl::Status status = session->start(plan); !status.ok()) return status;
  return session;
}

absl::Status SessionState::start(const SessionPlan& plan) {
  const int64_t started_ns = Deadline::now_ns();
  const Deadline deadline = Deadline::after(plan.init_timeout);
  absl::StatusOr<std::vector<BackendChoice>> choices =
      parse_backends(plan.backend, plugins_);
  absl::Status status =
      choices.ok() ? settle_backends(*choices, plugins_) : choices.status();
  // Alike on all ranks.
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
  store_ = plan.store;
  if (store_ == nullptr) {
    absl::StatusOr<std::shared_ptr<Store>> store =
        store::meet(plan.place, deadline);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
  }
  absl::Status status = enter_round(plan, terms_of(choices), deadline);
  if (status.ok()) {
    resolve_auto(&choices, world_size_, one_host_, plugins_);
    status = make_world(plan, std::move(choices), deadline);
  }
  if (status.ok()) {
    store::remove_note(plan.place);
    return status;
  }
  if (round_.has_value()) round_->leave(leave_by(deadline));
  store::leave_note(plan.place, last_words(status, rank_));
  // Rank 0 may have ended while this rank was on its way.
  return store::why_store_is_gone(plan.place, std::move(status));
}

absl::Status SessionState::enter_round(const SessionPlan& plan,
                                       const std::string& backend,
                                       Deadline deadline) {
  Hello mine{std::string(base::library_version()),
             backend,
             rank_,
             world_size_,
             getpid(),
             random_number(),
             {},
             {}};
  if (world_size_ > 1) mine.host = comm::host_identity();
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
      store_, {plan.place.job, rank_, world_size_, terms(mine)}, deadline);
  if (!round.ok()) return in_group(round.status());
  round_ = *std::move(round);
  if (absl::Status status = round_->agree(deadline); !status.ok()) {
    if (error_reason(status) == Reason::kCallMismatch) {
      round_->give_up(last_words(status, rank_), leave_by(deadline));
      tell_mismatch(describe(mine), *error_info(status), deadline);
    }
    return in_group(status);
  }
  std::optional<comm::Door> door;
  if (plan.check && world_size_ > 1) {
    absl::StatusOr<comm::Door> opened = comm::Door::open();
    if (!opened.ok()) {
      round_->give_up(last_words(opened.status(), rank_), leave_by(deadline));
      tell_why({.reason = Reason::kAborted,
                .what = "another rank could not start",
                .ranks = {rank_},
                .cause = std::string(opened.status().message()),
                .next_step = "mend the cause on that rank"},
               deadline);
      return in_group(opened.status());
    }
    door = *std::move(opened);
    mine.door = door->name();
  }
  if (absl::Status status =
          say_hello(plan, encode(mine), std::move(door), deadline);
      !status.ok()) {
    // Others that found all ranks there wait for this one's next step.
    if (store_answers(status) &&
        !round_->give_up(last_words(status, rank_), leave_by(deadline)))
      comm::refuse_communicator(*store_, world_setup(plan), status, deadline);
    return in_group(status);
  }
  return in_group(round_->close(deadline));
}

void SessionState::tell_mismatch(const std::string& own,
                                 const ErrorInfo& mismatch, Deadline deadline) {
  ErrorInfo why = mismatch;
  why.expected = mismatch.actual;
  why.actual = own;
  why.ranks = {rank_};
  tell_why(why, deadline);
}

// Those that wait, and those to come, shall see at once why this one does not
// take part.
void SessionState::tell_why(const ErrorInfo& why, Deadline deadline) {
  store::give_up_exchange(*store_, round_->key("hello"), rank_,
                          std::min(round_->first_size(), kMostTold), why,
                          Deadline::earlier(deadline, Deadline::after(kTell)));
}

absl::Status SessionState::say_hello(const SessionPlan& plan,
                                     const std::string& encoded,
                                     std::optional<comm::Door> door,
                                     Deadline deadline) {
  const absl::StatusOr<std::vector<std::string>> hellos = store::exchange(
      *store_, round_->key("hello"), rank_, world_size_, encoded, deadline);
  if (!hellos.ok()) return hellos.status();
  const Hello mine = decode(encoded);
  uid_ = decode(hellos->front()).draw;
  std::vector<comm::BoardOffer> offers;
  for (const std::string& hello : *hellos) {
    const Hello theirs = decode(hello);
    offers.push_back({theirs.host, theirs.door, theirs.draw});
    if (theirs.version == mine.version && theirs.backend == mine.backend &&
        theirs.world_size == mine.world_size)
      continue;
    return base::make_error(
        {.reason = Reason::kCallMismatch,
         .what = "ranks were started differently",
         .op = "init",
         .group = plan.group_name,
         .my_rank = rank_,
         .group_size = world_size_,
         .ranks = {theirs.rank},
         .expected = absl::StrCat(describe(mine), " (here)"),
         .actual = describe(theirs),
         .next_step = "start all ranks with the same options"});
  }
  one_host_ =
      !mine.host.empty() && std::all_of(offers.begin(), offers.end(),
                                        [&](const comm::BoardOffer& offer) {
                                          return offer.host == mine.host;
                                        });
  if (!door.has_value()) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<comm::Board>> board =
      comm::Board::meet({.rank = rank_,
                         .heartbeat = plan.heartbeat,
                         .watchdog = watchdog_,
                         .straggler = plan.straggler,
                         .job = uid_,
                         .world_size = world_size_,
                         .host = host_name()},
                        *std::move(door), offers, deadline);
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

absl::Status SessionState::make_world(const SessionPlan& plan,
                                      std::vector<BackendChoice> choices,
                                      Deadline deadline) {
  recording_ = comm::SessionRecording::make(
      plan.recording, {.job = absl::StrCat(absl::Hex(uid_, absl::kZeroPad16)),
                       .host = host_name(),
                       .rank = rank_,
                       .world_size = world_size_});
  GroupPlan world{.op = "init",
                  .parts = {.name = plan.group_name,
                            .description = plan.group_name,
                            .uid = uid_,
                            .rank = rank_,
                            .global_ranks = {},
                            .choices = std::move(choices),
                            .hints = plan.hints,
                            .timeout = plan.timeout,
                            .recording = recording_,
                            .board = board_,
                            .store = store_,
                            .key_prefix = round_->key("group/"),
                            .channels = {},
                            .session = weak_from_this()},
                  .device_id = device_id_};
  world.parts.global_ranks.resize(static_cast<size_t>(world_size_));
  std::iota(world.parts.global_ranks.begin(), world.parts.global_ranks.end(),
            0);
  absl::StatusOr<std::shared_ptr<GroupState>> built =
      build_group(std::move(world), instances_, watchdog_, deadline);
  if (!built.ok()) return built.status();
  world_ = *std::move(built);
  return registry_.create(Group(world_), world_->global_ranks(),
                          world_->description());
}

absl::Status SessionState::close(absl::Duration timeout) {
  if (is_of_parent()) return base::make_error(base::of_parent("the session"));
  // The end is shown to hooks, and one of them may ask for it again.
  static thread_local const SessionState* closing = nullptr;
  if (closing == this) return absl::OkStatus();
  base::MutexLock lock(closing_);
  if (closed_.exchange(true, std::memory_order_acq_rel))
    return absl::OkStatus();
  const SessionState* const outer = std::exchange(closing, this);
  absl::Status untold = end_group(*world_, Deadline::after(timeout));
  closing = outer;
  if (board_ != nullptr) board_->leave();
  round_->leave(Deadline::after(kLeave));
  return untold;
}

}  // namespace distwrap::group
