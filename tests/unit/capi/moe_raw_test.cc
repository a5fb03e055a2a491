// Mixtures of experts by index maps and by chunks, and the tensors of a plan,
// through the C API: a rank alone, and every bad argument.
#include "unit/capi/session_of_one.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

namespace distwrap::capi {
namespace {

using ::testing::HasSubstr;

// A tensor over a vector, whose shape it holds.
struct Numbers {
  template <class T>
  Numbers(std::vector<T>& data, int32_t dtype)
      : count(static_cast<int64_t>(data.size())) {
    tensor.data = data.data();
    tensor.device = {DW_DEVICE_CPU, 0};
    tensor.ndim = 1;
    tensor.dtype = distwrap_dtype(dtype);
    tensor.shape = &count;
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  operator const distwrap_tensor*() const { return &tensor; }

  int64_t count;
  distwrap_tensor tensor = {};
};

class MoeRawOfC : public SessionOfOne {
 protected:
  MoeRawOfC() {
    EXPECT_EQ(distwrap_alltoallv_dedup_init(2, 2, 1, 2, DW_DTYPE_F32, 0,
                                            nullptr, &request_, nullptr),
              DW_OK);
  }
  ~MoeRawOfC() override {
    EXPECT_EQ(distwrap_dedup_request_free(request_), DW_OK);
  }

  int32_t maps(int32_t experts, const distwrap_tensor* send) {
    distwrap_tensor all = ids_.tensor;
    all.ndim = 3;
    all.shape = ids_shape_;
    return distwrap_dedup_maps(&all, experts, 1, 0, send, forward_, recv_,
                               &error_);
  }
  int32_t exec(const distwrap_tensor* output, const distwrap_tensor* in) {
    return distwrap_alltoallv_dedup_exec(output, numbers_, in, send_, forward_,
                                         recv_, request_, nullptr, nullptr,
                                         &error_);
  }
  int32_t combine(const distwrap_tensor* output,
                  const distwrap_moe_combine_options* how,
                  distwrap_work* work) {
    return distwrap_alltoallv_dedup_combine(output, rows_, send_, forward_,
                                            recv_, request_, how, nullptr, work,
                                            &error_);
  }

  // Two tokens, one expert each: token 0 wants expert 1, token 1 expert 0.
  std::vector<int64_t> ids_data_ = {1, 0};
  int64_t ids_shape_[3] = {1, 2, 1};
  std::vector<int32_t> send_data_ = {-9, -9}, forward_data_ = {-9, -9},
                       recv_data_ = {-9, -9, -9, -9}, numbers_data_ = {-9, -9};
  std::vector<float> x_data_ = {1, 2, 3, 4}, rows_data_ = {0, 0, 0, 0},
                     back_data_ = {0, 0, 0, 0};
  Numbers ids_{ids_data_, DW_DTYPE_I64}, send_{send_data_, DW_DTYPE_I32},
      forward_{forward_data_, DW_DTYPE_I32}, recv_{recv_data_, DW_DTYPE_I32},
      numbers_{numbers_data_, DW_DTYPE_I32}, in_{x_data_, DW_DTYPE_F32},
      rows_{rows_data_, DW_DTYPE_F32}, back_{back_data_, DW_DTYPE_F32};
  distwrap_dedup_request request_ = nullptr;
};

TEST_F(MoeRawOfC, ThereAndBack) {
  ASSERT_EQ(maps(2, send_), DW_OK) << text();
  EXPECT_EQ(send_data_, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(forward_data_, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(recv_data_, (std::vector<int32_t>{-1, 0, 0, -1}));
  ASSERT_EQ(exec(rows_, in_), DW_OK) << text();
  EXPECT_EQ(rows_data_, (std::vector<float>{3, 4, 1, 2}));
  EXPECT_EQ(numbers_data_, (std::vector<int32_t>{1, 0}));
  ASSERT_EQ(combine(back_, nullptr, nullptr), DW_OK) << text();
  EXPECT_EQ(back_data_, x_data_);

  // Weights of rows, and a work.
  std::vector<float> weights = {10, 100};
  const Numbers by(weights, DW_DTYPE_F32);
  distwrap_moe_combine_options how = {};
  how.struct_size = sizeof how;
  how.weighting = DW_MOE_AT_EXPERT;
  how.weights = by;
  distwrap_work work = nullptr;
  ASSERT_EQ(combine(back_, &how, &work), DW_OK) << text();
  EXPECT_EQ(distwrap_work_wait(work, DW_FOREVER, nullptr), DW_OK);
  EXPECT_EQ(distwrap_work_free(work), DW_OK);
  EXPECT_EQ(back_data_, (std::vector<float>{100, 200, 30, 40}));
}

TEST_F(MoeRawOfC, RanksWithoutRowsGiveNoOutput) {
  ids_data_ = {-1, -1};
  ASSERT_EQ(maps(2, send_), DW_OK) << text();
  ASSERT_EQ(
      distwrap_alltoallv_dedup_exec(nullptr, nullptr, in_, send_, forward_,
                                    recv_, request_, nullptr, nullptr, &error_),
      DW_OK)
      << text();
  ASSERT_EQ(distwrap_alltoallv_dedup_combine(back_, nullptr, send_, forward_,
                                             recv_, request_, nullptr, nullptr,
                                             nullptr, &error_),
            DW_OK)
      << text();
  EXPECT_EQ(back_data_, (std::vector<float>{0, 0, 0, 0}));

  // The sums of a request for f16 may be f32.
  distwrap_dedup_request halves = nullptr;
  ASSERT_EQ(distwrap_alltoallv_dedup_init(2, 2, 1, 2, DW_DTYPE_F16, 0, nullptr,
                                          &halves, nullptr),
            DW_OK);
  back_data_ = x_data_;
  EXPECT_EQ(distwrap_alltoallv_dedup_combine(back_, nullptr, send_, forward_,
                                             recv_, halves, nullptr, nullptr,
                                             nullptr, &error_),
            DW_OK)
      << text();
  EXPECT_EQ(back_data_, (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(distwrap_dedup_request_free(halves), DW_OK);
}

// A rank that gets rows and gives no output is told how many it needs.
TEST_F(MoeRawOfC, RowsWithoutAnOutput) {
  ASSERT_EQ(maps(2, send_), DW_OK) << text();
  EXPECT_EQ(
      distwrap_alltoallv_dedup_exec(nullptr, nullptr, in_, send_, forward_,
                                    recv_, request_, nullptr, nullptr, &error_),
      DW_RESOURCE_EXHAUSTED);
  EXPECT_THAT(text(), HasSubstr("2 rows or more"));
}

TEST_F(MoeRawOfC, Chunks) {
  std::vector<int64_t> sizes = {1, 1}, wanted = {1}, counts = {1},
                       gathered = {-9, -9};
  const Numbers rows(sizes, DW_DTYPE_I64), chunks(wanted, DW_DTYPE_I64),
      many(counts, DW_DTYPE_I64), all(gathered, DW_DTYPE_I64);
  const distwrap_tensor* const outs[] = {rows_};
  ASSERT_EQ(distwrap_alltoallv_dynamic_dispatch(outs, 1, all, in_, rows, chunks,
                                                many, 2, nullptr, &error_),
            DW_OK)
      << text();
  EXPECT_EQ(rows_data_, (std::vector<float>{0, 0, 3, 4}));
  EXPECT_EQ(gathered, sizes);
  ASSERT_EQ(distwrap_alltoallv_dynamic_combine(back_, rows_, all, chunks, many,
                                               2, nullptr, &error_),
            DW_OK)
      << text();
  EXPECT_EQ(back_data_, (std::vector<float>{0, 0, 3, 4}));
  distwrap_work work = nullptr;
  const auto wait = [&] {
    EXPECT_EQ(distwrap_work_wait(work, DW_FOREVER, &error_), DW_OK) << text();
    EXPECT_EQ(distwrap_work_free(work), DW_OK);
  };
  rows_data_.assign(4, 0);
  ASSERT_EQ(
      distwrap_alltoallv_dynamic_dispatch_async(
          outs, 1, all, in_, rows, chunks, many, 2, nullptr, &work, &error_),
      DW_OK)
      << text();
  wait();
  EXPECT_EQ(rows_data_, (std::vector<float>{0, 0, 3, 4}));
  back_data_.assign(4, 0);
  ASSERT_EQ(distwrap_alltoallv_dynamic_combine_async(
                back_, rows_, all, chunks, many, 2, nullptr, &work, &error_),
            DW_OK)
      << text();
  wait();
  EXPECT_EQ(back_data_, (std::vector<float>{0, 0, 3, 4}));
  wanted[0] = 2;
  EXPECT_EQ(distwrap_alltoallv_dynamic_dispatch(outs, 1, all, in_, rows, chunks,
                                                many, 2, nullptr, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("kIndexMap"));
}

// One piece for each rank, of a rank alone.
TEST_F(MoeRawOfC, Pieces) {
  std::vector<int64_t> one = {1}, got = {-9};
  const Numbers count(one, DW_DTYPE_I64), received(got, DW_DTYPE_I64);
  const distwrap_tensor* const outs[] = {rows_};
  const distwrap_tensor* const ins[] = {in_};
  distwrap_work work = nullptr;
  ASSERT_EQ(distwrap_alltoallv_dynamic(outs, 1, received, ins, 1, count,
                                       nullptr, &work, &error_),
            DW_OK)
      << text();
  EXPECT_EQ(distwrap_work_wait(work, DW_FOREVER, nullptr), DW_OK);
  EXPECT_EQ(distwrap_work_free(work), DW_OK);
  EXPECT_EQ(rows_data_, (std::vector<float>{1, 0, 0, 0}));
  EXPECT_EQ(got, one);
  one[0] = 3;
  ASSERT_EQ(distwrap_alltoallv_dynamic_split(outs, 1, received, in_, count,
                                             nullptr, nullptr, &error_),
            DW_OK)
      << text();
  EXPECT_EQ(rows_data_, (std::vector<float>{1, 2, 3, 0}));
  EXPECT_EQ(got, one);
  one[0] = 4;
  const distwrap_pair hint = {"num_blocks", "8"};
  ASSERT_EQ(distwrap_device_alltoallv_single(rows_, in_, count, count, &hint, 1,
                                             nullptr, nullptr, &error_),
            DW_OK)
      << text();
  EXPECT_EQ(rows_data_, x_data_);
  one[0] = 5;
  EXPECT_EQ(distwrap_alltoallv_dynamic_split(outs, 1, received, in_, count,
                                             nullptr, nullptr, &error_),
            DW_RESOURCE_EXHAUSTED);
  EXPECT_THAT(text(), HasSubstr("input_split_lengths"));
  EXPECT_EQ(distwrap_alltoallv_dynamic(outs, 1, nullptr, ins, 1, count, nullptr,
                                       nullptr, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("output_counts is NULL"));
}

TEST_F(MoeRawOfC, TensorsOfAPlanOutliveIt) {
  const int64_t shape[] = {2, 1};
  distwrap_tensor routing = ids_.tensor;
  routing.ndim = 2;
  routing.shape = const_cast<int64_t*>(shape);
  distwrap_moe_options options = {};
  options.struct_size = sizeof options;
  options.num_experts = 2;
  distwrap_moe_plan plan = nullptr;
  ASSERT_EQ(distwrap_moe_plan_create(&routing, &options, nullptr, nullptr,
                                     &plan, &error_),
            DW_OK)
      << text();
  ASSERT_EQ(distwrap_moe_dispatch(plan, rows_, in_, nullptr, 0, nullptr,
                                  nullptr, &error_),
            DW_FAILED_PRECONDITION);  // two tokens are not four rows
  EXPECT_THAT(text(), HasSubstr("another number of rows"));
  EXPECT_EQ(distwrap_moe_plan_check(plan, &error_), DW_OK);
  EXPECT_EQ(distwrap_moe_plan_check(nullptr, &error_), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("plan"));
  distwrap_managed_tensor *waits = nullptr, *rows = nullptr, *none = nullptr;
  ASSERT_EQ(distwrap_moe_plan_tensor(plan, DW_MOE_WAIT_NS, &waits, &error_),
            DW_OK)
      << text();
  ASSERT_EQ(distwrap_moe_plan_tensor(plan, DW_MOE_RECV_ROWS, &rows, &error_),
            DW_OK)
      << text();
  EXPECT_EQ(distwrap_moe_plan_tensor(plan, DW_MOE_WAIT_NS + 1, &none, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("a plan has no tensor"));
  ASSERT_EQ(distwrap_moe_plan_free(plan), DW_OK);
  for (const auto& [one, value] : {std::pair(waits, 0), std::pair(rows, 2)}) {
    EXPECT_EQ(one->dl_tensor.ndim, 1);
    EXPECT_EQ(one->dl_tensor.shape[0], 1);
    EXPECT_EQ(*static_cast<int64_t*>(one->dl_tensor.data), value);
    one->deleter(one);
  }
}

TEST_F(MoeRawOfC, APreparedExchange) {
  distwrap_alltoallv_op op = nullptr;
  ASSERT_EQ(distwrap_alltoallv_op_create(nullptr, 16, 16, &op, &error_), DW_OK)
      << text();
  const int64_t two = 2;
  distwrap_output rows = {}, buffer = {};
  EXPECT_EQ(distwrap_alltoallv_op_run(op, in_, &two, &two, 1, nullptr, &rows,
                                      &error_),
            DW_FAILED_PRECONDITION);
  ASSERT_EQ(distwrap_alltoallv_op_setup(op, &error_), DW_OK) << text();
  ASSERT_EQ(distwrap_alltoallv_op_run(op, in_, &two, &two, 1, nullptr, &rows,
                                      &error_),
            DW_OK)
      << text();
  ASSERT_EQ(rows.count, 2);
  EXPECT_EQ(static_cast<float*>(rows.data)[1], 2);
  ASSERT_EQ(
      distwrap_alltoallv_op_send_buffer(op, 2, DW_DTYPE_I64, &buffer, &error_),
      DW_OK)
      << text();
  static_cast<int64_t*>(buffer.data)[1] = 77;
  ASSERT_EQ(distwrap_alltoallv_op_run(op, nullptr, &two, &two, 1, nullptr,
                                      &rows, &error_),
            DW_OK)
      << text();
  EXPECT_EQ(static_cast<int64_t*>(rows.data)[1], 77);
  const std::pair<std::function<int32_t()>, const char*> calls[] = {
      {[&] {
         return distwrap_alltoallv_op_create(nullptr, 16, 16, nullptr, &error_);
       },
       "op is NULL"},
      {[&] { return distwrap_alltoallv_op_setup(nullptr, &error_); },
       "prepared exchange"},
      {[&] {
         return distwrap_alltoallv_op_run(op, in_, nullptr, &two, 1, nullptr,
                                          &rows, &error_);
       },
       "out_splits is NULL"},
      {[&] {
         return distwrap_alltoallv_op_run(op, in_, &two, &two, 1, nullptr,
                                          nullptr, &error_);
       },
       "rows is NULL"},
      {[&] {
         return distwrap_alltoallv_op_send_buffer(op, 2, 99, &buffer, &error_);
       },
       "dtype = 99 is unknown"},
      {[&] {
         return distwrap_alltoallv_op_send_buffer(op, 3, DW_DTYPE_I64, &buffer,
                                                  &error_);
       },
       "capacity"},
  };
  for (const auto& [call, says] : calls) {
    EXPECT_EQ(call(), DW_INVALID_ARGUMENT) << says;
    EXPECT_THAT(text(), HasSubstr(says));
  }
  EXPECT_EQ(distwrap_alltoallv_op_close(op, &error_), DW_OK) << text();
  EXPECT_EQ(distwrap_alltoallv_op_free(op), DW_OK);
}

TEST_F(MoeRawOfC, BadArgumentsAreRefused) {
  ASSERT_EQ(maps(2, send_), DW_OK) << text();
  distwrap_dedup_request freed = nullptr;
  ASSERT_EQ(distwrap_alltoallv_dedup_init(2, 2, 1, 2, DW_DTYPE_F32, 0, nullptr,
                                          &freed, nullptr),
            DW_OK);
  ASSERT_EQ(distwrap_dedup_request_free(freed), DW_OK);
  EXPECT_EQ(distwrap_dedup_request_free(freed), DW_INVALID_ARGUMENT);
  EXPECT_EQ(distwrap_dedup_request_free(nullptr), DW_OK);
  distwrap_dedup_request made = nullptr;
  const auto init = [&](int64_t tokens, int32_t dtype,
                        distwrap_dedup_request* request) {
    return distwrap_alltoallv_dedup_init(tokens, 2, 1, 2, dtype, 0, nullptr,
                                         request, &error_);
  };
  const auto exec_of = [&](distwrap_dedup_request request) {
    return distwrap_alltoallv_dedup_exec(rows_, numbers_, in_, send_, forward_,
                                         recv_, request, nullptr, nullptr,
                                         &error_);
  };
  const auto dynamic = [&](uint64_t outs, const distwrap_tensor* list) {
    const distwrap_tensor* const to[] = {rows_, rows_};
    return distwrap_alltoallv_dynamic_dispatch(to, outs, list, in_, ids_, ids_,
                                               ids_, 2, nullptr, &error_);
  };
  const std::pair<std::function<int32_t()>, const char*> calls[] = {
      {[&] { return init(2, DW_DTYPE_F32, nullptr); }, "request is NULL"},
      {[&] { return init(2, 99, &made); }, "dtype = 99 is unknown"},
      {[&] { return init(0, DW_DTYPE_F32, &made); }, "at least 1"},
      {[&] { return exec_of(nullptr); }, "dedup request"},
      {[&] { return exec_of(freed); }, "dedup request"},
      {[&] { return exec(rows_, nullptr); }, "input is NULL"},
      {[&] { return exec(numbers_, in_); }, "output"},
      {[&] { return combine(nullptr, nullptr, nullptr); }, "output is NULL"},
      {[&] { return maps(2, nullptr); }, "send_indices is NULL"},
      {[&] { return maps(2, recv_); }, "give 2 contiguous i32"},
      {[&] { return maps(1, send_); }, "give 2 contiguous i32"},
      {[&] { return maps(0, send_); }, "equal nodes"},
      {[&] { return dynamic(1, nullptr); }, "output_split_sizes is NULL"},
      {[&] { return dynamic(2, ids_); }, "one output for each rank"},
  };
  for (const auto& [call, says] : calls) {
    EXPECT_EQ(call(), DW_INVALID_ARGUMENT) << says;
    EXPECT_THAT(text(), HasSubstr(says));
  }
  EXPECT_EQ(made, nullptr);
  distwrap_moe_combine_options by_slot = {};
  by_slot.struct_size = sizeof by_slot;
  by_slot.order = DW_MOE_TOP_K;
  EXPECT_EQ(combine(back_, &by_slot, nullptr), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("maps tell no slots"));
}

}  // namespace
}  // namespace distwrap::capi
