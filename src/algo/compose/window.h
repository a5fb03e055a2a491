// Windows of a composed communicator: those of the backend below, or windows
// made of its messages (algo/windows).
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_WINDOW_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_WINDOW_H_

#include "algo/compose/comm.h"
#include "algo/windows/window.h"
#include "distwrap/abi/plugin.h"

#include <memory>
#include <utility>

namespace distwrap::algo::compose {

struct Window {
  Window(Backend& below, dw_window* window) : backend(below), inner(window) {}
  Window(Backend& below, std::shared_ptr<windows::MessageService> service,
         std::shared_ptr<windows::Part> part)
      : backend(below),
        composed(std::make_unique<windows::Window>(std::move(service),
                                                   std::move(part))) {}

  Backend& backend;
  dw_window* const inner = nullptr;
  const std::unique_ptr<windows::Window> composed;

  dw_window* abi() { return reinterpret_cast<dw_window*>(this); }
  static Window& of(dw_window* window) {
    return *reinterpret_cast<Window*>(window);
  }
};

inline constexpr bool is_of_window(uint16_t kind) {
  return kind < 64 && (kWindowOps >> kind & 1) != 0;
}

// Begins the setup from which `setup_step` builds a window.
int32_t window_create(dw_comm* comm, const dw_setup_info* info,
                      dw_setup** setup, dw_blob* out, dw_error* error);
int32_t window_map(dw_window* window, int32_t rank, void** address,
                   uint64_t* bytes, dw_error* error);
int32_t window_destroy(dw_window* window, int64_t deadline_ns, dw_error* error);

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_WINDOW_H_
