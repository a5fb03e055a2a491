#include "world.h"

#include "driver.h"

#include <cstdlib>

namespace distwrap::gpu_test {

int device() {
  const char* const rank = std::getenv("DISTWRAP_LOCAL_RANK");
  return rank == nullptr ? 0 : std::atoi(rank) % count_devices();
}

InitOptions session_options() {
  InitOptions options;
  options.backend = "cpu:shm,cuda:nccl";
  options.device_id = device();
  options.timeout = absl::Seconds(30);
  options.init_timeout = absl::Seconds(60);
  options.hints = {{"check_pointers", "1"}};
  if (const char* const file = std::getenv("TEST_NCCL"))
    options.hints["nccl_library"] = file;
  if (const char* const file = std::getenv("TEST_CUDA_DRIVER"))
    options.hints["cuda_driver"] = file;
  if (std::getenv("DISTWRAP_RANK") == nullptr) {
    options.rank = 0;
    options.world_size = 1;
  }
  return options;
}

TensorView on_device(const DeviceBytes& bytes, DType dtype) {
  return TensorView(bytes.data(),
                    static_cast<int64_t>(bytes.size()) / dtype_size(dtype),
                    dtype, cuda_device());
}

Stream handle(const GpuStream& stream) {
  return {cuda_device(), stream.native()};
}

Group new_world() {
  absl::StatusOr<Group> made = new_group();
  if (made.ok()) return *made;
  std::fprintf(stderr, "no group: %s\n",
               std::string(made.status().message()).c_str());
  std::abort();
}

}  // namespace distwrap::gpu_test
