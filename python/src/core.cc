// The module distwrap._core.
#include "call.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

NB_MODULE(_core, m) {
  using namespace distwrap_python;
  // Objects that the interpreter still holds at its end are no leak of ours.
  nb::set_leak_warnings(false);
  m.attr("version") = distwrap_version();
  nb::dict reasons;
#define DW_REASON(value, name, enumerator, code, exception, meaning) \
  reasons[nb::int_(value)] = nb::make_tuple(#enumerator, #exception);
#include "distwrap/abi/reasons.def"
  m.attr("REASONS") = reasons;
  nb::list guarded;
#define DW_GUARDED_NAME(name, instead) \
  guarded.append(nb::make_tuple(#name, #instead));
#include "guard/guarded_names.def"
  m.attr("GUARDED_NAMES") = guarded;
  m.def("_interrupt", &MainWait::interrupt);
  m.def("_set_group_of", &set_other_groups, nb::arg("function").none());
  m.def("_group_of", &group_behind);
  m.def("_group_address", [](const ProcessGroup& group) {
    return reinterpret_cast<uintptr_t>(group.handle);
  });
  m.def("_end", &end_interpreter);
  m.def("_make_error", [](const char* call, const std::string& what,
                          const std::string& next_step, int32_t reason) {
    return value_error(call, what, next_step, reason);
  });
  m.def("_exception_at", [](int32_t code, uintptr_t address) {
    return exception_of(code, reinterpret_cast<distwrap_error>(address));
  });
  add_operations(m);
  add_work(m);
  add_prepared(m);
  add_groups(m);
  add_arrays(m);
  add_objects(m);
  add_meshes(m);
  add_moe(m);
  add_moe_raw(m);
  add_moe_pieces(m);
  add_windows(m);
  add_hooks(m);
}
