#include "distwrap/prepared_operation.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "comm/communicator.h"
#include "comm/op_build.h"
#include "comm/op_shape.h"
#include "facade/prepared_state.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap {
namespace {

absl::Status nothing_prepared() {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = "nothing is prepared",
                           .op = "start",
                           .next_step = "make it by Batch::prepare"});
}

absl::Status buffers_in_use(const comm::PreparedCall& call) {
  return base::make_error(
      {.reason = Reason::kInvalidArgument,
       .what = "an earlier start still uses the prepared buffers",
       .op = comm::op_shape(call.op().kind).name,
       .next_step = "wait for the earlier start first, or give other buffers",
       .label = std::string(call.label())});
}

// The address of a start's buffer, which has to be like the prepared one.
absl::Status check_buffer(const TensorView& view, const dw_buf& buffer,
                          bool is_written, const char* name,
                          const dw_op& prepared) {
  if (buffer.count == 0 && view.count() == 0) return absl::OkStatus();
  const dw_dtype dtype =
      comm::op_build::kAbiDTypes[static_cast<uint8_t>(view.dtype()) %
                                 std::size(comm::op_build::kAbiDTypes)];
  const bool is_like = view.possible() && view.contiguous() &&
                       view.device() == kCpu && view.count() == buffer.count &&
                       dtype.code == buffer.dtype.code &&
                       dtype.bits == buffer.dtype.bits &&
                       (view.data() != nullptr || view.count() == 0) &&
                       !(is_written && view.read_only());
  if (is_like) return absl::OkStatus();
  return base::make_error(
      {.reason = Reason::kInvalidArgument,
       .what = absl::StrCat(name, " is not like the prepared one"),
       .op = comm::op_shape(prepared.kind).name,
       .expected = absl::StrCat(buffer.count,
                                " contiguous elements of the "
                                "prepared type in host memory"),
       .actual = view.text(),
       .next_step = "give such a buffer, or prepare another operation"});
}

}  // namespace

PreparedOperation::PreparedOperation(
    std::shared_ptr<facade::PreparedState> state)
    : state_(std::move(state)) {}

absl::StatusOr<Work> PreparedOperation::start(
    const CallOptions& options) const {
  if (state_ == nullptr) return nothing_prepared();
  const comm::PreparedCall& call = state_->call();
  if (state_->buffers_in_use()) return buffers_in_use(call);
  absl::StatusOr<Work> work =
      call.communicator().start_prepared(call, {}, options);
  if (options.async && work.ok()) state_->keep(*work);
  return work;
}

absl::StatusOr<Work> PreparedOperation::start(
    TensorView out, TensorView in, const CallOptions& options) const {
  if (state_ == nullptr) return nothing_prepared();
  const comm::PreparedCall& call = state_->call();
  const dw_op& op = call.op();
  if (absl::Status good = check_buffer(in, op.in, false, "the input", op);
      !good.ok())
    return good;
  if (absl::Status good = check_buffer(out, op.out, true, "the output", op);
      !good.ok())
    return good;
  return call.communicator().start_prepared(
      call, {.in = in.data(), .out = out.data()}, options);
}

}  // namespace distwrap
