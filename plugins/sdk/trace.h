/* Telling the host how a call whose caller waits gets on (the offers
 * DW_BACKEND_SAYS_UNDER_WAY and DW_BACKEND_SAYS_WAITS), and that a device has
 * begun a pending operation (DW_BACKEND_SAYS_BEGUN):
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
/* A host of before 1.2 does not want to know. */
static inline void dw_begun(const dw_host_api* host, dw_work* work) {
  const size_t end = offsetof(dw_host_api, begun) + sizeof host->begun;
  if (host->struct_size >= end && host->begun != NULL) host->begun(work);
}

#endif /* DISTWRAP_PLUGINS_SDK_TRACE_H_ */
