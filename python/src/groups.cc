// Start and end, groups and questions about them.
#include "call.h"
#include "docs.h"
#include "handles.h"
#include "lists.h"

#include <map>
#include <mutex>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

using H = nb::handle;

constexpr distwrap_group kWorld = nullptr;

struct Session {
  distwrap_session handle = nullptr;
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (handle == nullptr) return;
    const Unlocked released;
    distwrap_session_free(handle);
  }
  void close(int64_t limit) const {
    // Ctrl-C ends the wait for operations in flight.
    distwrap_group world = nullptr;
    distwrap_session_world(handle, &world, nullptr);
    const ProcessGroup held(world);
    Free::sessions_have_closed();
    wait_in(world,
            [&](auto* e) { return distwrap_session_close(handle, limit, e); });
  }
  // Ends a session that nobody has got, and tells the other ranks.
  void give_up(bool is_bound) const {
    distwrap_group world = nullptr;
    Free::sessions_have_closed();
    const Unlocked released;
    distwrap_session_world(handle, &world, nullptr);
    distwrap_abort(world, nullptr);
    distwrap_group_free(world);
    if (is_bound)
      distwrap_destroy_process_group(nullptr, nullptr);
    else
      distwrap_session_close(handle, 1'000'000'000, nullptr);
  }
};

struct Store {
  distwrap_store handle = nullptr;
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store() { distwrap_store_free(handle); }
};

std::string text_or_empty(const char* call, const char* name, H text) {
  if (text.is_none()) return {};
  if (PyUnicode_Check(text.ptr()) == 0)
    raise_type(call, std::string(name) + " is of type " + type_of(text),
               "give a text");
  return nb::cast<std::string>(text);
}

int32_t number_of(const char* call, const char* name, H number) {
  int32_t value = 0;
  if (!nb::try_cast(number, value, true))
    raise_type(call, std::string(name) + " is of type " + type_of(number),
               "give a whole number");
  return value;
}

int64_t seconds_or_zero(const char* call, H timeout) {
  return nanoseconds_of(call, timeout);
}

nb::object group_object(distwrap_group handle) {
  return nb::cast(new ProcessGroup(handle), nb::rv_policy::take_ownership);
}

distwrap_group_info info_of(distwrap_group group) {
  distwrap_group_info info = {};
  info.struct_size = sizeof info;
  Error error;
  check(distwrap_group_read(group, &info, &error.handle), error);
  return info;
}

distwrap_group handle_of_member(const ProcessGroup& group) {
  if (group.handle == nullptr)
    raise_value("ProcessGroup", "this rank is not in the group",
                "ask on the group's members only", DW_REASON_RANK_NOT_MEMBER);
  return group.handle;
}

uint32_t guard_of(const char* call, H word) {
  static const char* const kWords[] = {"off", "warn", "block", "require"};
  for (uint32_t i = 0; i < 4; ++i)
    if (nb::cast<std::string>(nb::str(word)) == kWords[i]) return i + 1;
  raise_value(call, "there is no guard " + nb::cast<std::string>(nb::str(word)),
              "give off, warn, block or require");
}

// Appends a Session to `made`. options: the fields of InitOptions by name.
void start(bool binds, const nb::dict& options, nb::list made) {
  constexpr const char* kCall = "init_process_group";
  distwrap_init_options given = {};
  given.struct_size = sizeof given;
  const auto field = [&](const char* name) -> H {
    PyObject* const value = PyDict_GetItemString(options.ptr(), name);
    return value == nullptr ? H(Py_None) : H(value);
  };
  const std::string backend = text_or_empty(kCall, "backend", field("backend")),
                    method = text_or_empty(kCall, "init_method",
                                           field("init_method")),
                    name =
                        text_or_empty(kCall, "group_name", field("group_name"));
  const Pairs hints(kCall, field("hints"));
  if (!field("rank").is_none()) {
    given.has_rank = 1;
    given.rank = number_of(kCall, "rank", field("rank"));
  }
  if (!field("world_size").is_none())
    given.world_size = number_of(kCall, "world_size", field("world_size"));
  if (!backend.empty()) given.backend = backend.c_str();
  if (!method.empty()) given.init_method = method.c_str();
  if (!name.empty()) given.group_name = name.c_str();
  if (!field("store").is_none()) {
    Store* store = nullptr;
    if (!nb::try_cast(field("store"), store, false))
      raise_type(kCall, "store is of type " + type_of(field("store")),
                 "give a Store of this package, such as HashStore()");
    given.store = store->handle;
  }
  given.timeout = seconds_or_zero(kCall, field("timeout"));
  given.init_timeout = seconds_or_zero(kCall, field("init_timeout"));
  given.straggler = seconds_or_zero(kCall, field("straggler"));
  given.hints = hints.pairs.data();
  given.hints_count = hints.pairs.size();
  if (!field("device_id").is_none()) {
    given.has_device_id = 1;
    given.device_id = number_of(kCall, "device_id", field("device_id"));
  }
  if (!field("drop_in").is_none())
    given.drop_in =
        nb::cast<bool>(field("drop_in")) ? DW_DROP_IN_ON : DW_DROP_IN_OFF;
  if (!field("guard").is_none()) given.guard = guard_of(kCall, field("guard"));
  if (!field("check").is_none())
    given.check =
        nb::cast<bool>(field("check")) ? DW_CHECK_SIGNATURE : DW_CHECK_OFF;
  auto session = std::make_unique<Session>();
  {
    const MainStart marked;
    marked.give(&given);
    wait_in(kWorld, [&](auto* e) {
      return binds ? distwrap_init_process_group(&given, &session->handle, e)
                   : distwrap_session_create(&given, &session->handle, e);
    });
  }
  const bool is_main = MainWait::is_main_thread();
  if (binds && is_main) MainWait::bind(session->handle);
  made.append(nb::cast(session.release(), nb::rv_policy::take_ownership));
  // Ctrl-C in the last moment of the start.
  if (is_main && PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Objects of Python in registries. A registry lets go of its data in whichever
// thread ends the group, which may not have the GIL; a later call here then
// drops the object.
class RegistryObjects {
 public:
  // Holds an object until `let_go` has been called for it.
  static void* hold(H object) {
    PyObject* const held = object.inc_ref().ptr();
    const std::lock_guard lock(all().mutex);
    ++all().held[held];
    return held;
  }
  static void let_go(void* data) {
    const std::lock_guard lock(all().mutex);
    ++all().ended[static_cast<PyObject*>(data)];
  }
  // Whether the data are such an object, and no data of another language.
  static bool holds(void* data) {
    const std::lock_guard lock(all().mutex);
    return all().held.count(static_cast<PyObject*>(data)) != 0;
  }
  // With the GIL.
  static void drop_ended() {
    std::map<PyObject*, int> ended;
    {
      const std::lock_guard lock(all().mutex);
      ended.swap(all().ended);
      for (const auto& [object, times] : ended)
        if ((all().held[object] -= times) == 0) all().held.erase(object);
    }
    // A finalizer may call again.
    for (const auto& [object, times] : ended)
      for (int i = 0; i < times; ++i) Py_DECREF(object);
  }

 private:
  struct All {
    std::mutex mutex;
    std::map<PyObject*, int> held, ended;
  };
  static All& all() {
    static All* const kAll = new All;  // sessions may end after statics
    return *kAll;
  }
};

void destroy(H group) {
  const distwrap_group handle = group_of("destroy_process_group", group);
  Free::sessions_have_closed();
  wait_in(handle,
          [&](auto* e) { return distwrap_destroy_process_group(handle, e); });
  RegistryObjects::drop_ended();
}

struct GroupOptions {
  distwrap_group_options given = {};
  std::vector<int32_t> ranks;
  std::vector<uint64_t> sizes;
  std::string backend, description;
  Pairs hints;
  GroupOptions(const char* call, H timeout, H backends, H describes, H hinted)
      : backend(text_or_empty(call, "backend", backends)),
        description(text_or_empty(call, "group_desc", describes)),
        hints(call, hinted) {
    given.struct_size = sizeof given;
    given.timeout = nanoseconds_of(call, timeout);
    if (!backend.empty()) given.backend = backend.c_str();
    given.description = description.c_str();
    if (!hinted.is_none()) {
      static const distwrap_pair kNone[1] = {};
      given.hints = hints.pairs.empty() ? kNone : hints.pairs.data();
      given.hints_count = hints.pairs.size();
    }
  }
  void add(const char* call, H list) {
    size_t count = 0;
    const nb::object items = nb::steal(PySequence_Tuple(list.ptr()));
    if (!items.is_valid()) {
      PyErr_Clear();
      raise_type(call, "ranks are of type " + type_of(list),
                 "give a list of ranks");
    }
    for (H rank : nb::borrow<nb::tuple>(items)) {
      int32_t number = 0;
      if (!nb::try_cast(rank, number, true))
        raise_type(call, "a rank is of type " + type_of(rank),
                   "give whole numbers");
      ranks.push_back(number);
      ++count;
    }
    sizes.push_back(count);
    static const int32_t kNoRanks[1] = {0};
    given.ranks = ranks.empty() ? kNoRanks : ranks.data();
    given.ranks_count = ranks.size();
    given.list_sizes = sizes.data();
  }
};

nb::object new_group(H ranks, H timeout, H backend, H hints,
                     bool use_local_synchronization, H group_desc, H device_id,
                     bool sort_ranks) {
  constexpr const char* kCall = "new_group";
  GroupOptions options(kCall, timeout, backend, group_desc, hints);
  if (!ranks.is_none()) {
    options.add(kCall, ranks);
    options.given.list_sizes = nullptr;
  }
  options.given.use_local_synchronization = use_local_synchronization ? 1 : 0;
  options.given.keep_order = sort_ranks ? 0 : 1;
  if (!device_id.is_none()) {
    options.given.has_device_id = 1;
    options.given.device_id = number_of(kCall, "device_id", device_id);
  }
  distwrap_group made = nullptr;
  const auto make = [&](auto* e) {
    return distwrap_new_group(&options.given, &made, e);
  };
  // Members alone meet in the store, and no group of theirs could be aborted.
  if (use_local_synchronization)
    wait_in_store(make);
  else
    wait_in(kWorld, make);
  return group_object(made);
}

nb::object split_group(H parent, H split_ranks, H timeout, H hints,
                       H group_desc, H backend) {
  constexpr const char* kCall = "split_group";
  GroupOptions options(kCall, timeout, backend, group_desc, hints);
  options.given.parent = group_of(kCall, parent);
  if (split_ranks.is_none() || PySequence_Check(split_ranks.ptr()) == 0)
    raise_type(kCall, "split_ranks is of type " + type_of(split_ranks),
               "give a list of lists of ranks of the parent");
  const nb::object lists = nb::steal(PySequence_Tuple(split_ranks.ptr()));
  for (H list : nb::borrow<nb::tuple>(lists)) options.add(kCall, list);
  options.given.lists = options.sizes.size();
  distwrap_group made = nullptr;
  wait_in(options.given.parent, [&](auto* e) {
    return distwrap_split_group(&options.given, &made, e);
  });
  return group_object(made);
}

nb::object split_group_by_color(int64_t color, int64_t key, H parent, H timeout,
                                H hints, H group_desc, H backend) {
  constexpr const char* kCall = "split_group_by_color";
  GroupOptions options(kCall, timeout, backend, group_desc, hints);
  options.given.parent = group_of(kCall, parent);
  distwrap_group made = nullptr;
  wait_in(options.given.parent, [&](auto* e) {
    return distwrap_split_group_by_color(color, key, &options.given, &made, e);
  });
  return group_object(made);
}

bool is_not_member(H group) {
  ProcessGroup* found = nullptr;
  return !group.is_none() && nb::try_cast(group, found, false) &&
         found->handle == nullptr;
}

int32_t get_rank(H group) {
  return is_not_member(group) ? -1
                              : distwrap_get_rank(group_of("get_rank", group));
}

int32_t get_world_size(H group) {
  return is_not_member(group)
             ? -1
             : distwrap_get_world_size(group_of("get_world_size", group));
}

// Ranks by `f(ranks, capacity, count, error)`.
template <class F>
nb::list ranks_by(const F& f) {
  uint64_t count = 0;
  Error error;
  check(f(static_cast<int32_t*>(nullptr), uint64_t{0}, &count, &error.handle),
        error);
  std::vector<int32_t> ranks(count);
  check(f(ranks.data(), count, &count, &error.handle), error);
  nb::list all;
  for (const int32_t rank : ranks) all.append(rank);
  return all;
}

nb::list get_process_group_ranks(H group) {
  const distwrap_group handle = group_of("get_process_group_ranks", group);
  return ranks_by([&](auto* ranks, auto capacity, auto* count, auto* e) {
    return distwrap_get_process_group_ranks(handle, ranks, capacity, count, e);
  });
}

template <class F>
nb::list listed(const F& f) {
  List list;
  Error error;
  check(f(&list.handle, &error.handle), error);
  return list.texts();
}

// The only text of a list.
template <class F>
nb::object told(const F& f) {
  return listed(f)[0];
}

distwrap_device device_of(const char* call, H device) {
  if (device.is_none()) return {DW_DEVICE_CPU, 0};
  if (PyTuple_Check(device.ptr()) == 0 || nb::len(device) != 2)
    raise_type(call, "device is of type " + type_of(device),
               "give the type and the index of DLPack, as x.__dlpack_device__()"
               " does");
  const nb::tuple pair = nb::borrow<nb::tuple>(device);
  return {number_of(call, "device", pair[0]),
          number_of(call, "device", pair[1])};
}

}  // namespace

void add_groups(nb::module_& m) {
  nb::class_<ProcessGroup>(m, "ProcessGroup", nb::is_weak_referenceable(),
                           doc::ProcessGroup)
      .def(
          "rank",
          [](const ProcessGroup& g) {
            return g.handle == nullptr ? -1 : distwrap_get_rank(g.handle);
          },
          doc::ProcessGroup_rank)
      .def(
          "size",
          [](const ProcessGroup& g) {
            return g.handle == nullptr ? -1 : distwrap_get_world_size(g.handle);
          },
          doc::ProcessGroup_size)
      .def_prop_ro(
          "uid",
          [](const ProcessGroup& g) {
            return g.handle == nullptr ? 0 : info_of(g.handle).uid;
          },
          doc::ProcessGroup_uid)
      .def_prop_ro(
          "group_name",
          [](const ProcessGroup& g) {
            return g.handle == nullptr ? std::string()
                                       : std::string(info_of(g.handle).name);
          },
          doc::ProcessGroup_group_name)
      .def_prop_ro(
          "group_desc",
          [](const ProcessGroup& g) {
            return g.handle == nullptr
                       ? std::string()
                       : std::string(info_of(g.handle).description);
          },
          doc::ProcessGroup_group_desc)
      .def_prop_ro(
          "timeout",
          [](const ProcessGroup& g) {
            const int64_t limit = info_of(handle_of_member(g)).timeout;
            return limit == DW_FOREVER ? std::numeric_limits<double>::infinity()
                                       : static_cast<double>(limit) / 1e9;
          },
          doc::ProcessGroup_timeout)
      .def_prop_ro(
          "parent",
          [](const ProcessGroup& g) -> nb::object {
            distwrap_group parent = nullptr;
            Error error;
            check(distwrap_group_parent(handle_of_member(g), &parent,
                                        &error.handle),
                  error);
            return parent == nullptr ? nb::none() : group_object(parent);
          },
          doc::ProcessGroup_parent)
      .def(
          "backends",
          [](const ProcessGroup& g) {
            return listed([&](auto* list, auto* e) {
              return distwrap_group_backends(handle_of_member(g), list, e);
            });
          },
          doc::ProcessGroup_backends)
      .def(
          "name",
          [](const ProcessGroup& g) {
            return told([&](auto* list, auto* e) {
              return distwrap_get_backend(handle_of_member(g),
                                          {DW_DEVICE_CPU, 0}, list, e);
            });
          },
          doc::ProcessGroup_name)
      .def("__bool__",
           [](const ProcessGroup& g) { return g.handle != nullptr; })
      .def("__eq__",
           [](const ProcessGroup& g, H other) {
             ProcessGroup* found = nullptr;
             if (!nb::try_cast(other, found, false) || found == nullptr)
               return false;
             if (g.handle == nullptr || found->handle == nullptr)
               return g.handle == found->handle;
             return info_of(g.handle).uid == info_of(found->handle).uid;
           })
      .def("__hash__", [](const ProcessGroup& g) {
        return g.handle == nullptr ? 0 : info_of(g.handle).uid;
      });
  nb::class_<Session>(m, "Session", doc::Session)
      .def(
          "world",
          [](const Session& s) {
            distwrap_group world = nullptr;
            Error error;
            check(distwrap_session_world(s.handle, &world, &error.handle),
                  error);
            return group_object(world);
          },
          doc::Session_world)
      .def(
          "store",
          [](const Session& s) {
            auto store = std::make_unique<Store>();
            Error error;
            check(
                distwrap_session_store(s.handle, &store->handle, &error.handle),
                error);
            return nb::cast(store.release(), nb::rv_policy::take_ownership);
          },
          doc::Session_store)
      .def(
          "close",
          [](const Session& s, H timeout) {
            const int64_t limit = nanoseconds_of("close", timeout);
            // The names of torch.distributed are free again.
            const auto sync = [] {
              nb::module_::import_("distwrap.guard").attr("sync")();
            };
            try {
              s.close(limit == 0 ? 30'000'000'000 : limit);
            } catch (...) {
              sync();
              throw;
            }
            sync();
            RegistryObjects::drop_ended();
          },
          "timeout"_a = nb::none(), doc::Session_close)
      .def(
          "registry",
          [](const Session&) {
            return nb::module_::import_("distwrap.registry").attr("registry");
          },
          doc::Session_registry)
      .def("_is_open",
           [](const Session& s) {
             return distwrap_session_is_open(s.handle) != 0;
           })
      .def("_guard",
           [](const Session& s) {
             return distwrap_session_guard(s.handle) - DW_GUARD_OFF;
           })
      .def("_give_up", &Session::give_up, "is_bound"_a);
  nb::class_<Store>(m, "Store", doc::Store)
      .def_prop_ro(
          "address",
          [](const Store& s) {
            return told([&](auto* list, auto* e) {
              return distwrap_store_address(s.handle, list, e);
            });
          },
          doc::Store_address)
      .def(
          "set",
          [](const Store& s, const char* key, nb::bytes value, H timeout) {
            const distwrap_bytes bytes = {value.c_str(), value.size()};
            const int64_t limit = nanoseconds_of("set", timeout);
            wait_in_store([&](auto* e) {
              return distwrap_store_set(s.handle, key, &bytes,
                                        limit == 0 ? DW_FOREVER : limit, e);
            });
          },
          "key"_a, "value"_a, "timeout"_a = nb::none(), doc::Store_set)
      .def(
          "get",
          [](const Store& s, const char* key, H timeout) {
            const int64_t limit = nanoseconds_of("get", timeout);
            List list;
            wait_in_store([&](auto* e) {
              return distwrap_store_get(s.handle, &key, 1,
                                        limit == 0 ? DW_FOREVER : limit,
                                        &list.handle, e);
            });
            return list.bytes(0);
          },
          "key"_a, "timeout"_a = nb::none(), doc::Store_get)
      .def(
          "add",
          [](const Store& s, const char* key, int64_t delta) {
            int64_t sum = 0;
            wait_in_store([&](auto* e) {
              return distwrap_store_add(s.handle, key, delta, DW_FOREVER, &sum,
                                        e);
            });
            return sum;
          },
          "key"_a, "delta"_a, doc::Store_add)
      .def(
          "delete_key",
          [](const Store& s, const char* key) {
            int32_t existed = 0;
            wait_in_store([&](auto* e) {
              return distwrap_store_delete_key(s.handle, key, DW_FOREVER,
                                               &existed, e);
            });
            return existed != 0;
          },
          "key"_a, doc::Store_delete_key)
      .def(
          "compare_set",
          [](const Store& s, const char* key, nb::bytes expected,
             nb::bytes desired) {
            const distwrap_bytes was = {expected.c_str(), expected.size()};
            const distwrap_bytes now = {desired.c_str(), desired.size()};
            List list;
            wait_in_store([&](auto* e) {
              return distwrap_store_compare_set(s.handle, key, &was, &now,
                                                DW_FOREVER, &list.handle, e);
            });
            return list.bytes(0);
          },
          "key"_a, "expected"_a, "desired"_a, doc::Store_compare_set)
      .def(
          "wait",
          [](const Store& s, const std::vector<std::string>& keys, H timeout) {
            std::vector<const char*> names;
            for (const std::string& key : keys) names.push_back(key.c_str());
            const int64_t limit = nanoseconds_of("wait", timeout);
            wait_in_store([&](auto* e) {
              return distwrap_store_wait(s.handle, names.data(), names.size(),
                                         limit == 0 ? DW_FOREVER : limit, e);
            });
          },
          "keys"_a, "timeout"_a = nb::none(), doc::Store_wait);
  m.def(
      "HashStore",
      [] {
        auto store = std::make_unique<Store>();
        Error error;
        check(distwrap_store_in_memory(&store->handle, &error.handle), error);
        return nb::cast(store.release(), nb::rv_policy::take_ownership);
      },
      doc::HashStore);
  m.def(
      "connect_store",
      [](const char* address, H timeout) {
        auto store = std::make_unique<Store>();
        const int64_t limit = nanoseconds_of("connect_store", timeout);
        wait_in_store([&](auto* e) {
          return distwrap_store_connect(
              address, limit == 0 ? DW_FOREVER : limit, &store->handle, e);
        });
        return nb::cast(store.release(), nb::rv_policy::take_ownership);
      },
      "address"_a, "timeout"_a = nb::none(), doc::connect_store);
  m.def("_start", &start, "binds"_a, "options"_a, "made"_a);
  m.def("_destroy", &destroy, "group"_a.none());
  m.def("_guard_enter", [](const std::string& reason) {
    Error error;
    check(distwrap_guard_enter(reason.c_str(), &error.handle), error);
  });
  m.def("_guard_leave", [] {
    Error error;
    check(distwrap_guard_leave(&error.handle), error);
  });
  m.def("_guard_exempt", [](const std::string& prefix) {
    Error error;
    check(distwrap_guard_exempt(prefix.c_str(), &error.handle), error);
  });
  m.def("_guard_status", [] {
    List list;
    Error error;
    check(distwrap_guard_status(&list.handle, &error.handle), error);
    return list.texts();
  });
  m.def("_world", [] {
    distwrap_group world = nullptr;
    Error error;
    check(distwrap_world(&world, &error.handle), error);
    return group_object(world);
  });
  m.def("_no_member", [] { return group_object(nullptr); });
  m.def("_new_group", &new_group, "ranks"_a.none(), "timeout"_a.none(),
        "backend"_a.none(), "hints"_a.none(), "use_local_synchronization"_a,
        "group_desc"_a.none(), "device_id"_a.none(), "sort_ranks"_a);
  m.def("_split_group", &split_group, "parent"_a.none(), "split_ranks"_a.none(),
        "timeout"_a.none(), "hints"_a.none(), "group_desc"_a.none(),
        "backend"_a.none());
  m.def("_split_group_by_color", &split_group_by_color, "color"_a, "key"_a,
        "parent"_a.none(), "timeout"_a.none(), "hints"_a.none(),
        "group_desc"_a.none(), "backend"_a.none());
  m.def(
      "bind_session",
      [](H session) {
        Session* found = nullptr;
        if (!session.is_none() && !nb::try_cast(session, found, false))
          raise_type("bind_session", "session is of type " + type_of(session),
                     "give a Session, or None");
        Error error;
        const distwrap_session handle =
            found == nullptr ? nullptr : found->handle;
        check(distwrap_bind_session(handle, &error.handle), error);
        if (MainWait::is_main_thread()) MainWait::bind(handle);
      },
      "session"_a.none(), doc::bind_session);
  m.def(
      "is_initialized", [] { return distwrap_is_initialized() != 0; },
      doc::is_initialized);
  m.def(
      "is_available", [] { return distwrap_is_available() != 0; },
      doc::is_available);
  m.def("get_rank", &get_rank, "group"_a = nb::none(), doc::get_rank);
  m.def("get_world_size", &get_world_size, "group"_a = nb::none(),
        doc::get_world_size);
  m.def("get_process_group_ranks", &get_process_group_ranks,
        "group"_a = nb::none(), doc::get_process_group_ranks);
  m.def(
      "get_group_rank",
      [](H group, int32_t global_rank) {
        int32_t rank = -1;
        Error error;
        check(distwrap_get_group_rank(group_of("get_group_rank", group),
                                      global_rank, &rank, &error.handle),
              error);
        return rank;
      },
      "group"_a.none(), "global_rank"_a, doc::get_group_rank);
  m.def(
      "get_global_rank",
      [](H group, int32_t group_rank) {
        int32_t rank = -1;
        Error error;
        check(distwrap_get_global_rank(group_of("get_global_rank", group),
                                       group_rank, &rank, &error.handle),
              error);
        return rank;
      },
      "group"_a.none(), "group_rank"_a, doc::get_global_rank);
  m.def(
      "get_backend",
      [](H group, H device) {
        const distwrap_group handle = group_of("get_backend", group);
        return told([&](auto* list, auto* e) {
          return distwrap_get_backend(handle, device_of("get_backend", device),
                                      list, e);
        });
      },
      "group"_a = nb::none(), "device"_a = nb::none(), doc::get_backend);
  m.def(
      "abort",
      [](H group) {
        const distwrap_group handle = group_of("abort", group);
        wait_in(handle, [&](auto* e) { return distwrap_abort(handle, e); });
      },
      "group"_a = nb::none(), doc::abort);
  m.def(
      "set_timeout",
      [](H group, H timeout) {
        const int64_t limit = nanoseconds_of("set_timeout", timeout);
        Error error;
        check(distwrap_set_timeout(group_of("set_timeout", group), limit,
                                   &error.handle),
              error);
      },
      "group"_a.none(), "timeout"_a, doc::set_timeout);
  m.def(
      "_capabilities",
      [](H group, H device) {
        const distwrap_group handle = group_of("capabilities", group);
        return listed([&](auto* list, auto* e) {
          return distwrap_capabilities(
              handle, device_of("capabilities", device), list, e);
        });
      },
      "group"_a = nb::none(), "device"_a = nb::none());
  m.def(
      "save_recording",
      [] {
        return told([&](auto* list, auto* e) {
          return distwrap_save_recording(nullptr, list, e);
        });
      },
      doc::save_recording);
  m.def(
      "_register_group",
      [](H group, const std::vector<int32_t>& ranks,
         const std::string& description) {
        Error error;
        check(distwrap_register_group(group_of("register_group", group),
                                      ranks.data(), ranks.size(),
                                      description.c_str(), &error.handle),
              error);
      },
      "group"_a.none(), "ranks"_a, "description"_a);
  m.def(
      "_unregister_group",
      [](H group) {
        Error error;
        check(distwrap_unregister_group(group_of("unregister_group", group),
                                        &error.handle),
              error);
        RegistryObjects::drop_ended();
      },
      "group"_a.none());
  m.def(
      "_registered_ranks",
      [](H group) {
        const distwrap_group handle = group_of("registered_ranks", group);
        return ranks_by([&](auto* ranks, auto capacity, auto* count, auto* e) {
          return distwrap_registered_ranks(handle, ranks, capacity, count, e);
        });
      },
      "group"_a.none());
  m.def(
      "_registered_description",
      [](H group) {
        const distwrap_group handle = group_of("registered_description", group);
        return told([&](auto* list, auto* e) {
          return distwrap_registered_description(handle, list, e);
        });
      },
      "group"_a.none());
  m.def(
      "_set_group_data",
      [](H group, const std::string& key, H value) {
        const distwrap_group handle = group_of("set_data", group);
        Error error;
        const int32_t code = distwrap_group_set_owned_data(
            handle, key.c_str(), RegistryObjects::hold(value),
            RegistryObjects::let_go, &error.handle);
        RegistryObjects::drop_ended();
        check(code, error);
      },
      "group"_a.none(), "key"_a, "value"_a.none());
  m.def(
      "_get_group_data",
      [](H group, const std::string& key) {
        void* data = nullptr;
        Error error;
        check(distwrap_group_get_data(group_of("get_data", group), key.c_str(),
                                      &data, &error.handle),
              error);
        if (!RegistryObjects::holds(data))
          raise_value("get_data", "the value was not set by Python",
                      "read it where it was set");
        return nb::borrow(static_cast<PyObject*>(data));
      },
      "group"_a.none(), "key"_a);
  m.def(
      "parse_backend",
      [](const std::string& text) {
        nb::dict backends;
        for (nb::handle pair : listed([&](auto*list, auto*e) {
               return distwrap_parse_backend(text.c_str(), list, e);
             })) {
          const nb::tuple parts =
              nb::borrow<nb::tuple>(pair.attr("partition")(":"));
          backends[parts[0]] = parts[2];
        }
        return backends;
      },
      "backend"_a, doc::parse_backend);
  m.def(
      "format_backend",
      [](const nb::dict& backends) {
        const Pairs pairs("format_backend", backends);
        return told([&](auto* list, auto* e) {
          return distwrap_format_backend(pairs.pairs.data(), pairs.pairs.size(),
                                         list, e);
        });
      },
      "backends"_a, doc::format_backend);
  m.def("_registered_groups", [] {
    uint64_t count = 0;
    Error error;
    check(distwrap_registered_groups(&count, &error.handle), error);
    return count;
  });
}

}  // namespace distwrap_python
