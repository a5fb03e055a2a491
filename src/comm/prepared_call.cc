#include "comm/prepared_call.h"

#include "comm/communicator.h"

#include <algorithm>
#include <utility>

namespace distwrap::comm {
namespace {

// The bytes from a buffer's first element to its last.
size_t extent_of(const dw_buf& buf, const std::vector<int64_t>& counts,
                 const std::vector<int64_t>& displs) {
  int64_t elements = displs.empty() ? buf.count : 0;
  for (size_t r = 0; r < displs.size(); ++r)
    if (counts[r] != 0) elements = std::max(elements, displs[r] + counts[r]);
  return static_cast<size_t>(elements) * (buf.dtype.bits / 8u);
}

}  // namespace

PreparedCall::PreparedCall(BackendCommunicator& owner,
                           std::unique_ptr<PreparedOp> kept)
    : owner_(owner),
      kept_(std::move(kept)),
      in_bytes_(extent_of(kept_->op.in, kept_->in_counts, kept_->in_displs)),
      out_bytes_(
          extent_of(kept_->op.out, kept_->out_counts, kept_->out_displs)) {}

PreparedCall::~PreparedCall() { owner_.release_plans(*this); }

const char* PreparedCall::place(Place at, dw_op* op) const {
  *op = kept_->op;
  if (at.in == nullptr && at.out == nullptr) return nullptr;
  if ((op->flags & DW_FLAG_PARTS) != 0) return "a list keeps its addresses";
  if (at.in != nullptr) op->in.data = const_cast<void*>(at.in);
  if (at.out != nullptr) op->out.data = at.out;
  // The extension of such buffers knows which bytes move.
  if (op->next != nullptr) return nullptr;
  const auto in = reinterpret_cast<uintptr_t>(op->in.data);
  const auto out = reinterpret_cast<uintptr_t>(op->out.data);
  if ((op->flags & DW_FLAG_IN_PLACE) != 0) {
    const auto own_in = reinterpret_cast<uintptr_t>(kept_->op.in.data);
    const auto own_out = reinterpret_cast<uintptr_t>(kept_->op.out.data);
    return in - out == own_in - own_out ? nullptr
                                        : "the operation was prepared in place";
  }
  return in_bytes_ != 0 && out_bytes_ != 0 && in < out + out_bytes_ &&
                 out < in + in_bytes_
             ? "input and output overlap"
             : nullptr;
}

}  // namespace distwrap::comm
