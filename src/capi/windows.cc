// Windows, for C.
#include "capi/arguments.h"
#include "capi/entry.h"
#include "distwrap/c.h"
#include "distwrap/window.h"

#include <absl/strings/str_cat.h>

#include <optional>
#include <tuple>
#include <utility>

namespace distwrap::capi {
namespace {

// The C constants have the values of the C++ enumerators.
static_assert(static_cast<int>(SignalHow::kSet) == DW_SIGNAL_SET &&
              static_cast<int>(SignalHow::kAdd) == DW_SIGNAL_ADD &&
              static_cast<int>(Compare::kEq) == DW_COMPARE_EQ &&
              static_cast<int>(Compare::kGe) == DW_COMPARE_GE);

// An unknown number gives a value without an enumerator, which the call
// refuses.
SignalHow how_of(int32_t how) {
  return static_cast<SignalHow>(how >= 0 && how < 255 ? how : 255);
}
Compare compare_of(int32_t compare) {
  return static_cast<Compare>(compare >= 0 && compare < 255 ? compare : 255);
}

// `run(window, arguments..., options)` calls the method.
template <class Run, class... Described>
int32_t on_window(const char* call, distwrap_window handle,
                  const distwrap_op_options* options, distwrap_work* work,
                  distwrap_error* error, const Run& run,
                  const Described&... described) {
  if (work != nullptr) *work = nullptr;
  return entry(call, error, [&]() -> absl::Status {
    const auto window = held(call, handle);
    if (!window.ok()) return window.status();
    Arguments arguments(call);
    arguments.read(options, work != nullptr);
    arguments.refuse_batch();
    const std::tuple values{arguments.of(described)...};
    if (!arguments.status().ok()) return arguments.status();
    const OpOptions& given = arguments.options();
    if (given.group)
      return refuse(call, "a call on a window names a group",
                    "leave the group unset: the window has its own");
    const CallOptions how{work != nullptr, given.timeout, given.label};
    const auto start = [&]() -> absl::StatusOr<Work> {
      return std::apply(
          [&](const auto&... value) {
            return given.stream.native == nullptr
                       ? run(**window, value..., how)
                       : run((*window)->on(given.stream), value..., how);
          },
          values);
    };
    return work == nullptr ? start().status()
                           : hand_out_started(call, work, start);
  });
}

absl::StatusOr<WindowOptions> window_options(
    const char* call, const distwrap_window_options& given,
    Arguments& arguments) {
  auto group = group_of(call, given.group);
  if (!group.ok()) return group.status();
  if (given.dtype < 0 || distwrap_dtype(given.dtype).bits == 0)
    return refuse(call,
                  absl::StrCat("the element type ", given.dtype, " is unknown"),
                  "use DW_DTYPE_<NAME>");
  WindowOptions options;
  options.group = *std::move(group);
  options.memory = arguments.of(MaybeTensor{given.memory});
  if (!arguments.status().ok()) return arguments.status();
  options.count = given.count;
  options.dtype = static_cast<DType>(given.dtype);
  options.backend = text_of(given.backend);
  if (given.signals != 0)
    options.signals = given.signals == -1 ? 0 : given.signals;
  if (given.timeout != 0) options.timeout = duration_of(given.timeout);
  if (given.label != nullptr) options.label = given.label;
  return options;
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)
using distwrap::Window;

int32_t distwrap_new_window(const distwrap_window_options* options,
                            distwrap_window* window, distwrap_error* error) {
  constexpr const char* kCall = "new_window";
  return entry(kCall, error, [&]() -> absl::Status {
    if (window == nullptr) return refuse_null(kCall, "window");
    *window = nullptr;
    distwrap_window_options given;
    if (absl::Status read = read_options(kCall, options, &given); !read.ok())
      return read;
    Arguments arguments(kCall);
    const auto wanted = window_options(kCall, given, arguments);
    if (!wanted.ok()) return wanted.status();
    return hand_out_started(kCall, window,
                            [&] { return distwrap::new_window(*wanted); });
  });
}

int32_t distwrap_window_destroy(distwrap_window window, int64_t timeout,
                                distwrap_error* error) {
  constexpr const char* kCall = "window_destroy";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, window);
    if (!found.ok()) return found.status();
    if (timeout == 0) return (**found).destroy();
    return (**found).destroy(duration_of(timeout));
  });
}

int32_t distwrap_window_free(distwrap_window window) {
  return free_handle(window);
}

int32_t distwrap_window_memory(distwrap_window window, distwrap_output* memory,
                               distwrap_error* error) {
  constexpr const char* kCall = "window_memory";
  return entry(kCall, error, [&]() -> absl::Status {
    if (memory == nullptr) return refuse_null(kCall, "memory");
    const auto found = held(kCall, window);
    if (!found.ok()) return found.status();
    *memory = output_of((**found).memory());
    return absl::OkStatus();
  });
}

int32_t distwrap_window_map_remote(distwrap_window window, distwrap_peer target,
                                   distwrap_output* memory,
                                   distwrap_error* error) {
  constexpr const char* kCall = "map_remote";
  return entry(kCall, error, [&]() -> absl::Status {
    if (memory == nullptr) return refuse_null(kCall, "memory");
    const auto found = held(kCall, window);
    if (!found.ok()) return found.status();
    Arguments arguments(kCall);
    const distwrap::Peer peer = arguments.of(target);
    if (!arguments.status().ok()) return arguments.status();
    const auto view = (**found).map_remote(peer);
    if (!view.ok()) return view.status();
    *memory = output_of(*view);
    return absl::OkStatus();
  });
}

int32_t distwrap_window_pages(distwrap_window window, distwrap_peer target,
                              distwrap_pages* pages, distwrap_output* memory,
                              distwrap_error* error) {
  constexpr const char* kCall = "window_pages";
  return entry(kCall, error, [&]() -> absl::Status {
    if (pages == nullptr) return refuse_null(kCall, "pages");
    *pages = nullptr;
    if (memory == nullptr) return refuse_null(kCall, "memory");
    const auto found = held(kCall, window);
    if (!found.ok()) return found.status();
    Arguments arguments(kCall);
    const distwrap::Peer peer = arguments.of(target);
    if (!arguments.status().ok()) return arguments.status();
    auto made = (**found).pages(peer);
    if (!made.ok()) return made.status();
    *memory = output_of(made->view());
    return hand_out(kCall, *std::move(made), pages);
  });
}

int32_t distwrap_pages_free(distwrap_pages pages) { return free_handle(pages); }

int32_t distwrap_window_get_attr(distwrap_window window, distwrap_peer target,
                                 distwrap_window_attr* info,
                                 distwrap_error* error) {
  constexpr const char* kCall = "get_attr";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, window);
    if (!found.ok()) return found.status();
    Arguments arguments(kCall);
    const distwrap::Peer peer = arguments.of(target);
    if (!arguments.status().ok()) return arguments.status();
    const auto attr = (**found).get_attr(peer);
    if (!attr.ok()) return attr.status();
    distwrap_window_attr told = {};
    told.dtype = static_cast<int32_t>(attr->dtype);
    told.count = attr->count;
    told.bytes = attr->bytes;
    told.access = attr->access == distwrap::WindowAccess::kUnified
                      ? DW_WINDOW_UNIFIED
                      : DW_WINDOW_SEPARATE;
    return write_info(kCall, told, info);
  });
}

int32_t distwrap_window_put(distwrap_window window, const distwrap_tensor* src,
                            distwrap_peer target, int64_t offset,
                            const distwrap_op_options* options,
                            distwrap_work* work, distwrap_error* error) {
  return on_window(
      "put", window, options, work, error,
      [](const Window& w, const auto&... a) { return w.put(a...); },
      Tensor{src, "src"}, target, offset);
}

int32_t distwrap_window_get(distwrap_window window, const distwrap_tensor* dst,
                            distwrap_peer target, int64_t offset,
                            const distwrap_op_options* options,
                            distwrap_work* work, distwrap_error* error) {
  return on_window(
      "get", window, options, work, error,
      [](const Window& w, const auto&... a) { return w.get(a...); },
      Tensor{dst, "dst"}, target, offset);
}

int32_t distwrap_window_put_signal(distwrap_window window,
                                   const distwrap_tensor* src,
                                   distwrap_peer target, int64_t offset,
                                   int64_t signal, uint64_t value, int32_t how,
                                   const distwrap_op_options* options,
                                   distwrap_work* work, distwrap_error* error) {
  return on_window(
      "put_signal", window, options, work, error,
      [=](const Window& w, const auto& from, const auto& to, int64_t at,
          const auto& o) {
        return w.put_signal(from, to, at, signal, value, how_of(how), o);
      },
      Tensor{src, "src"}, target, offset);
}

int32_t distwrap_window_put_signal_pair(distwrap_window window,
                                        const distwrap_tensor* src,
                                        distwrap_peer target, int64_t offset,
                                        const distwrap_op_options* options,
                                        distwrap_work* work,
                                        distwrap_error* error) {
  return on_window(
      "put_signal", window, options, work, error,
      [](const Window& w, const auto&... a) { return w.put_signal(a...); },
      Tensor{src, "src"}, target, offset);
}

int32_t distwrap_window_signal(distwrap_window window, distwrap_peer target,
                               int64_t signal, uint64_t value, int32_t how,
                               const distwrap_op_options* options,
                               distwrap_work* work, distwrap_error* error) {
  return on_window(
      "signal", window, options, work, error,
      [=](const Window& w, const auto& to, const auto& o) {
        return w.signal(to, signal, value, how_of(how), o);
      },
      target);
}

int32_t distwrap_window_wait_signal(distwrap_window window, int64_t signal,
                                    int32_t compare, uint64_t value,
                                    const distwrap_op_options* options,
                                    distwrap_work* work,
                                    distwrap_error* error) {
  return on_window(
      "wait_signal", window, options, work, error,
      [=](const Window& w, int64_t index, const auto& o) {
        return w.wait_signal(index, compare_of(compare), value, o);
      },
      signal);
}

int32_t distwrap_window_signal_pair(distwrap_window window,
                                    distwrap_peer target,
                                    const distwrap_op_options* options,
                                    distwrap_work* work,
                                    distwrap_error* error) {
  return on_window(
      "signal", window, options, work, error,
      [](const Window& w, const distwrap::Peer& to, const auto& o) {
        return w.signal(to, o);
      },
      target);
}

int32_t distwrap_window_wait_pair(distwrap_window window, distwrap_peer from,
                                  const distwrap_op_options* options,
                                  distwrap_work* work, distwrap_error* error) {
  return on_window(
      "wait_signal", window, options, work, error,
      [](const Window& w, const distwrap::Peer& peer, const auto& o) {
        return w.wait_signal(peer, o);
      },
      from);
}

int32_t distwrap_window_accumulate(distwrap_window window,
                                   const distwrap_tensor* src,
                                   distwrap_peer target, int64_t offset,
                                   int32_t reduction,
                                   const distwrap_op_options* options,
                                   distwrap_work* work, distwrap_error* error) {
  return on_window(
      "accumulate", window, options, work, error,
      [](const Window& w, const auto&... a) { return w.accumulate(a...); },
      Tensor{src, "src"}, target, offset, Reduction{reduction});
}

int32_t distwrap_window_fetch_op(distwrap_window window,
                                 const distwrap_tensor* old,
                                 const distwrap_tensor* src,
                                 distwrap_peer target, int64_t offset,
                                 int32_t reduction,
                                 const distwrap_op_options* options,
                                 distwrap_work* work, distwrap_error* error) {
  return on_window(
      "fetch_op", window, options, work, error,
      [](const Window& w, const auto&... a) { return w.fetch_op(a...); },
      Tensor{old, "old"}, Tensor{src, "src"}, target, offset,
      Reduction{reduction});
}

int32_t distwrap_window_compare_swap(distwrap_window window,
                                     const distwrap_tensor* old,
                                     const distwrap_tensor* expected_desired,
                                     distwrap_peer target, int64_t offset,
                                     const distwrap_op_options* options,
                                     distwrap_work* work,
                                     distwrap_error* error) {
  return on_window(
      "compare_swap", window, options, work, error,
      [](const Window& w, const distwrap::TensorView& out, const auto&... a) {
        return w.compare_swap(out, a...);
      },
      Tensor{old, "old"}, Tensor{expected_desired, "expected_desired"}, target,
      offset);
}

int32_t distwrap_window_flush(distwrap_window window, distwrap_peer target,
                              const distwrap_op_options* options,
                              distwrap_work* work, distwrap_error* error) {
  return on_window(
      "flush", window, options, work, error,
      [](const Window& w, const auto&... a) { return w.flush(a...); }, target);
}

int32_t distwrap_window_fence(distwrap_window window,
                              const distwrap_op_options* options,
                              distwrap_work* work, distwrap_error* error) {
  return on_window("fence", window, options, work, error,
                   [](const Window& w, const auto& o) { return w.fence(o); });
}
