// Windows: making one, and the calls on it.
#include "base/error.h"
#include "base/exceptions.h"
#include "base/page_view.h"
#include "comm/window.h"
#include "distwrap/window.h"
#include "facade/binding.h"
#include "facade/refusal.h"
#include "facade/roots.h"
#include "facade/shown_call.h"
#include "group/group_call.h"
#include "group/window_make.h"

#include <absl/functional/function_ref.h>
#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap {
namespace {

using comm::WindowCall;
using facade::Role;

constexpr char kNew[] = "new_window";
// The time limit for telling the other ranks that a hook has refused the call.
constexpr absl::Duration kTell = absl::Seconds(1);

absl::Status refuse_new(const group::GroupState& group,
                        const WindowOptions& options, ErrorInfo info) {
  return facade::refusal(kNew, group, {.label = options.label},
                         std::move(info));
}

// The communicator that serves the window.
absl::StatusOr<comm::BackendCommunicator*> owner_of(
    const group::GroupState& group, const WindowOptions& options) {
  const bool brings = options.memory.data() != nullptr;
  const Device device = brings ? options.memory.device() : kCpu;
  if (!options.backend.empty()) {
    for (const group::Channel& channel : group.channels())
      if (channel.communicator->backend() == options.backend)
        return channel.communicator.get();
    return refuse_new(
        group, options,
        {.reason = Reason::kNoCommunicator,
         .what = absl::StrCat("the group has no backend ", options.backend),
         .expected = std::string(group.default_communicator()->backend()),
         .next_step = "leave the backend unset, or split a group that has it"});
  }
  if (!brings) return group.default_communicator();
  if (comm::BackendCommunicator* const found = group.find(device)) return found;
  return group.no_communicator(device, kNew);
}

absl::StatusOr<comm::Window::OwnPart> part_of(const group::GroupState& group,
                                              const WindowOptions& options) {
  const TensorView& memory = options.memory;
  const bool brings = memory.data() != nullptr;
  ErrorInfo info{.reason = Reason::kInvalidArgument};
  if (brings && (!memory.contiguous() || memory.read_only())) {
    info.what = memory.read_only() ? "the window's memory is read-only"
                                   : "the window's memory is not contiguous";
    info.actual = memory.text();
    info.next_step = "give contiguous memory that may be written";
  } else if (brings && options.count != 0) {
    info.what = "both memory and a count to allocate were given";
    info.actual = absl::StrCat(options.count, " elements");
    info.next_step = "leave the count unset; the memory has its own";
  } else if (!brings && memory.count() != 0) {
    info.what = "the window's memory has elements but no address";
    info.actual = memory.text();
    info.next_step = "give its address, or a count to allocate";
  } else if (options.count < 0 ||
             options.count > INT64_MAX / dtype_size(options.dtype)) {
    info.what = "the window's size is impossible";
    info.actual =
        absl::StrCat(options.count, " elements of ", dtype_name(options.dtype));
    info.next_step = "give a count of 0 or more elements";
  } else if (options.signals < 0 || options.signals > (1 << 16)) {
    info.what = "the number of signals is impossible";
    info.expected = "0..65536";
    info.actual = absl::StrCat(options.signals);
    info.next_step = "use fewer signals, or several windows";
  } else if (options.timeout.has_value() &&
             *options.timeout <= absl::ZeroDuration()) {
    info.what = "the timeout is not positive";
    info.actual = absl::FormatDuration(*options.timeout);
    info.next_step = "leave it unset for the group's";
  } else {
    comm::Window::OwnPart part;
    part.memory = memory;
    part.count = brings ? memory.count() : options.count;
    part.dtype = brings ? memory.dtype() : options.dtype;
    part.signals = static_cast<uint64_t>(options.signals);
    return part;
  }
  return refuse_new(group, options, std::move(info));
}

}  // namespace

absl::StatusOr<Window> new_window(const WindowOptions& options) try {
  const auto group = facade::usable_group(options.group, kNew);
  if (!group.ok()) return group.status();
  const absl::StatusOr<comm::Window::OwnPart> part = part_of(**group, options);
  if (!part.ok()) return part.status();
  const absl::StatusOr<comm::BackendCommunicator*> owner =
      owner_of(**group, options);
  if (!owner.ok()) return owner.status();
  if (absl::Status open = (*owner)->check_open(0); !open.ok())
    return base::amend_error(open, [](ErrorInfo& info) { info.op = kNew; });
  const absl::Duration limit = options.timeout.value_or((*group)->timeout());
  const uint64_t met = group::meetings_of(**group);
  const auto make = [&]() -> absl::StatusOr<std::shared_ptr<comm::Window>> {
    try {
      return group::make_window(**group, **owner, *part, limit);
    } catch (...) {
      const absl::Status error = base::error_of_exception(kNew);
      group::refuse_thrown_call(**group, met, kNew, error);
      return error;
    }
  };
  const absl::StatusOr<std::shared_ptr<comm::Window>> made = facade::shown(
      **group,
      [&](HookedCall& call) {
        call.op = kNew;
        call.timeout = limit;
        call.label = options.label;
      },
      [&](ErrorInfo why) {
        why.ranks = {(*group)->rank()};
        why.reason = Reason::kAborted;
        group::refuse_call(**group, {kNew, 0, ""}, why, Deadline::after(kTell));
      },
      make);
  if (made.ok()) return Window(Group(*group), *made);
  return base::amend_error(made.status(), [&](ErrorInfo& info) {
    info.op = kNew;
    info.label = std::string(options.label);
  });
} catch (...) {
  return base::error_of_exception(kNew);
}

// ---- calls ----

namespace {

absl::Status no_window(const char* call) {
  return base::make_error({.reason = Reason::kNotInitialized,
                           .what = "the handle names no window",
                           .op = call,
                           .next_step = "make one with new_window"});
}

using Streamed = std::shared_ptr<const comm::WindowOnStream>;

absl::StatusOr<Work> run_streamed(uint16_t kind, const char* name,
                                  const Streamed& streamed,
                                  const WindowCall& call,
                                  const CallOptions& options) try {
  if (streamed == nullptr) return no_window(name);
  return streamed->window->run_on(streamed->stream, kind, call, options);
} catch (...) {
  return base::error_of_exception(name);
}

[[gnu::noinline]] absl::StatusOr<Work> run_with(
    uint16_t kind, const char* name, const Group& group,
    const Streamed& streamed, Peer target, const CallOptions& options,
    absl::FunctionRef<void(WindowCall&)> fill) {
  if (streamed == nullptr) return no_window(name);
  const int rank = facade::rank_of(*group.state(), target, Role::kDestination);
  if (rank == facade::kNoRank)
    return facade::root_error(name, *group.state(), target, Role::kDestination,
                              {.group = group, .label = options.label});
  WindowCall call;
  call.target = rank;
  fill(call);
  return run_streamed(kind, name, streamed, call, options);
}

// Runs operation `kind` on `target`; `fill(call)` adds its fields. Calls on a
// stream have no `window`.
template <class Fill>
[[gnu::always_inline]] inline absl::StatusOr<Work> run_on(
    uint16_t kind, const char* name, const Group& group, comm::Window* window,
    const Streamed& streamed, Peer target, const CallOptions& options,
    const Fill& fill) try {
  if (window == nullptr) [[unlikely]]
    return run_with(kind, name, group, streamed, target, options, fill);
  const int rank = facade::rank_of(*group.state(), target, Role::kDestination);
  if (rank == facade::kNoRank) [[unlikely]]
    return facade::root_error(name, *group.state(), target, Role::kDestination,
                              {.group = group, .label = options.label});
  WindowCall call;
  call.target = rank;
  fill(call);
  return window->run(kind, call, options);
} catch (...) {
  return base::error_of_exception(name);
}

}  // namespace

comm::Window* Window::any() const {
  return window_ == nullptr && streamed_ != nullptr ? streamed_->window.get()
                                                    : window_.get();
}
int Window::rank() const { return any()->rank(); }
int Window::size() const { return any()->size(); }
TensorView Window::memory() const { return any()->local(); }

Window Window::on(const Stream& stream) const {
  Window made = *this;
  if (any() == nullptr) return made;
  made.streamed_ = std::make_shared<const comm::WindowOnStream>(
      comm::WindowOnStream{window_ ? window_ : streamed_->window, stream});
  made.window_ = nullptr;
  return made;
}

absl::StatusOr<Work> Window::put(TensorView src, Peer target, int64_t offset,
                                 const CallOptions& options) const {
  return run_on(DW_OP_PUT, "put", group_, window_.get(), streamed_, target,
                options, [&](WindowCall& call) {
                  call.in = src;
                  call.offset = offset;
                });
}

absl::StatusOr<Work> Window::get(TensorView dst, Peer target, int64_t offset,
                                 const CallOptions& options) const {
  return run_on(DW_OP_GET, "get", group_, window_.get(), streamed_, target,
                options, [&](WindowCall& call) {
                  call.out = dst;
                  call.offset = offset;
                });
}

absl::StatusOr<Work> Window::put_signal(TensorView src, Peer target,
                                        int64_t offset, int64_t signal,
                                        uint64_t value, SignalHow how,
                                        const CallOptions& options) const {
  return run_on(DW_OP_PUT, "put_signal", group_, window_.get(), streamed_,
                target, options, [&](WindowCall& call) {
                  call.in = src;
                  call.offset = offset;
                  call.with_signal = true;
                  // -1 would mean the counter of the pair.
                  call.signal = signal < 0 ? INT64_MAX : signal;
                  call.value = value;
                  call.how = static_cast<uint16_t>(how);
                });
}

absl::StatusOr<Work> Window::put_signal(TensorView src, Peer target,
                                        int64_t offset,
                                        const CallOptions& options) const {
  return run_on(DW_OP_PUT, "put_signal", group_, window_.get(), streamed_,
                target, options, [&](WindowCall& call) {
                  call.in = src;
                  call.offset = offset;
                  call.with_signal = true;
                  call.signal = comm::kPairSignal;
                });
}

absl::StatusOr<Work> Window::signal(Peer target, int64_t signal, uint64_t value,
                                    SignalHow how,
                                    const CallOptions& options) const {
  return run_on(DW_OP_SIGNAL, "signal", group_, window_.get(), streamed_,
                target, options, [&](WindowCall& call) {
                  call.signal = signal < 0 ? INT64_MAX : signal;
                  call.value = value;
                  call.how = static_cast<uint16_t>(how);
                });
}

absl::StatusOr<Work> Window::signal(Peer target,
                                    const CallOptions& options) const {
  return run_on(DW_OP_SIGNAL, "signal", group_, window_.get(), streamed_,
                target, options,
                [](WindowCall& call) { call.signal = comm::kPairSignal; });
}

absl::StatusOr<Work> Window::wait_signal(Peer from,
                                         const CallOptions& options) const {
  return run_on(DW_OP_WAIT_SIGNAL, "wait_signal", group_, window_.get(),
                streamed_, from, options,
                [](WindowCall& call) { call.signal = comm::kPairSignal; });
}

absl::StatusOr<Work> Window::wait_signal(int64_t signal, Compare compare,
                                         uint64_t value,
                                         const CallOptions& options) const {
  WindowCall call;
  call.signal = signal < 0 ? INT64_MAX : signal;
  call.compare = static_cast<uint16_t>(compare);
  call.value = value;
  if (window_ == nullptr)
    return run_streamed(DW_OP_WAIT_SIGNAL, "wait_signal", streamed_, call,
                        options);
  return window_->run(DW_OP_WAIT_SIGNAL, call, options);
}

absl::StatusOr<Work> Window::accumulate(TensorView src, Peer target,
                                        int64_t offset, ReduceOp op,
                                        const CallOptions& options) const {
  return run_on(DW_OP_ACCUMULATE, "accumulate", group_, window_.get(),
                streamed_, target, options, [&](WindowCall& call) {
                  call.in = src;
                  call.offset = offset;
                  call.reduce = op.kind();
                });
}

absl::StatusOr<Work> Window::fetch_op(TensorView old, TensorView src,
                                      Peer target, int64_t offset, ReduceOp op,
                                      const CallOptions& options) const {
  return run_on(DW_OP_FETCH_OP, "fetch_op", group_, window_.get(), streamed_,
                target, options, [&](WindowCall& call) {
                  call.in = src;
                  call.out = old;
                  call.offset = offset;
                  call.reduce = op.kind();
                });
}

absl::StatusOr<Work> Window::compare_swap(TensorView old,
                                          TensorView expected_desired,
                                          Peer target, int64_t offset,
                                          const CallOptions& options) const {
  return run_on(DW_OP_COMPARE_SWAP, "compare_swap", group_, window_.get(),
                streamed_, target, options, [&](WindowCall& call) {
                  call.in = expected_desired;
                  call.out = old;
                  call.offset = offset;
                });
}

absl::StatusOr<Work> Window::flush(Peer target,
                                   const CallOptions& options) const {
  if (!target.is_set())
    return window_ == nullptr
               ? run_streamed(DW_OP_FLUSH, "flush", streamed_, {}, options)
               : window_->run(DW_OP_FLUSH, {}, options);
  return run_on(DW_OP_FLUSH, "flush", group_, window_.get(), streamed_, target,
                options, [](WindowCall&) {});
}

absl::StatusOr<Work> Window::fence(const CallOptions& options) const {
  if (window_ == nullptr)
    return run_streamed(DW_OP_FENCE, "fence", streamed_, {}, options);
  return window_->run(DW_OP_FENCE, {}, options);
}

// ---- queries, and the end ----

namespace {

absl::StatusOr<int> rank_in(const char* call, const Group& group,
                            const comm::Window* window, Peer target) {
  if (window == nullptr) return no_window(call);
  const int rank = facade::rank_of(*group.state(), target, Role::kDestination);
  if (rank == facade::kNoRank)
    return facade::root_error(call, *group.state(), target, Role::kDestination,
                              {.group = group});
  if (rank >= 0 && rank < window->size()) return rank;
  return facade::refusal(
      call, *group.state(), {},
      {.reason = Reason::kInvalidArgument,
       .what = "the target is not a rank of the window's group",
       .expected = absl::StrCat("0..", window->size() - 1),
       .actual = absl::StrCat(rank),
       .next_step = "name a rank of the group"});
}

}  // namespace

absl::StatusOr<TensorView> Window::map_remote(Peer target) const try {
  const absl::StatusOr<int> rank = rank_in("map_remote", group_, any(), target);
  if (!rank.ok()) return rank.status();
  return any()->map(*rank);
} catch (...) {
  return base::error_of_exception("map_remote");
}

absl::StatusOr<WindowPages> Window::pages(Peer target) const try {
  constexpr char kCall[] = "window_pages";
  if (any() == nullptr) return no_window(kCall);
  absl::StatusOr<TensorView> view = any()->local();
  if (target.is_set()) view = map_remote(target);
  if (!view.ok()) return view.status();
  if (view->device() != kCpu)
    return base::make_error(
        {.reason = Reason::kUnsupported,
         .what = "the window's memory is not the host's, which has pages",
         .op = kCall,
         .next_step = "use memory(), as the device does"});
  auto pages = base::PageView::of(view->data(),
                                  view->count() * dtype_size(view->dtype()));
  if (!pages.ok())
    return base::amend_error(pages.status(),
                             [&](ErrorInfo& info) { info.op = kCall; });
  const TensorView again((*pages)->data(), view->count(), view->dtype());
  return WindowPages(*std::move(pages), again);
} catch (...) {
  return base::error_of_exception("window_pages");
}

absl::StatusOr<WindowAttr> Window::get_attr(Peer target) const try {
  const absl::StatusOr<int> rank = rank_in("get_attr", group_, any(), target);
  if (!rank.ok()) return rank.status();
  const comm::WindowPart& part = any()->part(*rank);
  return WindowAttr{part.count, part.dtype, part.bytes,
                    any()->map(*rank).ok() ? WindowAccess::kUnified
                                           : WindowAccess::kSeparate};
} catch (...) {
  return base::error_of_exception("get_attr");
}

absl::Status Window::destroy(std::optional<absl::Duration> timeout) const try {
  constexpr char kCall[] = "window_destroy";
  if (any() == nullptr) return no_window(kCall);
  group::GroupState& group = *group_.state();
  const absl::Duration limit = timeout.value_or(group.timeout());
  if (limit <= absl::ZeroDuration())
    return facade::refusal(kCall, group, {},
                           {.reason = Reason::kInvalidArgument,
                            .what = "the timeout is not positive",
                            .actual = absl::FormatDuration(limit),
                            .next_step = "leave it unset for the group's"});
  return group::destroy_window(group, *any(), limit);
} catch (...) {
  return base::error_of_exception("window_destroy");
}

}  // namespace distwrap
