#include "algo/windows/window.h"

#include "algo/below/dtypes.h"
#include "algo/decorator.h"
#include "algo/reduce_kernels.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace distwrap::algo::windows {
namespace {

uint64_t bytes_of(const dw_buf& buffer) {
  return static_cast<uint64_t>(buffer.count) * (buffer.dtype.bits / 8u);
}

bool is_atomic(uint16_t kind) {
  return kind == DW_OP_ACCUMULATE || kind == DW_OP_FETCH_OP ||
         kind == DW_OP_COMPARE_SWAP;
}

bool has_result(uint16_t kind) {
  return kind == DW_OP_GET || kind == DW_OP_FETCH_OP ||
         kind == DW_OP_COMPARE_SWAP;
}

What what_of(uint16_t kind) {
  switch (kind) {
    case DW_OP_PUT:
      return What::kPut;
    case DW_OP_GET:
      return What::kGet;
    case DW_OP_ACCUMULATE:
      return What::kAccumulate;
    case DW_OP_FETCH_OP:
      return What::kFetchOp;
    case DW_OP_COMPARE_SWAP:
      return What::kCompareSwap;
    default:
      return What::kSignal;
  }
}

Deadline deadline_of(const dw_op& op, int64_t now) {
  if (op.deadline_ns != 0) return Deadline::at_ns(op.deadline_ns);
  int64_t until;
  if (op.timeout_ns == 0 || __builtin_add_overflow(now, op.timeout_ns, &until))
    return Deadline::never();
  return Deadline::at_ns(until);
}

int32_t done(int32_t code) { return code == DW_OK ? int32_t{DW_DONE} : code; }

int32_t stale(int rank, dw_error* error) {
  const int32_t code =
      fail(error, DW_FAILED_PRECONDITION, DW_REASON_STALE_EPOCH,
           "the target has ended the window");
  if (error != nullptr) error->peer = rank;
  return code;
}

// Turns the result of an operation on a part into an error.
int32_t told(int32_t code, int rank, dw_error* error) {
  if (code == DW_FAILED_PRECONDITION) return stale(rank, error);
  if (code == DW_INVALID_ARGUMENT)
    return invalid(error, "outside of the target's part or signals");
  return code;
}

}  // namespace

void append_rows(std::vector<dw_caps_row>* rows) {
  constexpr uint32_t kWaits = DW_FLAG_CALLER_WAITS;
  constexpr uint64_t kMoves = DW_BIT(DW_OP_GET) | DW_BIT(DW_OP_COMPARE_SWAP);
  constexpr uint64_t kReduces =
      DW_BIT(DW_OP_ACCUMULATE) | DW_BIT(DW_OP_FETCH_OP);
  constexpr uint64_t kCalls = DW_BIT(DW_OP_SIGNAL) | DW_BIT(DW_OP_WAIT_SIGNAL) |
                              DW_BIT(DW_OP_FLUSH) | DW_BIT(DW_OP_FENCE);
  constexpr uint64_t kAll = DW_BIT(kDTypes) - 1;
  const auto add = [&](uint64_t ops, uint64_t dtypes, uint32_t reductions,
                       uint32_t flags) {
    rows->push_back(
        {ops, dtypes, reductions, flags, DW_BIT(DW_DEVICE_CPU), 0, 0, 0});
  };
  add(DW_BIT(DW_OP_PUT), kAll, DW_BIT(DW_REDUCE_NONE),
      kWaits | DW_FLAG_WITH_SIGNAL);
  add(kMoves, kAll, DW_BIT(DW_REDUCE_NONE), kWaits);
  add(kCalls, 0, DW_BIT(DW_REDUCE_NONE), kWaits);
  for (int dtype = 0; dtype < kDTypes; ++dtype) {
    uint32_t reductions = 0;
    for (uint16_t reduce = DW_REDUCE_SUM; reduce <= DW_REDUCE_BXOR; ++reduce)
      if (reduce_kernel(kDTypeOf[dtype], reduce) != nullptr)
        reductions |= 1u << reduce;
    add(kReduces, DW_BIT(dtype), reductions, kWaits);
  }
}

Window::Window(std::shared_ptr<MessageService> service,
               std::shared_ptr<Part> part)
    : service_(std::move(service)),
      part_(std::move(part)),
      rank_(service_->rank()),
      size_(service_->size()),
      sent_(std::make_unique<std::atomic<uint64_t>[]>(
          static_cast<size_t>(size_))),
      done_(std::make_unique<std::atomic<uint64_t>[]>(
          static_cast<size_t>(size_))) {
  service_->add(part_);
}

dw_reduce_fn Window::kernel(const dw_op& op) const {
  const dw_host_api& host = service_->backend().host();
  return op.reduce >= DW_REDUCE_SUM && op.reduce <= DW_REDUCE_BXOR
             ? host.reduce_kernel(host.self, op.in.dtype, op.reduce)
             : nullptr;
}

int32_t Window::check(const dw_op& op, dw_error* error) const {
  const uint32_t known =
      DW_FLAG_CALLER_WAITS | (op.kind == DW_OP_PUT ? DW_FLAG_WITH_SIGNAL : 0u);
  if (dw_unknown_flags(op.flags, known) != 0)
    return unsupported(error, "a flag is not supported");
  if (op.stream.device_type != 0 && op.stream.device_type != DW_DEVICE_CPU)
    return unsupported(error, "only host memory is composed");
  for (const dw_ext* next = op.next; next != nullptr; next = next->next)
    if ((next->flags & DW_EXT_REQUIRED) != 0)
      return unsupported(error, "an extension that is required is not known");
  const bool any =
      op.kind == DW_OP_FENCE || op.kind == DW_OP_FLUSH ||
      (op.kind == DW_OP_WAIT_SIGNAL && op.signal_index != DW_SIGNAL_PAIR);
  if (op.peer < (any ? -1 : 0) || op.peer >= size_)
    return fail(error, DW_INVALID_ARGUMENT, DW_REASON_RANK_NOT_MEMBER,
                "the target is not a rank of the group");
  if ((op.kind == DW_OP_ACCUMULATE || op.kind == DW_OP_FETCH_OP) &&
      kernel(op) == nullptr)
    return unsupported(error, "the reduction is not of this type");
  const bool signals =
      op.kind == DW_OP_SIGNAL || (op.flags & DW_FLAG_WITH_SIGNAL) != 0;
  if (signals && op.signal_index != DW_SIGNAL_PAIR &&
      (op.signal_index >= part_->signals() ||
       (op.signal_how != DW_SIGNAL_SET && op.signal_how != DW_SIGNAL_ADD)))
    return invalid(error, "there is no such signal or effect of one");
  return DW_OK;
}

int32_t Window::query(const dw_op& op, dw_error* error) const {
  const int32_t code = check(op, error);
  return code == DW_OK ? int32_t{DW_DONE} : code;
}

int32_t Window::submit(const dw_op& op, dw_work* work, dw_error* error) {
  if (int32_t code = check(op, error)) return code;
  if (op.kind == DW_OP_FENCE) return DW_DONE;
  const Deadline deadline = deadline_of(op, service_->backend().now_ns());
  if ((op.flags & DW_FLAG_CALLER_WAITS) != 0) work = nullptr;
  if (op.kind == DW_OP_WAIT_SIGNAL) {
    if ((op.flags & DW_FLAG_CALLER_WAITS) == 0)
      return unsupported(error, "a wait for a signal holds its caller");
    return wait_signal(op, deadline, error);
  }
  if (int32_t code = service_->check(error)) return code;
  if (op.kind == DW_OP_FLUSH) return flush(op, work, deadline, error);
  if (op.peer == rank_) return done(told(run_here(op), rank_, error));
  if (part_->is_closed_by(op.peer)) return stale(op.peer, error);
  return send(op, work, deadline, error);
}

int32_t Window::wait_signal(const dw_op& op, Deadline deadline,
                            dw_error* error) {
  return op.signal_index == DW_SIGNAL_PAIR
             ? part_->wait_pair(op.peer, deadline, error)
             : part_->wait(op.signal_index, op.compare, op.value, deadline,
                           error);
}

int32_t Window::run_here(const dw_op& op) {
  const uint64_t at = op.window_offset;
  const uint64_t element = op.in.dtype.bits / 8u;
  int32_t code = DW_OK;
  switch (op.kind) {
    case DW_OP_PUT:
      code = part_->put(at, op.in.data, bytes_of(op.in));
      break;
    case DW_OP_GET:
      return part_->get(at, op.out.data, bytes_of(op.out));
    case DW_OP_ACCUMULATE:
    case DW_OP_FETCH_OP:
      return part_->reduce(
          at, op.in.data, op.kind == DW_OP_FETCH_OP ? op.out.data : nullptr,
          static_cast<uint64_t>(op.in.count), element, kernel(op));
    case DW_OP_COMPARE_SWAP:
      return part_->compare_swap(at, op.in.data, op.out.data, element);
    default:
      return part_->raise(rank_, op.signal_index, op.signal_how, op.value);
  }
  if (code == DW_OK && (op.flags & DW_FLAG_WITH_SIGNAL) != 0)
    code = part_->raise(rank_, op.signal_index, op.signal_how, op.value);
  return code;
}

int32_t Window::send(const dw_op& op, dw_work* work, Deadline deadline,
                     dw_error* error) {
  const auto message = std::make_shared<OutgoingMessage>();
  FrameHeader& head = message->frame.head;
  head.window = part_->uid();
  head.what = what_of(op.kind);
  head.offset = op.window_offset;
  if (op.kind != DW_OP_GET && op.kind != DW_OP_SIGNAL)
    head.bytes = bytes_of(op.in);
  if (op.kind == DW_OP_SIGNAL || (op.flags & DW_FLAG_WITH_SIGNAL) != 0) {
    head.signal = op.signal_index;
    head.signal_how = op.signal_index == DW_SIGNAL_PAIR
                          ? uint16_t{DW_SIGNAL_ADD}
                          : op.signal_how;
    head.value = op.value;
  }
  if (is_atomic(op.kind)) {
    head.reduce = op.reduce;
    head.dtype_code = op.in.dtype.code;
    head.dtype_bits = op.in.dtype.bits;
  }
  const bool fits = message->frame.holds_all();
  if (fits && head.bytes != 0)
    std::memcpy(message->frame.data, op.in.data, head.bytes);
  message->data = static_cast<const char*>(op.in.data);
  std::shared_ptr<Pending> pending;
  if (!fits || has_result(op.kind)) {
    pending = std::make_shared<Pending>();
    pending->replies = 1;  // for `launch`
    if (!fits) {
      pending->sends = 1;
      message->pending = pending;
    }
  }
  if (has_result(op.kind)) {
    head.wanted = bytes_of(op.out);
    head.request = service_->expect({.pending = pending,
                                     .peer = op.peer,
                                     .out = static_cast<char*>(op.out.data),
                                     .bytes = head.wanted});
  }
  if (int32_t code =
          service_->post(op.peer, message, work == nullptr, deadline, error)) {
    if (pending != nullptr) service_->forget(*pending);
    return code;
  }
  sent_[static_cast<size_t>(op.peer)].fetch_add(1);
  if (pending == nullptr) return DW_DONE;
  return service_->launch(pending, work, deadline, error);
}

int32_t Window::flush(const dw_op& op, dw_work* work, Deadline deadline,
                      dw_error* error) {
  std::shared_ptr<Pending> pending;
  for (int rank = 0; rank < size_; ++rank) {
    const auto r = static_cast<size_t>(rank);
    const uint64_t sent = sent_[r].load();
    if ((op.peer >= 0 && rank != op.peer) || done_[r].load() >= sent) continue;
    if (pending == nullptr) {
      pending = std::make_shared<Pending>();
      pending->replies = 1;
    }
    const auto message = std::make_shared<OutgoingMessage>();
    message->frame.head.window = part_->uid();
    message->frame.head.what = What::kFlush;
    message->frame.head.request = service_->expect({.pending = pending,
                                                    .peer = rank,
                                                    .flushed = &done_[r],
                                                    .flushes = sent});
    if (int32_t code =
            service_->post(rank, message, work == nullptr, deadline, error)) {
      service_->forget(*pending);
      return code;
    }
  }
  return pending == nullptr ? int32_t{DW_DONE}
                            : service_->launch(pending, work, deadline, error);
}

int32_t Window::map(int32_t rank, void** address, uint64_t* bytes,
                    dw_error* error) const {
  if (rank < 0 || rank >= size_) return invalid(error, "there is no such rank");
  if (rank != rank_) {
    const int32_t code = unsupported(
        error,
        "a part of another rank is reached by messages here, not mapped");
    if (error != nullptr) error->peer = rank;
    return code;
  }
  *address = part_->data();
  *bytes = part_->bytes();
  return DW_OK;
}

void Window::close(int64_t deadline_ns) {
  constexpr int64_t kPatience = 50'000'000;
  part_->close();
  service_->remove(part_->uid());
  int64_t until = service_->backend().now_ns() + kPatience;
  if (deadline_ns != 0) until = std::min(until, deadline_ns);
  const Deadline deadline = Deadline::at_ns(until);
  const auto pending = std::make_shared<Pending>();
  pending->replies = 1;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const auto message = std::make_shared<OutgoingMessage>();
    message->frame.head.window = part_->uid();
    message->frame.head.what = What::kClose;
    message->frame.head.request =
        service_->expect({.pending = pending, .peer = rank});
    if (service_->post(rank, message, true, deadline, nullptr) != DW_OK) break;
  }
  service_->launch(pending, nullptr, deadline, nullptr);
}

}  // namespace distwrap::algo::windows
