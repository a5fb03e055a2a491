// The prepared exchange of rows.
#include "distwrap/alltoallv_op.h"

#include "base/exceptions.h"
#include "facade/prepared_exchange.h"

namespace distwrap {

AllToAllVOp::AllToAllVOp(const Group& group, int64_t capacity_bytes,
                         int64_t max_bytes_per_peer)
    : exchange_(std::make_unique<facade::PreparedExchange>(
          group, capacity_bytes, max_bytes_per_peer)) {}
AllToAllVOp::AllToAllVOp(AllToAllVOp&& other) noexcept = default;
AllToAllVOp& AllToAllVOp::operator=(AllToAllVOp&& other) noexcept = default;
AllToAllVOp::~AllToAllVOp() = default;

absl::Status AllToAllVOp::setup() {
  return base::guarded("AllToAllVOp.setup", [&] { return exchange_->setup(); });
}

absl::StatusOr<TensorView> AllToAllVOp::alltoallv(
    TensorView x, absl::Span<const int64_t> out_splits,
    absl::Span<const int64_t> in_splits, const OpOptions& options) {
  return base::guarded("alltoallv", [&] {
    return exchange_->run(x, out_splits, in_splits, options);
  });
}

absl::StatusOr<TensorView> AllToAllVOp::send_buffer(int64_t count,
                                                    DType dtype) {
  return exchange_->send_buffer(count, dtype);
}

absl::StatusOr<TensorView> AllToAllVOp::alltoallv_from_buffer(
    absl::Span<const int64_t> out_splits, absl::Span<const int64_t> in_splits,
    const OpOptions& options) {
  return base::guarded("alltoallv_from_buffer", [&] {
    return exchange_->run_from_buffer(out_splits, in_splits, options);
  });
}

absl::Status AllToAllVOp::close() {
  return base::guarded("AllToAllVOp.close", [&] { return exchange_->close(); });
}

}  // namespace distwrap
