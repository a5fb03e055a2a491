// The functions for tests of the fake driver, beside those of CUDA.
//
//   CUstream_st stream(0);              // of device 0
//   stream.put([&] { ... });            // a task for the device
//   int* const x = static_cast<int*>(fakes::gpu::allocate(0, 4));
#ifndef DISTWRAP_TESTS_FAKES_GPU_DRIVER_H_
#define DISTWRAP_TESTS_FAKES_GPU_DRIVER_H_

#include "fakes/gpu/memory.h"
#include "fakes/gpu/rules.h"
#include "fakes/gpu/stream.h"

struct CUctx_st;

namespace fakes::gpu {

// The primary context of a device.
FAKE_EXPORT CUctx_st* context_of(int device);
// The devices whose primary context is retained.
FAKE_EXPORT int contexts_in_use();
// From now on there are so many devices, of this compute capability; at first
// 64 of 9.
FAKE_EXPORT void set_machine(int devices, int capability);
// The driver's version from now on, as CUDA counts; at first 12080.
FAKE_EXPORT void set_driver_version(int version);
FAKE_EXPORT int driver_version();

// How many times events have been recorded in this process.
FAKE_EXPORT int events_recorded();

// Captures `stream`, in the global mode unless told otherwise: its tasks go
// into `graph`.
FAKE_EXPORT void begin_capture(CUstream_st* stream, Graph* graph, int mode = 0);
FAKE_EXPORT void end_capture(CUstream_st* stream);
// Runs a captured graph once.
FAKE_EXPORT void launch(const Graph& graph, CUstream_st* stream);

}  // namespace fakes::gpu

#endif  // DISTWRAP_TESTS_FAKES_GPU_DRIVER_H_
