// A device as the backend uses it: its primary context, which it shares with
// the CUDA runtime of the program, and the order of NCCL's calls.
#ifndef DISTWRAP_BACKENDS_NCCL_DEVICE_H_
#define DISTWRAP_BACKENDS_NCCL_DEVICE_H_

#include "call_lock.h"
#include "library.h"

#include <memory>

namespace nccl_backend {

// Threads: any. All instances of a process that serve one device share it.
class Device {
 public:
  // Retains the primary context. An error names how many devices there are.
  static int32_t open(const Driver& driver, int ordinal,
                      std::shared_ptr<Device>* device, dw_error* error);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  CUctx_st* context() const { return context_; }
  const CUuuid& uuid() const { return uuid_; }
  // The first number of its compute capability: 9 for sm_90.
  int capability() const { return capability_; }
  // Whether its memory can be shared by NVLink between hosts (MNNVL).
  bool exports_fabric() const { return exports_fabric_; }
  // Held around a call that builds, registers, enqueues or finalizes: NCCL
  // wants one thread at a time for each device. It is taken within the lock of
  // a communicator.
  CallLock& calls() { return calls_; }

 private:
  Device(const Driver& driver, int ordinal)
      : driver_(driver), ordinal_(ordinal) {}

  const Driver driver_;
  const int ordinal_;
  CUdevice handle_ = 0;
  CUctx_st* context_ = nullptr;
  CUuuid uuid_ = {};
  int capability_ = 0;
  bool exports_fabric_ = false;
  CallLock calls_;
};

// Makes the device's context current in this thread, and afterwards the one
// that was.
class CurrentContext {
 public:
  explicit CurrentContext(const Device& device) : driver_(device.driver()) {
    pushed_ = driver_.cuCtxPushCurrent_v2(device.context()) == CUDA_SUCCESS;
  }
  ~CurrentContext() {
    CUctx_st* popped;
    if (pushed_) driver_.cuCtxPopCurrent_v2(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Driver& driver_;
  bool pushed_;
};

// While a stream is being captured, CUDA forbids the threads of the program to
// ask for events, and to allocate and free memory, and ends the capture when
// one does. Threads in the relaxed mode may.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~RelaxedCapture() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  int mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_DEVICE_H_
