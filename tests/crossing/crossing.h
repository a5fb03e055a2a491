// An 8-byte all_reduce on the loopback, called in three ways: through the
// facade, directly in the backend's table, and through the C API. The
// differences are the costs of distwrap and of its C API.
#ifndef DISTWRAP_TESTS_CROSSING_CROSSING_H_
#define DISTWRAP_TESTS_CROSSING_CROSSING_H_

#include "comm/backend_instance.h"
#include "distwrap/c.h"
#include "distwrap/distwrap.h"

#include <memory>

namespace distwrap::testing {

class Crossing {
 public:
  // Binds a session of one rank to this thread; ends the process when it
  // cannot.
  Crossing();
  ~Crossing();
  Crossing(const Crossing&) = delete;
  Crossing& operator=(const Crossing&) = delete;

  // Makes one synchronous call; returns whether it succeeded.
  bool through_facade() {
    return all_reduce(TensorView(&out_, 1), TensorView(&in_, 1), ReduceOp::kSum)
        .ok();
  }
  // With a group in its options.
  bool through_facade_group() {
    return all_reduce(TensorView(&out_, 1), TensorView(&in_, 1), ReduceOp::kSum,
                      {.group = options_.group})
        .ok();
  }
  bool straight() {
    dw_op op{};
    op.struct_size = sizeof op;
    op.kind = DW_OP_ALL_REDUCE;
    op.reduce = DW_REDUCE_SUM;
    op.flags = DW_FLAG_CALLER_WAITS;
    op.in.data = &in_;
    op.out.data = &out_;
    op.in.count = op.out.count = 1;
    op.in.dtype = op.out.dtype = {0, 64, 1};
    dw_error error;
    return runner_.submit(runner_.comm, &op, nullptr, &error) == DW_DONE;
  }
  bool through_c() {
    return distwrap_all_reduce(&c_out_, &c_in_, DW_REDUCE_SUM, nullptr, nullptr,
                               nullptr) == DW_OK;
  }
  // With a group in its options.
  bool through_c_group() {
    return distwrap_all_reduce(&c_out_, &c_in_, DW_REDUCE_SUM, &c_options_,
                               nullptr, nullptr) == DW_OK;
  }

 private:
  std::shared_ptr<comm::BackendInstance> backend_;
  dw_comm* comm_ = nullptr;
  comm::Runner runner_{};  // the backend itself
  int64_t in_ = 7, out_ = 0;
  int64_t one_ = 1;
  distwrap_tensor c_in_ = c_tensor(&in_), c_out_ = c_tensor(&out_);
  distwrap_op_options c_options_ = {};
  OpOptions options_;

  distwrap_tensor c_tensor(int64_t* data) {
    distwrap_tensor tensor = {};
    tensor.data = data;
    tensor.device = {DW_DEVICE_CPU, 0};
    tensor.ndim = 1;
    tensor.dtype = distwrap_dtype(DW_DTYPE_I64);
    tensor.shape = &one_;
    return tensor;
  }
};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_CROSSING_CROSSING_H_
