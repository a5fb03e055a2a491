#include "algo/compose/carried_message.h"

#include "algo/below/dtypes.h"
#include "algo/compose/check.h"
#include "algo/compose/comm.h"
#include "algo/decorator.h"
#include "sdk/message_mismatch.h"

#include <memory>
#include <new>

namespace distwrap::algo::compose {
namespace {

const dw_buf& buffer_of(const dw_op& op) {
  return op.kind == DW_OP_SEND ? op.in : op.out;
}

}  // namespace

CarriedMessage::CarriedMessage(Comm& comm, const dw_op& op, Cell& above)
    : comm_(comm),
      op_(op),
      above_(above),
      mine_{static_cast<uint64_t>(op_dtype(op)),
            static_cast<uint64_t>(buffer_of(op).count) *
                dtype_bytes(op_dtype(op))},
      theirs_(mine_),
      head_(*this),
      bytes_(*this) {}

int32_t CarriedMessage::start(Comm& comm, const dw_op& op, Cell& above,
                              bool waits, dw_error* error) {
  std::unique_ptr<CarriedMessage> made(new (std::nothrow)
                                           CarriedMessage(comm, op, above));
  if (made == nullptr) return no_memory(error);
  const int as = comm.backend().recipes().message_carrier(op_dtype(op));
  {
    // No other message of this tag comes between the two.
    base::MutexLock lock(comm.carried());
    if (int32_t code = made->submit(made->head_, &made->theirs_,
                                    sizeof made->theirs_, as, waits, error))
      if (code != DW_DONE) return code;
    const dw_buf& buf = buffer_of(op);
    dw_error why = {};
    const int32_t code =
        made->submit(made->bytes_, buf.data, made->mine_.bytes, as, true, &why);
    // No rank may keep waiting for the head.
    if (code > DW_OK) {
      made->bytes_.code = code;
      made->bytes_.error = why;
      made->leave();
      comm.break_group(why);
    }
  }
  CarriedMessage* const message = made.release();
  if (!message->leave()) return DW_OK;
  made.reset(message);
  const int32_t code = made->result(error);
  return code == DW_OK ? int32_t{DW_DONE} : code;
}

// Submits one part. DW_OK: it ends later; DW_DONE: it has ended.
int32_t CarriedMessage::submit(MessagePart& part, void* data, uint64_t bytes,
                               int as, bool waits, dw_error* error) {
  dw_op below = op_;
  below.struct_size = sizeof below;
  below.flags &= ~uint32_t{DW_FLAG_CALLER_WAITS};
  below.next = nullptr;
  dw_buf& buf = op_.kind == DW_OP_SEND ? below.in : below.out;
  buf.data = data;
  buf.count = static_cast<int64_t>(bytes / dtype_bytes(as));
  buf.dtype = kDTypeOf[as];
  const int32_t code = waits ? comm_.submit_below(below, part.abi(), error)
                             : comm_.submit_once(below, part.abi(), error);
  if (code == DW_DONE) leave();
  return code;
}

void CarriedMessage::MessagePart::end(int32_t ended, const dw_error* why) {
  code = ended;
  if (why != nullptr) error = *why;
  CarriedMessage& message = message_;
  // Without its head a message's bytes must not be sent.
  if (code != DW_OK && this == &message.head_) message.comm_.break_group(error);
  if (!message.leave()) return;
  const std::unique_ptr<CarriedMessage> all(&message);
  dw_error told = {};
  const int32_t result = all->result(&told);
  all->above_.end(result, result == DW_OK ? nullptr : &told);
}

// If the head has arrived, it tells the cause best.
int32_t CarriedMessage::result(dw_error* error) const {
  if (head_.code == DW_OK &&
      (theirs_.type != mine_.type || theirs_.bytes != mine_.bytes))
    return dw_sdk::fail_message_mismatch(
        {comm_.rank(), static_cast<int>(mine_.type), mine_.bytes},
        {op_.peer, static_cast<int>(theirs_.type), theirs_.bytes}, op_.tag,
        error);
  const MessagePart& first = head_.code != DW_OK ? head_ : bytes_;
  if (first.code != DW_OK && error != nullptr) *error = first.error;
  return first.code;
}

}  // namespace distwrap::algo::compose
