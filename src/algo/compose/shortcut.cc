#include "algo/compose/shortcut.h"

#include "algo/compose/backend.h"
#include "algo/compose/comm.h"

namespace distwrap::algo::compose {

bool has_shortcut(dw_backend* composed) {
  return Backend::of(composed).recipes().collectives_complete();
}

bool has_message_shortcut(dw_backend* composed) {
  return Backend::of(composed).recipes().complete();
}

dw_comm* comm_below(dw_comm* composed) { return Comm::of(composed).inner(); }

}  // namespace distwrap::algo::compose
