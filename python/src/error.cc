#include "error.h"

#include <cstring>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace distwrap_python {
namespace {

// distwrap.errors.make. It is kept for good: finalizers still call at the end
// of the interpreter, when nothing can be imported any more.
nb::handle make_exception() {
  static PyObject* const make =
      nb::module_::import_("distwrap.errors").attr("make").inc_ref().ptr();
  return make;
}

nb::object text(const char* value) {
  return nb::steal(PyUnicode_DecodeUTF8(
      value, static_cast<Py_ssize_t>(strlen(value)), "replace"));
}

nb::dict seen_of(const distwrap_seen_rank& seen) {
  static const char* const kDoing[] = {"nothing", "inside", "done", "left"};
  nb::dict fields;
  fields["rank"] = seen.rank;
  fields["global_rank"] = seen.global_rank;
  fields["pid"] = seen.pid;
  fields["host"] = text(seen.host);
  fields["call"] = text(seen.call);
  fields["group"] = text(seen.group);
  fields["label"] = text(seen.label);
  fields["seq"] = seen.seq;
  fields["since"] = static_cast<double>(seen.since) / 1e9;
  fields["silent"] = static_cast<double>(seen.silent) / 1e9;
  fields["doing"] = kDoing[seen.doing & 3];
  return fields;
}

nb::dict fields_of(distwrap_error error) {
  distwrap_error_info info = {};
  info.struct_size = sizeof info;
  nb::dict fields;
  if (distwrap_error_read(error, &info) != DW_OK) return fields;
  fields["code"] = info.code;
  fields["reason"] = info.reason;
  fields["my_rank"] = info.my_rank;
  fields["group_size"] = info.group_size;
  nb::list ranks, seen;
  for (uint32_t i = 0; i < info.ranks_count; ++i) ranks.append(info.ranks[i]);
  for (uint64_t i = 0; i < info.seen_count; ++i)
    seen.append(seen_of(info.seen[i]));
  fields["ranks"] = ranks;
  fields["seen"] = seen;
  fields["seq"] = info.seq;
  fields["elapsed"] = static_cast<double>(info.elapsed) / 1e9;
  fields["limit"] = static_cast<double>(info.limit) / 1e9;
  fields["text"] = text(info.text);
  fields["what"] = text(info.what);
  fields["op"] = text(info.op);
  fields["group"] = text(info.group);
  fields["expected"] = text(info.expected);
  fields["actual"] = text(info.actual);
  fields["cause"] = text(info.cause);
  fields["next_step"] = text(info.next_step);
  fields["label"] = text(info.label);
  fields["setting"] = text(info.setting);
  fields["page"] = text(info.page);
  return fields;
}

[[noreturn]] void raise_exception(const nb::object& exception) {
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

}  // namespace

void keep_errors() { make_exception(); }

nb::object exception_of(int32_t code, distwrap_error error) {
  nb::dict fields = error == nullptr ? nb::dict() : fields_of(error);
  // Not even an error had memory.
  if (fields.size() == 0) fields["code"] = code;
  return make_exception()(fields);
}

void raise(int32_t code, const Error& error) {
  raise_exception(exception_of(code, error.handle));
}

void raise_type(const char* call, const std::string& what,
                const std::string& next_step) {
  throw nb::type_error(
      (std::string(call) + ": " + what + ". Next: " + next_step).c_str());
}

nb::object value_error(const char* call, const std::string& what,
                       const std::string& next_step, int32_t reason) {
  nb::dict fields;
  fields["code"] = static_cast<int32_t>(DW_INVALID_ARGUMENT);
  fields["reason"] = reason;
  fields["op"] = call;
  fields["what"] = what;
  fields["next_step"] = next_step;
  fields["text"] = std::string(call) + ": " + what + ". Next: " + next_step;
  return make_exception()(fields);
}

void raise_value(const char* call, const std::string& what,
                 const std::string& next_step, int32_t reason) {
  raise_exception(value_error(call, what, next_step, reason));
}

std::string type_of(nb::handle object) {
  return nb::cast<std::string>(object.type().attr("__name__"));
}

}  // namespace distwrap_python
