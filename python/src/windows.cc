// Windows: memory of a group's ranks that the others read and write.
#include "arrays.h"
#include "call.h"
#include "docs.h"

#include <cstring>
#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

using H = nb::handle;

int32_t compare_of(const std::string& name) {
  static const char* const kNames[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (int32_t i = 0; i < 6; ++i)
    if (name == kNames[i]) return DW_COMPARE_EQ + i;
  raise_value("wait_signal", "there is no comparison " + name,
              "give eq, ne, lt, le, gt or ge");
}

int32_t how_of(const std::string& name) {
  if (name == "set") return DW_SIGNAL_SET;
  if (name == "add") return DW_SIGNAL_ADD;
  raise_value("signal", "there is no way to signal called " + name,
              "give set or add");
}

struct Attributes {
  int64_t count = 0;
  int32_t dtype = 0;
  int64_t bytes = 0;
  bool is_unified = false;
};

class Window {
 public:
  Window(H memory, int64_t count, H dtype, H group, int64_t signals, H timeout,
         H backend, H label)
      : group_(nb::borrow(group)) {
    constexpr const char* kCall = "new_window";
    distwrap_window_options options = {};
    options.struct_size = sizeof options;
    const std::string engine =
        backend.is_none() ? std::string() : nb::cast<std::string>(backend);
    const std::string named =
        label.is_none() ? std::string() : nb::cast<std::string>(label);
    options.group = group_of(kCall, group);
    options.timeout = nanoseconds_of(kCall, timeout);
    options.signals = signals == 0 ? -1 : signals;
    options.count = count;
    options.dtype = dtype_of(kCall, dtype);
    if (!engine.empty()) options.backend = engine.c_str();
    if (!named.empty()) options.label = named.c_str();
    if (!memory.is_none()) {
      brought_ = nb::borrow(memory);
      own_ = std::make_unique<Tensor>();
      own_->read(memory, kCall, "memory", Use::kWritten, Elements::kReduced);
      options.memory = own_->get();
    }
    wait_in(options.group, [&](auto* e) {
      return distwrap_new_window(&options, &handle_, e);
    });
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() {
    // The window lives on with its group, and so does the memory brought.
    if (!is_destroyed_ && own_ != nullptr) static_cast<void>(own_.release());
    Free([this] { distwrap_window_free(handle_); });
  }

  void destroy(H timeout) {
    const int64_t limit = nanoseconds_of("window_destroy", timeout);
    wait_in(group(), [&](auto* e) {
      return distwrap_window_destroy(handle_, limit, e);
    });
    is_destroyed_ = true;
    own_.reset();
  }

  nb::object memory() {
    if (brought_.is_valid()) return brought_;
    return pages({0, 0});
  }
  nb::object map_remote(H target, H group_target) {
    return pages(peer(target, group_target));
  }
  Attributes get_attr(H target, H group_target) const {
    return attributes(peer(target, group_target));
  }
  // This rank among those of the window's group, and their number.
  int32_t rank() const { return distwrap_get_rank(group()); }
  int32_t size() const { return distwrap_get_world_size(group()); }
  nb::object group_object() const {
    if (!group_.is_none()) return group_;
    return nb::module_::import_("distwrap").attr("group").attr("WORLD");
  }

  nb::object put(H tensor, H target, int64_t offset, bool async_op,
                 H group_target, H timeout, H label) {
    WindowCall call(*this, "put", async_op, timeout, label);
    const auto* const t = call.tensor(tensor, "tensor", Use::kRead);
    const distwrap_peer to = peer(target, group_target);
    return call.run([&](auto* o, auto* w, auto* e) {
      return distwrap_window_put(handle_, t, to, offset, o, w, e);
    });
  }
  nb::object get(H tensor, H target, int64_t offset, bool async_op,
                 H group_target, H timeout, H label) {
    WindowCall call(*this, "get", async_op, timeout, label);
    const auto* const t = call.tensor(tensor, "tensor", Use::kWritten);
    const distwrap_peer from = peer(target, group_target);
    return call.run([&](auto* o, auto* w, auto* e) {
      return distwrap_window_get(handle_, t, from, offset, o, w, e);
    });
  }
  nb::object put_signal(H tensor, H target, int64_t offset, H index,
                        uint64_t value, const std::string& how, bool async_op,
                        H group_target, H timeout, H label) {
    WindowCall call(*this, "put_signal", async_op, timeout, label);
    const auto* const t = call.tensor(tensor, "tensor", Use::kRead);
    const distwrap_peer to = peer(target, group_target);
    if (index.is_none())
      return call.run([&](auto* o, auto* w, auto* e) {
        return distwrap_window_put_signal_pair(handle_, t, to, offset, o, w, e);
      });
    const int64_t slot = integer_of("put_signal", "index", index);
    const int32_t way = how_of(how);
    return call.run([&](auto* o, auto* w, auto* e) {
      return distwrap_window_put_signal(handle_, t, to, offset, slot, value,
                                        way, o, w, e);
    });
  }
  nb::object signal(H target, H index, uint64_t value, const std::string& how,
                    bool async_op, H group_target, H timeout, H label) {
    WindowCall call(*this, "signal", async_op, timeout, label);
    const distwrap_peer to = peer(target, group_target);
    if (index.is_none())
      return call.run([&](auto* o, auto* w, auto* e) {
        return distwrap_window_signal_pair(handle_, to, o, w, e);
      });
    const int64_t slot = integer_of("signal", "index", index);
    const int32_t way = how_of(how);
    return call.run([&](auto* o, auto* w, auto* e) {
      return distwrap_window_signal(handle_, to, slot, value, way, o, w, e);
    });
  }
  nb::object wait_signal(H index, uint64_t value, const std::string& compare,
                         bool async_op, H source, H group_source, H timeout,
                         H label) {
    WindowCall call(*this, "wait_signal", async_op, timeout, label);
    if (index.is_none()) {
      const distwrap_peer from = peer(source, group_source);
      return call.run([&](auto* o, auto* w, auto* e) {
        return distwrap_window_wait_pair(handle_, from, o, w, e);
      });
    }
    const int64_t slot = integer_of("wait_signal", "index", index);
    const int32_t by = compare_of(compare);
    return call.run([&](auto* o, auto* w, auto* e) {
      return distwrap_window_wait_signal(handle_, slot, by, value, o, w, e);
    });
  }
  nb::object accumulate(H tensor, H target, int64_t offset, H op, bool async_op,
                        H group_target, H timeout, H label) {
    WindowCall call(*this, "accumulate", async_op, timeout, label);
    const Reduction& by = call.reduction(op);
    const auto* const t =
        call.tensor(tensor, "tensor", Use::kRead, Elements::kReduced);
    const distwrap_peer to = peer(target, group_target);
    return call.run([&](auto* o, auto* w, auto* e) {
      return distwrap_window_accumulate(handle_, t, to, offset, by.kind, o, w,
                                        e);
    });
  }
  nb::object fetch_op(H old, H tensor, H target, int64_t offset, H op,
                      bool async_op, H group_target, H timeout, H label) {
    WindowCall call(*this, "fetch_op", async_op, timeout, label);
    const Reduction& by = call.reduction(op);
    const auto* const out =
        call.tensor(old, "old", Use::kWritten, Elements::kReduced);
    const auto* const in =
        call.tensor(tensor, "tensor", Use::kRead, Elements::kReduced);
    const distwrap_peer to = peer(target, group_target);
    return call.run([&](auto* o, auto* w, auto* e) {
      return distwrap_window_fetch_op(handle_, out, in, to, offset, by.kind, o,
                                      w, e);
    });
  }
  // The element's value from before; waits.
  nb::object fetch_add(H value, H target, int64_t offset, H group_target,
                       H timeout, H label) {
    WindowCall call(*this, "fetch_add", false, timeout, label);
    const distwrap_peer to = peer(target, group_target);
    Element in, old;
    in.dtype = old.dtype = attributes(to).dtype;
    in.set(value);
    int64_t one = 1;
    const auto tensor = [&one](Element& element) {
      return distwrap_tensor{element.bytes,
                             {DW_DEVICE_CPU, 0},
                             1,
                             distwrap_dtype(element.dtype),
                             &one,
                             nullptr,
                             0};
    };
    const distwrap_tensor added = tensor(in), before = tensor(old);
    call.run([&](auto* o, auto* w, auto* e) {
      return distwrap_window_fetch_op(handle_, &before, &added, to, offset,
                                      DW_REDUCE_SUM, o, w, e);
    });
    return old.get();
  }
  nb::object compare_swap(H old, H expected_desired, H target, int64_t offset,
                          bool async_op, H group_target, H timeout, H label) {
    WindowCall call(*this, "compare_swap", async_op, timeout, label);
    const auto* const out =
        call.tensor(old, "old", Use::kWritten, Elements::kReduced);
    const auto* const in = call.tensor(expected_desired, "expected_desired",
                                       Use::kRead, Elements::kReduced);
    const distwrap_peer to = peer(target, group_target);
    return call.run([&](auto* o, auto* w, auto* e) {
      return distwrap_window_compare_swap(handle_, out, in, to, offset, o, w,
                                          e);
    });
  }
  nb::object flush(H target, bool async_op, H group_target, H timeout,
                   H label) {
    WindowCall call(*this, "flush", async_op, timeout, label);
    const distwrap_peer to = peer(target, group_target);
    return call.run([&](auto* o, auto* w, auto* e) {
      return distwrap_window_flush(handle_, to, o, w, e);
    });
  }
  nb::object fence(bool async_op, H timeout, H label) {
    WindowCall call(*this, "fence", async_op, timeout, label);
    return call.run([&](auto* o, auto* w, auto* e) {
      return distwrap_window_fence(handle_, o, w, e);
    });
  }

 private:
  // A call on the window: its options name no group, which the window has.
  struct WindowCall : OperationCall {
    WindowCall(const Window& on, const char* name, bool async_op, H timeout,
               H label)
        : OperationCall(name, nb::none(), async_op, timeout, label),
          window(on) {
      if (recording != nullptr)
        raise_value(name, "calls on windows cannot be in a batch",
                    "make the call outside of the batch");
    }
    template <class F>
    nb::object run(const F& f) {
      return run_on(window.group(), window.group_, f);
    }
    const Window& window;
  };

  // One element of a type that windows change atomically.
  struct Element {
    int32_t dtype = 0;
    alignas(8) unsigned char bytes[8] = {};
    void set(H value) {
      with_type([&]<class T>(T) { put<T>(nb::cast<T>(value)); });
    }
    nb::object get() {
      nb::object got;
      with_type([&]<class T>(T) {
        T value;
        memcpy(&value, bytes, sizeof value);
        got = nb::cast(value);
      });
      return got;
    }

   private:
    template <class T>
    void put(T value) {
      memcpy(bytes, &value, sizeof value);
    }
    template <class F>
    void with_type(const F& f) const {
      switch (dtype) {
        case DW_DTYPE_I32:
          return f(int32_t{});
        case DW_DTYPE_U32:
          return f(uint32_t{});
        case DW_DTYPE_I64:
          return f(int64_t{});
        case DW_DTYPE_U64:
          return f(uint64_t{});
        case DW_DTYPE_F32:
          return f(float{});
        case DW_DTYPE_F64:
          return f(double{});
        default:
          raise_value("fetch_add",
                      "the window's elements are no numbers of 32 or 64 bits",
                      "make the window of another dtype, or give arrays to "
                      "fetch_op");
      }
    }
  };

  Attributes attributes(distwrap_peer target) const {
    distwrap_window_attr attr = {};
    attr.struct_size = sizeof attr;
    Error error;
    check(distwrap_window_get_attr(handle_, target, &attr, &error.handle),
          error);
    return {attr.count, attr.dtype, attr.bytes,
            attr.access == DW_WINDOW_UNIFIED};
  }
  distwrap_group group() const { return group_of("window", group_); }
  static distwrap_peer peer(H target, H group_target) {
    return peer_of("window", "target", target, group_target);
  }
  nb::object pages(distwrap_peer target) {
    distwrap_pages pages = nullptr;
    distwrap_output memory = {};
    Error error;
    check(
        distwrap_window_pages(handle_, target, &pages, &memory, &error.handle),
        error);
    return array_of("window.memory", memory.data, distwrap_dtype(memory.dtype),
                    &memory.count, 1, [pages] { distwrap_pages_free(pages); });
  }

  distwrap_window handle_ = nullptr;
  const nb::object group_;
  nb::object brought_;
  std::unique_ptr<Tensor> own_;  // the memory that this rank brought
  bool is_destroyed_ = false;
};

}  // namespace

void add_windows(nb::module_& m) {
  const auto none = [](const char* name) { return nb::arg(name).none(); };
  const auto unset = [](const char* name) {
    return nb::arg(name) = nb::none();
  };
  nb::class_<Attributes>(m, "WindowAttr", doc::WindowAttr)
      .def_ro("count", &Attributes::count, doc::WindowAttr_count)
      .def_ro("bytes", &Attributes::bytes, doc::WindowAttr_bytes)
      .def_ro("is_unified", &Attributes::is_unified,
              doc::WindowAttr_is_unified);
  nb::class_<Window>(m, "Window", nb::is_weak_referenceable(), doc::Window)
      .def(nb::init<H, int64_t, H, H, int64_t, H, H, H>(), unset("memory"),
           "count"_a = 0, "dtype"_a = "float32", unset("group"),
           "signals"_a = 64, nb::kw_only(), unset("timeout"), unset("backend"),
           unset("label"))
      .def("rank", &Window::rank, doc::Window_rank)
      .def("size", &Window::size, doc::Window_size)
      .def_prop_ro("group", &Window::group_object, doc::Window_group)
      .def("destroy", &Window::destroy, unset("timeout"), doc::Window_destroy)
      .def("memory", &Window::memory, doc::Window_memory)
      .def("map_remote", &Window::map_remote, unset("target"),
           unset("group_target"), doc::Window_map_remote)
      .def("get_attr", &Window::get_attr, unset("target"),
           unset("group_target"), doc::Window_get_attr)
      .def("put", &Window::put, none("tensor"), unset("target"), "offset"_a = 0,
           "async_op"_a = false, unset("group_target"), nb::kw_only(),
           unset("timeout"), unset("label"), doc::Window_put)
      .def("get", &Window::get, none("tensor"), unset("target"), "offset"_a = 0,
           "async_op"_a = false, unset("group_target"), nb::kw_only(),
           unset("timeout"), unset("label"), doc::Window_get)
      .def("put_signal", &Window::put_signal, none("tensor"), unset("target"),
           "offset"_a = 0, nb::arg("index").none() = 0, "value"_a = 1,
           "how"_a = "add", "async_op"_a = false, unset("group_target"),
           nb::kw_only(), unset("timeout"), unset("label"),
           doc::Window_put_signal)
      .def("signal", &Window::signal, unset("target"), unset("index"),
           "value"_a = 1, "how"_a = "add", "async_op"_a = false,
           unset("group_target"), nb::kw_only(), unset("timeout"),
           unset("label"), doc::Window_signal)
      .def("wait_signal", &Window::wait_signal, unset("index"), "value"_a = 1,
           "compare"_a = "ge", "async_op"_a = false, unset("source"),
           unset("group_source"), nb::kw_only(), unset("timeout"),
           unset("label"), doc::Window_wait_signal)
      .def("accumulate", &Window::accumulate, none("tensor"), unset("target"),
           "offset"_a = 0, unset("op"), "async_op"_a = false,
           unset("group_target"), nb::kw_only(), unset("timeout"),
           unset("label"), doc::Window_accumulate)
      .def("fetch_op", &Window::fetch_op, none("old"), none("tensor"),
           unset("target"), "offset"_a = 0, unset("op"), "async_op"_a = false,
           unset("group_target"), nb::kw_only(), unset("timeout"),
           unset("label"), doc::Window_fetch_op)
      .def("fetch_add", &Window::fetch_add, "value"_a, unset("target"),
           "offset"_a = 0, unset("group_target"), nb::kw_only(),
           unset("timeout"), unset("label"), doc::Window_fetch_add)
      .def("compare_swap", &Window::compare_swap, none("old"),
           none("expected_desired"), unset("target"), "offset"_a = 0,
           "async_op"_a = false, unset("group_target"), nb::kw_only(),
           unset("timeout"), unset("label"), doc::Window_compare_swap)
      .def("flush", &Window::flush, unset("target"), "async_op"_a = false,
           unset("group_target"), nb::kw_only(), unset("timeout"),
           unset("label"), doc::Window_flush)
      .def("fence", &Window::fence, "async_op"_a = false, nb::kw_only(),
           unset("timeout"), unset("label"), doc::Window_fence);
  m.def(
      "new_window",
      [](H memory, int64_t count, H dtype, H group, int64_t signals, H timeout,
         H backend, H label) {
        return nb::cast(new Window(memory, count, dtype, group, signals,
                                   timeout, backend, label),
                        nb::rv_policy::take_ownership);
      },
      unset("memory"), "count"_a = 0, "dtype"_a = "float32", unset("group"),
      "signals"_a = 64, nb::kw_only(), unset("timeout"), unset("backend"),
      unset("label"), doc::new_window);
}

}  // namespace distwrap_python
