// `compose` over another backend, as one table that needs no inner tables:
//
//   const dw_backend_api& api = fakes::compose_over<my_table>();
//
// The table is named "compose_" and the name of the backend below.
#ifndef DISTWRAP_TESTS_FAKES_COMPOSE_OVER_H_
#define DISTWRAP_TESTS_FAKES_COMPOSE_OVER_H_

#include "algo/compose/compose.h"
#include "distwrap/abi/note.h"
#include "distwrap/abi/read.h"

#include <string>

namespace distwrap::fakes {

using TableFunction = const dw_backend_api& (*)();

// The table of a backend that is linked in.
template <dw_plugin_query_fn kQuery>
const dw_backend_api& table_of() {
  static const dw_host_info host = {
      sizeof(dw_host_info), DW_ABI_MAJOR, DW_ABI_MINOR, DW_SANITIZER, 0,
      {"test", 4}};
  return *kQuery(&host);
}

template <TableFunction kInner>
int32_t open_compose(const dw_host_api* host, const dw_open_info* info,
                     dw_backend** backend, dw_error* error) {
  dw_open_info with_inner;
  const int32_t code = dw_read_struct(&with_inner, sizeof with_inner, info,
                                      DW_OPEN_INFO_SIZE_1_0);
  if (code != DW_OK) return code;
  const dw_inner inner = {&kInner(), nullptr};
  with_inner.inner = &inner;
  with_inner.n_inner = 1;
  return algo::compose_api().open(host, &with_inner, backend, error);
}

template <TableFunction kInner>
const dw_backend_api& compose_over() {
  static const std::string name =
      "compose_" + std::string(kInner().name.data, kInner().name.size);
  static const dw_backend_api table = [] {
    dw_backend_api api = algo::compose_api();
    api.flags &= ~uint32_t{DW_BACKEND_DECORATOR};
    api.devices = kInner().devices;
    api.name = {name.data(), name.size()};
    api.hints = kInner().hints;
    api.n_hints = kInner().n_hints;
    api.open = open_compose<kInner>;
    return api;
  }();
  return table;
}

}  // namespace distwrap::fakes

#endif  // DISTWRAP_TESTS_FAKES_COMPOSE_OVER_H_
