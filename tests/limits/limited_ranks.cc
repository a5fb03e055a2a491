#include "limited_ranks.h"

#include "distwrap/distwrap.h"

#include <barrier>
#include <future>
#include <optional>
#include <thread>

namespace distwrap::testing {
namespace {

// A rank that is not told of a failure runs into the limit of its test.
constexpr absl::Duration kTimeout = absl::Seconds(60);

absl::Status wait_for(const absl::StatusOr<Work>& work) {
  return work.ok() ? work->wait() : work.status();
}

absl::Status call_async(std::vector<float>& x) {
  return wait_for(all_reduce(TensorView(x), ReduceOp::kSum, {.async = true}));
}

absl::Status call_back(std::vector<float>& x) {
  std::promise<void> called;
  const absl::StatusOr<Work> work =
      all_reduce(TensorView(x), ReduceOp::kSum, {.async = true});
  if (!work.ok()) return work.status();
  work->on_done([&](const absl::Status&) { called.set_value(); });
  const absl::Status status = work->wait();
  called.get_future().wait();
  return status;
}

absl::Status use_window(std::vector<float>& x, int rank, int size) {
  const absl::StatusOr<Window> window = new_window({.memory = TensorView(x)});
  if (!window.ok()) return window.status();
  float one = 1.0f;
  absl::Status status =
      window->put(TensorView(&one, 1), Peer::group((rank + 1) % size), 0)
          .status();
  if (status.ok()) status = window->flush().status();
  absl::Status ended = window->destroy();
  return status.ok() ? ended : status;
}

Reached run(Session& session, std::vector<float>& x) {
  bind_session(session);
  absl::Status status = all_reduce(TensorView(x)).status();
  if (!status.ok()) return {"all_reduce", status};
  if (status = call_async(x); !status.ok()) return {"async", status};
  if (status = call_back(x); !status.ok()) return {"callback", status};
  status = use_window(x, session.rank(), session.world_size());
  if (!status.ok()) return {"window", status};
  const auto group = split_group_by_color(0, 0);
  if (!group.ok()) return {"split", group.status()};
  if (status = destroy_process_group(*group); !status.ok())
    return {"end of a group", status};
  return {};
}

}  // namespace

std::vector<Reached> run_limited(const std::string& backend, int ranks,
                                 const std::function<void()>& limit,
                                 const std::function<void()>& unlimit) {
  const auto store = Store::in_memory();
  std::barrier<> together(ranks);
  std::vector<Reached> reached(static_cast<size_t>(ranks));
  const auto body = [&](int me) {
    const InitOptions options{.backend = backend,
                              .rank = me,
                              .world_size = ranks,
                              .store = store,
                              .timeout = kTimeout,
                              .init_timeout = kTimeout};
    std::vector<float> x(64, 1.0f);
    Reached& mine = reached[static_cast<size_t>(me)];
    together.arrive_and_wait();
    if (me == 0) limit();
    together.arrive_and_wait();
    {
      absl::StatusOr<Session> session = Session::create(options);
      if (session.ok()) {
        mine = run(*session, x);
        const absl::Status closed = session->close(absl::Seconds(5));
        if (mine.step.empty() && !closed.ok()) mine = {"close", closed};
        bind_session({});
      } else {
        mine = {"start", session.status()};
      }
    }
    together.arrive_and_wait();
    if (me == 0) unlimit();
    together.arrive_and_wait();
  };
  std::vector<std::thread> others;
  for (int me = 1; me < ranks; ++me) others.emplace_back(body, me);
  body(0);
  for (std::thread& other : others) other.join();
  return reached;
}

bool may_say(const absl::Status& status, const std::string& backend,
             bool is_alone) {
  switch (error_reason(status)) {
    case Reason::kOutOfMemory:
    case Reason::kResourceLimit:
      return true;
    case Reason::kBackendFailed:
      return backend == "gloo" || backend == "ucx";
    case Reason::kAborted:
    case Reason::kPeerLost:
    case Reason::kGroupBroken:
    case Reason::kGroupClosed:
    case Reason::kRefused:
      return !is_alone;
    default:
      return status.ok();
  }
}

}  // namespace distwrap::testing
