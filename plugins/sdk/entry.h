/* The entry of a backend: one line, once, at the end of the file with its
 * table.
 *
 *   static const dw_backend_api kTable = {...};
 *   DW_PLUGIN_ENTRY(kTable);
 *
 * In a module it emits the ELF note and the one exported symbol. In an object
 * that is linked into the host, compiled with -DDW_LINKED_IN=<name>, it emits
 * dw_plugin_query_v1_<name> only, so that several can live in one program. */
#ifndef DISTWRAP_PLUGINS_SDK_ENTRY_H_
#define DISTWRAP_PLUGINS_SDK_ENTRY_H_

#include "distwrap/abi/note.h"
#include "distwrap/abi/plugin.h"

#ifdef __cplusplus
#define DW_EXTERN_C_ extern "C"
#else
#define DW_EXTERN_C_ extern
#endif

/* A host of another major version never gets the table, not even when it did
 * not check the note. */
#define DW_PLUGIN_QUERY_(symbol, visibility_name, table)                      \
  DW_EXTERN_C_ __attribute__((visibility(visibility_name)))                   \
  const dw_backend_api*                                                       \
  symbol(const dw_host_info* host);                                           \
  const dw_backend_api* symbol(const dw_host_info* host) {                    \
    return host != NULL && host->abi_major == DW_ABI_MAJOR ? &(table) : NULL; \
  }                                                                           \
  DW_STATIC_ASSERT(sizeof(table) == sizeof(dw_backend_api))

#ifdef DW_LINKED_IN
#define DW_JOIN__(a, b) a##b
#define DW_JOIN_(a, b) DW_JOIN__(a, b)
#define DW_PLUGIN_ENTRY(table) \
  DW_PLUGIN_QUERY_(DW_JOIN_(dw_plugin_query_v1_, DW_LINKED_IN), "hidden", table)
#else
#define DW_PLUGIN_ENTRY(table) \
  DW_PLUGIN_NOTE;              \
  DW_PLUGIN_QUERY_(dw_plugin_query_v1, "default", table)
#endif

#endif /* DISTWRAP_PLUGINS_SDK_ENTRY_H_ */
