#include "read_call.h"

#include "promises.h"
#include "sdk/fail.h"

#include <climits>

#include <string>

namespace nccl_backend {
namespace {

// The shapes of the SDK, with the flags of this backend.
constexpr dw_sdk::Shapes kShapes = [] {
  dw_sdk::Shapes shapes = dw_sdk::shapes_of(kKinds);
  for (uint16_t kind = 0; kind < dw_sdk::kKinds; ++kind)
    if (shapes[kind].known) shapes[kind].flags = allowed_flags(kind);
  return shapes;
}();

int32_t check_pointer(const Device& device, const void* address,
                      dw_error* error) {
  if (address == nullptr) return DW_OK;
  const Driver& driver = device.driver();
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  unsigned type = 0;
  if (driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   at) != CUDA_SUCCESS ||
      type != CU_MEMORYTYPE_DEVICE)
    return dw_invalid(
        error, ("nccl: a buffer is not memory of a device; copy the data "
                "to device " +
                std::to_string(device.ordinal()) + " first")
                   .c_str());
  int ordinal = -1;
  driver.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                               at);
  if (ordinal == device.ordinal()) return DW_OK;
  const std::string text =
      "nccl: a buffer is on device " + std::to_string(ordinal) +
      ", the group is on device " + std::to_string(device.ordinal()) +
      "; copy the data there first";
  return dw_invalid(error, text.c_str());
}

int32_t check_buffer(const Comm& comm, const dw_buf& buffer, dw_error* error) {
  if (buffer.count == 0) return DW_OK;
  const Device& device = *comm.backend->device;
  if (buffer.parts == nullptr) return check_pointer(device, buffer.data, error);
  for (int r = 0; r < comm.size; ++r) {
    // An empty part may lie behind the end of the memory of the others.
    if (buffer.counts != nullptr && buffer.counts[r] == 0) continue;
    if (int32_t code = check_pointer(device, buffer.parts[r], error))
      return code;
  }
  return DW_OK;
}

// Whether the element type of `op` is an 8-bit float whose reduction needs a
// newer NCCL or device. Then `error` says so.
bool lacks_floats8(const Backend& backend, const dw_op& op, uint64_t types,
                   dw_error* error) {
  const int index = dw_dtype_index(op.in.dtype);
  const uint64_t elsewhere = reduced_types(INT_MAX, INT_MAX, op.reduce);
  if (index < 0 || (DW_BIT(index) & dw_sdk::kFloats8 & elsewhere & ~types) == 0)
    return false;
  const std::string text =
      "nccl: 8-bit floats are reduced from sm_90 and NCCL 2.24.3 on, this is "
      "sm_" +
      std::to_string(backend.device->capability()) + "x and NCCL " +
      version_text(backend.nccl.version) + "; reduce them as 16-bit floats";
  dw_unsupported(error, text.c_str());
  return true;
}

// A message to oneself needs its other half, which only a group has.
int32_t check_message(const Comm& comm, const dw_op& op, bool in_group,
                      dw_error* error) {
  if (op.peer == comm.rank && !in_group)
    return dw_unsupported(error,
                          "nccl: a rank sends to itself only in a batch");
  if ((op.tag & UINT32_MAX) != 0 && comm.hints.tags.empty())
    return dw_unsupported(
        error,
        "nccl: messages carry no tags, they arrive in the order in which they "
        "are sent; with the hint tags=in_order tags are allowed, and ignored");
  return DW_OK;
}

}  // namespace

int32_t read_stream(const Comm& comm, const dw_op& op, ReadCall* call,
                    dw_error* error) {
  if (op.stream.device_type != DW_DEVICE_CUDA) return DW_OK;
  const Device& device = *comm.backend->device;
  if (op.stream.device_id != device.ordinal()) {
    const std::string text =
        "nccl: the stream is of device " + std::to_string(op.stream.device_id) +
        ", the group is on device " + std::to_string(device.ordinal()) +
        "; use a stream of that device";
    return dw_invalid(error, text.c_str());
  }
  if (op.stream.native == nullptr)
    return dw_invalid(error,
                      "nccl: the stream is null; the legacy default stream has "
                      "the handle 1");
  call->stream = static_cast<CUstream_st*>(op.stream.native);
  call->order =
      (op.flags & DW_FLAG_ASIDE) != 0 ? Order::kAside : Order::kStream;
  const Driver& driver = device.driver();
  CUctx_st* context = nullptr;
  if (comm.hints.check_pointers == 1 &&
      (driver.cuStreamGetCtx(call->stream, &context) != CUDA_SUCCESS ||
       context != device.context())) {
    const std::string text =
        "nccl: the stream is not of the primary context of device " +
        std::to_string(device.ordinal()) +
        ", on which the group is; use a stream of that device";
    return dw_invalid(error, text.c_str());
  }
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (int result = driver.cuStreamIsCapturing(call->stream, &status);
      result != CUDA_SUCCESS) {
    const std::string text =
        "nccl: the stream cannot be used: " + driver.error_name(result);
    return dw_invalid(error, text.c_str());
  }
  if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
    return dw_invalid(error, "nccl: the capture of the stream has failed");
  // In a capture nothing may run aside: every branch has to join before it
  // ends, and the caller of an operation aside may never wait for it.
  if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE) call->order = Order::kCaptured;
  if (call->order != Order::kCaptured && (op.flags & DW_FLAG_CAPTURE) != 0)
    return dw_invalid(error, "nccl: the stream is not being captured");
  return DW_OK;
}

int32_t read_call(const Comm& comm, const dw_op& op, bool in_group,
                  dw_sdk::Buffers* buffers, ReadCall* call, dw_error* error) {
  const dw_sdk::Shape& shape = dw_sdk::shape_in(kShapes, op.kind);
  // Without this rank, to which the SDK would refuse all messages.
  if (int32_t code = dw_sdk::check_fields(op, shape, -1, comm.size, error))
    return code;
  if (shape.message)
    if (int32_t code = check_message(comm, op, in_group, error)) return code;
  if (call->stream == nullptr)
    if (int32_t code = read_stream(comm, op, call, error)) return code;
  call->caller_waits = (op.flags & DW_FLAG_CALLER_WAITS) != 0;
  if (call->caller_waits && call->order == Order::kCaptured)
    return dw_invalid(error,
                      "nccl: nobody can wait inside a capture; wait for the "
                      "stream on which the graph runs");

  const Backend& backend = *comm.backend;
  const uint64_t types =
      shape.reduces ? reduced_types(backend.nccl.version,
                                    backend.device->capability(), op.reduce)
                    : uint64_t{0};
  if (int32_t code = dw_sdk::read_buffers(op, shape, types, comm.rank,
                                          comm.size, buffers, error))
    return shape.reduces && lacks_floats8(backend, op, types, error)
               ? int32_t{DW_UNIMPLEMENTED}
               : code;
  if (op.reduce == DW_REDUCE_PREMUL_SUM && op.scale == nullptr)
    return dw_invalid(error, "nccl: premul_sum needs a factor");
  if (comm.hints.check_pointers == 1 && op.kind != DW_OP_BARRIER) {
    const bool at_root = !shape.rooted || op.peer == comm.rank;
    if (shape.has_in && (at_root || !shape.root_brings))
      if (int32_t code = check_buffer(comm, op.in, error)) return code;
    if (shape.has_out && (at_root || !shape.root_takes))
      if (int32_t code = check_buffer(comm, op.out, error)) return code;
  }
  return DW_OK;
}

}  // namespace nccl_backend
