/* Saying that an operation is under way (DW_BACKEND_SAYS_UNDER_WAY):
 *
 *   show(op);
 *   dw_under_way(host);
 *   wait_for_others();
 */
#ifndef DISTWRAP_PLUGINS_SDK_UNDER_WAY_H_
#define DISTWRAP_PLUGINS_SDK_UNDER_WAY_H_

#include "distwrap/abi/plugin.h"
#include "distwrap/abi/read.h"

#ifdef DW_BACKEND_SAYS_UNDER_WAY /* since 1.1 */
/* Nothing on a host that is older than that, or does not want to know. */
static inline void dw_under_way(const dw_host_api* host) {
  if (host->struct_size > DW_HOST_API_SIZE_1_0 && host->under_way != NULL)
    host->under_way(host->self);
}
#endif

#endif /* DISTWRAP_PLUGINS_SDK_UNDER_WAY_H_ */
