// A prepared exchange of rows with sizes that may change in each call: all
// memory is allocated at setup, and a call sends nothing but the rows and one
// signal to each rank.
//
// Threads: one at a time. Ownership: an object of its own; `close` ends it, and
// so does its destructor, without waiting for the other ranks.
//
//   distwrap::AllToAllVOp op({}, /*capacity_bytes=*/1 << 20,
//                            /*max_bytes_per_peer=*/1 << 16);
//   op.setup();                                     // on all ranks
//   auto rows = op.alltoallv(x, out_splits, in_splits);
//   op.close();                                     // on all ranks
//
// R ranks. Rows are packed by rank on both sides. kNotInitialized before
// `setup` and after `close`.
#ifndef DISTWRAP_ALLTOALLV_OP_H_
#define DISTWRAP_ALLTOALLV_OP_H_

#include "distwrap/export.h"
#include "distwrap/group.h"
#include "distwrap/op_options.h"
#include "distwrap/tensor_view.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>

namespace distwrap {

namespace facade {
class PreparedExchange;
}

class DISTWRAP_EXPORT AllToAllVOp {
 public:
  // `capacity_bytes`: of what a rank sends, and of what it receives, in one
  // call; `max_bytes_per_peer`: of the rows from one rank to another. Equal on
  // all ranks. Sends nothing.
  AllToAllVOp(const Group& group, int64_t capacity_bytes,
              int64_t max_bytes_per_peer);
  AllToAllVOp(AllToAllVOp&& other) noexcept;
  AllToAllVOp& operator=(AllToAllVOp&& other) noexcept;
  ~AllToAllVOp();

  // Allocates; collective. kAlreadyInitialized the second time, kCallMismatch,
  // kInvalidArgument.
  absl::Status setup();

  // Sends in_splits[r] rows of `x` (its dimension 0) to rank r, and returns
  // those that came: sum(out_splits) rows, valid until the second next call.
  // kInvalidArgument on this rank for rows beyond what was prepared;
  // kCallMismatch if a rank sends another number of rows than out_splits says,
  // which breaks the group; kTimedOut with the ranks that were not heard of.
  // MPI: MPI_Alltoallv_init. NCCL: none.
  absl::StatusOr<TensorView> alltoallv(
      TensorView x, absl::Span<const int64_t> out_splits,
      absl::Span<const int64_t> in_splits,
      const OpOptions& options = kDefaultOptions);

  // Memory of this object for `count` elements that alltoallv_from_buffer
  // sends; valid until `close`.
  absl::StatusOr<TensorView> send_buffer(int64_t count, DType dtype);
  // As alltoallv, with the elements of the last send_buffer as rows.
  absl::StatusOr<TensorView> alltoallv_from_buffer(
      absl::Span<const int64_t> out_splits, absl::Span<const int64_t> in_splits,
      const OpOptions& options = kDefaultOptions);

  // Waits for all ranks, and frees the memory; collective. OK when it was
  // closed before, or never set up.
  absl::Status close();

 private:
  std::unique_ptr<facade::PreparedExchange> exchange_;
};

}  // namespace distwrap

#endif  // DISTWRAP_ALLTOALLV_OP_H_
