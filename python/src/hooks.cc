// Hooks: callables that see the calls of a group.
#include "call.h"
#include "docs.h"

#include <memory>
#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

using H = nb::handle;

nb::object text(const char* value) {
  return nb::str(value == nullptr ? "" : value);
}

nb::object namespace_of(const nb::dict& fields) {
  return nb::module_::import_("types").attr("SimpleNamespace")(**fields);
}

nb::object call_of(const distwrap_hooked_call& call) {
  nb::dict fields;
  fields["id"] = call.id;
  fields["op"] = text(call.op);
  fields["group"] = text(call.group);
  fields["group_uid"] = call.group_uid;
  fields["rank"] = call.rank;
  fields["group_size"] = call.group_size;
  fields["tag"] = call.tag;
  fields["peer"] = call.peer;
  fields["reduction"] = call.reduction;
  fields["timeout"] = static_cast<double>(call.timeout) / 1e9;
  fields["label"] = text(call.label);
  fields["seq"] = call.seq;
  fields["batch"] = call.batch;
  fields["items"] = call.items;
  fields["objects"] = call.objects;
  fields["is_async"] = call.is_async != 0;
  fields["in_place"] = call.in_place != 0;
  fields["window"] = call.window;
  fields["offset"] = call.offset;
  fields["signal"] = call.signal;
  fields["value"] = call.value;
  const auto counts = [](const distwrap_output* buffers, uint64_t count) {
    nb::list all;
    for (uint64_t i = 0; i < count; ++i) all.append(buffers[i].count);
    return all;
  };
  fields["input_counts"] = counts(call.inputs, call.inputs_count);
  fields["output_counts"] = counts(call.outputs, call.outputs_count);
  return namespace_of(fields);
}

// The callables of one hook. A callback that runs keeps them, because it may
// remove its own hook.
struct Callables {
  nb::object pre, post, abort, completion, straggler;
};

using Kept = std::shared_ptr<Callables>;

// A SystemExit or KeyboardInterrupt of a `pre` in this thread, until the call
// that it has refused raises it.
thread_local std::unique_ptr<nb::python_error> leaving;

bool is_leaving(const nb::python_error& error) {
  return !error.matches(PyExc_Exception);
}

// Calls `callable`, if there is one; what it throws is reported and dropped,
// unless the caller takes it.
void report() { PyErr_WriteUnraisable(nullptr); }

int32_t run_pre(void* user, const distwrap_hooked_call* call,
                const char** why) {
  static thread_local std::string refusal;
  const Locked locked;
  if (!locked) return DW_OK;
  const Kept kept = *static_cast<Kept*>(user);
  try {
    kept->pre(call_of(*call));
    return DW_OK;
  } catch (nb::python_error& error) {
    refusal = nb::cast<std::string>(nb::str(error.value()));
    if (refusal.empty()) refusal = type_of(error.value());
    if (is_leaving(error))
      leaving = std::make_unique<nb::python_error>(std::move(error));
    *why = refusal.c_str();
    return DW_FAILED_PRECONDITION;
  } catch (const std::exception& error) {
    refusal = error.what();
    *why = refusal.c_str();
    return DW_INTERNAL;
  }
}

void run_after(const nb::object& callable, const distwrap_hooked_call* call,
               int32_t code, distwrap_error error) {
  try {
    callable(call_of(*call),
             code == DW_OK ? nb::none() : exception_of(code, error));
  } catch (nb::python_error& thrown) {
    // Nothing can be raised here, so Ctrl-C is given to the main thread again.
    if (thrown.matches(PyExc_KeyboardInterrupt)) return PyErr_SetInterrupt();
    thrown.restore();
    report();
  }
}

template <nb::object Callables::*kWhich>
void run_post(void* user, const distwrap_hooked_call* call, int32_t code,
              distwrap_error error) {
  const Locked locked;
  if (!locked) return;
  const Kept kept = *static_cast<Kept*>(user);
  run_after((*kept).*kWhich, call, code, error);
}

void run_straggler(void* user, const distwrap_straggling* seen) {
  const Locked locked;
  if (!locked) return;
  const Kept kept = *static_cast<Kept*>(user);
  try {
    nb::dict fields;
    fields["logged"] = seen->logged != 0;
    fields["group"] = text(seen->group);
    fields["rank"] = seen->rank;
    fields["op"] = text(seen->op);
    fields["seq"] = seen->seq;
    fields["label"] = text(seen->label);
    fields["waited"] = static_cast<double>(seen->waited) / 1e9;
    fields["text"] = text(seen->text);
    nb::list missing;
    for (uint64_t i = 0; i < seen->missing_count; ++i)
      missing.append(seen->missing[i].rank);
    fields["missing"] = missing;
    kept->straggler(namespace_of(fields));
  } catch (nb::python_error& thrown) {
    thrown.restore();
    report();
  }
}

class Hook {
 public:
  Hook(H group, H pre, H post, H abort, H completion, H straggler) {
    auto kept = std::make_unique<Kept>(std::make_shared<Callables>());
    Callables& c = **kept;
    const auto given = [](const char* name, H callable, nb::object& to) {
      if (callable.is_none()) return false;
      if (PyCallable_Check(callable.ptr()) == 0)
        raise_type("add_hook",
                   std::string(name) + " is of type " + type_of(callable),
                   "give a function, or None");
      to = nb::borrow(callable);
      return true;
    };
    distwrap_hooks hooks = {};
    hooks.struct_size = sizeof hooks;
    hooks.user = kept.get();
    if (given("pre", pre, c.pre)) hooks.pre = run_pre;
    if (given("post", post, c.post)) hooks.post = run_post<&Callables::post>;
    if (given("abort", abort, c.abort))
      hooks.abort = run_post<&Callables::abort>;
    if (given("completion", completion, c.completion))
      hooks.completion = run_post<&Callables::completion>;
    if (given("straggler", straggler, c.straggler))
      hooks.straggler = run_straggler;
    const distwrap_group of = group_of("add_hook", group);
    Error error;
    int32_t code;
    {
      const Unlocked released;
      code = distwrap_add_hook(of, &hooks, &handle_, &error.handle);
    }
    if (code != DW_OK) raise(code, error);
    callables_ = kept.release();
  }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  ~Hook() { remove(); }

  // Returns when it runs in no other thread, so the lock must be free.
  void remove() {
    const distwrap_hook handle = std::exchange(handle_, nullptr);
    Kept* const callables = std::exchange(callables_, nullptr);
    if (handle != nullptr) {
      const Unlocked released;
      distwrap_hook_free(handle);
    }
    delete callables;
  }

 private:
  distwrap_hook handle_ = nullptr;
  Kept* callables_ = nullptr;
};

}  // namespace

void raise_of_hook() {
  if (leaving == nullptr) return;
  const nb::python_error error(std::move(*leaving));
  leaving.reset();
  throw error;
}

void add_hooks(nb::module_& m) {
  const auto unset = [](const char* name) {
    return nb::arg(name) = nb::none();
  };
  nb::class_<Hook>(m, "Hook", nb::is_weak_referenceable(), doc::Hook)
      .def("remove", &Hook::remove, doc::Hook_remove)
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](Hook& hook, nb::args) { hook.remove(); });
  m.def(
      "add_hook",
      [](H group, H pre, H post, H abort, H completion, H straggler) {
        return nb::cast(
            new Hook(group, pre, post, abort, completion, straggler),
            nb::rv_policy::take_ownership);
      },
      unset("group"), nb::kw_only(), unset("pre"), unset("post"),
      unset("abort"), unset("completion"), unset("straggler"), doc::add_hook);
}

}  // namespace distwrap_python
