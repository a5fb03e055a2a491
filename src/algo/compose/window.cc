#include "algo/compose/window.h"

#include "algo/decorator.h"

#include <new>

namespace distwrap::algo::compose {

int32_t window_map(dw_window* window, int32_t rank, void** address,
                   uint64_t* bytes, dw_error* error) {
  const Window& mapped = Window::of(window);
  if (mapped.composed != nullptr)
    return mapped.composed->map(rank, address, bytes, error);
  return mapped.backend.inner().window_map(mapped.inner, rank, address, bytes,
                                           error);
}

int32_t window_destroy(dw_window* window, int64_t deadline_ns,
                       dw_error* error) {
  Window& ending = Window::of(window);
  int32_t code = DW_OK;
  if (ending.composed != nullptr) {
    ending.composed->close(deadline_ns);
  } else {
    base::MutexLock lock(ending.backend.calls());
    code =
        ending.backend.inner().window_destroy(ending.inner, deadline_ns, error);
  }
  delete &ending;
  return code;
}

int32_t Comm::query_window(const dw_op& op, dw_error* error) {
  if (op.window == nullptr)
    return invalid(error, "the operation names no window");
  const Window& window = Window::of(op.window);
  if (window.composed != nullptr) return window.composed->query(op, error);
  dw_op below = op;
  below.window = window.inner;
  return backend_.inner().query(inner_, &below, error);
}

int32_t Comm::submit_to_window(const dw_op& op, dw_work* work,
                               dw_error* error) {
  if (op.window == nullptr)
    return invalid(error, "the operation names no window");
  const Window& window = Window::of(op.window);
  if (window.composed != nullptr)
    return window.composed->submit(op, work, error);
  dw_op below = op;
  below.window = window.inner;
  if ((op.flags & DW_FLAG_CALLER_WAITS) != 0)
    return submit_(inner_, &below, nullptr, error);
  auto* const cell = new (std::nothrow) ForwardCell(backend_.host(), work);
  if (cell == nullptr) return no_memory(error);
  const int32_t code = submit_(inner_, &below, cell->abi(), error);
  if (code != DW_OK) delete cell;
  return code;
}

}  // namespace distwrap::algo::compose
