// The loopback through its table: an instance, a communicator and operations.
#ifndef DISTWRAP_TESTS_UNIT_LOOPBACK_ONE_RANK_H_
#define DISTWRAP_TESTS_UNIT_LOOPBACK_ONE_RANK_H_

#include "distwrap/abi/plugin.h"

#include <string>
#include <vector>

namespace distwrap::testing {

class OneRank {
 public:
  // `with_kernels`: whether the host has reduction kernels.
  explicit OneRank(bool with_kernels = true);
  OneRank(const OneRank&) = delete;
  OneRank& operator=(const OneRank&) = delete;
  ~OneRank();

  // The result of `query` and of `submit` with and without a waiting caller,
  // DW_DONE when all is well; fails the test when they disagree.
  int32_t run(dw_op op);
  int32_t query(const dw_op& op);
  void abort();
  // Whether a row of `caps` promises the operation with these flags.
  bool promises(const dw_op& op) const;

 private:
  dw_host_api host_ = {};
  const dw_backend_api* api_;
  dw_backend* backend_ = nullptr;
  dw_comm* comm_ = nullptr;
};

// An operation on `count` elements, root 0, without buffers.
dw_op op_of(uint16_t kind, int dtype, uint16_t reduce, int64_t count);

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_UNIT_LOOPBACK_ONE_RANK_H_
