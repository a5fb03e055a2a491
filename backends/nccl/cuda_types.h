// The types of the CUDA driver, as much of them as this backend uses. Nothing
// of CUDA is needed to build it. The names of values are CUDA's.
#ifndef DISTWRAP_BACKENDS_NCCL_CUDA_TYPES_H_
#define DISTWRAP_BACKENDS_NCCL_CUDA_TYPES_H_

#include <cstddef>
#include <cstdint>

extern "C" {

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;

typedef int CUdevice;
typedef uint64_t CUdeviceptr;
struct CUuuid {
  unsigned char bytes[16];
};

// CUresult
enum : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_CAPTURED_EVENT = 907,
};

enum : unsigned {
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DISABLE_TIMING = 2,
};
// The flags of cuMemHostAlloc that are used.
enum : unsigned { CU_MEMHOSTALLOC_PORTABLE = 1, CU_MEMHOSTALLOC_DEVICEMAP = 2 };

// CUstreamCaptureStatus
enum : int {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
};
// CUstreamCaptureMode
enum : int {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};

// CUdevice_attribute
enum : int {
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128,
};

// CUpointer_attribute
enum : int {
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
};
// CUmemorytype
enum : unsigned { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 };

}  // extern "C"

#endif  // DISTWRAP_BACKENDS_NCCL_CUDA_TYPES_H_
