// A job of one rank through the C API, for tests.
#ifndef DISTWRAP_TESTS_UNIT_CAPI_SESSION_OF_ONE_H_
#define DISTWRAP_TESTS_UNIT_CAPI_SESSION_OF_ONE_H_

#include "distwrap/c.h"

#include <gtest/gtest.h>

#include <string>

namespace distwrap::capi {

class SessionOfOne : public ::testing::Test {
 protected:
  SessionOfOne() {
    distwrap_init_options options = {};
    options.struct_size = sizeof options;
    options.has_rank = 1;
    options.world_size = 1;
    EXPECT_EQ(distwrap_init_process_group(&options, nullptr, nullptr), DW_OK);
    tensor_.data = x_;
    tensor_.device = {DW_DEVICE_CPU, 0};
    tensor_.ndim = 1;
    tensor_.dtype = distwrap_dtype(DW_DTYPE_F32);
    tensor_.shape = &count_;
  }
  ~SessionOfOne() override {
    if (distwrap_is_initialized() != 0) {
      EXPECT_EQ(distwrap_destroy_process_group(nullptr, nullptr), DW_OK);
    }
  }

  // The text of the error that the last call wrote; frees the error.
  std::string text() {
    const std::string text = distwrap_error_text(error_);
    EXPECT_EQ(distwrap_error_free(error_), DW_OK);
    error_ = nullptr;
    return text;
  }

  // An operation that does not end before `let_go`.
  distwrap_work pending() {
    distwrap_work work = nullptr;
    EXPECT_EQ(distwrap_irecv(&tensor_, kSelf, 0, nullptr, &work, nullptr),
              DW_OK);
    return work;
  }
  void let_go() {
    EXPECT_EQ(distwrap_send(&other_tensor(), kSelf, 0, nullptr, nullptr),
              DW_OK);
  }

  const distwrap_tensor& other_tensor() {
    other_ = tensor_;
    other_.data = y_;
    return other_;
  }

  static constexpr distwrap_peer kSelf = {DW_RANK_OF_GROUP, 0};
  float x_[4] = {1, 2, 3, 4}, y_[4] = {5, 6, 7, 8};
  int64_t count_ = 4;
  distwrap_tensor tensor_ = {}, other_ = {};
  distwrap_error error_ = nullptr;
};

}  // namespace distwrap::capi

#endif  // DISTWRAP_TESTS_UNIT_CAPI_SESSION_OF_ONE_H_
