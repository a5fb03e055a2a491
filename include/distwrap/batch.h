// Operations that start as one: none waits for another's start, so a set of
// sends and receives cannot deadlock, whatever its order on each rank.
//
// Threads: one at a time. Ownership: recorded buffers are the caller's and live
// until their operation is done; lists, splits and labels are copied, groups
// held.
//
//   distwrap::Batch batch;
//   batch.send(right_edge, right);
//   batch.recv(left_halo, left);
//   auto work = batch.submit();
//
// Methods mean the function of the same name (operations.h), and return the
// item's number. Groups, devices and kinds may be mixed; collectives count in
// the order in which they were added. Of the options `async` does not matter.
// A bad item shows in `submit`, which names it and starts nothing.
// = ncclGroupStart, ncclGroupEnd
#ifndef DISTWRAP_BATCH_H_
#define DISTWRAP_BATCH_H_

#include "distwrap/operations.h"

#include <memory>

namespace distwrap {

namespace facade {
class BatchItems;
}

class DISTWRAP_EXPORT Batch {
 public:
  Batch();
  // Never submitted: nothing has happened.
  ~Batch();
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;

  int send(TensorView tensor, Peer dst, int64_t tag = 0,
           const OpOptions& options = kDefaultOptions);
  int recv(TensorView tensor, Peer src, int64_t tag = 0,
           const OpOptions& options = kDefaultOptions);
  int add(const P2POp& op, const OpOptions& options = kDefaultOptions);

  int barrier(const OpOptions& options = kDefaultOptions);
  int broadcast(TensorView tensor, Peer src,
                const OpOptions& options = kDefaultOptions);
  int broadcast(TensorView out, TensorView in, Peer src,
                const OpOptions& options = kDefaultOptions);
  int all_reduce(TensorView tensor, ReduceOp op = ReduceOp::kSum,
                 const OpOptions& options = kDefaultOptions);
  int all_reduce(TensorView out, TensorView in, ReduceOp op,
                 const OpOptions& options = kDefaultOptions);
  int reduce(TensorView tensor, Peer dst, ReduceOp op = ReduceOp::kSum,
             const OpOptions& options = kDefaultOptions);
  int reduce(TensorView out, TensorView in, Peer dst, ReduceOp op,
             const OpOptions& options = kDefaultOptions);
  int scan(TensorView out, TensorView in, ReduceOp op = ReduceOp::kSum,
           const OpOptions& options = kDefaultOptions);
  int exscan(TensorView out, TensorView in, ReduceOp op = ReduceOp::kSum,
             const OpOptions& options = kDefaultOptions);
  int all_gather(Tensors outs, TensorView in,
                 const OpOptions& options = kDefaultOptions);
  int all_gather_into_tensor(TensorView out, TensorView in,
                             const OpOptions& options = kDefaultOptions);
  int all_gather_v(TensorView out, TensorView in,
                   absl::Span<const int64_t> counts,
                   const OpOptions& options = kDefaultOptions);
  int gather(Tensors outs, TensorView in, Peer dst = {},
             const OpOptions& options = kDefaultOptions);
  int gather_into_tensor(TensorView out, TensorView in, Peer dst = {},
                         Splits counts = {},
                         const OpOptions& options = kDefaultOptions);
  int scatter(TensorView out, Tensors ins, Peer src = {},
              const OpOptions& options = kDefaultOptions);
  int scatter_tensor(TensorView out, TensorView in, Peer src = {},
                     Splits counts = {},
                     const OpOptions& options = kDefaultOptions);
  int reduce_scatter(TensorView out, Tensors ins, ReduceOp op = ReduceOp::kSum,
                     const OpOptions& options = kDefaultOptions);
  int reduce_scatter_tensor(TensorView out, TensorView in,
                            ReduceOp op = ReduceOp::kSum,
                            const OpOptions& options = kDefaultOptions);
  int reduce_scatter_v(TensorView out, TensorView in,
                       absl::Span<const int64_t> counts,
                       ReduceOp op = ReduceOp::kSum,
                       const OpOptions& options = kDefaultOptions);
  int reduce_scatter_quantized(TensorView out, TensorView in, ReduceOp op,
                               int64_t seed,
                               const OpOptions& options = kDefaultOptions);
  int all_to_all(Tensors outs, Tensors ins,
                 const OpOptions& options = kDefaultOptions);
  int all_to_all_single(TensorView out, TensorView in, Splits out_splits = {},
                        Splits in_splits = {},
                        const OpOptions& options = kDefaultOptions);

  // What is called on the result is recorded. `communicator` is one of a
  // Group's, or what this gave for one, and outlives the batch.
  Communicator& on(Communicator& communicator);

  // Starts what was recorded. The Work ends when all have, with the error of
  // the first that failed. An error here means that nothing was started, or
  // that the start failed and broke the groups. Empty: done. kAlreadySubmitted
  // the second time.
  absl::StatusOr<Work> submit();
  // Of a submitted batch, by the number that the call returned.
  absl::StatusOr<Work> item(int i) const;
  // All of them, in order; none before submit.
  const std::vector<Work>& works() const;
  // Recorded items.
  int size() const;

 private:
  std::unique_ptr<facade::BatchItems> items_;
};

}  // namespace distwrap

#endif  // DISTWRAP_BATCH_H_
