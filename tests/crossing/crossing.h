// The same 8-byte all_reduce on the loopback, made in two ways: through the
// facade, and straight into the backend's table. Their difference is what
// distwrap costs.
#ifndef DISTWRAP_TESTS_CROSSING_CROSSING_H_
#define DISTWRAP_TESTS_CROSSING_CROSSING_H_

#include "comm/backend_instance.h"
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

  // One synchronous call; whether it succeeded.
  bool through_facade() {
    return all_reduce(TensorView(&out_, 1), TensorView(&in_, 1), ReduceOp::kSum)
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
    return api_->submit(comm_, &op, nullptr, &error) == DW_DONE;
  }

 private:
  std::shared_ptr<comm::BackendInstance> backend_;
  const dw_backend_api* api_ = nullptr;
  dw_comm* comm_ = nullptr;
  int64_t in_ = 7, out_ = 0;
};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_CROSSING_CROSSING_H_
