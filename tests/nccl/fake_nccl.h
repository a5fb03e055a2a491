// The nccl backend over the fakes of CUDA and NCCL.
#ifndef DISTWRAP_TESTS_NCCL_FAKE_NCCL_H_
#define DISTWRAP_TESTS_NCCL_FAKE_NCCL_H_

#include "distwrap/abi/plugin.h"
#include "fakes/gpu/driver.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace distwrap::nccl_test {

const dw_backend_api& nccl();

// The file of the fake NCCL of a version code, and of the fake driver.
std::string fake_nccl(int version);
std::string fake_driver();

// The versions whose exports differ.
std::vector<int> versions();

// The backend as one of host memory, for the conformance suite: its calls run
// on copies of their buffers in memory of the device, in host order, on a
// stream or aside, and what the device has written is copied back. Every
// instance has a device of its own.
const dw_backend_api& on_host_memory(int version);
// The next instances of that have the devices from this one on.
void use_devices_from(int device);

// The seed of a test with random numbers: the version's own, and with
// --gtest_shuffle --gtest_repeat=N another one in each repetition.
inline unsigned seed_of(int version) {
  const int shuffled = testing::UnitTest::GetInstance()->random_seed();
  return static_cast<unsigned>(version) +
         1000003U * static_cast<unsigned>(shuffled);
}

}  // namespace distwrap::nccl_test

#endif  // DISTWRAP_TESTS_NCCL_FAKE_NCCL_H_
