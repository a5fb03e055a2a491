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
    switch (c.spec().op) {
      case Operation::kBarrier:
        return make_call([=] { return status_of(comm->barrier()); });
      case Operation::kAllReduce:
        return make_call(
            [=] { return status_of(comm->all_reduce(out, in, reduce)); });
      case Operation::kAllGather:
        return make_call([=] { return status_of(comm->all_gather(out, in)); });
      case Operation::kReduceScatter:
        return make_call(
            [=] { return status_of(comm->reduce_scatter(out, in, reduce)); });
      case Operation::kBroadcast:
        return make_call(
            [=] { return status_of(comm->broadcast(out, in, root)); });
      case Operation::kAllToAll:
        return make_call([=] { return status_of(comm->all_to_all(out, in)); });
      case Operation::kSendRecv:
        return ping_pong(c);
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
