#include "device.h"

#include "sdk/fail.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace nccl_backend {
namespace {

// The open devices of the process. Two drivers are never open at the same time
// but in tests, which have a driver for each kind of fake.
struct Devices {
  using Key = std::pair<int (*)(unsigned), int>;

  std::mutex mutex;
  std::map<Key, std::weak_ptr<Device>> open;
};
Devices& devices() {
  static Devices* const kDevices = new Devices;
  return *kDevices;
}

}  // namespace

int32_t Device::open(const Driver& driver, int ordinal,
                     std::shared_ptr<Device>* device, dw_error* error) {
  std::lock_guard<std::mutex> lock(devices().mutex);
  std::weak_ptr<Device>& known = devices().open[{driver.cuInit, ordinal}];
  if ((*device = known.lock()) != nullptr) return DW_OK;
  int count = 0;
  if (int result = driver.cuDeviceGetCount(&count); result != CUDA_SUCCESS)
    return fail_driver(driver, "the devices cannot be counted", result, error);
  if (ordinal < 0 || ordinal >= count) {
    const std::string text = "nccl: there is no device " +
                             std::to_string(ordinal) + "; this process sees " +
                             std::to_string(count);
    return dw_fail(error, DW_UNAVAILABLE, DW_REASON_BACKEND_FAILED, -1, 0,
                   text.c_str());
  }
  const std::shared_ptr<Device> made(new Device(driver, ordinal));
  if (int result = driver.cuDeviceGet(&made->handle_, ordinal);
      result != CUDA_SUCCESS)
    return fail_driver(driver, "the device cannot be opened", result, error);
  if (int result = driver.cuDeviceGetUuid(&made->uuid_, made->handle_);
      result != CUDA_SUCCESS)
    return fail_driver(driver, "the device has no id", result, error);
  if (int result = driver.cuDeviceGetAttribute(
          &made->capability_, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
          made->handle_);
      result != CUDA_SUCCESS)
    return fail_driver(driver, "the device has no capability", result, error);
  // Older drivers do not know the attribute.
  int exports = 0;
  made->exports_fabric_ =
      driver.cuDeviceGetAttribute(
          &exports, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
          made->handle_) == CUDA_SUCCESS &&
      exports != 0;
  if (int result =
          driver.cuDevicePrimaryCtxRetain(&made->context_, made->handle_);
      result != CUDA_SUCCESS)
    return fail_driver(driver, "the device's context cannot be opened", result,
                       error);
  *device = made;
  known = made;
  return DW_OK;
}

Device::~Device() {
  if (context_ != nullptr) driver_.cuDevicePrimaryCtxRelease_v2(handle_);
}

}  // namespace nccl_backend
