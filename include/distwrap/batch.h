// A batch: operations that a program records and then starts together. No
// operation of a batch waits for the start of another one, so a set of sends
// and receives cannot deadlock, in whatever order each rank lists them.
//
// Threads: one thread at a time. Ownership: recorded buffers stay the caller's
// and must live until their operation has ended. The batch copies lists, splits
// and labels, and holds the groups.
//
//   distwrap::Batch batch;
//   batch.send(right_edge, right);
//   batch.recv(left_halo, left);
//   auto work = batch.submit();
//
// Each method records the function of the same name in operations.h and returns
// the item's number. One batch may mix groups, devices and kinds of operations.
// Collectives are matched between ranks in the order in which they were added.
// `OpOptions::async` has no effect. A method never fails: `submit` reports a
// bad item by its number and then starts nothing.
// = ncclGroupStart, ncclGroupEnd
#ifndef DISTWRAP_BATCH_H_
#define DISTWRAP_BATCH_H_

#include "distwrap/operations.h"
#include "distwrap/prepared_operation.h"

#include <memory>

namespace distwrap {

namespace facade {
class BatchItems;
}

class DISTWRAP_EXPORT Batch {
 public:
  Batch();
  // A batch that is destroyed before `submit` has done nothing.
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
  int all_to_all(Tensors outs, Tensors ins,
                 const OpOptions& options = kDefaultOptions);
  int all_to_all_single(TensorView out, TensorView in, Splits out_splits = {},
                        Splits in_splits = {},
                        const OpOptions& options = kDefaultOptions);

  // Returns a communicator that records its calls into this batch.
  // `communicator` belongs to a Group, or was returned by `on`, and has to
  // outlive the batch.
  Communicator& on(Communicator& communicator);

  // Starts the recorded operations. The returned Work ends when all of them
  // have ended; its error is that of the first item that failed. An error of
  // `submit` itself means that nothing was started, or that the start failed
  // and broke the groups. The Work of an empty batch is done. A second `submit`
  // fails with kAlreadySubmitted.
  absl::StatusOr<Work> submit();
  // Takes the place of `submit`: prepares the only item, a collective on host
  // memory, to be started any number of times. Collective. kInvalidArgument for
  // other items; where one rank cannot prepare it, its reason on all ranks;
  // kCallMismatch where the ranks' operations differ. These leave the group
  // intact.
  // = MPI_Allreduce_init and its like; none in NCCL
  absl::StatusOr<PreparedOperation> prepare();
  // The Work of the item with this number, after `submit`.
  absl::StatusOr<Work> item(int i) const;
  // The Works of all items, in order; empty before `submit`.
  const std::vector<Work>& works() const;
  // The number of recorded items.
  int size() const;

 private:
  std::unique_ptr<facade::BatchItems> items_;
};

}  // namespace distwrap

#endif  // DISTWRAP_BATCH_H_
