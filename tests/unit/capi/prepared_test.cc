// Prepared operations through the C API: misuse is refused.
#include "unit/capi/session_of_one.h"

#include <gmock/gmock.h>

#include <cstring>

namespace distwrap::capi {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Prepared : public SessionOfOne {
 protected:
  Prepared() {
    EXPECT_EQ(distwrap_batch_create(&batch_, nullptr), DW_OK);
    recorded_.struct_size = sizeof recorded_;
    recorded_.batch = batch_;
    how_.struct_size = sizeof how_;
  }
  ~Prepared() override {
    EXPECT_EQ(distwrap_batch_free(batch_), DW_OK);
    EXPECT_EQ(distwrap_prepared_free(sum_), DW_OK);
  }

  void record() {
    EXPECT_EQ(distwrap_all_reduce(&other_tensor(), &tensor_, DW_REDUCE_SUM,
                                  &recorded_, nullptr, nullptr),
              DW_OK);
  }
  void prepare() {
    record();
    ASSERT_EQ(distwrap_batch_prepare(batch_, &sum_, &error_), DW_OK) << text();
  }
  int32_t start(const distwrap_tensor* out, const distwrap_tensor* in) {
    return distwrap_prepared_start(sum_, out, in, &how_, nullptr, &error_);
  }

  distwrap_batch batch_ = nullptr;
  distwrap_prepared sum_ = nullptr;
  distwrap_op_options recorded_ = {}, how_ = {};
};

TEST_F(Prepared, StartsOnItsBuffersAndOnOthers) {
  prepare();
  EXPECT_EQ(start(nullptr, nullptr), DW_OK);
  EXPECT_EQ(memcmp(x_, y_, sizeof x_), 0);
  float z[4] = {};
  distwrap_tensor other = tensor_;
  other.data = z;
  EXPECT_EQ(start(&other, &tensor_), DW_OK);
  EXPECT_EQ(memcmp(x_, z, sizeof x_), 0);
}

TEST_F(Prepared, WhatIsNotGivenIsRefused) {
  record();
  EXPECT_EQ(distwrap_batch_prepare(batch_, nullptr, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("prepared is NULL"));
  EXPECT_EQ(distwrap_batch_prepare(nullptr, &sum_, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("NULL"));
  EXPECT_EQ(start(nullptr, nullptr), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("NULL"));
  EXPECT_EQ(distwrap_prepared_free(nullptr), DW_OK);
}

TEST_F(Prepared, ABatchIsPreparedOnceAndHasOneCollective) {
  EXPECT_EQ(distwrap_batch_prepare(batch_, &sum_, &error_),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("0 items"));
  prepare();
  distwrap_prepared again = sum_;
  EXPECT_EQ(distwrap_batch_prepare(batch_, &again, &error_),
            DW_FAILED_PRECONDITION);
  EXPECT_EQ(again, nullptr);
  EXPECT_THAT(text(), HasSubstr("submitted already"));
  EXPECT_EQ(distwrap_batch_submit(batch_, nullptr, &error_),
            DW_FAILED_PRECONDITION);
  EXPECT_THAT(text(), HasSubstr("submitted already"));
}

TEST_F(Prepared, BuffersThatAreNotLikeThePreparedOnes) {
  prepare();
  const int64_t three = 3;
  distwrap_tensor shorter = tensor_;
  shorter.shape = const_cast<int64_t*>(&three);
  EXPECT_EQ(start(&other_tensor(), &shorter), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), AllOf(HasSubstr("the input is not like"),
                            HasSubstr("4 contiguous elements")));
  EXPECT_EQ(start(&other_tensor(), nullptr), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the input is not like"));
  EXPECT_EQ(start(nullptr, &tensor_), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the output is not like"));
  EXPECT_EQ(start(&tensor_, &tensor_), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("overlap"));
}

TEST_F(Prepared, OptionsThatAStartHasNot) {
  prepare();
  distwrap_group world = nullptr;
  ASSERT_EQ(distwrap_world(&world, nullptr), DW_OK);
  how_.group = world;
  EXPECT_EQ(start(nullptr, nullptr), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("a start names a group"));
  how_.group = nullptr;
  how_.batch = batch_;
  EXPECT_EQ(start(nullptr, nullptr), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("cannot be in a batch"));
  how_.batch = nullptr;
  how_.stream.native = this;
  EXPECT_EQ(start(nullptr, nullptr), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("a start names a stream"));
  how_.stream.native = nullptr;
  how_.timeout = -1;
  EXPECT_EQ(start(nullptr, nullptr), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the timeout is not positive"));
  how_.timeout = 0;
  EXPECT_EQ(start(nullptr, nullptr), DW_OK);
  EXPECT_EQ(distwrap_group_free(world), DW_OK);
}

TEST_F(Prepared, AHandleThatWasFreed) {
  prepare();
  EXPECT_EQ(distwrap_prepared_free(sum_), DW_OK);
  EXPECT_EQ(start(nullptr, nullptr), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text(), HasSubstr("the prepared operation handle is stale"));
  EXPECT_EQ(distwrap_prepared_free(sum_), DW_INVALID_ARGUMENT);
  sum_ = nullptr;
}

TEST_F(Prepared, AfterItsGroup) {
  prepare();
  EXPECT_EQ(distwrap_destroy_process_group(nullptr, nullptr), DW_OK);
  EXPECT_NE(start(nullptr, nullptr), DW_OK);
  EXPECT_EQ(distwrap_error_reason(error_), DW_REASON_GROUP_CLOSED);
  EXPECT_EQ(distwrap_error_free(error_), DW_OK);
}

}  // namespace
}  // namespace distwrap::capi
