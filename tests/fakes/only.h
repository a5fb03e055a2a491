// A backend with only some of its operations:
//
//   constexpr Only kGathers = {"gathers", DW_BIT(DW_OP_ALL_GATHER), ...};
//   const dw_backend_api& api = fakes::only<perfect_table, kGathers>();
//
// Operations that its rows do not promise are refused, as the rules require.
#ifndef DISTWRAP_TESTS_FAKES_ONLY_H_
#define DISTWRAP_TESTS_FAKES_ONLY_H_

#include "distwrap/abi/plugin.h"
#include "fakes/compose_over.h"
#include "sdk/fail.h"

#include <cstring>
#include <vector>

namespace distwrap::fakes {

struct Only {
  const char* name;
  uint64_t ops;
  uint64_t dtypes;
  uint32_t reductions;
  uint32_t flags;
  bool groups = false;

  bool promises(const dw_op& op) const {
    return op.kind < 64 && (ops >> op.kind & 1) != 0 &&
           (op.flags & ~flags) == 0 &&
           (op.reduce == DW_REDUCE_NONE || (reductions >> op.reduce & 1) != 0);
  }
};

template <TableFunction kInner, const Only& kOnly>
struct OnlyTable {
  static int32_t caps(dw_backend* backend, const dw_caps_row** rows,
                      uint64_t* n, dw_error* error) {
    const dw_caps_row* all;
    uint64_t n_all;
    if (int32_t code = kInner().caps(backend, &all, &n_all, error)) return code;
    static const std::vector<dw_caps_row> left = [&] {
      std::vector<dw_caps_row> made;
      for (dw_caps_row row : std::vector<dw_caps_row>(all, all + n_all)) {
        row.ops &= kOnly.ops;
        row.dtypes &= kOnly.dtypes;
        row.reductions &= kOnly.reductions | 1u;
        row.flags &= kOnly.flags;
        if (row.ops != 0) made.push_back(row);
      }
      return made;
    }();
    *rows = left.data();
    *n = left.size();
    return DW_OK;
  }

  static int32_t refuse(dw_error* error) {
    return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0,
                   "not among what is left of this backend");
  }
  static int32_t query(dw_comm* comm, const dw_op* op, dw_error* error) {
    return kOnly.promises(*op) ? kInner().query(comm, op, error)
                               : refuse(error);
  }
  static int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work,
                        dw_error* error) {
    return kOnly.promises(*op) ? kInner().submit(comm, op, work, error)
                               : refuse(error);
  }
};

template <TableFunction kInner, const Only& kOnly>
const dw_backend_api& only() {
  static const dw_backend_api table = [] {
    dw_backend_api api = kInner();
    api.name = {kOnly.name, std::strlen(kOnly.name)};
    api.caps = OnlyTable<kInner, kOnly>::caps;
    api.query = OnlyTable<kInner, kOnly>::query;
    api.submit = OnlyTable<kInner, kOnly>::submit;
    if (!kOnly.groups) api.submit_group = nullptr;
    return api;
  }();
  return table;
}

}  // namespace distwrap::fakes

#endif  // DISTWRAP_TESTS_FAKES_ONLY_H_
