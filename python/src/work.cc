// Works and batches.
#include "call.h"
#include "docs.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

int64_t forever_unless(const char* call, nb::handle timeout) {
  const int64_t given = nanoseconds_of(call, timeout);
  return given == 0 ? DW_FOREVER : given;
}

}  // namespace

// A started operation. What it uses is held until it has ended, also when the
// object has gone before.
class Work {
 public:
  Work(distwrap_work work, std::unique_ptr<Held> held, nb::handle group,
       const char* name)
      : work_(work),
        held_(std::move(held)),
        group_(nb::borrow(group)),
        outputs_(held_ != nullptr ? held_->outputs : nb::object()),
        has_list_(held_ != nullptr && held_->has_list),
        name_(name) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() {
    if (held_ != nullptr && !has_ended()) hold_until_ended(held_.release());
    Free([this] { distwrap_work_free(work_); });
  }

  bool wait(nb::handle timeout) {
    // The host waits only when it gives a time limit.
    if (timeout.is_none() && held_ != nullptr && held_->on_device != nullptr) {
      let_stream_wait();
      return true;
    }
    const int64_t limit = forever_unless("wait", timeout);
    const auto wait = [&](distwrap_error* error) {
      return distwrap_work_wait(work_, limit, error);
    };
    try {
      if (has_ended()) {  // nothing to wait for
        Error error;
        const int32_t code = wait(&error.handle);
        check(code, error);
      } else {
        wait_in(groups(), wait);
      }
    } catch (...) {
      if (has_ended()) held_.reset();
      throw;
    }
    held_.reset();
    return true;
  }
  bool has_ended() const {
    int32_t ended = 0;
    return distwrap_work_test(work_, &ended, nullptr) != DW_OK || ended != 0;
  }
  bool is_success() const {
    return has_ended() && distwrap_work_status(work_, nullptr) == DW_OK;
  }
  nb::object exception() const {
    Error error;
    const int32_t code = distwrap_work_status(work_, &error.handle);
    return code == DW_OK ? nb::none() : exception_of(code, error.handle);
  }
  // The outputs; waits for none.
  nb::object result() {
    if (!has_ended())
      raise_value("result", "the operation has not ended", "wait for it first");
    Error error;
    check(distwrap_work_status(work_, &error.handle), error);
    if (has_list_) return outputs_;
    nb::list all;
    if (outputs_.is_valid()) all.append(outputs_);
    return all;
  }
  uint64_t seq() const {
    uint64_t seq = 0;
    Error error;
    check(distwrap_work_seq(work_, &seq, &error.handle), error);
    return seq;
  }
  int event_fd() const {
    int32_t fd = -1;
    Error error;
    check(distwrap_work_event_fd(work_, &fd, &error.handle), error);
    return fd;
  }
  void cancel() {
    Error error;
    check(distwrap_work_cancel(work_, &error.handle), error);
  }
  const char* name() const { return name_; }
  Groups groups() const { return groups_of(group_); }
  distwrap_work handle() const { return work_; }

  // `callback` gets this object once.
  static void add_done_callback(const nb::object& self, nb::object callback) {
    if (PyCallable_Check(callback.ptr()) == 0)
      raise_type("add_done_callback",
                 "callback is of type " + type_of(callback),
                 "give a function of one argument, the Work");
    auto* const pair = new nb::object[2]{self, std::move(callback)};
    const auto call = [](void* user, int32_t /*code*/,
                         distwrap_error /*error*/) {
      const Locked locked;
      if (!locked) return;
      const std::unique_ptr<nb::object[]> both(static_cast<nb::object*>(user));
      PyObject* const result =
          PyObject_CallFunctionObjArgs(both[1].ptr(), both[0].ptr(), nullptr);
      if (result == nullptr) PyErr_WriteUnraisable(both[1].ptr());
      Py_XDECREF(result);
    };
    Error error;
    int32_t code;
    {
      // The callback may run inside of the call, and in another thread.
      const distwrap_work work = nb::cast<Work&>(self).work_;
      const Unlocked released;
      code = distwrap_work_on_done(work, call, pair, &error.handle);
    }
    if (code != DW_OK) {
      delete[] pair;
      raise(code, error);
    }
  }

 private:
  // The library's later work waits; the host does not.
  void let_stream_wait() {
    const dw_stream stream = held_->on_device->current_stream();
    Error error;
    check(distwrap_work_wait_stream(work_, &stream, &error.handle), error);
    check(distwrap_work_status(work_, &error.handle), error);
  }
  void hold_until_ended(Held* held) {
    const auto let_go = [](void* user, int32_t, distwrap_error) {
      const Locked locked;
      if (!locked) return;
      delete static_cast<Held*>(user);
    };
    int32_t code;
    {
      const Unlocked released;
      code = distwrap_work_on_done(work_, let_go, held, nullptr);
    }
    // A broken work uses nothing any more.
    if (code != DW_OK) delete held;
  }

  const distwrap_work work_;
  std::unique_ptr<Held> held_;
  const nb::object group_, outputs_;
  const bool has_list_;
  const char* const name_;
};

nb::object make_work(distwrap_work work, std::unique_ptr<Held> held,
                     nb::handle group, const char* name) {
  // Within the object of Python, which needs no second piece of memory.
  static const nb::handle kType = nb::type<Work>();
  nb::object made = nb::inst_alloc(kType);
  new (nb::inst_ptr<Work>(made)) Work(work, std::move(held), group, name);
  nb::inst_mark_ready(made);
  return made;
}

// ---- batches ----

thread_local Batch* recording = nullptr;

struct Batch {
  distwrap_batch handle = nullptr;
  std::unique_ptr<Held> held = std::make_unique<Held>();
  nb::list groups;  // the group of each operation
  Batch* outer = nullptr;
  bool is_recording = false;
  Batch() {
    Error error;
    check(distwrap_batch_create(&handle, &error.handle), error);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() {
    Free([this] { distwrap_batch_free(handle); });
  }

  void begin() {
    if (is_recording)
      raise_value("batch", "the batch records already", "make another batch");
    outer = std::exchange(recording, this);
    is_recording = true;
  }
  void end() {
    if (is_recording) recording = outer;
    is_recording = false;
  }
  nb::object submit(bool async_op) {
    distwrap_work work = nullptr;
    wait_in(groups_of(groups), [&](auto* e) {
      return distwrap_batch_submit(handle, async_op ? &work : nullptr, e);
    });
    if (!async_op) {
      held.reset();
      return nb::none();
    }
    return make_work(work, std::move(held), groups, "batch");
  }
  nb::object prepare() {
    if (!is_recording || recording != this)
      raise_value("prepare", "the batch does not record",
                  "call it within the block of the batch");
    end();
    distwrap_prepared prepared = nullptr;
    wait_in(groups_of(groups), [&](auto* e) {
      return distwrap_batch_prepare(handle, &prepared, e);
    });
    return make_prepared(prepared, std::move(held), groups);
  }
  nb::object item(int32_t index) {
    distwrap_work work = nullptr;
    Error error;
    check(distwrap_batch_item(handle, index, &work, &error.handle), error);
    return make_work(work, nullptr, groups[index], "item");
  }
};

distwrap_batch handle_of(const Batch* batch) { return batch->handle; }

void keep_in_batch(std::unique_ptr<Held> held, nb::handle group) {
  recording->groups.append(group);
  recording->held->parts.push_back(std::move(held));
}

namespace {

// The handles of a list of Works, and the groups of all.
std::vector<distwrap_work> handles_of(const char* call, const nb::list& works,
                                      Groups* groups) {
  std::vector<distwrap_work> handles;
  for (nb::handle one : works) {
    Work* work = nullptr;
    if (!nb::try_cast(one, work, false) || work == nullptr)
      raise_type(call, "works has an object of type " + type_of(one),
                 "give a list of Work objects");
    handles.push_back(work->handle());
    for (const distwrap_group group : work->groups())
      if (std::find(groups->begin(), groups->end(), group) == groups->end())
        groups->push_back(group);
  }
  return handles;
}

}  // namespace

void add_work(nb::module_& m) {
  nb::class_<Work>(m, "Work", nb::is_weak_referenceable(), doc::Work)
      .def("wait", &Work::wait, "timeout"_a = nb::none(), doc::Work_wait)
      .def("is_completed", &Work::has_ended, doc::Work_is_completed)
      .def("is_success", &Work::is_success, doc::Work_is_success)
      .def("exception", &Work::exception, doc::Work_exception)
      .def("result", &Work::result, doc::Work_result)
      .def_prop_ro("name", &Work::name, doc::Work_name)
      .def("seq", &Work::seq, doc::Work_seq)
      .def("event_fd", &Work::event_fd, doc::Work_event_fd)
      .def("__await__",
           [](nb::handle self) {
             return nb::module_::import_("distwrap.waiting")
                 .attr("wait_in_loop")(self);
           })
      .def("cancel", &Work::cancel, doc::Work_cancel)
      .def(
          "add_done_callback",
          [](const nb::object& self, nb::object callback) {
            Work::add_done_callback(self, std::move(callback));
          },
          "callback"_a, doc::Work_add_done_callback);
  nb::class_<Batch>(m, "_Batch")
      .def(nb::init<>())
      .def("begin", &Batch::begin)
      .def("end", &Batch::end)
      .def("submit", &Batch::submit, "async_op"_a)
      .def("prepare", &Batch::prepare)
      .def("item", &Batch::item, "index"_a)
      .def("__len__",
           [](const Batch& b) { return distwrap_batch_size(b.handle); });
  m.def(
      "wait_all",
      [](const nb::list& works, nb::handle timeout) {
        Groups groups;
        const auto handles = handles_of("wait_all", works, &groups);
        const int64_t limit = forever_unless("wait_all", timeout);
        wait_in(groups, [&](auto* e) {
          return distwrap_wait_all(handles.data(), handles.size(), limit, e);
        });
      },
      "works"_a, "timeout"_a = nb::none(), doc::wait_all);
  m.def(
      "wait_any",
      [](const nb::list& works, nb::handle timeout) {
        Groups groups;
        const auto handles = handles_of("wait_any", works, &groups);
        const int64_t limit = forever_unless("wait_any", timeout);
        uint64_t index = 0;
        wait_in(groups, [&](auto* e) {
          return distwrap_wait_any(handles.data(), handles.size(), limit,
                                   &index, e);
        });
        return index;
      },
      "works"_a, "timeout"_a = nb::none(), doc::wait_any);
}

}  // namespace distwrap_python
