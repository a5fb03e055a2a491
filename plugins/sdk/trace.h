/* Telling the host how a call whose caller waits gets on (the offers
 * DW_BACKEND_SAYS_UNDER_WAY and DW_BACKEND_SAYS_WAITS):
 *
 *   publish(op);
 *   dw_under_way(host, op->trace);
 *   while (!others_have_come(op)) {
 *     if (spun_for_a_while()) dw_waits(host, op->trace);
 *   }
 */
#ifndef DISTWRAP_PLUGINS_SDK_TRACE_H_
#define DISTWRAP_PLUGINS_SDK_TRACE_H_

#include "distwrap/abi/plugin.h"

/* Does nothing for a call that has no trace. */
static inline void dw_under_way(const dw_host_api* host, dw_trace* trace) {
  if (trace != NULL) host->under_way(trace);
}
static inline void dw_waits(const dw_host_api* host, dw_trace* trace) {
  if (trace != NULL) host->waits(trace);
}

#endif /* DISTWRAP_PLUGINS_SDK_TRACE_H_ */
