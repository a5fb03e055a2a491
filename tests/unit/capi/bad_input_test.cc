// Every bad argument gives a code with a text.
#include "unit/capi/session_of_one.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace distwrap::capi {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using BadInput = SessionOfOne;

template <class Handle>
Handle handle_of(uint64_t number) {
  return reinterpret_cast<Handle>(number);  // NOLINT(performance-no-int-to-ptr)
}

struct Options : distwrap_op_options {
  Options() : distwrap_op_options{} { struct_size = sizeof *this; }
};

TEST_F(BadInput, Null) {
  distwrap_error* const e = &error_;
  const distwrap_tensor* const t = &tensor_;
  const distwrap_bytes holes = {nullptr, 3};
  const distwrap_tensor* const list[] = {nullptr};
  const std::vector<std::function<int32_t()>> calls = {
      [&] { return distwrap_all_reduce(nullptr, t, 1, nullptr, nullptr, e); },
      [&] { return distwrap_all_reduce(t, nullptr, 1, nullptr, nullptr, e); },
      [&] {
        return distwrap_broadcast(nullptr, t, kSelf, nullptr, nullptr, e);
      },
      [&] { return distwrap_all_gather(nullptr, 1, t, nullptr, nullptr, e); },
      [&] { return distwrap_all_gather(list, 1, t, nullptr, nullptr, e); },
      [&] {
        return distwrap_all_gather_v(t, t, nullptr, 1, nullptr, nullptr, e);
      },
      [&] { return distwrap_send(nullptr, kSelf, 0, nullptr, e); },
      [&] { return distwrap_isend(t, kSelf, 0, nullptr, nullptr, e); },
      [&] {
        return distwrap_batch_isend_irecv(nullptr, 1, nullptr, nullptr, e);
      },
      [&] { return distwrap_world(nullptr, e); },
      [&] { return distwrap_split_group(nullptr, nullptr, e); },
      [&] { return distwrap_new_group(nullptr, nullptr, e); },
      [&] { return distwrap_group_read(nullptr, nullptr, e); },
      [&] { return distwrap_get_group_rank(nullptr, 0, nullptr, e); },
      [&] { return distwrap_group_set_data(nullptr, nullptr, nullptr, e); },
      [&] { return distwrap_group_get_data(nullptr, "k", nullptr, e); },
      [&] {
        return distwrap_get_backend(nullptr, {1, 0}, nullptr, e);
      },
      [&] { return distwrap_batch_create(nullptr, e); },
      [&] { return distwrap_batch_submit(nullptr, nullptr, e); },
      [&] { return distwrap_work_wait(nullptr, 0, e); },
      [&] { return distwrap_work_on_done(nullptr, nullptr, nullptr, e); },
      [&] { return distwrap_wait_any(nullptr, 1, 0, nullptr, e); },
      [&] { return distwrap_wait_all(nullptr, 1, 0, e); },
      [&] { return distwrap_session_close(nullptr, 0, e); },
      [&] {
        return distwrap_all_gather_object(nullptr, 0, nullptr, nullptr, e);
      },
      [&] {
        return distwrap_all_gather_object(&holes, 0, nullptr, nullptr, e);
      },
      [&] { return distwrap_list_item(nullptr, 0, nullptr, e); },
      [&] { return distwrap_store_in_memory(nullptr, e); },
      [&] { return distwrap_store_set(nullptr, "k", &holes, 0, e); },
      [&] { return distwrap_tensor_of_dlpack(nullptr, 0, nullptr, e); },
      [&] {
        return distwrap_dlpack_of_tensor(nullptr, 0, nullptr, nullptr, nullptr,
                                         e);
      },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i](), DW_INVALID_ARGUMENT) << i;
    EXPECT_THAT(text(), HasSubstr("NULL")) << i;
  }
  EXPECT_EQ(distwrap_error_free(nullptr), DW_OK);
  EXPECT_STREQ(distwrap_error_text(nullptr), "");
  EXPECT_EQ(distwrap_list_size(nullptr), 0u);
  EXPECT_EQ(distwrap_batch_size(nullptr), -1);
}

TEST_F(BadInput, StaleHandles) {
  distwrap_work work = pending();
  let_go();
  EXPECT_EQ(distwrap_work_wait(work, DW_FOREVER, nullptr), DW_OK);
  EXPECT_EQ(distwrap_work_free(work), DW_OK);
  EXPECT_EQ(distwrap_work_free(work), DW_INVALID_ARGUMENT);
  EXPECT_EQ(distwrap_work_wait(work, 0, &error_), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the work handle is stale"));

  distwrap_group group = nullptr;
  EXPECT_EQ(distwrap_world(&group, nullptr), DW_OK);
  EXPECT_EQ(distwrap_group_free(group), DW_OK);
  Options options;
  options.group = group;
  EXPECT_EQ(distwrap_all_reduce(&tensor_, &tensor_, DW_REDUCE_SUM, &options,
                                nullptr, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("all_reduce"));
  EXPECT_EQ(distwrap_get_rank(group), -1);

  distwrap_batch batch = nullptr;
  EXPECT_EQ(distwrap_batch_create(&batch, nullptr), DW_OK);
  EXPECT_EQ(distwrap_batch_free(batch), DW_OK);
  options.group = nullptr;
  options.batch = batch;
  EXPECT_EQ(distwrap_barrier(&options, nullptr, &error_), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the batch handle is stale"));
}

TEST_F(BadInput, HandlesOfAnotherKind) {
  distwrap_group group = nullptr;
  EXPECT_EQ(distwrap_world(&group, nullptr), DW_OK);
  EXPECT_EQ(distwrap_work_wait(
                handle_of<distwrap_work>(reinterpret_cast<uint64_t>(group)), 0,
                &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("no work's but a group's"));
  EXPECT_EQ(distwrap_group_free(group), DW_OK);
}

TEST_F(BadInput, HandlesThatNobodyGave) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t number = i < 64 ? uint64_t{1} << i : random();
    EXPECT_NE(distwrap_work_wait(handle_of<distwrap_work>(number), 0, nullptr),
              DW_OK);
    Options options;
    options.group = handle_of<distwrap_group>(number);
    EXPECT_NE(distwrap_barrier(&options, nullptr, nullptr), DW_OK);
    EXPECT_NE(distwrap_list_free(handle_of<distwrap_list>(number)), DW_OK);
    EXPECT_STREQ(distwrap_error_text(handle_of<distwrap_error>(number)), "");
  }
}

// Sizes of structs: too short, of a newer header without new values, and of one
// with new values.
TEST_F(BadInput, SizesOfStructs) {
  struct {
    distwrap_op_options known = {};
    uint64_t later = 0;
  } options;
  const auto barrier = [&](uint32_t size) {
    options.known.struct_size = size;
    return distwrap_barrier(&options.known, nullptr, &error_);
  };
  for (const uint32_t size : {0u, 4u}) {
    EXPECT_EQ(barrier(size), DW_INVALID_ARGUMENT);
    EXPECT_THAT(text(), HasSubstr("struct_size"));
  }
  EXPECT_EQ(barrier(16), DW_OK);
  EXPECT_EQ(barrier(sizeof options), DW_OK);
  options.later = 1;
  EXPECT_EQ(barrier(sizeof options), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("not zero"));

  distwrap_group_info info = {};
  EXPECT_EQ(distwrap_group_read(nullptr, &info, &error_), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("struct_size"));
  info.struct_size = 12;
  EXPECT_EQ(distwrap_group_read(nullptr, &info, nullptr), DW_OK);
  EXPECT_EQ(info.size, 1);
  EXPECT_EQ(info.uid, 0u);  // behind the requested size
}

TEST_F(BadInput, Tensors) {
  int64_t shape[65] = {4};
  const std::vector<std::function<void(distwrap_tensor&)>> faults = {
      [](auto& t) { t.device.device_type = 2; },
      [](auto& t) { t.device.device_type = 0; },
      [](auto& t) { t.device.device_type = -7; },
      [](auto& t) { t.device.device_type = 300; },
      [](auto& t) { t.ndim = -1; },
      [&](auto& t) {
        t.ndim = 65;
        t.shape = shape;
      },
      [](auto& t) { t.shape = nullptr; },
      [](auto& t) { t.data = nullptr; },
      [](auto& t) { t.data = static_cast<char*>(t.data) + 1; },
      [](auto& t) { t.byte_offset = 2; },
      [](auto& t) { t.byte_offset = ~uint64_t{3}; },
      [](auto& t) { t.dtype.lanes = 2; },
      [](auto& t) { t.dtype.bits = 24; },
      [](auto& t) { t.dtype.bits = 255; },
      [](auto& t) { t.dtype.code = 5; },
      [](auto& t) { t.dtype.code = 255; },
      [](auto& t) { t.dtype = distwrap_dtype(99); },
      [&](auto& t) {
        shape[0] = -1;
        t.shape = shape;
      },
      [&](auto& t) {
        shape[0] = INT64_MAX;
        t.shape = shape;
      },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    distwrap_tensor bad = tensor_;
    faults[i](bad);
    EXPECT_EQ(distwrap_all_reduce(&bad, &bad, DW_REDUCE_SUM, nullptr, nullptr,
                                  &error_),
              DW_INVALID_ARGUMENT)
        << i;
    EXPECT_THAT(text(), HasSubstr("Next: ")) << i;
  }
}

TEST_F(BadInput, NumbersThatMeanNothing) {
  EXPECT_EQ(
      distwrap_all_reduce(&tensor_, &tensor_, -1, nullptr, nullptr, &error_),
      DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("kReduceOp"));
  EXPECT_EQ(
      distwrap_broadcast(&tensor_, &tensor_, {3, 0}, nullptr, nullptr, &error_),
      DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("numbering 3"));
  Options options;
  options.timeout = -1;
  EXPECT_EQ(distwrap_barrier(&options, nullptr, &error_), DW_INVALID_ARGUMENT);
  text();
  options = {};
  const double factor = 2;
  options.factor = &factor;
  EXPECT_EQ(distwrap_all_reduce(&tensor_, &tensor_, DW_REDUCE_SUM, &options,
                                nullptr, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("factor"));
  const distwrap_p2p_op op = {&tensor_, nullptr, kSelf, 0, 256, 0};
  distwrap_work work = nullptr;
  EXPECT_EQ(distwrap_batch_isend_irecv(&op, 1, nullptr, &work, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("kP2PUnknown"));
  const distwrap_tensor* const list[] = {&tensor_};
  EXPECT_EQ(distwrap_all_gather(list, ~uint64_t{0}, &tensor_, nullptr, nullptr,
                                &error_),
            DW_INVALID_ARGUMENT);
  text();
  const int32_t ranks[] = {0};
  const uint64_t sizes[] = {5};
  distwrap_group_options lists = {};
  lists.struct_size = sizeof lists;
  lists.ranks = ranks;
  lists.ranks_count = 1;
  lists.list_sizes = sizes;
  lists.lists = 1;
  distwrap_group group = nullptr;
  EXPECT_EQ(distwrap_split_group(&lists, &group, &error_), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("list_sizes"));
}

TEST_F(BadInput, TensorsOfOtherLibraries) {
  distwrap_managed_tensor managed = {};
  managed.version = {1, 3};
  managed.dl_tensor = tensor_;
  const distwrap_tensor* tensor = nullptr;
  EXPECT_EQ(distwrap_tensor_of_dlpack(&managed, 1, &tensor, nullptr), DW_OK);
  EXPECT_EQ(tensor, &managed.dl_tensor);
  managed.flags = DW_DLPACK_READ_ONLY;
  EXPECT_EQ(distwrap_tensor_of_dlpack(&managed, 0, &tensor, nullptr), DW_OK);
  EXPECT_EQ(distwrap_tensor_of_dlpack(&managed, 1, &tensor, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("read-only"));
  managed.flags = 64;
  EXPECT_EQ(distwrap_tensor_of_dlpack(&managed, 0, &tensor, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("flags"));
  managed.version.major = 2;
  EXPECT_EQ(distwrap_tensor_of_dlpack(&managed, 0, &tensor, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("2.3"));
  EXPECT_EQ(tensor, nullptr);
}

TEST_F(BadInput, TensorsForOtherLibraries) {
  int released = 0;
  const auto release = [](void* owner) { ++*static_cast<int*>(owner); };
  distwrap_managed_tensor* managed = nullptr;
  distwrap_tensor bad = tensor_;
  bad.dtype.lanes = 3;
  EXPECT_EQ(
      distwrap_dlpack_of_tensor(&bad, 0, &released, release, &managed, &error_),
      DW_INVALID_ARGUMENT);
  text();
  EXPECT_EQ(released, 0);
  EXPECT_EQ(distwrap_dlpack_of_tensor(&tensor_, 1, &released, release, &managed,
                                      nullptr),
            DW_OK);
  EXPECT_EQ(managed->dl_tensor.data, x_);
  EXPECT_EQ(managed->dl_tensor.shape[0], 4);
  EXPECT_EQ(managed->flags & DW_DLPACK_READ_ONLY, 1u);
  managed->deleter(managed);
  EXPECT_EQ(released, 1);
}

// Calls on a window take a stream as others do; memory of the host has none.
TEST_F(BadInput, AStreamForAWindowOfTheHost) {
  distwrap_window_options options = {};
  options.struct_size = sizeof options;
  options.count = 4;
  options.dtype = DW_DTYPE_F32;
  distwrap_window window = nullptr;
  ASSERT_EQ(distwrap_new_window(&options, &window, &error_), DW_OK) << text();
  distwrap_op_options how = {};
  how.struct_size = sizeof how;
  how.stream = {2, 0, this};
  EXPECT_EQ(distwrap_window_put_signal_pair(window, &tensor_, kSelf, 0, &how,
                                            nullptr, &error_),
            DW_UNIMPLEMENTED);
  EXPECT_THAT(text(), HasSubstr("has no streams"));
  EXPECT_EQ(distwrap_window_flush(window, kSelf, &how, nullptr, &error_),
            DW_UNIMPLEMENTED);
  EXPECT_THAT(text(), HasSubstr("has no streams"));
  how.stream = {};
  EXPECT_EQ(distwrap_window_put_signal_pair(window, &tensor_, kSelf, 0, &how,
                                            nullptr, &error_),
            DW_OK);
  EXPECT_EQ(distwrap_window_wait_pair(window, kSelf, &how, nullptr, &error_),
            DW_OK);
  EXPECT_EQ(distwrap_window_destroy(window, 0, &error_), DW_OK);
  EXPECT_EQ(distwrap_window_free(window), DW_OK);
}

TEST_F(BadInput, ObjectsThatAreNone) {
  const distwrap_bytes junk = {"junk", 4};
  distwrap_list list = nullptr;
  EXPECT_EQ(distwrap_all_gather_object(&junk, DW_OBJECT_ENCODED, nullptr, &list,
                                       &error_),
            DW_DATA_LOSS);
  EXPECT_THAT(text(), HasSubstr("kObjectDecode"));
  EXPECT_EQ(distwrap_all_gather_object(&junk, 7, nullptr, &list, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("encoding 7"));
  const distwrap_bytes why = {"a class is no type", 18};
  EXPECT_EQ(distwrap_all_gather_object(&why, DW_OBJECT_REFUSED, nullptr, &list,
                                       &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(),
              AllOf(HasSubstr("kObjectType"), HasSubstr("a class is no type")));
  EXPECT_EQ(list, nullptr);
}

// Options for a session of one rank in place of the test's own.
distwrap_init_options start_anew() {
  EXPECT_EQ(distwrap_destroy_process_group(nullptr, nullptr), DW_OK);
  distwrap_init_options options = {};
  options.struct_size = sizeof options;
  options.has_rank = 1;
  options.world_size = 1;
  return options;
}

TEST_F(BadInput, DropInHasThreeValues) {
  distwrap_init_options options = start_anew();
  options.drop_in = 3;
  EXPECT_EQ(distwrap_init_process_group(&options, nullptr, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("drop_in"));
  options.drop_in = DW_DROP_IN_ON;
  EXPECT_EQ(distwrap_init_process_group(&options, nullptr, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_EQ(distwrap_error_reason(error_), DW_REASON_BACKEND_MISSING);
  text();
  ASSERT_EQ(setenv("DISTWRAP_DROP_IN", "yes", 1), 0);
  options.drop_in = 0;
  EXPECT_EQ(distwrap_init_process_group(&options, nullptr, &error_),
            DW_INVALID_ARGUMENT)
      << "the setting";
  EXPECT_EQ(distwrap_error_reason(error_), DW_REASON_BACKEND_MISSING);
  text();
  options.drop_in = DW_DROP_IN_OFF;
  EXPECT_EQ(distwrap_init_process_group(&options, nullptr, &error_), DW_OK);
  unsetenv("DISTWRAP_DROP_IN");
}

TEST_F(BadInput, TheCheckHasFourValues) {
  distwrap_init_options options = start_anew();
  options.check = 4;
  EXPECT_EQ(distwrap_init_process_group(&options, nullptr, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("DW_CHECK_SIGNATURE"));
  for (const uint32_t good :
       {uint32_t{DW_CHECK_SIGNATURE}, uint32_t{DW_CHECK_OFF},
        uint32_t{DW_CHECK_FULL}}) {
    options.check = good;
    EXPECT_EQ(distwrap_init_process_group(&options, nullptr, &error_), DW_OK);
    EXPECT_EQ(distwrap_destroy_process_group(nullptr, &error_), DW_OK);
  }
}

TEST_F(BadInput, WithoutASession) {
  EXPECT_EQ(distwrap_destroy_process_group(nullptr, nullptr), DW_OK);
  EXPECT_EQ(distwrap_barrier(nullptr, nullptr, &error_),
            DW_FAILED_PRECONDITION);
  EXPECT_EQ(distwrap_error_reason(error_), DW_REASON_NOT_INITIALIZED);
  text();
  EXPECT_EQ(distwrap_get_rank(nullptr), -1);
  distwrap_group group = nullptr;
  EXPECT_EQ(distwrap_world(&group, &error_), DW_FAILED_PRECONDITION);
  text();
}

}  // namespace
}  // namespace distwrap::capi
