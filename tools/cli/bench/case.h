// One operation at one size as one rank sees it: its arguments and its expected
// result.
//
// Threads: used by one. Ownership: owns its buffers.
//
// Element i of rank r is (31 r + i) mod 97, or smaller where sums of 16-bit
// floats would not be exact. Different positions and ranks have different
// values, so misplaced data are noticed.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_CASE_H_
#define DISTWRAP_TOOLS_CLI_BENCH_CASE_H_

#include "bench/layout.h"
#include "bench/operation.h"
#include "bench/page_aligned.h"
#include "distwrap/reduce_op.h"
#include "distwrap/tensor_view.h"
#include "distwrap/types.h"

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>

namespace distwrap::bench {

class Case {
 public:
  // kResourceExhausted when there is no memory for the buffers.
  static absl::StatusOr<Case> make(const Spec& spec);

  const Spec& spec() const { return spec_; }
  const Layout& layout() const { return layout_; }
  // Whether this rank takes part. In ping-pong pairs of an odd number of ranks,
  // the last one does not.
  bool active() const { return active_; }
  // The partner in a ping-pong pair.
  int partner() const { return spec_.rank ^ 1; }
  // The next and the previous rank in a ring.
  int right() const { return (spec_.rank + 1) % spec_.ranks; }
  int left() const { return (spec_.rank + spec_.ranks - 1) % spec_.ranks; }
  // The reported time divided by the time of one timed call: half of a round
  // trip, one put of many.
  double scale() const {
    if (spec_.op == Operation::kWinPutRate) return 1.0 / spec_.depth;
    return spec_.op == Operation::kSendRecv || spec_.op == Operation::kWinSignal
               ? 0.5
               : 1;
  }

  // On the root of a broadcast, input and output are the same memory.
  TensorView in() const;
  TensorView out() const;
  int64_t in_bytes() const {
    return layout_.in_count * dtype_size(spec_.dtype);
  }
  int64_t out_bytes() const {
    return layout_.out_count * dtype_size(spec_.dtype);
  }

  // Fills the output with values that no result has, so that an element that
  // was never written is noticed.
  void spoil_output();
  // The number of wrong elements in the output, changed elements in the input,
  // and overwritten guard bytes around the output.
  int64_t wrong() const;

 private:
  explicit Case(const Spec& spec);
  bool in_place() const {
    return spec_.op == Operation::kBroadcast && spec_.rank == spec_.root;
  }
  std::byte* output() const;
  template <class T>
  T value(int rank, int64_t i) const;
  // The expected reduction of element i over the ranks below `end`.
  template <class T>
  T reduced(int64_t i, int end) const;
  template <class T>
  T expected(int64_t i) const;
  int64_t broken_guards() const;

  Spec spec_;
  Layout layout_;
  bool active_ = true;
  PageAligned in_, out_;
};

// Whether results of this element type and reduction can be checked.
bool measurable(DType dtype);
bool measurable(ReduceOp::Kind reduce);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_CASE_H_
