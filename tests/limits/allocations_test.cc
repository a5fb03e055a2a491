// Each allocation of a start, of group making, of a call and of an end fails
// once. Whatever ends by that is an error that says so, no rank waits for
// another one for ever, the sessions can be closed, and the next ones work.
//
// LIMITS_ALL=1 fails every allocation; else a sample of them.
#include "base/error.h"
#include "base/host_identity.h"
#include "distwrap/c.h"
#include "distwrap/distwrap.h"
#include "failing_new.h"
#include "host_backends.h"
#include "in_child.h"
#include "store/process_identity.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace distwrap {
namespace {

using testing::FailingNew;

// For one try; a rank that is not told waits longer.
constexpr int kTrySeconds = 10;
constexpr absl::Duration kTimeout = absl::Seconds(60);
// Limit of a scenario in which not all allocations fail.
constexpr int64_t kTries = 40;
// A start that was refused before it reached the store is one that the others
// wait for to their deadline.
constexpr absl::Duration kShortStart = absl::Milliseconds(300);
// A split by the C API as well, since the options are read before the others
// are met. The sessions start within this time too.
constexpr absl::Duration kShortSplit = absl::Seconds(2);
constexpr absl::Duration kPatientStart = absl::Seconds(5);

// A rank of the scenario: what it has when the failure is armed.
struct Rank {
  InitOptions options;
  std::optional<Session> session;
  std::optional<Window> window;
  std::vector<float> in, out;
  std::vector<Object> objects;
  int me = 0, size = 1;

  Peer next() const { return Peer::group((me + 1) % size); }
  Peer previous() const { return Peer::group((me + size - 1) % size); }
};

struct Scenario {
  const char* name;
  absl::Status (*prepare)(Rank&);
  absl::Status (*armed)(Rank&);
};

absl::Status start(Rank& rank) {
  absl::StatusOr<Session> made = Session::create(rank.options);
  if (!made.ok()) return made.status();
  const FailingNew::Exempt exempt;
  rank.session = *made;
  return absl::OkStatus();
}

absl::Status start_and_bind(Rank& rank) {
  absl::Status status = start(rank);
  if (status.ok()) bind_session(*rank.session);
  return status;
}

absl::Status nothing(Rank&) { return absl::OkStatus(); }

absl::Status split(Rank& rank) {
  SplitOptions options;
  {
    const FailingNew::Exempt exempt;
    options.split_ranks = {{}};
    for (int r = 0; r < rank.size; ++r) options.split_ranks[0].push_back(r);
  }
  return split_group(options).status();
}

absl::Status call_sync(Rank& rank) {
  return all_reduce(TensorView(rank.out)).status();
}

absl::Status wait_for(const absl::StatusOr<Work>& work) {
  return work.ok() ? work->wait() : work.status();
}

absl::Status call_async(Rank& rank) {
  const absl::StatusOr<Work> work =
      all_reduce(TensorView(rank.out), ReduceOp::kSum, {.async = true});
  if (work.ok()) work->wait().IgnoreError();
  return wait_for(work);
}

absl::Status call_uneven(Rank& rank) {
  std::vector<int64_t> counts;
  {
    const FailingNew::Exempt exempt;
    counts.assign(static_cast<size_t>(rank.size), 4);
  }
  return all_gather_v(TensorView(rank.out.data(), 4 * rank.size),
                      TensorView(rank.in.data(), 4), counts)
      .status();
}

absl::Status call_list(Rank& rank) {
  std::vector<TensorView> outs;
  {
    const FailingNew::Exempt exempt;
    for (int r = 0; r < rank.size; ++r)
      outs.emplace_back(rank.out.data() + 4 * r, 4);
  }
  return all_gather(outs, TensorView(rank.in.data(), 4)).status();
}

absl::Status call_messages(Rank& rank) {
  const absl::StatusOr<Work> received =
      irecv(TensorView(rank.out), rank.previous());
  const absl::StatusOr<Work> sent = isend(TensorView(rank.in), rank.next());
  // Either may be waited for when the other one was refused.
  absl::Status status = received.status();
  status.Update(sent.status());
  if (!status.ok()) abort().IgnoreError();
  status.Update(wait_for(received));
  status.Update(wait_for(sent));
  return status;
}

absl::Status call_objects(Rank& rank) {
  return all_gather_object(rank.objects[0]).status();
}

absl::Status call_batch(Rank& rank) {
  std::optional<Batch> made;
  {
    const FailingNew::Exempt exempt;
    made.emplace();
  }
  Batch& batch = *made;
  batch.recv(TensorView(rank.out), rank.previous());
  batch.send(TensorView(rank.in), rank.next());
  batch.barrier();
  const absl::StatusOr<Work> work = batch.submit();
  return wait_for(work);
}

absl::Status make_window(Rank& rank) {
  WindowOptions options;
  options.memory = TensorView(rank.in);
  absl::StatusOr<Window> made = new_window(options);
  if (!made.ok()) return made.status();
  const FailingNew::Exempt exempt;
  rank.window = *made;
  return absl::OkStatus();
}

absl::Status prepare_window(Rank& rank) {
  absl::Status status = start_and_bind(rank);
  return status.ok() ? make_window(rank) : status;
}

absl::Status call_window(Rank& rank) {
  absl::Status status =
      rank.window->put(TensorView(rank.out), rank.next(), 0).status();
  if (status.ok()) status = rank.window->flush().status();
  if (status.ok())
    status = wait_for(rank.window->get(TensorView(rank.out), rank.next(), 0,
                                       {.async = true}));
  return status;
}

absl::Status call_back(Rank& rank) {
  absl::Status status =
      all_reduce(TensorView(rank.out), ReduceOp::kSum, {.async = true})
          .status();
  return status.ok() ? barrier().status() : status;
}

absl::Status end(Rank& rank) { return rank.session->close(); }

// The outcome of a function of the C API as a status. There may have been no
// memory for the handle of the error.
absl::Status in_c(int32_t code, distwrap_error error) {
  const FailingNew::Exempt exempt;
  if (code == DW_OK) return absl::OkStatus();
  ErrorInfo info{.reason = static_cast<Reason>(distwrap_error_reason(error)),
                 .what = distwrap_error_text(error)};
  if (error == nullptr && code == DW_RESOURCE_EXHAUSTED)
    info.reason = Reason::kOutOfMemory;
  distwrap_error_free(error);
  return base::make_error(info);
}

distwrap_tensor c_tensor(float* data, int64_t* count) {
  distwrap_tensor tensor = {};
  tensor.data = data;
  tensor.device = {DW_DEVICE_CPU, 0};
  tensor.ndim = 1;
  tensor.dtype = distwrap_dtype(DW_DTYPE_F32);
  tensor.shape = count;
  return tensor;
}

absl::Status c_split(Rank& rank) {
  std::vector<int32_t> ranks;
  {
    const FailingNew::Exempt exempt;
    for (int r = 0; r < rank.size; ++r) ranks.push_back(r);
  }
  const uint64_t size = ranks.size();
  distwrap_group_options options = {};
  options.struct_size = sizeof options;
  options.ranks = ranks.data();
  options.ranks_count = size;
  options.list_sizes = &size;
  options.lists = 1;
  distwrap_group group = nullptr;
  distwrap_error error = nullptr;
  const int32_t code = distwrap_split_group(&options, &group, &error);
  const bool given = distwrap_group_free(group) == DW_OK && group != nullptr;
  if (given == (code == DW_OK)) return in_c(code, error);
  return in_c(DW_INTERNAL, nullptr);
}

absl::Status c_calls(Rank& rank) {
  int64_t count = 4;
  const distwrap_tensor tensor = c_tensor(rank.out.data(), &count);
  distwrap_error error = nullptr;
  int32_t code = distwrap_all_reduce(&tensor, &tensor, DW_REDUCE_SUM, nullptr,
                                     nullptr, &error);
  if (code != DW_OK) return in_c(code, error);
  distwrap_work work = nullptr;
  code = distwrap_all_reduce(&tensor, &tensor, DW_REDUCE_SUM, nullptr, &work,
                             &error);
  if (code != DW_OK) return in_c(code, error);
  code = distwrap_work_wait(work, DW_FOREVER, &error);
  distwrap_work_free(work);
  if (code != DW_OK) return in_c(code, error);
  const distwrap_bytes object = {.data = "x", .size = 1};
  distwrap_list list = nullptr;
  code = distwrap_all_gather_object(&object, DW_OBJECT_BYTES, nullptr, &list,
                                    &error);
  distwrap_list_free(list);
  return in_c(code, error);
}

const Scenario kScenarios[] = {
    {"start", nothing, start},
    {"split", start_and_bind, split},
    {"sync", start_and_bind, call_sync},
    {"async", start_and_bind, call_async},
    {"uneven", start_and_bind, call_uneven},
    {"list", start_and_bind, call_list},
    {"messages", start_and_bind, call_messages},
    {"objects", start_and_bind, call_objects},
    {"batch", start_and_bind, call_batch},
    {"make_window", start_and_bind, make_window},
    {"window", prepare_window, call_window},
    {"beside", start_and_bind, call_back},
    {"close", start_and_bind, end},
    {"c_split", start_and_bind, c_split},
    {"c_calls", start_and_bind, c_calls},
};

// The C API stands above all backends, so one of them is enough for it.
bool is_in_c(const Scenario& scenario) {
  return scenario.armed == c_split || scenario.armed == c_calls;
}

// A rank may hear that memory was out, or, when it was so on another
// rank, that this one could not go on.
bool may_say(const absl::Status& status, bool is_alone, bool hides,
             bool is_start) {
  switch (error_reason(status)) {
    case Reason::kOutOfMemory:
    case Reason::kResourceLimit:
      return true;
    case Reason::kBackendFailed:
      return hides;
    case Reason::kTimedOut:
      return !is_alone && is_start;
    case Reason::kAborted:
    case Reason::kGroupBroken:
      // By an earlier call that the same rank made, such as one that runs
      // beside.
      if (absl::StrContains(status.message(), "kOutOfMemory")) return true;
      return !is_alone;
    case Reason::kPeerLost:
    case Reason::kGroupClosed:
    case Reason::kRefused:
      return !is_alone;
    default:
      return status.ok();
  }
}

void show_and_end(int signal) {
  FailingNew::show();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// All ranks, as threads; false when something was wrong, which is printed.
bool try_once(const Scenario& scenario, const std::string& backend, int ranks,
              int64_t k, bool* failed, bool patient = false) {
  const auto store = Store::in_memory();
  std::barrier<> together(ranks);
  std::vector<absl::Status> statuses(static_cast<size_t>(ranks));
  std::atomic<bool> good{true};
  const bool hides = backend == "gloo" || backend == "ucx";
  const bool is_start = scenario.armed == start || scenario.armed == c_split;
  const absl::Duration wait = k == 0                      ? kTimeout
                              : patient                   ? kPatientStart
                              : scenario.armed == start   ? kShortStart
                              : scenario.armed == c_split ? kShortSplit
                                                          : kTimeout;
  const auto run = [&](int me) {
    Rank rank;
    rank.me = me;
    rank.size = ranks;
    rank.options = {.backend = backend,
                    .rank = me,
                    .world_size = ranks,
                    .store = store,
                    .timeout = kTimeout,
                    .init_timeout = wait};
    rank.in.assign(64, 1.0f);
    rank.out.assign(64, 1.0f);
    rank.objects = {Object("x")};
    const absl::Status ready = scenario.prepare(rank);
    if (!ready.ok()) {
      std::cerr << scenario.name << " is not ready: " << ready << std::endl;
      _exit(3);
    }
    together.arrive_and_wait();
    if (me == 0 && k > 0) FailingNew::arm(k);
    together.arrive_and_wait();
    absl::Status& status = statuses[static_cast<size_t>(me)];
    try {
      status = scenario.armed(rank);
      // A call that was refused before any other rank saw it leaves them
      // waiting for the call: programs make it again, or end.
      const FailingNew::Exempt exempt;
      if (!status.ok()) abort().IgnoreError();
    } catch (const std::bad_alloc&) {
      std::cerr << "an exception has left a call" << std::endl;
      FailingNew::show();
      good = false;
      abort().IgnoreError();
    }
    together.arrive_and_wait();
    if (me == 0) *failed = FailingNew::disarm();
    together.arrive_and_wait();
    rank.window.reset();
    bind_session({});
    if (rank.session.has_value())
      rank.session->close(absl::Seconds(1)).IgnoreError();
  };
  std::vector<std::thread> others;
  for (int me = 1; me < ranks; ++me) others.emplace_back(run, me);
  run(0);
  for (std::thread& other : others) other.join();
  // A busy machine may take longer than that to start: then no allocation has
  // failed.
  if (wait < kPatientStart && !*failed &&
      !std::all_of(statuses.begin(), statuses.end(),
                   [](const absl::Status& status) { return status.ok(); }))
    return try_once(scenario, backend, ranks, k, failed, true);
  for (const absl::Status& status : statuses)
    if (!may_say(status, ranks == 1, hides, is_start) ||
        (!*failed && !status.ok())) {
      std::cerr << "a rank said: " << status << std::endl;
      FailingNew::show();
      good = false;
    }
  return good;
}

// All allocations of the scenario, one at a time.
int fail_each(const Scenario& scenario, const std::string& backend, int ranks) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGALRM})
    std::signal(signal, show_and_end);
  bool failed = false;
  // Objects that are made once for the process exist by now.
  if (!try_once(scenario, backend, ranks, 0, &failed)) return 1;
  const bool all = std::getenv("LIMITS_ALL") != nullptr;
  int64_t total = 0;
  if (!all) {
    // Finds how many there are.
    constexpr int64_t kNever = int64_t{1} << 40;
    if (!try_once(scenario, backend, ranks, kNever, &failed)) return 1;
    total = FailingNew::counted();
  }
  const int64_t stride = total / kTries + 1;
  bool good = true;
  for (int64_t k = 1;; k += stride) {
    alarm(kTrySeconds);
    const bool held = try_once(scenario, backend, ranks, k, &failed);
    if (!held) std::cerr << "at allocation " << k << std::endl;
    good = good && held;
    if (!failed) break;
    bool unused;
    if (!try_once(scenario, backend, ranks, 0, &unused)) {
      std::cerr << "after allocation " << k << std::endl;
      good = false;
    }
  }
  alarm(0);
  return good ? 0 : 1;
}

struct Case {
  std::string backend;
  int ranks;
  Scenario scenario;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.scenario.name << " of " << c.ranks << " over " << c.backend;
}

class Allocations : public ::testing::TestWithParam<Case> {};

TEST_P(Allocations, FailOnce) {
  const Case& c = GetParam();
  EXPECT_EQ(testing::run_in_child(
                600, [&] { return fail_each(c.scenario, c.backend, c.ranks); }),
            "");
}

// A process's facts about itself decide how its peers treat it, so a fact that
// was read in part, for lack of memory, must not be taken for the whole.
template <class Find>
void expect_whole_or_thrown(const Find& find) {
  const auto whole = find();
  for (int64_t k = 1;; ++k) {
    auto found = whole;
    FailingNew::arm(k);
    try {
      found = find();
    } catch (const std::bad_alloc&) {
    }
    if (!FailingNew::disarm()) break;
    EXPECT_EQ(found, whole) << "at allocation " << k;
  }
}

TEST(Facts, AreWholeOrMissing) {
  expect_whole_or_thrown(base::host_identity);
  expect_whole_or_thrown(
      [] { return store::ProcessIdentity::of_self().encode(); });
}

// The children return these, or another number.
constexpr int kWhole = 20, kBroken = 21, kNoneFailed = 22;

// Fails an allocation of a receive, which is the first operation with a handle
// in this process. A receive that failed and broke nothing has not started, so
// another one takes the message.
int fail_receive(int64_t k) {
  distwrap_init_options options = {};
  options.struct_size = sizeof options;
  options.has_rank = 1;
  options.world_size = 1;
  if (distwrap_init_process_group(&options, nullptr, nullptr) != DW_OK)
    return 3;
  const distwrap_peer self = {DW_RANK_OF_GROUP, 0};
  int64_t count = 1;
  float sent = 1, lost = 0, taken = 0;
  const distwrap_tensor from = c_tensor(&sent, &count),
                        nowhere = c_tensor(&lost, &count),
                        to = c_tensor(&taken, &count);
  distwrap_work work = nullptr;
  FailingNew::arm(k);
  const int32_t code =
      distwrap_irecv(&nowhere, self, 0, nullptr, &work, nullptr);
  if (!FailingNew::disarm()) return kNoneFailed;
  if (code == DW_OK || work != nullptr) return 4;
  if (distwrap_irecv(&to, self, 0, nullptr, &work, nullptr) != DW_OK)
    return kBroken;
  if (distwrap_send(&from, self, 0, nullptr, nullptr) != DW_OK) return 5;
  if (distwrap_work_wait(work, int64_t{5'000'000'000}, nullptr) != DW_OK)
    return 6;
  return lost == 0 && taken == sent ? kWhole : 7;
}

TEST(HandlesOfC, ThatFailStartNothing) {
  int whole = 0;
  std::string ended;
  for (int64_t k = 1;; ++k) {
    ended = testing::run_in_child(30, [&] { return fail_receive(k); });
    if (ended == absl::StrCat("the child returned ", kWhole))
      ++whole;
    else if (ended != absl::StrCat("the child returned ", kBroken))
      break;
  }
  EXPECT_EQ(ended, absl::StrCat("the child returned ", kNoneFailed));
  EXPECT_GE(whole, 1) << "there was memory for the handle";
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& backend, int ranks) {
    for (const Scenario& scenario : kScenarios)
      if (backend == "loopback" || backend == "shm" || !is_in_c(scenario))
        all.push_back({backend, ranks, scenario});
  };
  add("loopback", 1);
  for (const std::string& backend : testing::host_backends<std::string>()) {
    add(backend, 1);
    add(backend, 2);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(, Allocations, ::testing::ValuesIn(cases()),
                         [](const auto& one) {
                           return absl::StrCat(one.param.backend, "_",
                                               one.param.ranks, "_",
                                               one.param.scenario.name);
                         });

}  // namespace
}  // namespace distwrap
