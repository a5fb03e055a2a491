#include "comm/window.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/exceptions.h"
#include "comm/communicator_call.h"
#include "comm/op_build.h"
#include "comm/op_shape.h"

#include <utility>

namespace distwrap::comm {
namespace {

std::string encode(const WindowPart& part) {
  base::ByteWriter out;
  out.i64(part.count);
  out.u8(static_cast<uint8_t>(part.dtype));
  out.u8(part.misaligned);
  return out.take();
}

// Decodes a rank's part; nothing if no rank would send these bytes.
std::optional<WindowPart> decode(absl::string_view bytes) {
  base::ByteReader in(bytes);
  WindowPart part;
  part.count = in.i64();
  const uint8_t dtype = in.u8();
  part.misaligned = in.u8();
  if (!in.done() || dtype >= kDTypes || part.count < 0) return std::nullopt;
  part.dtype = static_cast<DType>(dtype);
  if (__builtin_mul_overflow(part.count, dtype_size(part.dtype), &part.bytes))
    return std::nullopt;
  return part;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Window>> Window::build(
    BackendCommunicator& owner, SetupRounds& rounds, SetupPlan plan,
    const OwnPart& part, Deadline deadline) {
  const bool brings = part.memory.data() != nullptr;
  WindowPart mine;
  mine.count = part.count;
  mine.dtype = part.dtype;
  mine.misaligned =
      static_cast<uint8_t>(reinterpret_cast<uintptr_t>(part.memory.data()) % 8);
  plan.word = encode(mine);
  plan.op = "new_window";
  plan.what = "window";
  WindowMemory memory;
  memory.memory.data = brings ? part.memory.data() : nullptr;
  memory.memory.count = part.count;
  memory.memory.dtype = op_build::kAbiDTypes[static_cast<uint8_t>(part.dtype)];
  memory.signals = part.signals;
  absl::StatusOr<Built> built =
      build_window(*owner.backend_, owner, rounds, plan, memory, deadline);
  if (!built.ok()) return built.status();
  std::shared_ptr<Window> window;
  try {
    std::vector<WindowPart> parts;
    for (const std::string& word : built->words) {
      const std::optional<WindowPart> told = decode(word);
      parts.push_back(told.value_or(WindowPart{}));
    }
    window.reset(
        new Window(owner, plan, part, built->window, std::move(parts)));
    base::MutexLock lock(owner.mutex_);
    owner.windows_.push_back(window);
  } catch (...) {
    // The backend's window would outlive its communicator.
    discard(*owner.backend_, *built);
    throw;
  }
  base::MutexLock lock(owner.mutex_);
  // A window is useless if its group has ended meanwhile.
  if (owner.life_.load(std::memory_order_seq_cst) ==
      BackendCommunicator::Life::kClosed)
    window->closed_.store(true, std::memory_order_seq_cst);
  return window;
}

Window::Window(BackendCommunicator& owner, const SetupPlan& plan,
               const OwnPart& part, dw_window* window,
               std::vector<WindowPart> parts)
    : owner_(owner),
      group_(plan.group),
      uid_(plan.uid),
      rank_(plan.rank),
      signals_(part.signals),
      parts_(std::move(parts)),
      waiting_(owner.backend_->stack().runner(owner.comm_, kWindowOps)),
      waiting_window_(
          owner.backend_->stack().window(owner.comm_, window, kWindowOps)),
      window_(window),
      trace_{nullptr, owner.trace_.recorder, owner.trace_.group} {
  void* address = part.memory.data();
  uint64_t bytes = 0;
  if (address == nullptr &&
      owner.backend_->api().window_map(window, rank_, &address, &bytes,
                                       nullptr) != DW_OK)
    address = nullptr;
  const Device device = owner.backend_->device();
  local_ = TensorView(address, part.count, part.dtype, device);
  for (int rank = 0; rank < size(); ++rank) {
    // The host loads and stores no memory of a device.
    const bool mapped = device.type == DW_DEVICE_CPU &&
                        owner.backend_->api().window_map(
                            window, rank, &address, &bytes, nullptr) == DW_OK;
    mapped_.push_back(mapped ? 1 : 0);
    all_mapped_ = all_mapped_ && mapped;
  }
}

bool Window::is_open() const {
  return !closed_.load(std::memory_order_seq_cst) &&
         owner_.life_.load(std::memory_order_seq_cst) ==
             BackendCommunicator::Life::kOpen &&
         !process_.is_of_parent();
}

WindowPlace Window::place() const {
  return {parts_, rank_, signals_, owner_.capabilities_};
}

[[gnu::always_inline]] inline bool Window::check_and_build(
    uint16_t kind, const WindowCall& call, const CallOptions& options,
    dw_op* op, absl::Status* refused) const {
  const WindowPlace where = place();
  const bool is_order = kind == DW_OP_FLUSH || kind == DW_OP_FENCE;
  const CheckedWindowCall checked =
      is_order && (call.target == -1 ||
                   static_cast<size_t>(call.target) < where.parts.size())
          ? CheckedWindowCall()
      : kind == DW_OP_PUT && !call.with_signal
          ? check_window_move(kind, call.in, op_check::Use::kInput, call, where)
      : kind == DW_OP_GET
          ? check_window_move(kind, call.out, op_check::Use::kOutput, call,
                              where)
          : check_window_call(kind, call, where);
  if (checked.fault != WindowFault::kNone) [[unlikely]] {
    *refused = base::make_error(
        located(describe_window_fault(checked, kind, call, where,
                                      owner_.backend_->name()),
                op_shape(kind).name));
    return false;
  }
  if (options.timeout.has_value() && *options.timeout <= absl::ZeroDuration())
      [[unlikely]] {
    *refused = owner_.refuse_timeout(kind, *options.timeout);
    return false;
  }
  op_build::clear(op);
  op->struct_size = sizeof(dw_op);
  op->kind = kind;
  op->reduce = call.reduce;
  op->flags = call.with_signal ? DW_FLAG_WITH_SIGNAL : 0;
  op->peer = call.target;
  if (kind != DW_OP_GET && !is_order) op_build::fill_buffer(call.in, &op->in);
  if (kind != DW_OP_PUT && !is_order) op_build::fill_buffer(call.out, &op->out);
  op->stream.device_type = DW_DEVICE_CPU;
  op->timeout_ns = options.timeout.has_value()
                       ? timeout_ns_of(*options.timeout)
                       : owner_.timeout_ns_.load(std::memory_order_relaxed);
  op->window = waiting_window_;
  op->window_offset = checked.offset_bytes;
  if (kind == DW_OP_GET || is_order) return true;
  op->value = call.value;
  op->signal_index = call.signal == kPairSignal
                         ? DW_SIGNAL_PAIR
                         : static_cast<uint32_t>(call.signal);
  op->signal_how = call.how;
  op->compare = call.compare;
  return true;
}

Recorder::Numbers& Window::numbers() const {
  return trace_.recorder != nullptr ? trace_.recorder->numbers_of_thread()
                                    : owner_.record_numbers_;
}

template <uint16_t kKind>
[[gnu::always_inline]] inline absl::StatusOr<Work> Window::run_open(
    uint16_t kind, const WindowCall& call, const CallOptions& options) {
  dw_op op;
  absl::Status refused;
  if (!check_and_build(kind, call, options, &op, &refused)) [[unlikely]]
    return BackendCommunicator::labelled(options, std::move(refused));
  if (options.async) [[unlikely]]
    return start(op, options);
  op.flags |= DW_FLAG_CALLER_WAITS;
  const bool idle = is_idle(kind);
  const BackendCommunicator::Entry entry = {
      .runner = waiting_,
      .owner = *this,
      .trace = trace_,
      .numbers = idle ? owner_.record_numbers_ : numbers(),
      .slot = nullptr,
      .quick = !idle && is_quick(kind, op.peer)};
  if (!idle) return owner_.wait_for<kKind>(op, options, entry);
  BackendCommunicator::NoTrace none;
  return owner_.wait_with(none, op, options, entry);
}

absl::StatusOr<Work> Window::start(dw_op& op, const CallOptions& options) {
  op.window = window_;
  return owner_.conclude(op, owner_.start(op, options, false, *this, numbers()),
                         *this, options);
}

template <uint16_t kKind>
absl::StatusOr<Work> Window::run_as(uint16_t given, const WindowCall& call,
                                    const CallOptions& options) {
  const uint16_t kind = kKind == kAnyKind ? given : kKind;
  const CallGuard inside(this);
  if (!is_open()) [[unlikely]]
    return BackendCommunicator::labelled(options,
                                         refuse_closed(op_shape(kind).name));
  const std::shared_ptr<HookList>& hooks = owner_.identity_.hooks;
  if (hooks != nullptr && hooks->wanted()) [[unlikely]]
    return run_hooked(kind, call, options, nullptr, inside.slot());
  return run_open<kKind>(kind, call, options);
}

absl::StatusOr<Work> Window::run_on(const Stream& stream, uint16_t kind,
                                    const WindowCall& call,
                                    const CallOptions& options) try {
  const char* const name = op_shape(kind).name;
  const CallGuard inside(this);
  if (!is_open())
    return BackendCommunicator::labelled(options, refuse_closed(name));
  if (absl::Status fits = owner_.check_stream(name, stream); !fits.ok())
    return BackendCommunicator::labelled(options, std::move(fits));
  const std::shared_ptr<HookList>& hooks = owner_.identity_.hooks;
  if (hooks != nullptr && hooks->wanted())
    return run_hooked(kind, call, options, &stream, inside.slot());
  return put_on(stream, kind, call, options);
} catch (...) {
  return owner_.broken_by_exception(kind);
}

absl::StatusOr<Work> Window::put_on(const Stream& stream, uint16_t kind,
                                    const WindowCall& call,
                                    const CallOptions& options) {
  dw_op op;
  absl::Status refused;
  if (!check_and_build(kind, call, options, &op, &refused))
    return BackendCommunicator::labelled(options, std::move(refused));
  if (absl::Status put = owner_.put_on_stream(stream, options.async, &op);
      !put.ok())
    return BackendCommunicator::labelled(options, std::move(put));
  return start(op, options);
}

// For operations that take no longer than some loads and stores, the kind is a
// constant.
absl::StatusOr<Work> Window::run(uint16_t kind, const WindowCall& call,
                                 const CallOptions& options) try {
  switch (kind) {
    case DW_OP_PUT:
      return run_as<DW_OP_PUT>(kind, call, options);
    case DW_OP_GET:
      return run_as<DW_OP_GET>(kind, call, options);
    case DW_OP_FLUSH:
      return run_as<DW_OP_FLUSH>(kind, call, options);
    default:
      return run_as<kAnyKind>(kind, call, options);
  }
} catch (...) {
  return owner_.broken_by_exception(kind);
}

absl::StatusOr<Work> Window::run_hooked(uint16_t kind, const WindowCall& call,
                                        const CallOptions& options,
                                        const Stream* stream,
                                        CallGuard::Slot& slot) {
  dw_op op;
  absl::Status refused;
  if (!check_and_build(kind, call, options, &op, &refused))
    return BackendCommunicator::labelled(options, std::move(refused));
  const Deadline deadline = set_deadline(op, Deadline::now_ns());
  const auto self = shared_from_this();
  const auto hooks = std::make_shared<HookRun>(owner_.identity_.hooks);
  const ReduceOp reduction = static_cast<ReduceOp::Kind>(call.reduce);
  hooks->describe(op, reduction, options.label, owner_.backend_->device());
  HookedCall& seen = hooks->call();
  seen.async = options.async;
  if (stream != nullptr) seen.stream = *stream;
  seen.window = uid_;
  seen.offset = call.offset;
  seen.signal = call.signal;
  seen.value = call.value;
  // Calls on guarded objects do not nest, and hooks may call.
  slot.store(0, std::memory_order_release);
  if (absl::Status no = hooks->pre(); !no.ok()) {
    const ErrorInfo info = hooks->refusal(no);
    {
      const CallGuard inside(this);
      if (is_open()) owner_.refused_by_hook(info);
    }
    absl::Status error = base::make_error(info);
    hooks->post(error);
    return error;
  }
  absl::StatusOr<Work> result;
  {
    const CallGuard inside(this);
    CallOptions left = options;
    if (!deadline.is_never())
      left.timeout = std::max(deadline.remaining(), absl::Nanoseconds(1));
    if (!is_open())
      result = BackendCommunicator::labelled(
          options, refuse_closed(op_shape(kind).name));
    else if (stream != nullptr)
      result = put_on(*stream, kind, call, left);
    else
      result = run_open<kAnyKind>(kind, call, left);
  }
  hooks->post(result.status());
  if (result.ok() && (options.async || stream != nullptr))
    hooks->completes(*result);
  return result;
}

absl::Status Window::check_open(const char* call) const {
  const CallGuard inside(this);
  return is_open() ? absl::OkStatus() : refuse_closed(call);
}

absl::StatusOr<TensorView> Window::map(int rank) const try {
  constexpr char kCall[] = "map_remote";
  const CallGuard inside(this);
  if (!is_open()) return refuse_closed(kCall);
  void* address = nullptr;
  uint64_t bytes = 0;
  dw_error error;
  BackendCommunicator::clear(&error);
  const int32_t code = owner_.backend_->api().window_map(
      window_, rank, &address, &bytes, &error);
  if (code == DW_OK)
    return TensorView(address, part(rank).count, part(rank).dtype,
                      owner_.backend_->device());
  ErrorInfo info =
      located(backend_error(code, error, owner_.backend_->name()), kCall);
  info.ranks = {rank};
  info.next_step = "use get and put";
  return base::make_error(info);
} catch (...) {
  return base::error_of_exception("map_remote");
}

}  // namespace distwrap::comm
