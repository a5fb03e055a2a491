// The ranks of the tests: one alone, or the processes of a job. All ranks run
// the same tests in the same order.
#ifndef DISTWRAP_TESTS_GPU_WORLD_H_
#define DISTWRAP_TESTS_GPU_WORLD_H_

#include "distwrap/distwrap.h"

namespace distwrap::gpu_test {

// The number of this rank's device. Several ranks share a device where there
// are more ranks than devices.
int device();
inline Device cuda_device() { return {2, device()}; }

// The options of a session over shm for host memory and NCCL for the GPU. The
// variables TEST_NCCL and TEST_CUDA_DRIVER name other files than the system's.
InitOptions session_options();

// A view of device memory.
class DeviceBytes;
TensorView on_device(const DeviceBytes& bytes, DType dtype);

class GpuStream;
Stream handle(const GpuStream& stream);

// A group of all ranks, which a test may break.
Group new_world();

}  // namespace distwrap::gpu_test

#endif  // DISTWRAP_TESTS_GPU_WORLD_H_
