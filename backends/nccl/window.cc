#include "window.h"

#include "comm_parts.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "sdk/open.h"

#include <algorithm>
#include <string>
#include <utility>

namespace nccl_backend {
namespace {

constexpr uint32_t kFlags = DW_FLAG_CALLER_WAITS | DW_FLAG_ASIDE;

// The counter of the pair of ranks: the only signal that NCCL has before 2.31.
constexpr int kIndex = 0, kContext = 0;
constexpr unsigned kNoFlags = 0;

size_t bytes_of(const dw_buf& buffer) {
  return static_cast<size_t>(buffer.count) * (buffer.dtype.bits / 8u);
}

int32_t lacks_windows(const Backend& backend, dw_error* error) {
  int driver = 0;
  backend.device->driver().cuDriverGetVersion(&driver);
  const std::string text =
      "nccl: windows need NCCL " + version_text(kWindowsSince) +
      " and a driver of CUDA 12.5 or newer; this is NCCL " +
      version_text(backend.nccl.version) + " on a driver of CUDA " +
      std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
  return dw_unsupported(error, text.c_str());
}

int32_t check_source(const Window& window, const dw_op& op, dw_error* error) {
  const char* const from = static_cast<const char*>(op.in.data);
  const size_t bytes = bytes_of(op.in);
  if (bytes > window.bytes || op.window_offset > window.bytes - bytes)
    return dw_invalid(error, "nccl: the put reaches beyond the window");
  // NCCL sends only from memory of a window.
  if (bytes != 0 &&
      (from < window.at || from + bytes > window.at + window.bytes))
    return dw_invalid(error,
                      "nccl: a put sends from this rank's part of the window, "
                      "and the source lies outside of it");
  return DW_OK;
}

}  // namespace

bool has_windows(const Nccl& nccl, int driver_version) {
  return nccl.version >= kWindowsSince && driver_version >= kWindowsDriver &&
         nccl.ncclCommWindowRegister != nullptr &&
         nccl.ncclPutSignal != nullptr && nccl.ncclSignal != nullptr &&
         nccl.ncclWaitSignal != nullptr;
}

int32_t read_window(Comm* owner, const dw_setup_info* given,
                    dw_setup_info* info, Window* window, dw_error* error) {
  Backend& backend = *owner->backend;
  if (int32_t code =
          dw_read_window(info, given, reinterpret_cast<dw_comm*>(owner), error))
    return code;
  if (!backend.has_windows) return lacks_windows(backend, error);
  window->owner = owner;
  window->at = static_cast<char*>(info->memory.data);
  window->bytes = bytes_of(info->memory);
  if (window->at == nullptr)
    return dw_unsupported(error,
                          "nccl: a window allocates no memory; give it memory "
                          "of the group's allocator (get_mem_allocator)");
  if (window->bytes == 0)
    return dw_invalid(error, "nccl: a window on no memory");
  if (reinterpret_cast<uintptr_t>(window->at) % NCCL_WIN_REQUIRED_ALIGNMENT !=
      0)
    return dw_invalid(error,
                      "nccl: the window's memory does not begin on a multiple "
                      "of 4096 bytes");
  return DW_OK;
}

int32_t read_window_call(const Window& window, const dw_op& op, ReadCall* call,
                         dw_error* error) {
  const bool puts = op.kind == DW_OP_PUT;
  if (!puts && op.kind != DW_OP_SIGNAL && op.kind != DW_OP_WAIT_SIGNAL)
    return dw_unsupported(error,
                          "nccl: windows have only put_signal, signal and "
                          "wait_signal");
  if (puts && (op.flags & DW_FLAG_WITH_SIGNAL) == 0)
    return dw_unsupported(error,
                          "nccl: every put counts as a signal here; call "
                          "put_signal, and wait_signal on the target");
  if (op.signal_index != DW_SIGNAL_PAIR)
    return dw_unsupported(error,
                          "nccl: signals have no index and no value here, each "
                          "pair of ranks has a counter; leave the index out");
  if (dw_unknown_flags(op.flags,
                       kFlags | DW_FLAG_WITH_SIGNAL | DW_FLAG_CAPTURE) != 0 ||
      dw_check_extensions(op.next) != DW_OK)
    return dw_unsupported(error, "nccl: a flag is not supported");
  if (op.peer < 0 || op.peer >= window.comm->size)
    return dw_invalid(error, "nccl: the rank is not in the window's group");
  if (int32_t code = read_stream(*window.comm, op, call, error)) return code;
  if (call->order == Order::kCaptured)
    return dw_unsupported(error,
                          "nccl: calls on windows cannot be captured into a "
                          "graph");
  call->caller_waits = (op.flags & DW_FLAG_CALLER_WAITS) != 0;
  return puts ? check_source(window, op, error) : int32_t{DW_OK};
}

int enqueue_on_window(const Window& window, const dw_op& op,
                      CUstream_st* stream, const char** what) {
  const Nccl& nccl = window.comm->backend->nccl;
  ncclComm* const handle = window.comm->part->handle;
  int result;
  if (op.kind == DW_OP_WAIT_SIGNAL) {
    *what = "ncclWaitSignal";
    ncclWaitSignalDesc one = {1, op.peer, kIndex, kContext};
    result = nccl.ncclWaitSignal(1, &one, handle, stream);
  } else if (op.kind == DW_OP_PUT && bytes_of(op.in) != 0) {
    *what = "ncclPutSignal";
    result = nccl.ncclPutSignal(op.in.data, bytes_of(op.in), ncclUint8, op.peer,
                                window.handle, op.window_offset, kIndex,
                                kContext, kNoFlags, handle, stream);
  } else {
    *what = "ncclSignal";
    result =
        nccl.ncclSignal(op.peer, kIndex, kContext, kNoFlags, handle, stream);
  }
  return result == ncclInProgress ? int{ncclSuccess} : result;
}

Flight* take_late_wait(Window& window, const dw_op& op) {
  if (op.kind != DW_OP_WAIT_SIGNAL) return nullptr;
  const std::lock_guard<std::mutex> lock(window.late_mutex);
  const auto found = window.late.find(op.peer);
  if (found == window.late.end()) return nullptr;
  Flight* const flight = found->second;
  window.late.erase(found);
  return flight;
}

void keep_late_wait(Window& window, const dw_op& op, Flight* flight) {
  const std::lock_guard<std::mutex> lock(window.late_mutex);
  window.late.emplace(op.peer, flight);
}

int32_t window_map(dw_window* window, int32_t rank, void** address,
                   uint64_t* bytes, dw_error* error) {
  const Window& of_ranks = *of(window);
  if (rank != of_ranks.comm->rank)
    return dw_unsupported(error,
                          "nccl: the host cannot reach another rank's part");
  *address = of_ranks.at;
  *bytes = of_ranks.bytes;
  return DW_OK;
}

// The communicator is aborted on all ranks, in place of a finalize: a wait that
// nobody has ended would hold that up for ever.
int32_t window_destroy(dw_window* given, int64_t deadline_ns, dw_error* error) {
  std::unique_ptr<Window> window(of(given));
  Comm& comm = *window->comm;
  Backend& backend = *comm.backend;
  {
    const std::lock_guard<std::mutex> lock(window->owner->windows_mutex);
    auto& all = window->owner->windows;
    all.erase(std::remove(all.begin(), all.end(), &comm), all.end());
  }
  backend.watch->remove(&comm);
  for (const auto& [rank, flight] : window->late)
    backend.watch->put_back(flight);
  const std::shared_ptr<NcclPart> part = comm.part;
  const std::shared_ptr<Ending> ending =
      end_comm(std::move(window->comm), EndBy::kAbort);
  if (deadline_ns == 0) return DW_OK;
  const int64_t left = deadline_ns - backend.host->now_ns(backend.host->self);
  if (!ending->wait(std::chrono::nanoseconds(std::max<int64_t>(left, 0))))
    return dw_fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, -1, 0,
                   "nccl: the window has not ended in time; NCCL may still "
                   "write to its memory");
  dw_error why = {};
  if (int32_t code = part->end_failure.check(&why))
    return dw_fail(
        error, code, why.reason, -1, why.native,
        (why.text +
         std::string("; NCCL may still write to the window's memory"))
            .c_str());
  if (part->failure.is_over())
    return dw_fail(error, DW_ABORTED, DW_REASON_ABORTED, -1, 0,
                   "nccl: the group has failed; a rank that has not learned of "
                   "it may still write to the window's memory");
  return DW_OK;
}

}  // namespace nccl_backend
