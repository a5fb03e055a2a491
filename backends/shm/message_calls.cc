// Waiting for messages.
#include "backend.h"
#include "copy.h"
#include "wait.h"

namespace shm_backend {
namespace {

class Ended final : public Condition {
 public:
  Ended(Messages& messages, Message& message)
      : messages_(messages), message_(message) {}
  bool holds() override {
    if (ended()) return true;
    // Other ranks than the peer may wait for this rank too.
    messages_.progress(++looks_ % 16 == 0 ? -1 : message_.peer);
    return ended();
  }
  bool awaits(int rank) override { return rank == message_.peer; }
  // Assumes 4 GB/s.
  int64_t busy_ns() override {
    return static_cast<int64_t>(message_.data.bytes / 4);
  }

 private:
  bool ended() const {
    return message_.state.load(std::memory_order_acquire) !=
           Message::State::kOpen;
  }

  Messages& messages_;
  Message& message_;
  unsigned looks_ = 0;
};

class Driven final : public Condition {
 public:
  Driven(Messages& messages, bool (*stop)(const void*), const void* what)
      : messages_(messages), stop_(stop), what_(what) {}
  bool holds() override {
    messages_.progress_for_others();
    return !messages_.has_open_works() || stop_(what_);
  }
  bool awaits(int rank) override { return messages_.awaits(rank); }

 private:
  Messages& messages_;
  bool (*const stop_)(const void*);
  const void* const what_;
};

int32_t broken(Comm* comm, const dw_error& why, dw_error* error) {
  dw_error first = why;
  const int32_t code = comm->failure.fail(why, &first);
  comm->messages.fail_all(first);
  if (error != nullptr) *error = first;
  return code;
}

}  // namespace

int32_t wait_for(Comm* comm, Message& message, const EngineOp& call,
                 dw_error* error) {
  Ended ended(comm->messages, message);
  Limit limit(call.deadline_ns, call.timeout_ns);
  bool over = false;
  comm->waits(call);
  for (int i = comm->looks; i > 0 && !over; --i) {
    over = ended.holds();
    if (!over) pause();
  }
  dw_error why = {};
  const int32_t code =
      over ? int32_t{DW_OK} : wait_slow(comm, ended, limit, &why);
  if (code == DW_OK &&
      message.state.load(std::memory_order_acquire) == Message::State::kDone)
    return DW_OK;
  if (code == DW_OK) comm->failure.check(&why);
  return broken(comm, why, error);
}

int32_t run_message(Comm* comm, const EngineOp& call, dw_error* error) {
  comm->under_way(call);
  for (int i = comm->looks; i > 0; --i) {
    const Messages::AtOnce moved = comm->messages.move_at_once(call);
    if (moved == Messages::AtOnce::kDone) [[likely]]
      return DW_OK;
    if (moved == Messages::AtOnce::kNo) break;
    pause();
    if (i == comm->looks - kSoonLooks) comm->waits(call);
  }
  Message message(call);
  comm->messages.begin(&message);
  if (message.state.load(std::memory_order_acquire) == Message::State::kDone)
    return DW_OK;
  return wait_for(comm, message, call, error);
}

void drive_messages(Comm* comm, bool (*stop)(const void*), const void* what) {
  Driven driven(comm->messages, stop, what);
  Limit never(0, 0);
  dw_error why = {};
  if (wait_slow(comm, driven, never, &why) != DW_OK) broken(comm, why, nullptr);
}

}  // namespace shm_backend
