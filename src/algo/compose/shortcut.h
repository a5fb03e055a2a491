// The way past the decorator, for backends that need it for little: a host may
// give their collectives, and messages to others, straight to the backend below
// when the caller waits. (Work that completes later must enter here, since the
// backend below completes our cells and not the host's.)
//
// Threads: any.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_SHORTCUT_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_SHORTCUT_H_

#include "distwrap/abi/plugin.h"

namespace distwrap::algo::compose {

// Of a backend that compose_api() opened: whether every collective, in each
// form, is the inner backend's own, and its waiting calls too.
bool has_shortcut(dw_backend* composed);
// Likewise of messages; those of a rank to itself are the decorator's. A
// backend that has nothing but messages is given them straight, too, when it
// can take others beside one that waits.
bool has_message_shortcut(dw_backend* composed);

// Likewise of operations on windows: they are the inner backend's.
bool has_window_shortcut(dw_backend* composed);

// The inner backend under a composed one, its communicator and window.
dw_backend* backend_below(dw_backend* composed);
dw_comm* comm_below(dw_comm* composed);
dw_window* window_below(dw_window* composed);

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_SHORTCUT_H_
