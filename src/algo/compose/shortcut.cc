#include "algo/compose/shortcut.h"

#include "algo/compose/backend.h"
#include "algo/compose/comm.h"
#include "algo/compose/window.h"

namespace distwrap::algo::compose {

bool has_shortcut(dw_backend* composed) {
  return Backend::of(composed).recipes().collectives_complete();
}

bool has_message_shortcut(dw_backend* composed) {
  const Backend& backend = Backend::of(composed);
  if (backend.recipes().complete()) return true;
  // What the worker submits below meanwhile does not wait there.
  return backend.recipes().only_messages() &&
         (backend.inner().flags & DW_BACKEND_SUBMIT_BESIDE) != 0;
}

bool has_window_shortcut(dw_backend* composed) {
  return Backend::of(composed).has_windows();
}

dw_backend* backend_below(dw_backend* composed) {
  return Backend::of(composed).inner_backend();
}

dw_comm* comm_below(dw_comm* composed) { return Comm::of(composed).inner(); }

dw_window* window_below(dw_window* composed) {
  return Window::of(composed).inner;
}

}  // namespace distwrap::algo::compose
