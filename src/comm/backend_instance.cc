#include "comm/backend_instance.h"

#include "algo/compose/compose.h"
#include "algo/compose/shortcut.h"
#include "algo/record/record.h"
#include "algo/reduce_kernels.h"
#include "base/error.h"
#include "base/log.h"
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

void host_log(void* self, int32_t level, dw_str text) {
  const auto* instance = static_cast<const BackendInstance*>(self);
  const int clamped = std::clamp(level, DW_LOG_ERROR, DW_LOG_DEBUG);
  base::log(static_cast<base::LogLevel>(clamped),
            absl::StrCat(instance->name(), ": ",
                         absl::string_view(text.data, text.size)));
}

int64_t host_now_ns(void*) {
  ++BackendInstance::clock_reads;
  return Deadline::now_ns();
}

void host_under_way(void*) {
  BackendInstance::Deferred* const deferred = BackendInstance::deferred;
  if (deferred == nullptr) return;
  BackendInstance::deferred = nullptr;
  deferred->run();
}

// Waiters drive progress themselves; no thread sleeps on a backend yet.
void host_wake(void*) {}

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

const void* host_extension(void*, dw_str, uint32_t) { return nullptr; }

BackendInstance::Runner runner_of(const dw_backend_api& api, dw_comm* comm) {
  return {api.submit, comm, (api.flags & DW_BACKEND_HOST_WATCHES) != 0,
          (api.flags & DW_BACKEND_CLOCKS_WAITS) != 0,
          (api.flags & DW_BACKEND_SAYS_UNDER_WAY) != 0};
}

}  // namespace

constinit thread_local uint64_t BackendInstance::clock_reads = 0;
constinit thread_local BackendInstance::Deferred* BackendInstance::deferred =
    nullptr;

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

BackendInstance::BackendInstance(plugin::BackendPtr table, Device device)
    : table_(std::move(table)), serving_(table_), device_(device) {
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
           .under_way = host_under_way};
}

absl::StatusOr<std::shared_ptr<BackendInstance>> BackendInstance::open(
    plugin::BackendPtr backend, Device device, const Hints& hints,
    const std::string& trace) {
  if (absl::Status status = check_hints({backend}, hints); !status.ok())
    return status;
  if ((backend->api().devices & DW_BIT(device.type)) == 0)
    return base::make_error(
        {.reason = Reason::kNoCommunicator,
         .what = absl::StrCat("backend ", backend->name(),
                              " does not serve device type ", device.type),
         .op = "init",
         .next_step = "choose a backend for this device"});

  std::shared_ptr<BackendInstance> instance(
      new BackendInstance(std::move(backend), device));
  // Only what lies in host memory can be completed.
  if (device.type == DW_DEVICE_CPU) {
    absl::StatusOr<plugin::BackendPtr> compose =
        plugin::make_backend(&algo::compose_api(), "linked in");
    if (!compose.ok()) return compose.status();
    instance->serving_ = *std::move(compose);
    instance->composed_ = true;
  }
  // From the uppermost on; the backend itself comes last.
  std::vector<dw_inner> below;
  const plugin::BackendPtr completed = instance->serving_;
  dw_backend_api table = instance->table_->api();
  // Who waits need not ask a backend that completes its work by itself.
  if (!instance->table_->has_progress()) table.progress = nullptr;
  if (instance->composed_) below.push_back({&table, nullptr});
  std::vector<dw_hint> abi_hints = hints_of(hints);
  if (!trace.empty()) {
    absl::StatusOr<plugin::BackendPtr> record =
        plugin::make_backend(&algo::record_api(), "linked in");
    if (!record.ok()) return record.status();
    below.insert(below.begin(), {&completed->api(), nullptr});
    instance->serving_ = *std::move(record);
    instance->traced_ = true;
    constexpr uint64_t kLength = sizeof algo::kTraceHint - 1;
    abi_hints.push_back(
        {{algo::kTraceHint, kLength}, {trace.data(), trace.size()}});
  }
  const dw_open_info info{.struct_size = sizeof(dw_open_info),
                          .flags = 0,
                          .device_type = device.type,
                          .device_id = device.id,
                          .hints = abi_hints.data(),
                          .n_hints = abi_hints.size(),
                          .inner = below.empty() ? nullptr : below.data(),
                          .n_inner = below.size(),
                          .next = nullptr};
  dw_error error{};
  dw_backend* opened = nullptr;
  int32_t code = instance->api().open(&instance->host_, &info, &opened, &error);
  const dw_caps_row* rows = nullptr;
  uint64_t n_rows = 0;
  if (code == DW_OK) {
    instance->backend_ = opened;
    code = instance->api().caps(opened, &rows, &n_rows, &error);
  }
  if (code != DW_OK) {
    ErrorInfo failed = backend_error(code, error, instance->name());
    failed.op = "init";
    return base::make_error(failed);
  }
  instance->capabilities_ =
      Capabilities(absl::MakeConstSpan(rows, n_rows), device.type);
  return instance;
}

BackendInstance::Runner BackendInstance::any_of(dw_comm* comm) const {
  return runner_of(api(), comm);
}

BackendInstance::Runner BackendInstance::waiting_collectives_of(
    dw_comm* comm) const {
  return may_pass_by() && algo::compose::has_shortcut(backend_) ? below(comm)
                                                                : any_of(comm);
}

BackendInstance::Runner BackendInstance::waiting_messages_of(
    dw_comm* comm) const {
  return may_pass_by() && algo::compose::has_message_shortcut(backend_)
             ? below(comm)
             : any_of(comm);
}

bool BackendInstance::windows_pass_by() const {
  return may_pass_by() && algo::compose::has_window_shortcut(backend_);
}

BackendInstance::Runner BackendInstance::waiting_windows_of(
    dw_comm* comm) const {
  return windows_pass_by() ? below(comm) : any_of(comm);
}

dw_window* BackendInstance::waiting_window_of(dw_window* window) const {
  return windows_pass_by() ? algo::compose::window_below(window) : window;
}

BackendInstance::Engine BackendInstance::engine() const {
  if (traced_) return {nullptr, nullptr};
  return {&table_->api(),
          composed_ ? algo::compose::backend_below(backend_) : backend_};
}

BackendInstance::Runner BackendInstance::below(dw_comm* comm) const {
  return runner_of(table_->api(), algo::compose::comm_below(comm));
}

int32_t BackendInstance::submit_group(absl::Span<const dw_group_item> items,
                                      dw_error* error) {
  if (composed_)
    return api().submit_group(backend_, items.data(), items.size(), error);
  base::MutexLock lock(sets_);
  return api().submit_group(backend_, items.data(), items.size(), error);
}

bool BackendInstance::has_streams() const {
  // The decorator is for host memory.
  return !composed_ && (table_->api().flags & DW_BACKEND_STREAMS) != 0;
}

bool BackendInstance::submits_beside() const {
  // A decorator passes on what the backend below can.
  return (api().flags & table_->api().flags & DW_BACKEND_SUBMIT_BESIDE) != 0;
}

bool BackendInstance::progress() const {
  if (!table_->has_progress()) return false;
  if (calls_.try_lock()) {
    api().progress(backend_);
    calls_.unlock();
  }
  return true;
}

BackendInstance::~BackendInstance() {
  if (backend_ != nullptr) api().close(backend_);
}

}  // namespace distwrap::comm
