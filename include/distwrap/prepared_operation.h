// A collective that was checked and compared across the ranks once, to be
// started any number of times: on the buffers that it was prepared with, or on
// others of the same sizes.
//
// Threads: any; starts are collectives, which all ranks make in one order.
// Ownership: a counted handle that keeps its group; one made by `Batch::on` of
// a communicator needs that communicator to outlive it. Buffers stay the
// caller's, and have to live until the start has ended.
//
//   distwrap::Batch batch;
//   batch.all_to_all_single(out, in, out_splits, in_splits);
//   auto exchange = batch.prepare();                  // on all ranks
//   if (!exchange.ok()) return exchange.status();
//   for (int step = 0; step < 1000; ++step) exchange->start();
//
// A start checks no arguments and compares no counts again, and allocates
// nothing if its caller waits. A rank that starts another operation, that dies
// or does not come is reported as for every collective.
// = MPI_Start of a persistent collective; none in NCCL
#ifndef DISTWRAP_PREPARED_OPERATION_H_
#define DISTWRAP_PREPARED_OPERATION_H_

#include "distwrap/communicator.h"
#include "distwrap/export.h"
#include "distwrap/tensor_view.h"
#include "distwrap/work.h"

#include <absl/status/statusor.h>

#include <memory>

namespace distwrap {

namespace facade {
class BatchItems;
class PreparedState;
}  // namespace facade

class DISTWRAP_EXPORT PreparedOperation {
 public:
  // Nothing; `Batch::prepare` makes the others.
  PreparedOperation() = default;
  explicit operator bool() const { return state_ != nullptr; }

  // Starts it on the buffers that it was prepared with. The time limit counts
  // from here, and without one is the group's; without a label the start has
  // that of the prepared call. kInvalidArgument while an earlier start uses
  // these buffers. Other errors: those of the collective.
  absl::StatusOr<Work> start(const CallOptions& options = {}) const;
  // Starts it on other buffers with as many elements of the same type; counts
  // per rank are as prepared. kInvalidArgument for others, for a list, for
  // buffers that overlap where the prepared ones did not, and the other way
  // round.
  absl::StatusOr<Work> start(TensorView out, TensorView in,
                             const CallOptions& options = {}) const;

 private:
  friend class facade::BatchItems;
  explicit PreparedOperation(
      std::shared_ptr<facade::PreparedState> state);

  std::shared_ptr<facade::PreparedState> state_;
};

}  // namespace distwrap

#endif  // DISTWRAP_PREPARED_OPERATION_H_
