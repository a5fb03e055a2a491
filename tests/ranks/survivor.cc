// A rank that works until something fails, then prints the error:
//
//   survivor OPERATION [async | child | refused | waits | gloo]
//
// child: rank 1 leaves a forked process behind, with all its descriptors.
// refused: rank 1 has a hook that refuses the second operation.
// The operation "groups" makes a group of all ranks and from it one of all but
// the last rank, calls on both, and ends both. "windows" is a put with a signal
// to the next rank and a wait for the previous rank's signal; "puts" is a put
// into another rank's memory for which no rank waits. These run over shared
// memory, unless gloo is given, and so does "redistribute": a reduction along
// an axis of a mesh of two rows, and an exchange of all ranks. In "moe" rank 1
// stays between the start and the finish of its second dispatch. waits: prints
// "waits for RANK" for each late rank that it notices, and "goes on" when they
// have come.
//
// It prints "ready" after the first success. On the first error it prints
// "error REASON TEXT" and then proves that the process lives on: the same call
// again, which must be refused, "alive", and a close.
#include "distwrap/distwrap.h"
#include "distwrap/moe.h"
#include "distwrap/redistribute.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using distwrap::ReduceOp;
using distwrap::TensorView;
using distwrap::Work;

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);  // a test waits for it
}

class Operation {
 public:
  Operation(std::string name, bool async)
      : name_(std::move(name)), async_(async), n_(distwrap::get_world_size()) {}

  absl::Status once() {
    if (name_ == "groups") return groups();
    if (name_ == "windows" || name_ == "puts") return windows();
    if (name_ == "moe") return moe();
    if (name_ == "redistribute") return redistribute();
    const absl::StatusOr<Work> work = start();
    if (!work.ok()) return work.status();
    return work->wait();
  }

 private:
  absl::StatusOr<Work> start() {
    const distwrap::OpOptions o{.async = async_};
    const TensorView small(small_.data(), kBlock);
    const TensorView large(large_.data(), kBlock * n_);
    if (name_ == "barrier") return distwrap::barrier(o);
    if (name_ == "broadcast")
      return distwrap::broadcast(small, distwrap::Peer::group(0), o);
    if (name_ == "all_reduce")
      return distwrap::all_reduce(small, ReduceOp::kMax, o);
    if (name_ == "all_gather")
      return distwrap::all_gather_into_tensor(large, small, o);
    if (name_ == "reduce_scatter")
      return distwrap::reduce_scatter_tensor(small, large, ReduceOp::kMax, o);
    if (name_ == "all_to_all")
      return distwrap::all_to_all_single(TensorView(other_.data(), kBlock * n_),
                                         large, {}, {}, o);
    if (name_ == "prepared") return prepared();
    if (name_ == "silence") return silence();
    return ring();
  }

  // An exchange that is prepared once.
  absl::StatusOr<Work> prepared() {
    if (!exchange_) {
      distwrap::Batch batch;
      batch.all_to_all_single(TensorView(other_.data(), kBlock * n_),
                              TensorView(large_.data(), kBlock * n_));
      absl::StatusOr<distwrap::PreparedOperation> made = batch.prepare();
      if (!made.ok()) return made.status();
      exchange_ = *std::move(made);
    }
    return exchange_.start({.async = async_});
  }

  absl::Status moe() {
    const bool again = static_cast<bool>(plan_);
    if (!again) {
      // Every rank has a token for each expert.
      std::vector<int32_t> experts;
      for (int32_t e = 0; e < n_; ++e) experts.push_back(e);
      const int64_t shape[] = {1, n_};
      absl::StatusOr<distwrap::MoePlan> plan = distwrap::moe_plan(
          TensorView(experts.data(), shape), {.num_experts = n_});
      if (!plan.ok()) return plan.status();
      plan_ = *std::move(plan);
    }
    const int64_t one[] = {1, kBlock}, all[] = {n_, kBlock};
    absl::StatusOr<distwrap::MoePending> pending = distwrap::moe_dispatch_start(
        plan_, TensorView(small_.data(), one), TensorView(large_.data(), all));
    if (!pending.ok()) return pending.status();
    if (again && distwrap::get_rank() == 1) pause();
    return pending->finish().status();
  }

  absl::Status redistribute() {
    const distwrap::MeshShape shape{{2, n_ / 2}};
    if (!mesh_) {
      absl::StatusOr<distwrap::DeviceMesh> made =
          distwrap::DeviceMesh::create(shape);
      if (!made.ok()) return made.status();
      mesh_ = *std::move(made);
    }
    const auto from = distwrap::Layout::parse(shape, "P,S(0)");
    const auto to = distwrap::Layout::parse(shape, "S(0),S(0)");
    if (!from.ok()) return from.status();
    if (!to.ok()) return to.status();
    const int64_t rows = kBlock;
    return distwrap::redistribute(
        mesh_, TensorView(small_.data(), rows / n_), **to,
        TensorView(large_.data(), rows * 2 / n_), **from, {rows});
  }

  // After a barrier, waits for a message that is never sent. No rank waits for
  // rank 1.
  absl::StatusOr<Work> silence() {
    if (!met_) {
      met_ = true;
      return distwrap::barrier();
    }
    int next = (distwrap::get_rank() + 1) % n_;
    if (next == 1) ++next;
    return distwrap::irecv(TensorView(small_.data(), kBlock),
                           distwrap::Peer::group(next));
  }

  absl::Status groups() {
    distwrap::SplitOptions all{.split_ranks = {{}}};
    for (int rank = 0; rank < n_; ++rank) all.split_ranks[0].push_back(rank);
    const auto whole = distwrap::split_group(all);
    if (!whole.ok()) return whole.status();
    distwrap::SplitOptions most{.parent = *whole,
                                .split_ranks = {all.split_ranks[0], {n_ - 1}}};
    most.split_ranks[0].pop_back();
    const auto part = distwrap::split_group(most);
    if (!part.ok()) return part.status();
    for (const distwrap::Group& group : {*part, *whole})
      if (absl::Status status =
              distwrap::all_reduce(TensorView(small_.data(), kBlock),
                                   ReduceOp::kMax, {.group = group})
                  .status();
          !status.ok())
        return status;
    return distwrap::destroy_process_group(*whole);
  }

  absl::Status windows() {
    if (!window_) {
      const auto made = distwrap::new_window(
          {.count = kBlock, .dtype = distwrap::DType::kF32});
      if (!made.ok()) return made.status();
      window_ = *made;
    }
    const TensorView some(small_.data(), 64);
    if (name_ == "puts")
      return window_
          .put(some, distwrap::Peer::group(distwrap::get_rank() == 1 ? 0 : 1),
               0)
          .status();
    ++round_;
    const int next = (distwrap::get_rank() + 1) % n_;
    const absl::Status put =
        window_
            .put_signal(some, distwrap::Peer::group(next), 0, 0, round_,
                        distwrap::SignalHow::kSet)
            .status();
    if (!put.ok()) return put;
    return window_.wait_signal(0, distwrap::Compare::kGe, round_).status();
  }

  // A message to the next rank and one from the previous.
  absl::StatusOr<Work> ring() {
    const int me = distwrap::get_rank();
    const TensorView in(other_.data(), kBlock), out(small_.data(), kBlock);
    const auto received =
        distwrap::irecv(in, distwrap::Peer::group((me + n_ - 1) % n_));
    if (!received.ok()) return received;
    const absl::Status sent =
        distwrap::send(out, distwrap::Peer::group((me + 1) % n_));
    if (!sent.ok()) return sent;
    return received;
  }

  static constexpr int64_t kBlock = 1 << 16;
  const std::string name_;
  const bool async_;
  const int n_;
  bool met_ = false;
  distwrap::MoePlan plan_;
  distwrap::PreparedOperation exchange_;
  distwrap::DeviceMesh mesh_;
  distwrap::Window window_;
  uint64_t round_ = 0;
  std::vector<float> small_ = std::vector<float>(kBlock),
                     large_ = std::vector<float>(kBlock * 8),
                     other_ = std::vector<float>(kBlock * 8);
};

bool on_shared_memory(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[2], "gloo") == 0) return false;
  for (const char* const one : {"groups", "windows", "puts", "redistribute"})
    if (std::strcmp(argv[1], one) == 0) return true;
  return false;
}

std::string line_of(const absl::Status& status) {
  return std::string(distwrap::reason_name(distwrap::error_reason(status))) +
         " " + std::string(status.message());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const absl::StatusOr<distwrap::Session> session =
      distwrap::init_process_group(
          {.backend = on_shared_memory(argc, argv) ? "shm" : "gloo"});
  if (!session.ok()) {
    say("init " + line_of(session.status()));
    return 3;
  }
  Operation operation(argv[1], argc > 2 && std::strcmp(argv[2], "async") == 0);
  absl::Status status = operation.once();
  if (argc > 2 && std::strcmp(argv[2], "child") == 0 &&
      distwrap::get_rank() == 1 && fork() == 0) {
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    sleep(30);
    _exit(0);
  }
  if (status.ok()) say("ready");
  std::atomic<bool> waits{false};
  distwrap::Hook hook;
  if (argc > 2 && std::strcmp(argv[2], "refused") == 0 &&
      distwrap::get_rank() == 1)
    hook = *distwrap::add_hook(
        {}, {.pre = [](const distwrap::HookedCall&) {
          return absl::PermissionDeniedError("not on my watch");
        }});
  if (argc > 2 && std::strcmp(argv[2], "waits") == 0)
    hook = *distwrap::add_hook(
        {}, {.straggler = [&](const distwrap::Straggling& straggling) {
          for (const distwrap::RankSeen& one : straggling.missing)
            say("waits for " + std::to_string(one.rank));
          waits = true;
        }});
  while (status.ok()) {
    status = operation.once();
    if (status.ok() && waits.exchange(false)) say("goes on");
  }
  say("error " + line_of(status));
  const absl::Status again = operation.once();
  say("again " + line_of(again));
  const absl::Status closed = distwrap::destroy_process_group();
  say(closed.ok() ? "alive" : "close " + line_of(closed));
  return 0;
}
