#include "one_rank.h"

#include "algo/reduce_kernels.h"
#include "distwrap/abi/note.h"
#include "sdk/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>

extern "C" const dw_backend_api* dw_plugin_query_v1_loopback(
    const dw_host_info* host);

namespace distwrap::testing {
namespace {

constexpr dw_host_info kHost = {
    sizeof(dw_host_info), DW_ABI_MAJOR, DW_ABI_MINOR, DW_SANITIZER, 0,
    {"test", 4}};

dw_reduce_fn kernel(void*, dw_dtype dtype, uint16_t reduce) {
  return algo::reduce_kernel(dtype, reduce);
}

dw_reduce_fn no_kernel(void*, dw_dtype, uint16_t) { return nullptr; }

bool has(uint64_t mask, int bit) {
  return bit >= 0 && bit < 64 && (mask >> bit & 1) != 0;
}

}  // namespace

OneRank::OneRank(bool with_kernels)
    : api_(dw_plugin_query_v1_loopback(&kHost)) {
  host_.struct_size = sizeof host_;
  host_.abi_major = DW_ABI_MAJOR;
  host_.reduce_kernel = with_kernels ? kernel : no_kernel;
  dw_open_info open = {};
  open.struct_size = sizeof open;
  open.device_type = DW_DEVICE_CPU;
  EXPECT_EQ(api_->open(&host_, &open, &backend_, nullptr), DW_OK);
  dw_setup_info info = {};
  info.struct_size = sizeof info;
  info.flags = DW_SETUP_COMMUNICATOR;
  info.size = 1;
  dw_setup* setup = nullptr;
  dw_blob blob = {};
  EXPECT_EQ(api_->setup_begin(backend_, &info, &setup, &blob, nullptr), DW_OK);
  const dw_blob round = blob;
  dw_setup_result result = {};
  EXPECT_EQ(api_->setup_step(setup, &round, 1, &blob, &result, nullptr),
            DW_DONE);
  comm_ = result.comm;
}

OneRank::~OneRank() {
  EXPECT_EQ(api_->comm_destroy(comm_, 0, nullptr), DW_OK);
  api_->close(backend_);
}

int32_t OneRank::query(const dw_op& op) {
  dw_error error = {};
  const int32_t code = api_->query(comm_, &op, &error);
  if (code == DW_OK) return DW_DONE;
  EXPECT_EQ(error.code, code);
  EXPECT_NE(error.text[0], '\0');
  return code;
}

int32_t OneRank::run(dw_op op) {
  const int32_t asked = query(op);
  EXPECT_EQ(api_->submit(comm_, &op, nullptr, nullptr), asked);
  op.flags |= DW_FLAG_CALLER_WAITS;
  EXPECT_EQ(api_->submit(comm_, &op, nullptr, nullptr), asked);
  return asked;
}

void OneRank::abort() { EXPECT_EQ(api_->comm_abort(comm_, nullptr), DW_OK); }

bool OneRank::promises(const dw_op& op) const {
  const dw_caps_row* rows = nullptr;
  uint64_t n = 0;
  EXPECT_EQ(api_->caps(backend_, &rows, &n, nullptr), DW_OK);
  return std::any_of(rows, rows + n, [&](const dw_caps_row& row) {
    return has(row.ops, op.kind) && has(row.reductions, op.reduce) &&
           (op.kind == DW_OP_BARRIER ||
            has(row.dtypes, dw_dtype_index(op.out.dtype))) &&
           (op.flags & ~row.flags) == 0 && has(row.memory, DW_DEVICE_CPU) &&
           row.min_bytes == 0 && row.max_bytes == 0;
  });
}

dw_op op_of(uint16_t kind, int dtype, uint16_t reduce, int64_t count) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.reduce = reduce;
  op.in.dtype = op.out.dtype = dw_dtype_of(dtype);
  op.in.count = op.out.count = count;
  return op;
}

}  // namespace distwrap::testing
