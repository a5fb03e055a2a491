// Atomic operations on parts that are not mapped: the operands go to the
// target, whose processor computes, and the previous elements come back. UCX's
// own atomics support few types, and without a network card UCX 1.22 has none
// on connections that notice a lost peer.
#include "backend.h"
#include "sdk/atomics.h"
#include "sdk/fail.h"
#include "wait.h"
#include "window.h"

#include <algorithm>
#include <cstring>
#include <deque>

namespace ucx_backend {
namespace {

// The bytes of operands in one message, and the number of messages in flight
// before a wait; Open MPI waits after as many operations.
constexpr int64_t kPieceBytes = 4096;
constexpr size_t kAtOnce = 64;

struct Request {
  MessageHead head;
  uint64_t number, offset;
  int64_t count;
  uint16_t kind, reduce;
  dw_dtype dtype;
};
struct Reply {
  MessageHead head;
  uint64_t number;
  int32_t code;
  uint32_t reserved;
};

struct Piece {
  Piece(const EngineOp& call, const Request& asked)
      : request(asked), sent(call), answered(call) {}

  const Request request;
  Transfer sent, answered;
  Question question;
};

// The elements of `in` that are operands of so many results.
int64_t operands(uint16_t kind, int64_t count) {
  return kind == DW_OP_COMPARE_SWAP ? 2 : count;
}

class FarAtomic {
 public:
  FarAtomic(Window& window, WindowPart& part, const dw_op& op)
      : window_(window),
        part_(part),
        op_(op),
        size_(op.in.dtype.bits / 8),
        count_(op.kind == DW_OP_COMPARE_SWAP ? 1 : op.in.count) {}

  int32_t run(dw_error* error) {
    Worker::Hold hold(window_.worker);
    int32_t code = DW_OK;
    for (int64_t at = 0; at < count_ && code == DW_OK;) {
      std::deque<Piece> pieces;
      for (; at < count_ && pieces.size() < kAtOnce; at += most()) {
        begin(&pieces, at, std::min(most(), count_ - at));
      }
      for (Piece& piece : pieces)
        if (const int32_t failed = end(hold, piece, error)) code = failed;
    }
    return code;
  }

 private:
  int64_t most() const { return kPieceBytes / size_; }

  void begin(std::deque<Piece>* pieces, int64_t at, int64_t count) {
    EngineOp call;
    call.sends = call.remote = true;
    call.peer = op_.peer;
    call.deadline_ns = op_.deadline_ns;
    call.timeout_ns = op_.timeout_ns;
    const Request request = {
        {Message::kAtomic, window_.comm->rank},
        ++window_.asked,
        op_.window_offset + static_cast<uint64_t>(at * size_),
        count,
        op_.kind,
        op_.reduce,
        op_.in.dtype};
    Piece& piece = pieces->emplace_back(call, request);
    piece.question.answered = &piece.answered;
    if (op_.kind != DW_OP_ACCUMULATE) {
      piece.question.out = static_cast<char*>(op_.out.data) + at * size_;
      piece.question.bytes = static_cast<size_t>(count * size_);
    }
    piece.sent.ended = piece.answered.ended = &part_.closed();
    window_.questions.emplace(request.number, &piece.question);
    window_.worker.expect(&piece.answered);
    Worker::Access access;
    access.what = Worker::Access::What::kTell;
    access.head = &piece.request;
    access.head_bytes = sizeof piece.request;
    access.data = static_cast<const char*>(op_.in.data) + at * size_;
    access.data_bytes = static_cast<size_t>(operands(op_.kind, count) * size_);
    window_.worker.begin(&piece.sent, access);
  }

  int32_t end(Worker::Hold& hold, Piece& piece, dw_error* error) {
    for (Transfer* const transfer : {&piece.sent, &piece.answered})
      if (transfer->is_open())
        wait_for(window_.comm, window_.worker, hold, *transfer);
    window_.questions.erase(piece.request.number);
    for (const Transfer* const transfer : {&piece.sent, &piece.answered})
      if (const int32_t code = result_of(window_, *transfer, error))
        return code;
    if (piece.question.code == DW_OK) return DW_OK;
    return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, op_.peer,
                   piece.question.code, "ucx: the target refused an atomic");
  }

  Window& window_;
  WindowPart& part_;
  const dw_op& op_;
  const int64_t size_, count_;
};

// Runs a request of another rank on this rank's part.
int32_t serve(const Window& window, const Request& request, void* in,
              size_t bytes, char* out) {
  const WindowPart& mine = window.parts[static_cast<size_t>(window.comm->rank)];
  const uint64_t size = request.dtype.bits / 8u;
  const auto count = static_cast<uint64_t>(request.count);
  if (request.kind < DW_OP_ACCUMULATE || request.kind > DW_OP_COMPARE_SWAP ||
      size == 0 || count * size > kPieceBytes || count == 0 ||
      count > kPieceBytes || request.offset > mine.bytes ||
      count * size > mine.bytes - request.offset ||
      bytes !=
          static_cast<uint64_t>(operands(request.kind, request.count)) * size)
    return DW_INVALID_ARGUMENT;
  dw_op op = {};
  op.kind = request.kind;
  op.reduce = request.reduce;
  op.in.data = in;
  op.in.count = operands(request.kind, request.count);
  op.in.dtype = request.dtype;
  op.out.data = out;
  op.out.count = request.count;
  op.out.dtype = request.dtype;
  return dw_sdk::run_atomic(*window.comm->host, op, mine.data + request.offset,
                            nullptr);
}

}  // namespace

int32_t run_far_atomic(Window& window, WindowPart& part, const dw_op& op,
                       dw_error* error) {
  if (const uint32_t closed = part.closed().load(std::memory_order_seq_cst))
    return dw_hostmem::fail_closed(window.backend, closed, op.peer, error);
  dw_reduce_fn kernel;
  if (int32_t code =
          dw_sdk::check_atomic(*window.comm->host, op,
                               part.address + op.window_offset, &kernel, error))
    return code;
  return FarAtomic(window, part, op).run(error);
}

void hear_atomic(Window& window, const void* header, size_t header_bytes,
                 void* data, size_t bytes, ucp_ep_h from) {
  Request request;
  if (header_bytes != sizeof request) return;
  std::memcpy(&request, header, sizeof request);
  Worker::Answer& answer = window.worker.new_answer();
  const bool fetches = request.kind != DW_OP_ACCUMULATE;
  answer.data.resize(fetches ? kPieceBytes : 0);
  const int32_t code = serve(window, request, data, bytes, answer.data.data());
  answer.data.resize(fetches && code == DW_OK
                         ? static_cast<size_t>(request.count) *
                               (request.dtype.bits / 8u)
                         : 0);
  const Reply reply = {
      {Message::kAnswer, window.comm->rank}, request.number, code, 0};
  answer.head.assign(reinterpret_cast<const char*>(&reply), sizeof reply);
  window.worker.send(&answer, from);
}

void hear_answer(Window& window, const void* header, size_t header_bytes,
                 const void* data, size_t bytes) {
  Reply reply;
  if (header_bytes != sizeof reply) return;
  std::memcpy(&reply, header, sizeof reply);
  const auto found = window.questions.find(reply.number);
  if (found == window.questions.end()) return;
  Question& question = *found->second;
  question.code = reply.code;
  if (reply.code == DW_OK && bytes != question.bytes)
    question.code = DW_INTERNAL;
  else if (bytes != 0)
    std::memcpy(question.out, data, bytes);
  window.questions.erase(found);
  window.worker.answered(question.answered);
}

}  // namespace ucx_backend
