#include "comm/backend_instance.h"

#include "algo/compose/compose.h"
#include "algo/record/record.h"
#include "algo/reduce_kernels.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/call_trace.h"
#include "comm/work_cell.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <new>
#include <string.h>
#include <utility>

namespace distwrap::comm {
namespace {

constexpr size_t kScratchAlignment = 64;

// A line for which there is no memory is left out.
void host_log(void* self, int32_t level, dw_str text) try {
  const auto* instance = static_cast<const BackendInstance*>(self);
  const int clamped = std::clamp(level, DW_LOG_ERROR, DW_LOG_DEBUG);
  base::log(static_cast<base::LogLevel>(clamped),
            absl::StrCat(instance->name(), ": ",
                         absl::string_view(text.data, text.size)));
} catch (const std::bad_alloc&) {
}

int64_t host_now_ns(void*) { return Deadline::now_ns(); }

void host_wake(void* self) { static_cast<BackendInstance*>(self)->wake(); }

void* host_scratch_alloc(void*, uint64_t bytes) {
  return ::operator new(bytes, std::align_val_t(kScratchAlignment),
                        std::nothrow);
}

void host_scratch_free(void*, void* memory) {
  ::operator delete(memory, std::align_val_t(kScratchAlignment));
}

dw_reduce_fn host_reduce_kernel(void*, dw_dtype dtype, uint16_t reduce) {
  return algo::reduce_kernel(dtype, reduce);
}

const void* host_extension(void*, dw_str id, uint32_t) {
  return absl::string_view(id.data, id.size) == DW_EXT_MOE_SUM
             ? &algo::row_sums()
             : nullptr;
}

}  // namespace

ErrorInfo backend_error(int32_t code, const dw_error& error,
                        absl::string_view backend) {
  ErrorInfo info{.reason = static_cast<Reason>(error.reason)};
  const absl::string_view text(error.text,
                               strnlen(error.text, sizeof error.text));
  if (info.reason == Reason::kNone || reason_name(info.reason) == "kNone")
    info.reason = code == DW_UNIMPLEMENTED ? Reason::kUnsupported
                                           : Reason::kBackendFailed;
  // Backends begin their texts with their name, or leave it to us.
  info.what = absl::StartsWith(text, absl::StrCat(backend, ":"))
                  ? std::string(text)
                  : absl::StrCat(backend, ": ",
                                 text.empty() ? absl::StrCat("code ", code)
                                              : std::string(text));
  if (error.native != 0)
    absl::StrAppend(&info.cause, "native code ", error.native);
  if (code == DW_INVALID_ARGUMENT) info.next_step = "correct the call";
  if (code == DW_UNIMPLEMENTED)
    info.next_step = "convert the data or choose another backend";
  return info;
}

dw_error abi_error(const ErrorInfo& info) {
  dw_error error{};
  error.code = static_cast<int16_t>(base::reason_code(info.reason));
  error.reason = static_cast<uint16_t>(info.reason);
  error.peer = info.ranks.empty() ? -1 : info.ranks.front();
  const size_t n = std::min(info.what.size(), sizeof error.text - 1);
  memcpy(error.text, info.what.data(), n);
  return error;
}

BackendInstance::BackendInstance(plugin::BackendPtr engine, Device device)
    : device_(device), stack_(std::move(engine)) {
  host_ = {.struct_size = sizeof(dw_host_api),
           .abi_major = DW_ABI_MAJOR,
           .abi_minor = DW_ABI_MINOR,
           .self = this,
           .complete = WorkCell::complete,
           .log = host_log,
           .now_ns = host_now_ns,
           .wake = host_wake,
           .scratch_alloc = host_scratch_alloc,
           .scratch_free = host_scratch_free,
           .reduce_kernel = host_reduce_kernel,
           .extension = host_extension,
           .under_way = DeferredTrace::under_way,
           .waits = DeferredTrace::waits,
           .begun = WorkCell::begun};
}

absl::StatusOr<std::shared_ptr<BackendInstance>> BackendInstance::open(
    plugin::BackendPtr engine, Device device, const Hints& hints,
    const std::string& trace) {
  if (absl::Status status = check_hints({engine}, hints); !status.ok())
    return status;
  if ((engine->api().devices & DW_BIT(device.type)) == 0)
    return base::make_error(
        {.reason = Reason::kNoCommunicator,
         .what = absl::StrCat("backend ", engine->name(),
                              " does not serve device type ", device.type),
         .op = "init",
         .next_step = "choose a backend for this device"});

  // The decorators, from the engine up.
  std::vector<const dw_backend_api*> decorators;
  // On a device few operations can be composed, and none on a stream.
  if (device.type == DW_DEVICE_CPU ||
      (engine->api().flags & DW_BACKEND_STREAMS) == 0)
    decorators.push_back(&algo::compose_api());
  std::vector<dw_hint> abi_hints = hints_of(hints);
  if (!trace.empty()) {
    decorators.push_back(&algo::record_api());
    constexpr uint64_t kLength = sizeof algo::kTraceHint - 1;
    abi_hints.push_back(
        {{algo::kTraceHint, kLength}, {trace.data(), trace.size()}});
  }
  std::shared_ptr<BackendInstance> instance(
      new BackendInstance(std::move(engine), device));
  for (const dw_backend_api* const decorator : decorators) {
    absl::StatusOr<plugin::BackendPtr> table =
        plugin::make_backend(decorator, "linked in");
    if (!table.ok()) return table.status();
    instance->stack_.push(*std::move(table));
  }
  const dw_open_info info{.struct_size = sizeof(dw_open_info),
                          .flags = 0,
                          .device_type = device.type,
                          .device_id = device.id,
                          .hints = abi_hints.data(),
                          .n_hints = abi_hints.size(),
                          .inner = nullptr,
                          .n_inner = 0,
                          .next = nullptr};
  dw_error error{};
  const dw_caps_row* rows = nullptr;
  uint64_t n_rows = 0;
  int32_t code = instance->stack_.open(instance->host_, info, &error);
  if (code == DW_OK)
    code = instance->api().caps(instance->backend(), &rows, &n_rows, &error);
  if (code != DW_OK) {
    ErrorInfo failed = backend_error(code, error, instance->name());
    failed.op = "init";
    return base::make_error(failed);
  }
  instance->has_streams_ = instance->stack_.all_have(DW_BACKEND_STREAMS);
  instance->says_begun_ = instance->stack_.all_have(DW_BACKEND_SAYS_BEGUN);
  instance->capabilities_ =
      Capabilities(absl::MakeConstSpan(rows, n_rows), device);
  return instance;
}

int32_t BackendInstance::submit_group(absl::Span<const dw_group_item> items,
                                      dw_error* error) {
  base::MutexLock lock(sets_);
  return api().submit_group(backend(), items.data(), items.size(), error);
}

bool BackendInstance::submits_beside() const {
  return stack_.all_have(DW_BACKEND_SUBMIT_BESIDE);
}

void BackendInstance::drive_by(const std::shared_ptr<Watchdog>& watchdog) {
  std::call_once(driven_, [&] {
    int32_t fd = -1;
    if (api().wait_fd(backend(), &fd) != DW_OK) fd = -1;
    const auto work = [this] {
      int events = 0;
      if (calls_.try_lock()) {
        events = api().progress(backend());
        calls_.unlock();
      }
      queue_.try_all();
      return events;
    };
    driver_ = std::make_unique<ProgressDriver>(
        watchdog, work, fd, [this] { return api().arm(backend()) == DW_OK; });
    drives_always_ = engine()->has_progress() &&
                     (engine()->api().flags & DW_BACKEND_HAS_THREADS) == 0;
  });
}

void BackendInstance::wake() {
  if (driver_ != nullptr) driver_->wake();
}

bool BackendInstance::progress() const {
  if (!engine()->has_progress()) return false;
  if (calls_.try_lock()) {
    api().progress(backend());
    calls_.unlock();
  }
  return true;
}

}  // namespace distwrap::comm
