#include "bench/distwrap_contestant.h"

#include "bench/window_call.h"
#include "distwrap/memory.h"
#include "distwrap/session.h"

#include <absl/strings/str_replace.h>

#include <cstring>
#include <optional>
#include <utility>

namespace distwrap::bench {
namespace {

absl::Status status_of(const absl::StatusOr<Work>& work) {
  return work.status();
}

// Calls on memory of the backend, which replaces the buffers of the case.
class LentCall final : public TimedCall {
 public:
  static absl::StatusOr<std::unique_ptr<LentCall>> make(
      const MemAllocator& allocator, Case& c) {
    std::unique_ptr<LentCall> made(new LentCall(c));
    absl::StatusOr<Memory> in = allocator.allocate(c.in_bytes());
    if (!in.ok()) return in.status();
    made->in_ = *std::move(in);
    if (c.in().data() == c.out().data()) {
      made->out_ = made->in_;
    } else {
      absl::StatusOr<Memory> out = allocator.allocate(c.out_bytes());
      if (!out.ok()) return out.status();
      made->out_ = *std::move(out);
    }
    std::memcpy(made->in_.data(), c.in().data(),
                static_cast<size_t>(c.in_bytes()));
    return made;
  }

  TensorView in() const { return at(in_, case_.in()); }
  TensorView out() const { return at(out_, case_.out()); }
  void call(std::unique_ptr<TimedCall> call) { call_ = std::move(call); }

  absl::Status repeat(int64_t times) override { return call_->repeat(times); }
  absl::Status spoil() override {
    if (case_.in().data() != case_.out().data())
      std::memcpy(out_.data(), case_.out().data(), out_bytes());
    return absl::OkStatus();
  }
  absl::Status fetch() override {
    std::memcpy(case_.out().data(), out_.data(), out_bytes());
    return absl::OkStatus();
  }

 private:
  explicit LentCall(Case& c) : case_(c) {}
  static TensorView at(const Memory& memory, const TensorView& like) {
    return {memory.data(), like.count(), like.dtype()};
  }
  size_t out_bytes() const { return static_cast<size_t>(case_.out_bytes()); }

  Case& case_;
  Memory in_, out_;
  std::unique_ptr<TimedCall> call_;
};

class DistwrapContestant final : public Contestant {
 public:
  DistwrapContestant(std::string name, Session session, Communicator* comm,
                     std::optional<MemAllocator> allocator)
      : name_(std::move(name)),
        session_(std::move(session)),
        comm_(comm),
        allocator_(std::move(allocator)) {}
  DistwrapContestant(const DistwrapContestant&) = delete;
  DistwrapContestant& operator=(const DistwrapContestant&) = delete;
  ~DistwrapContestant() override {
    // A close that fails does not spoil the measurement.
    session_.close().IgnoreError();
  }

  std::string name() const override { return name_; }

  absl::StatusOr<std::unique_ptr<TimedCall>> prepare(Case& c) override {
    // Windows have memory of their own.
    if (!allocator_ || on_window(c.spec().op))
      return prepare(c, c.in(), c.out());
    auto lent = LentCall::make(*allocator_, c);
    if (!lent.ok()) return lent.status();
    auto call = prepare(c, (*lent)->in(), (*lent)->out());
    if (!call.ok() || *call == nullptr) return call;
    (*lent)->call(*std::move(call));
    return std::unique_ptr<TimedCall>(*std::move(lent));
  }

 private:
  absl::StatusOr<std::unique_ptr<TimedCall>> prepare(Case& c,
                                                     const TensorView& in,
                                                     const TensorView& out) {
    Communicator* const comm = comm_;
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
        return ping_pong(c, in, out);
      case Operation::kRing:
        return ring(c, in, out);
      case Operation::kWinPut:
      case Operation::kWinPutRate:
      case Operation::kWinGet:
      case Operation::kWinFetchAdd:
      case Operation::kWinSignal:
        return make_window_call(c, session_.world());
    }
    return std::unique_ptr<TimedCall>();
  }

  std::unique_ptr<TimedCall> ping_pong(const Case& c, const TensorView& in,
                                       const TensorView& out) {
    if (c.spec().ranks < 2) return nullptr;
    Communicator* const comm = comm_;
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

  // Every rank sends to the next and at the same time receives from the
  // previous.
  std::unique_ptr<TimedCall> ring(const Case& c, const TensorView& in,
                                  const TensorView& out) {
    if (c.spec().ranks < 2) return nullptr;
    Communicator* const comm = comm_;
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
  std::optional<MemAllocator> allocator_;
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
  // The sessions share a store, so each group needs a name of its own.
  options.group_name = absl::StrReplaceAll(setup.name, {{"/", "_"}});
  options.hints = setup.hints;
  auto session = Session::create(options);
  if (!session.ok()) return session.status();
  auto comm = session->world().communicator();
  if (!comm.ok()) return comm.status();
  std::optional<MemAllocator> allocator;
  if (setup.shared_memory) {
    auto found = get_mem_allocator(session->world());
    if (!found.ok()) return found.status();
    allocator = *std::move(found);
  }
  return std::make_unique<DistwrapContestant>(
      setup.shared_memory ? setup.name + "/shared" : setup.name, *session,
      *comm, std::move(allocator));
}

}  // namespace distwrap::bench
