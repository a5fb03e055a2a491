// The slots for operations.
#include "launch.h"
#include "promises.h"
#include "read_call.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "sdk/read_op.h"
#include "window.h"

#include <algorithm>
#include <forward_list>
#include <functional>
#include <vector>

namespace nccl_backend {
namespace {

int32_t unreadable(int32_t code, dw_error* error) {
  return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                 "nccl: the operation has a size or a field that is not known");
}

// Whether two operations are for the same stream, and alike there.
bool one_stream(const dw_op& a, const dw_op& b) {
  return a.stream.native == b.stream.native &&
         a.stream.device_type == b.stream.device_type &&
         a.stream.device_id == b.stream.device_id &&
         ((a.flags ^ b.flags) & kStreamFlags) == 0;
}

// Memory that a thread keeps from one set to its next one.
struct SetMemory {
  std::vector<LaunchItem> items;
  std::vector<dw_sdk::Buffers> buffers;
};
thread_local SetMemory set_memory;

}  // namespace

int32_t query(dw_comm* comm, const dw_op* given, dw_error* error) {
  return dw_sdk::guarded("nccl: a query", error, [&]() -> int32_t {
    dw_op space;
    const dw_op* op;
    if (int32_t code = dw_read_op(&space, &op, given))
      return unreadable(code, error);
    const CurrentContext current(*of(comm)->backend->device);
    if (op->window != nullptr) {
      ReadCall call;
      return read_window_call(*of(op->window), *op, &call, error);
    }
    // Operations under way have the communicator's own buffers.
    dw_sdk::Buffers buffers;
    ReadCall call;
    return read_call(*of(comm), *op, false, &buffers, &call, error);
  });
}

int32_t submit(dw_comm* comm, const dw_op* given, dw_work* work,
               dw_error* error) {
  return dw_sdk::guarded("nccl: an operation", error, [&]() -> int32_t {
    dw_op space;
    LaunchItem item;
    if (int32_t code = dw_read_op(&space, &item.op, given))
      return unreadable(code, error);
    Window* const window = of(item.op->window);
    item.comm = window == nullptr ? of(comm) : window->comm.get();
    item.work = work;
    item.buffers = &item.comm->buffers;
    if (int32_t code = item.comm->failure.check(error)) return code;
    const CurrentContext current(*item.comm->backend->device);
    if (int32_t code =
            window == nullptr
                ? read_call(*item.comm, *item.op, false, &item.comm->buffers,
                            &item.call, error)
                : read_window_call(*window, *item.op, &item.call, error))
      return code;
    return launch(item.comm->backend, {&item, 1}, item.call.caller_waits,
                  error);
  });
}

int32_t submit_group(dw_backend* backend, const dw_group_item* given,
                     uint64_t n, dw_error* error) {
  return dw_sdk::guarded("nccl: a group", error, [&]() -> int32_t {
    if (n == 0) return DW_DONE;
    const CurrentContext current(*of(backend)->device);
    std::forward_list<dw_op> spaces;  // for hosts of another minor
    auto& [items, buffers] = set_memory;
    items.clear();
    items.resize(n);
    if (buffers.size() < n) buffers.resize(n);
    dw_sdk::Buffers* own = buffers.data();
    const LaunchItem* before = nullptr;
    uint64_t waiting = 0, captured = 0;
    for (LaunchItem& item : items) {
      item.op = given->op;
      if (item.op == nullptr || item.op->struct_size != sizeof(dw_op))
        if (int32_t code =
                dw_read_op(&spaces.emplace_front(), &item.op, given->op))
          return unreadable(code, error);
      item.comm = of(given->comm);
      item.work = given->work;
      item.buffers = own;
      if (int32_t code = item.comm->failure.check(error)) return code;
      if (before != nullptr && one_stream(*item.op, *before->op))
        item.call = before->call;
      if (int32_t code =
              read_call(*item.comm, *item.op, true, own, &item.call, error))
        return code;
      waiting += item.call.caller_waits;
      captured += item.call.order == Order::kCaptured;
      before = &item;
      ++given, ++own;
    }
    if (captured != 0 && captured != n)
      return dw_invalid(error,
                        "nccl: a batch is captured as a whole or not at all");
    // A part of a collective that NCCL makes of messages would meet a message
    // of the caller where the ranks' sets have another order.
    const auto is_message = [](const LaunchItem& item) {
      return (DW_BIT(item.op->kind) & dw_sdk::kMessages) != 0;
    };
    if (!std::is_partitioned(items.begin(), items.end(),
                             std::not_fn(is_message)))
      std::stable_partition(items.begin(), items.end(),
                            std::not_fn(is_message));
    return launch(of(backend), items, waiting == n, error);
  });
}

int32_t stream_captured(dw_comm* comm, const dw_stream* stream,
                        int32_t* captured, dw_error* error) {
  const Device& device = *of(comm)->backend->device;
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (int result = device.driver().cuStreamIsCapturing(
          static_cast<CUstream_st*>(stream->native), &status);
      result != CUDA_SUCCESS)
    return dw_invalid(error, ("nccl: the stream cannot be used: " +
                              device.driver().error_name(result))
                                 .c_str());
  *captured = status == CU_STREAM_CAPTURE_STATUS_NONE ? 0 : 1;
  return DW_OK;
}

int32_t work_wait_stream(dw_comm* comm, dw_work* work, const dw_stream* stream,
                         dw_error* error) {
  Backend* const backend = of(comm)->backend;
  if (stream == nullptr || stream->device_type != DW_DEVICE_CUDA ||
      stream->device_id != backend->device->ordinal() ||
      stream->native == nullptr)
    return dw_invalid(error, "nccl: this is no stream of the group's device");
  const CurrentContext current(*backend->device);
  return backend->watch->wait_stream(
      work, static_cast<CUstream_st*>(stream->native), error);
}

}  // namespace nccl_backend
