// Tensors as a program with a dlpack.h passes them: structs of its own, with an
// enumeration for the device.
#ifndef DISTWRAP_TESTS_UNIT_BASE_DLPACK_FIXTURE_H_
#define DISTWRAP_TESTS_UNIT_BASE_DLPACK_FIXTURE_H_

#include "distwrap/dlpack.h"
#include "distwrap/status.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace distwrap {

enum UserDeviceType : int32_t { kUserCpu = 1, kUserCuda = 2 };
struct UserDevice {
  UserDeviceType device_type;
  int32_t device_id;
};
struct UserDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct UserTensor {
  void* data;
  UserDevice device;
  int32_t ndim;
  UserDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct UserManaged {
  UserTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(UserManaged* self);
};
struct UserVersion {
  uint32_t major, minor;
};
struct UserVersioned {
  UserVersion version;
  void* manager_ctx;
  void (*deleter)(UserVersioned* self);
  uint64_t flags;
  UserTensor dl_tensor;
};

// A tensor f32 [2, 3] that a test changes, and its import.
class DlpackTest : public ::testing::Test {
 protected:
  DlpackTest() {
    tensor_.data = data_;
    tensor_.device = {kUserCpu, 0};
    tensor_.dtype = {2, 32, 1};
    shape({2, 3});
  }
  void shape(std::vector<int64_t> extents) {
    shape_ = std::move(extents);
    tensor_.ndim = static_cast<int32_t>(shape_.size());
    tensor_.shape = shape_.data();
    tensor_.strides = nullptr;
  }
  void strides(std::vector<int64_t> strides) {
    strides_ = std::move(strides);
    tensor_.strides = strides_.data();
  }
  absl::StatusOr<TensorView> import(uint64_t flags = 0) {
    return view_of_dlpack(tensor_, flags);
  }

  UserTensor tensor_ = {};
  std::vector<int64_t> shape_, strides_;
  alignas(64) float data_[64] = {};
};

}  // namespace distwrap

#endif  // DISTWRAP_TESTS_UNIT_BASE_DLPACK_FIXTURE_H_
