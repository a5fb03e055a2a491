#include "call.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nanobind/stl/string.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace nb = nanobind;

namespace distwrap_python {

const MainWait* MainWait::waiting = nullptr;
distwrap_session MainWait::bound = nullptr;
int MainStart::starting = -1;
bool Free::has_closed = false;

namespace {

std::atomic<bool> interpreter_ends{false};
// The function of set_other_groups.
PyObject* other_groups = nullptr;
// Threads that ask for the GIL or run a callback.
std::atomic<int> asking{0};

// Whether the thread may still ask for the GIL; it then counts as asking.
bool may_ask() {
  asking.fetch_add(1);
  if (!interpreter_ends.load()) return true;
  asking.fetch_sub(1);
  return false;
}

// distwrap.reduce_op.read, kept for good.
nb::handle reduction_reader() {
  static PyObject* const reader =
      nb::module_::import_("distwrap.reduce_op").attr("read").inc_ref().ptr();
  return reader;
}

}  // namespace

void end_interpreter() {
  // Finalizers may still call, and find no module any more.
  keep_errors();
  reduction_reader();
  interpreter_ends.store(true);
  // A callback that does not end by itself is not waited for.
  const nb::gil_scoped_release released;
  for (int i = 0; i < 1000 && asking.load() != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Unlocked::come_back() {
  if (may_ask()) return;
  for (;;) pause();
}

void Unlocked::has_come_back() { asking.fetch_sub(1); }

Locked::Locked() : is_locked_(may_ask()) {
  if (is_locked_) state_ = PyGILState_Ensure();
}

Locked::~Locked() {
  if (!is_locked_) return;
  PyGILState_Release(state_);
  asking.fetch_sub(1);
}

bool MainWait::is_main_thread() {
  static const unsigned long main_ident = nb::cast<unsigned long>(
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  static thread_local const bool is_main =
      PyThread_get_thread_ident() == main_ident;
  return is_main;
}

MainStart::MainStart()
    : fd_(MainWait::is_main_thread() ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
                                     : -1),
      outer_(starting) {
  if (fd_ >= 0) starting = fd_;
}

MainStart::~MainStart() {
  if (fd_ < 0) return;
  starting = outer_;
  close(fd_);
}

bool MainStart::interrupt() {
  return starting >= 0 && eventfd_write(starting, 1) == 0;
}

bool MainWait::interrupt() {
  if (MainStart::interrupt()) return true;
  if (waiting == nullptr) return false;
  abort(waiting->groups_ == nullptr ? Groups{waiting->group_}
                                    : *waiting->groups_);
  return true;
}

void MainWait::abort(const Groups& groups) {
  const distwrap_session session = bound;
  const Unlocked released;
  for (const distwrap_group group : groups) {
    // NULL is the world of the main thread, and this may be another thread.
    distwrap_group world = nullptr;
    if (group == nullptr && session != nullptr)
      distwrap_session_world(session, &world, nullptr);
    distwrap_abort(group == nullptr ? world : group, nullptr);
    if (world != nullptr) distwrap_group_free(world);
  }
}

nb::object group_behind(nb::handle group) {
  return other_groups == nullptr ? nb::none() : nb::handle(other_groups)(group);
}

void set_other_groups(nb::handle function) {
  PyObject* const before = other_groups;
  other_groups = function.is_none() ? nullptr : function.inc_ref().ptr();
  Py_XDECREF(before);
}

distwrap_group group_of(const char* call, nb::handle group) {
  if (group.is_none()) return nullptr;
  ProcessGroup* found = nullptr;
  if (!nb::try_cast(group, found, false) || found == nullptr)
    // PyTorch's group holds ours.
    nb::try_cast(group_behind(group), found, false);
  if (found == nullptr)
    raise_type(call, "group is of type " + type_of(group),
               "give a ProcessGroup, or None for the world");
  if (found->handle == nullptr)
    raise_value(call, "this rank is not in the group",
                "make the call on the group's members only",
                DW_REASON_RANK_NOT_MEMBER);
  return found->handle;
}

void watch_interrupts() {
  if (MainWait::is_main_thread() && !interpreter_ends.load())
    nb::module_::import_("distwrap._interrupt").attr("watch")();
}

Groups groups_of(nb::handle groups) {
  Groups all;
  if (PyList_Check(groups.ptr()) == 0) {
    all.push_back(group_of("wait", groups));
  } else {
    for (nb::handle one : nb::borrow<nb::list>(groups))
      all.push_back(group_of("wait", one));
  }
  return all;
}

int64_t nanoseconds_of(const char* call, nb::handle timeout) {
  if (timeout.is_none()) return 0;
  double seconds = 0;
  if (PyFloat_Check(timeout.ptr()) != 0 || PyLong_Check(timeout.ptr()) != 0)
    seconds = PyFloat_AsDouble(timeout.ptr());
  else if (nb::hasattr(timeout, "total_seconds"))
    seconds = nb::cast<double>(timeout.attr("total_seconds")());
  else
    raise_type(call, "timeout is of type " + type_of(timeout),
               "give seconds or a timedelta");
  if (PyErr_Occurred() != nullptr) {  // an integer beyond all doubles
    PyErr_Clear();
    const nb::int_ zero(0);
    seconds = PyObject_RichCompareBool(timeout.ptr(), zero.ptr(), Py_GT) == 1
                  ? std::numeric_limits<double>::infinity()
                  : -1;
  }
  if (std::isnan(seconds))
    raise_value(call, "the timeout is not a number", "give seconds");
  if (seconds >= 9e9) return DW_FOREVER;
  // The C API takes 0 for "unset".
  if (seconds <= 0)
    raise_value(call, "the timeout is not positive",
                "leave it unset for the group's, or give float('inf') for "
                "none");
  return std::max<int64_t>(1, static_cast<int64_t>(seconds * 1e9));
}

int64_t integer_of(const char* call, const char* argument, nb::handle value) {
  if (PyIndex_Check(value.ptr()) == 0)
    raise_type(call, std::string(argument) + " is of type " + type_of(value),
               "give an integer");
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  const long long number = PyLong_AsLongLong(index.ptr());
  if (number != -1 || PyErr_Occurred() == nullptr) return number;
  PyErr_Clear();
  raise_value(call, std::string(argument) + " has more than 64 bits",
              "give a smaller integer");
}

distwrap_peer peer_of(const char* call, const char* argument, nb::handle global,
                      nb::handle group) {
  const auto number = [&](nb::handle given, int32_t* to) -> const int32_t* {
    if (given.is_none()) return nullptr;
    if (PyIndex_Check(given.ptr()) == 0)
      raise_type(call, std::string(argument) + " is of type " + type_of(given),
                 "give a rank");
    const nb::object index = nb::steal(PyNumber_Index(given.ptr()));
    const long long rank = PyLong_AsLongLong(index.ptr());
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    *to =
        rank < INT32_MIN || rank > INT32_MAX ? -1 : static_cast<int32_t>(rank);
    return to;
  };
  int32_t a = 0, b = 0;
  const int32_t* const in_world = number(global, &a);
  const int32_t* const in_group = number(group, &b);
  if (in_world == nullptr && in_group == nullptr) return {0, 0};
  if (in_group == nullptr) return {DW_RANK_OF_WORLD, a};
  if (in_world == nullptr) return {DW_RANK_OF_GROUP, b};
  distwrap_peer peer = {};
  Error error;
  check(
      distwrap_choose_peer(in_world, in_group, argument, &peer, &error.handle),
      error);
  return peer;
}

Reduction::Reduction(const char* call, nb::handle op) {
  if (op.is_none()) return;
  if (PyLong_CheckExact(op.ptr())) {
    const long number = PyLong_AsLong(op.ptr());
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    kind = number < 0 || number > INT32_MAX ? -1 : static_cast<int32_t>(number);
    return;
  }
  // Ours and torch's are told by their names; ours is an IntEnum or a premul.
  const nb::object read = reduction_reader()(op);
  const nb::tuple parts = nb::borrow<nb::tuple>(read);
  kind = nb::cast<int32_t>(parts[0]);
  if (kind == 0)
    raise_value(call,
                "Unsupported ReduceOp: " + nb::cast<std::string>(nb::repr(op)),
                "give a ReduceOp, such as ReduceOp.SUM", DW_REASON_REDUCE_OP);
  if (parts[1].is_none()) return;
  if (PyFloat_Check(parts[1].ptr()) != 0) {
    factor = PyFloat_AsDouble(parts[1].ptr());
    has_factor = true;
    return;
  }
  factor_tensor = std::make_unique<Tensor>();
  factor_tensor->read(parts[1], call, "the factor", Use::kRead,
                      Elements::kReduced);
}

void Reduction::give(distwrap_op_options* options) const {
  if (has_factor) options->factor = &factor;
  if (factor_tensor != nullptr) options->factor_tensor = factor_tensor->get();
}

Options::Options(const char* call, nb::handle group, nb::handle timeout,
                 nb::handle label) {
  options_.struct_size = sizeof options_;
  options_.group = group_of(call, group);
  options_.timeout = nanoseconds_of(call, timeout);
  if (!label.is_none()) {
    if (PyUnicode_Check(label.ptr()) == 0)
      raise_type(call, "label is of type " + type_of(label), "give a text");
    options_.label = PyUnicode_AsUTF8AndSize(label.ptr(), nullptr);
    if (options_.label == nullptr) throw nb::python_error();
  }
  if (recording != nullptr) options_.batch = handle_of(recording);
}

bool OperationCall::is_me(distwrap_peer peer) const {
  int32_t rank = peer.rank;
  if (peer.numbering == DW_RANK_OF_WORLD &&
      distwrap_get_group_rank(options_.group(), peer.rank, &rank, nullptr) !=
          DW_OK)
    return false;
  return peer.numbering != 0 && rank >= 0 &&
         rank == distwrap_get_rank(options_.group());
}

const Tensors& OperationCall::list(nb::handle object, const char* name, Use use,
                                   Elements elements) {
  held().lists.push_back(std::make_unique<Tensors>());
  held().lists.back()->read_list(object, name_, name, use, elements);
  if (const Tensor* const first = held().lists.back()->first();
      first != nullptr && first->is_on_device())
    order_by(*first);
  if (kept_ != nullptr && use == Use::kWritten)
    for (nb::handle one : nb::borrow<nb::iterable>(object))
      kept_->add_output(one);
  return *held().lists.back();
}

const Tensors& OperationCall::list_or_none(nb::handle object, const char* name,
                                           Use use) {
  if (!object.is_none()) return list(object, name, use);
  held().lists.push_back(std::make_unique<Tensors>());
  return *held().lists.back();
}

const Reduction& OperationCall::reduction(nb::handle op) {
  Reduction& by = held().reduction.emplace(name_, op);
  by.give(options_.get());
  return by;
}

}  // namespace distwrap_python
