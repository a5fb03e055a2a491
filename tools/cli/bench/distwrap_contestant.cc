#include "bench/distwrap_contestant.h"

#include "distwrap/session.h"

#include <absl/strings/str_replace.h>

#include <utility>

namespace distwrap::bench {
namespace {

absl::Status status_of(const absl::StatusOr<Work>& work) {
  return work.status();
}

class DistwrapContestant final : public Contestant {
 public:
  DistwrapContestant(std::string name, Session session, Communicator* comm)
      : name_(std::move(name)), session_(std::move(session)), comm_(comm) {}
  DistwrapContestant(const DistwrapContestant&) = delete;
  DistwrapContestant& operator=(const DistwrapContestant&) = delete;
  ~DistwrapContestant() override {
    // What was measured is not undone by a close that fails.
    session_.close().IgnoreError();
  }

  std::string name() const override { return name_; }

  absl::StatusOr<std::unique_ptr<Call>> prepare(Case& c) override {
    Communicator* const comm = comm_;
    const TensorView in = c.in(), out = c.out();
    const ReduceOp reduce = c.spec().reduce;
    const int root = c.spec().root;
    // The case outlives its calls.
    const Counts in_counts{c.layout().in_counts};
    const Counts out_counts{c.layout().out_counts};
    const auto call = [](auto start) {
      return make_call([start] { return start().status(); });
    };
    switch (c.spec().op) {
      case Operation::kBarrier:
        return call([=] { return comm->barrier(); });
      case Operation::kBroadcast:
        return call([=] { return comm->broadcast(out, in, root); });
      case Operation::kReduce:
        return call([=] { return comm->reduce(out, in, root, reduce); });
      case Operation::kAllReduce:
        return call([=] { return comm->all_reduce(out, in, reduce); });
      case Operation::kGather:
        return call([=] { return comm->gather(out, in, root); });
      case Operation::kScatter:
        return call([=] { return comm->scatter(out, in, root); });
      case Operation::kAllGather:
        return call([=] { return comm->all_gather(out, in); });
      case Operation::kReduceScatter:
        return call([=] { return comm->reduce_scatter(out, in, reduce); });
      case Operation::kAllToAll:
        return call([=] { return comm->all_to_all(out, in); });
      case Operation::kGatherV:
        return call([=] { return comm->gather_v(out, in, root, out_counts); });
      case Operation::kScatterV:
        return call([=] { return comm->scatter_v(out, in, root, in_counts); });
      case Operation::kAllGatherV:
        return call([=] { return comm->all_gather_v(out, in, out_counts); });
      case Operation::kReduceScatterV:
        return call(
            [=] { return comm->reduce_scatter_v(out, in, in_counts, reduce); });
      case Operation::kAllToAllV:
        return call(
            [=] { return comm->all_to_all_v(out, in, out_counts, in_counts); });
      case Operation::kScan:
        return call([=] { return comm->scan(out, in, reduce); });
      case Operation::kExscan:
        return call([=] { return comm->exscan(out, in, reduce); });
      case Operation::kSendRecv:
        return ping_pong(c);
      case Operation::kRing:
        return ring(c);
    }
    return std::unique_ptr<Call>();
  }

 private:
  std::unique_ptr<Call> ping_pong(const Case& c) {
    if (c.spec().ranks < 2) return nullptr;
    Communicator* const comm = comm_;
    const TensorView in = c.in(), out = c.out();
    const int peer = c.partner();
    if (c.spec().rank % 2 == 0) {
      return make_call([=] {
        absl::Status sent = status_of(comm->send(in, peer));
        return sent.ok() ? status_of(comm->recv(out, peer)) : sent;
      });
    }
    return make_call([=] {
      absl::Status got = status_of(comm->recv(out, peer));
      return got.ok() ? status_of(comm->send(in, peer)) : got;
    });
  }

  // Every rank sends to the next and receives from the one before, at once.
  std::unique_ptr<Call> ring(const Case& c) {
    if (c.spec().ranks < 2) return nullptr;
    Communicator* const comm = comm_;
    const TensorView in = c.in(), out = c.out();
    const int right = c.right(), left = c.left();
    return make_call([=]() -> absl::Status {
      CallOptions async;
      async.async = true;
      auto got = comm->recv(out, left, 0, async);
      if (!got.ok()) return got.status();
      absl::Status sent = status_of(comm->send(in, right));
      absl::Status received = got->wait();
      return sent.ok() ? received : sent;
    });
  }

  std::string name_;
  Session session_;
  Communicator* comm_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Contestant>> make_distwrap_contestant(
    absl::string_view backend, const Setup& setup) {
  InitOptions options;
  options.backend = std::string(backend);
  options.rank = setup.rank;
  options.world_size = setup.ranks;
  options.store = setup.store;
  options.timeout = setup.timeout;
  options.init_timeout = setup.timeout;
  // Several sessions share the store: each group has a name of its own.
  options.group_name = absl::StrReplaceAll(setup.name, {{"/", "_"}});
  options.hints = setup.hints;
  auto session = Session::create(options);
  if (!session.ok()) return session.status();
  auto comm = session->world().communicator();
  if (!comm.ok()) return comm.status();
  return std::make_unique<DistwrapContestant>(setup.name, *session, *comm);
}

}  // namespace distwrap::bench
