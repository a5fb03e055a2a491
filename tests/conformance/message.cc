#include "message.h"

#include "sdk/dtype.h"

namespace distwrap::conformance {
namespace {

// The place of a message in its sender's data, different for each message.
size_t phase(const MessageSpec& spec) {
  return spec.tag % 1000 * 17 + (spec.tag >> 32) * 277 +
         static_cast<size_t>(spec.to) * 131 + spec.order * 59;
}

}  // namespace

Message::Message(Member& member, bool sends, const MessageSpec& spec,
                 bool caller_waits, dw_comm* comm)
    : member_(member),
      sends_(sends),
      spec_(spec),
      memory_(spec.count * element_size(spec.dtype)),
      operation_(op(caller_waits), comm) {
  if (!sends) return;
  const Period mine = values(spec.dtype, DW_REDUCE_NONE, spec.from);
  memory_.put(0, *mine, element_size(spec.dtype), phase(spec), spec.count);
}

dw_op Message::op(bool caller_waits) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = sends_ ? DW_OP_SEND : DW_OP_RECV;
  op.flags = caller_waits ? DW_FLAG_CALLER_WAITS : 0;
  op.peer = sends_ ? spec_.to : spec_.from;
  op.tag = spec_.tag;
  dw_buf& buf = sends_ ? op.in : op.out;
  buf.data = memory_.data();
  buf.count = static_cast<int64_t>(spec_.count);
  buf.dtype = dw_dtype_of(spec_.dtype);
  return op;
}

void Message::begin() { note(operation_.begin(member_)); }

void Message::end() {
  note(operation_.end(member_));
  if (!good_) return;
  if (!sends_) {
    const Period theirs = values(spec_.dtype, DW_REDUCE_NONE, spec_.from);
    memory_.want(0, *theirs, element_size(spec_.dtype), phase(spec_),
                 spec_.count);
  }
  note(memory_.wrong("the message", -1));
}

void Message::note(const std::string& wrong) {
  if (wrong.empty()) return;
  if (good_)
    member_.find((sends_ ? "send to " : "receive by ") +
                 std::to_string(spec_.to) + " from " +
                 std::to_string(spec_.from) + " class " +
                 std::to_string(spec_.tag >> 32) + " number " +
                 std::to_string(spec_.tag & UINT32_MAX) + " count " +
                 std::to_string(spec_.count) + ": " + wrong);
  good_ = false;
}

}  // namespace distwrap::conformance
