// One pass of a loop over tensors of any strides.
//
// Tensors are broadcast to the sizes of the pass. Dimensions in which all
// tensors step alike are joined, so contiguous tensors are one call of the
// loop. Elements that do not lie one after the other, and 16-bit floats, which
// loops compute in f32, go through small buffers.
//
//   Pass pass(out->sizes());
//   pass.writes(*out);
//   pass.reads(self);
//   pass.reads(other);
//   pass.run(loop, &alpha);
//
// Threads: an object belongs to one thread. Ownership: tensors are borrowed.
#ifndef DISTWRAP_OPS_CPU_PASS_H_
#define DISTWRAP_OPS_CPU_PASS_H_

#include "cpu/loops.h"
#include "distwrap/tensor.h"

#include <absl/types/span.h>

#include <cstdint>

namespace distwrap::cpu {

class Pass {
 public:
  // `sizes` is borrowed until the pass has run.
  explicit Pass(absl::Span<const int64_t> sizes) : sizes_(sizes) {}
  // The loop's next pointer. Written tensors have the sizes of the pass.
  void writes(const Tensor& tensor) { add(tensor, kWritten); }
  void reads(const Tensor& tensor) { add(tensor, kRead); }
  void updates(const Tensor& tensor) { add(tensor, kWritten | kRead); }
  // An operand by address, with the strides of the pass.
  void add_memory(char* data, const int64_t* strides, DType dtype,
                  bool written);
  // Takes 16-bit floats as they are.
  void raw() { widen_ = false; }
  void run(Loop loop, const void* params = nullptr);

 private:
  static constexpr int kMostOperands = 4;
  static constexpr int kMostDims = 64;
  static constexpr uint8_t kRead = 1, kWritten = 2;
  struct Operand {
    char* data;
    const int64_t* strides;
    int dims;
    const int64_t* sizes;
    DType dtype;
    uint8_t use;
    bool contiguous;
    int64_t count;
  };
  struct Walk;

  void add(const Tensor& tensor, uint8_t use);
  void run_row(const Walk& walk, Loop loop, const void* params,
               char* const* data);

  absl::Span<const int64_t> sizes_;
  int operands_ = 0;
  bool widen_ = true;
  Operand operand_[kMostOperands];
};

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_PASS_H_
