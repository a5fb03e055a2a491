// Drives a backend of one rank through its table, as a host would. Compiled
// with the test's version of the headers.
#ifndef DISTWRAP_TESTS_ABI_DRIVE_H_
#define DISTWRAP_TESTS_ABI_DRIVE_H_

#include "abi/plugins/answer.h"
#include "distwrap/abi/plugin.h"
#include "distwrap/abi/read.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdlib.h>
#include <string.h>
#include <vector>

namespace distwrap::testing {

// A host with everything that a table must have.
inline const dw_host_api& test_host() {
  static const dw_host_api kHost = [] {
    dw_host_api host = {};
    host.struct_size = sizeof host;
    host.abi_major = DW_ABI_MAJOR;
    host.abi_minor = DW_ABI_MINOR;
    host.complete = [](dw_work*, int32_t, const dw_error*) {
      ADD_FAILURE() << "nothing is pending";
    };
    host.log = [](void*, int32_t, dw_str) {};
    host.now_ns = [](void*) { return int64_t{1}; };
    host.wake = [](void*) {};
    host.scratch_alloc = [](void*, uint64_t bytes) { return malloc(bytes); };
    host.scratch_free = [](void*, void* memory) { free(memory); };
    host.reduce_kernel = [](void*, dw_dtype, uint16_t) -> dw_reduce_fn {
      return nullptr;
    };
    host.extension = [](void*, dw_str, uint32_t) -> const void* {
      return nullptr;
    };
    return host;
  }();
  return kHost;
}

// A communicator of size 1, destroyed with the object.
class OneRank {
 public:
  explicit OneRank(const dw_backend_api& api) : api_(api) {
    dw_open_info open_info = {};
    open_info.struct_size = sizeof open_info;
    open_info.device_type = DW_DEVICE_CPU;
    EXPECT_EQ(api.open(&test_host(), &open_info, &backend_, nullptr), DW_OK);
    dw_setup_info info = {};
    info.struct_size = sizeof info;
    info.flags = DW_SETUP_COMMUNICATOR;
    info.size = 1;
    dw_setup* setup = nullptr;
    dw_blob blob = {};
    EXPECT_EQ(api.setup_begin(backend_, &info, &setup, &blob, nullptr), DW_OK);
    dw_setup_result result = {};
    const dw_blob round = blob;
    EXPECT_EQ(api.setup_step(setup, &round, 1, &blob, &result, nullptr),
              DW_DONE);
    comm_ = result.comm;
  }
  OneRank(const OneRank&) = delete;
  OneRank& operator=(const OneRank&) = delete;
  ~OneRank() {
    EXPECT_EQ(api_.comm_destroy(comm_, 0, nullptr), DW_OK);
    api_.close(backend_);
  }

  // Submits an operation of `bytes` bytes, which may be more or less than this
  // side's dw_op. `tail` fills the bytes behind dw_op.
  int32_t submit(uint32_t bytes, echo_answer* answer, unsigned char tail = 0,
                 void (*edit)(dw_op*) = nullptr) {
    dw_op op = {};
    op.struct_size = bytes;
    op.kind = DW_OP_ALL_REDUCE;
    op.reduce = DW_REDUCE_SUM;
    op.seq = 77;
    op.out.data = answer;
    op.out.count = sizeof *answer;
    op.out.dtype = {1, 8, 1};
    if (edit != nullptr) edit(&op);
    // Allocated with the stated size, so that a memory checker notices reads
    // beyond it; the size field itself always exists.
    const size_t given = std::max<size_t>(bytes, sizeof op.struct_size);
    std::vector<uint64_t> memory((given + 7) / 8);
    auto* const to = reinterpret_cast<unsigned char*>(memory.data());
    memcpy(to, &op, std::min(given, sizeof op));
    if (bytes > sizeof op) memset(to + sizeof op, tail, bytes - sizeof op);
    return api_.submit(comm_, reinterpret_cast<const dw_op*>(to), nullptr,
                       nullptr);
  }

  dw_comm* comm() { return comm_; }
  dw_backend* backend() { return backend_; }

 private:
  const dw_backend_api& api_;
  dw_backend* backend_ = nullptr;
  dw_comm* comm_ = nullptr;
};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_ABI_DRIVE_H_
