// The exchange of tokens by index maps that the caller gives: alltoallv_dedup.
//
// Threads and ownership: as in moe.h. A request is a counted handle that its
// calls keep; calls of one request are made in the same order on all ranks.
//
//   auto request = distwrap::alltoallv_dedup_init(T, H, K, E, DType::kF32);
//   distwrap::alltoallv_dedup_exec(out, ids, in, send, forward, recv,
//   *request);
//
// N nodes of L ranks each, R = N * L, rank = node * L + lane; T tokens of every
// rank, H elements of a token, E experts of every rank (buckets): expert e is
// bucket e % E of rank e / E. A map's row has the positions 0, 1, 2, .. in the
// order of the tokens that it takes, and -1 for the others:
//
//   send_indices     (N,T)    my tokens for each node
//   forward_indices  (L,N,T)  for each local rank, the tokens of the rank of my
//                             lane on each node
//   recv_indices     (E,R,T)  for each of my buckets, the tokens of each rank
#ifndef DISTWRAP_MOE_RAW_H_
#define DISTWRAP_MOE_RAW_H_

#include "distwrap/export.h"
#include "distwrap/moe_plan.h"
#include "distwrap/op_options.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace distwrap {

namespace moe {
class DedupState;
}

class DISTWRAP_EXPORT DedupRequest {
 public:
  DedupRequest() = default;
  explicit DedupRequest(std::shared_ptr<moe::DedupState> state)
      : state_(std::move(state)) {}
  explicit operator bool() const { return state_ != nullptr; }
  const std::shared_ptr<moe::DedupState>& state() const { return state_; }

 private:
  std::shared_ptr<moe::DedupState> state_;
};

// Makes a request; collective. `ranks_per_node`: 0 takes the hosts of the
// group. kInvalidArgument, kCallMismatch; kTopology unless nodes are even and
// their ranks follow each other.
DISTWRAP_EXPORT absl::StatusOr<DedupRequest> alltoallv_dedup_init(
    int64_t num_tokens, int64_t token_size, int topk_k, int experts_per_rank,
    DType dtype, int ranks_per_node = 0,
    const OpOptions& options = kDefaultOptions);

// Sends the tokens `input` (T,H) as the maps (i32) say. `output` (M,H) gets
// them by bucket, source and token, and `recv_block_ids` (M) i32 their
// source-local numbers. A fault of one rank is one error on all ranks, before
// anything is written: kIndexMap for a map that is not compact or does not fit
// those of other ranks, kCapacity for an output that is too small,
// kMetadataType, kInvalidArgument; kUnsupported for a stream. On this rank
// alone kPlanMismatch for a request of another group, or none.
DISTWRAP_EXPORT absl::StatusOr<Work> alltoallv_dedup_exec(
    TensorView output, TensorView recv_block_ids, TensorView input,
    TensorView send_indices, TensorView forward_indices,
    TensorView recv_indices, const DedupRequest& request,
    const OpOptions& options = kDefaultOptions);

// Brings rows `input` (M,H) back and adds those of each token into `output`
// (T,H), as moe_combine does in expert-major order. Weights are those of rows
// (kAtExpert); kTopK and `returns` are refused, since maps tell no slots.
DISTWRAP_EXPORT absl::StatusOr<Work> alltoallv_dedup_combine(
    TensorView output, TensorView input, TensorView send_indices,
    TensorView forward_indices, TensorView recv_indices,
    const DedupRequest& request, const CombineOptions& combine = {},
    const OpOptions& options = kDefaultOptions);

// Makes the maps of `rank` from the ids (R,T,K), i32 or i64, of all ranks. Ids
// that are no expert are left out. kMetadataType, kInvalidArgument.
DISTWRAP_EXPORT absl::StatusOr<DedupMaps> dedup_maps(TensorView topk_all,
                                                     int experts_per_rank,
                                                     int ranks_per_node,
                                                     int rank);

}  // namespace distwrap

#endif  // DISTWRAP_MOE_RAW_H_
