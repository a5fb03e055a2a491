#include "group/session_state.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/setup.h"
#include "plugin/registry.h"
#include "store/exchange.h"
#include "store/launch_info.h"

#include <absl/strings/str_cat.h>

#include <numeric>
#include <unistd.h>
#include <utility>
#include <vector>

namespace distwrap::group {
namespace {

constexpr size_t kMaxHelloText = 4096;
// What a clean end may take when a peer does not say goodbye.
constexpr absl::Duration kGoodbye = absl::Milliseconds(400);

ErrorInfo init_error(Reason reason, std::string what, std::string next_step) {
  return {.reason = reason,
          .what = std::move(what),
          .op = "init",
          .next_step = std::move(next_step)};
}

absl::Status check_rank(int rank, int world_size) {
  if (world_size >= 1 && rank >= 0 && rank < world_size)
    return absl::OkStatus();
  ErrorInfo info = init_error(Reason::kInvalidArgument,
                              "rank and world size do not fit each other",
                              "correct InitOptions::rank and ::world_size");
  info.expected = "0 <= rank < world size";
  info.actual = absl::StrCat("rank ", rank, ", world size ", world_size);
  return base::make_error(info);
}

absl::StatusOr<absl::Duration> timeout_of(
    const std::optional<absl::Duration>& given, base::Setting setting,
    const base::Environment& environment) {
  if (!given.has_value()) return environment.get_seconds(setting);
  if (*given > absl::ZeroDuration()) return *given;
  ErrorInfo info =
      init_error(Reason::kInvalidArgument, "a timeout is not positive",
                 "leave it unset for the default, or give InfiniteDuration");
  info.actual = absl::FormatDuration(*given);
  return base::make_error(info);
}

// What each rank tells the others first.
struct Hello {
  std::string version, backend;
  int world_size = 0;
  int64_t pid = 0;
};

std::string encode(const Hello& hello) {
  base::ByteWriter out;
  out.text(hello.version);
  out.text(hello.backend);
  out.i64(hello.world_size);
  out.i64(hello.pid);
  return out.take();
}

Hello decode(absl::string_view bytes) {
  base::ByteReader in(bytes);
  Hello hello;
  hello.version = std::string(in.text(kMaxHelloText));
  hello.backend = std::string(in.text(kMaxHelloText));
  hello.world_size = static_cast<int>(in.i64());
  hello.pid = in.i64();
  return in.done() ? hello : Hello{};
}

std::string describe(const Hello& hello) {
  return absl::StrCat("distwrap ", hello.version, ", world size ",
                      hello.world_size, ", backend ", hello.backend, ", pid ",
                      hello.pid);
}

}  // namespace

absl::StatusOr<SessionPlan> plan_session(const InitOptions& options,
                                         const base::Environment& environment) {
  if (const auto level = environment.get(base::Setting::kLog);
      level.has_value() && !base::set_log_level(*level)) {
    ErrorInfo info =
        init_error(Reason::kInvalidArgument, "DISTWRAP_LOG is not usable",
                   "correct or unset DISTWRAP_LOG");
    info.expected = "error, warning, info or debug";
    info.actual = absl::StrCat("'", *level, "'");
    return base::make_error(info);
  }
  SessionPlan plan;
  plan.rank = options.rank;
  plan.world_size = options.world_size;
  const bool explicit_place = plan.rank >= 0 && plan.world_size >= 0;
  if (!explicit_place) {
    const absl::StatusOr<store::LaunchInfo> launch =
        store::detect_launch(environment);
    if (!launch.ok()) return launch.status();
    if (plan.rank < 0) plan.rank = launch->rank;
    if (plan.world_size < 0) plan.world_size = launch->world_size;
  }
  if (absl::Status status = check_rank(plan.rank, plan.world_size);
      !status.ok())
    return status;

  plan.store = options.store;
  plan.store_address =
      environment.get(base::Setting::kStore).value_or(std::string());
  if (plan.store == nullptr && (plan.world_size == 1 || explicit_place)) {
    // A lone rank meets nobody; and ranks that were placed by hand must not
    // meet in the store of a job that they happen to run under.
    if (plan.world_size > 1)
      return base::make_error(init_error(
          Reason::kLaunchMissing,
          "rank and world size were given, but no store to meet in",
          "give InitOptions::store, or start with `distwrap run -n N`"));
    plan.store = Store::in_memory();
  }
  if (plan.store == nullptr && plan.store_address.empty())
    return base::make_error(
        init_error(Reason::kLaunchMissing, "DISTWRAP_STORE is not set",
                   "start with `distwrap run -n N`, or give "
                   "InitOptions::store"));

  plan.backend = !options.backend.empty()
                     ? options.backend
                     : environment.get_or_default(base::Setting::kBackend);
  if (plan.backend == "auto")
    plan.backend = plan.world_size == 1 ? "loopback" : "gloo";
  absl::StatusOr<absl::Duration> timeout =
      timeout_of(options.timeout, base::Setting::kTimeout, environment);
  if (!timeout.ok()) return timeout.status();
  plan.timeout = *timeout;
  timeout = timeout_of(options.init_timeout, base::Setting::kInitTimeout,
                       environment);
  if (!timeout.ok()) return timeout.status();
  plan.init_timeout = *timeout;
  plan.group_name = options.group_name;
  plan.hints = options.hints;
  plan.plugin_folders = plugin::plugin_folders(environment);
  if (const auto list = environment.get(base::Setting::kPluginAllow)) {
    absl::StatusOr<plugin::AllowList> allowed = plugin::AllowList::read(*list);
    if (!allowed.ok()) return allowed.status();
    plan.allowed_plugins = *std::move(allowed);
  }
  return plan;
}

SessionState::SessionState(const SessionPlan& plan)
    : rank_(plan.rank), world_size_(plan.world_size) {}

SessionState::~SessionState() {
  // Not closed: abort. The group's end does it.
  world_.reset();
}

absl::StatusOr<std::shared_ptr<SessionState>> SessionState::create(
    const SessionPlan& plan) {
  std::shared_ptr<SessionState> session(new SessionState(plan));
  if (absl::Status status = session->start(plan); !status.ok()) return status;
  return session;
}

absl::Status SessionState::start(const SessionPlan& plan) {
  const Deadline deadline = Deadline::after(plan.init_timeout);
  plugin::Registry registry(plan.plugin_folders, plugin::linked_in(), {},
                            plan.allowed_plugins);
  const absl::StatusOr<plugin::BackendPtr> table = registry.find(plan.backend);
  if (!table.ok()) return table.status();

  store_ = plan.store;
  if (store_ == nullptr) {
    absl::StatusOr<std::shared_ptr<Store>> store =
        Store::connect(plan.store_address, deadline);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
  }
  // A program may start session after session on one store; all ranks count
  // alike.
  const absl::StatusOr<int64_t> generation =
      store_->add(absl::StrCat("sessions/", rank_), 1, deadline);
  if (!generation.ok()) return generation.status();
  generation_ = *generation;

  if (absl::Status status = say_hello(plan, (*table)->name(), deadline);
      !status.ok())
    return status;
  return make_world(plan, *table, deadline);
}

absl::Status SessionState::say_hello(const SessionPlan& plan,
                                     const std::string& backend,
                                     Deadline deadline) {
  const Hello mine{std::string(base::library_version()), backend, world_size_,
                   getpid()};
  const absl::StatusOr<std::vector<std::string>> hellos =
      store::exchange(*store_, absl::StrCat("session/", generation_, "/hello"),
                      rank_, world_size_, encode(mine), deadline);
  if (!hellos.ok())
    return base::amend_error(hellos.status(), [&](ErrorInfo& info) {
      info.op = "init";
      info.group = plan.group_name;
      info.my_rank = rank_;
      info.group_size = world_size_;
      if (info.reason == Reason::kTimedOut) {
        info.deadline = plan.init_timeout;
        info.next_step =
            "look at the output of the missing ranks; the limit is "
            "InitOptions::init_timeout, else DISTWRAP_INIT_TIMEOUT";
      }
    });
  for (size_t i = 0; i < hellos->size(); ++i) {
    const Hello theirs = decode((*hellos)[i]);
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
         .ranks = {static_cast<int>(i)},
         .expected = absl::StrCat(describe(mine), " (here)"),
         .actual = describe(theirs),
         .next_step = "start all ranks with the same options"});
  }
  return absl::OkStatus();
}

absl::Status SessionState::make_world(const SessionPlan& plan,
                                      const plugin::BackendPtr& table,
                                      Deadline deadline) {
  const Device device = kCpu;
  absl::StatusOr<std::shared_ptr<comm::BackendInstance>> backend =
      comm::BackendInstance::open(table, device, plan.hints);
  if (!backend.ok()) return backend.status();
  const comm::SetupPlan setup{.group = plan.group_name,
                              .uid = static_cast<uint64_t>(generation_),
                              .epoch = 0,
                              .rank = rank_,
                              .size = world_size_,
                              .hints = plan.hints};
  const absl::StatusOr<dw_comm*> built =
      comm::build_communicator(**backend, *store_, setup, deadline);
  if (!built.ok()) return built.status();
  std::vector<int> ranks(static_cast<size_t>(world_size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  world_ = std::make_shared<GroupState>(
      plan.group_name, rank_, std::move(ranks),
      std::make_unique<comm::BackendCommunicator>(
          comm::Identity{plan.group_name, rank_, world_size_, plan.timeout},
          *std::move(backend), *built,
          comm::FirstFailure(store_,
                             absl::StrCat("session/", generation_, "/failure")),
          watchdog_),
      device);
  return absl::OkStatus();
}

absl::Status SessionState::close(absl::Duration timeout) {
  base::MutexLock lock(closing_);
  if (closed_.exchange(true, std::memory_order_acq_rel))
    return absl::OkStatus();
  const Deadline deadline = Deadline::after(timeout);
  comm::BackendCommunicator& communicator = world_->communicator();
  if (communicator.drain(deadline)) say_goodbye(deadline);
  communicator.destroy(deadline);
  return absl::OkStatus();
}

void SessionState::say_goodbye(Deadline deadline) {
  if (world_size_ == 1) return;
  (void)store::exchange(
      *store_, absl::StrCat("session/", generation_, "/goodbye"), rank_,
      world_size_, "", Deadline::earlier(deadline, Deadline::after(kGoodbye)));
}

}  // namespace distwrap::group
