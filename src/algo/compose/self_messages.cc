#include "algo/compose/self_messages.h"

#include "algo/below/dtypes.h"
#include "algo/compose/check.h"
#include "algo/decorator.h"
#include "sdk/message_mismatch.h"

#include <algorithm>
#include <cstring>

namespace distwrap::algo::compose {
namespace {

int32_t aborted(dw_error* error) {
  return fail(error, DW_ABORTED, DW_REASON_ABORTED, "the group was aborted");
}

}  // namespace

int32_t SelfMessages::give(const dw_op& op, Cell* cell, dw_error* error) {
  const bool sends = op.kind == DW_OP_SEND;
  const dw_buf& buf = sends ? op.in : op.out;
  const int type = op_dtype(op);
  const uint64_t bytes = static_cast<uint64_t>(buf.count) * dtype_bytes(type);
  Message other{};
  {
    base::MutexLock lock(mutex_);
    if (aborted_) return aborted(error);
    std::deque<Message>& others = opposite(op.kind);
    const auto met =
        std::find_if(others.begin(), others.end(),
                     [&](const Message& m) { return m.tag == op.tag; });
    if (met == others.end()) {
      if (cell == nullptr)
        return invalid(error, sends ? "a send to oneself that waits needs a "
                                      "receive that was begun before"
                                    : "a receive from oneself that waits needs "
                                      "a send that was begun before");
      (sends ? sends_ : receives_)
          .push_back({op.tag, type, bytes, buf.data, cell});
      return DW_OK;
    }
    other = *met;
    others.erase(met);
  }
  if (other.bytes != bytes || other.type != type) {
    const dw_sdk::MessageEnd mine = {op.peer, type, bytes};
    const dw_sdk::MessageEnd theirs = {op.peer, other.type, other.bytes};
    dw_error differs;
    const int32_t code = dw_sdk::fail_message_mismatch(
        sends ? theirs : mine, sends ? mine : theirs, op.tag, &differs);
    if (error != nullptr) *error = differs;
    other.cell->end(code, &differs);
    return code;
  }
  if (bytes != 0)
    std::memcpy(sends ? other.data : buf.data, sends ? buf.data : other.data,
                bytes);
  other.cell->end(DW_OK, nullptr);
  return DW_DONE;
}

int SelfMessages::waiting_for(uint16_t kind, uint64_t tag) {
  base::MutexLock lock(mutex_);
  const std::deque<Message>& others = opposite(kind);
  return static_cast<int>(
      std::count_if(others.begin(), others.end(),
                    [&](const Message& m) { return m.tag == tag; }));
}

void SelfMessages::abort() {
  std::deque<Message> all;
  {
    base::MutexLock lock(mutex_);
    aborted_ = true;
    all.swap(sends_);
    all.insert(all.end(), receives_.begin(), receives_.end());
    receives_.clear();
  }
  dw_error error;
  const int32_t code = aborted(&error);
  for (const Message& message : all) message.cell->end(code, &error);
}

}  // namespace distwrap::algo::compose
