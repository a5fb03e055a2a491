// The frame of every call: its options, its buffers, waiting without the GIL,
// and Ctrl-C.
//
//   OperationCall call("broadcast", group, async_op, timeout, label);
//   const auto* t = call.tensor(tensor, "tensor", Use::kWritten);
//   return call.run([&](auto* o, auto* w, auto* e) {
//     return distwrap_broadcast(t, t, root, o, w, e);
//   });
//
// Threads: with the GIL.
#ifndef DISTWRAP_PYTHON_SRC_CALL_H_
#define DISTWRAP_PYTHON_SRC_CALL_H_

#include "error.h"
#include "tensor.h"

#include <cstdint>
#include <memory>
#include <nanobind/nanobind.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distwrap_python {

// Groups of one call; NULL is the world.
using Groups = std::vector<distwrap_group>;

// Marks that the main thread waits in a call on one group or several, so that
// Ctrl-C can abort them: the handler of Python runs in the main thread alone.
//
// Threads: with the GIL, which alone guards the static members.
class MainWait {
 public:
  explicit MainWait(distwrap_group group) : MainWait(group, nullptr) {}
  explicit MainWait(const Groups& groups) : MainWait(nullptr, &groups) {}
  ~MainWait() {
    if (is_main_) waiting = outer_;
  }
  MainWait(const MainWait&) = delete;
  MainWait& operator=(const MainWait&) = delete;

  static bool is_main_thread();
  // Aborts the groups in whose call the main thread waits; false when it does
  // not wait.
  static bool interrupt();
  // Aborts these groups, for the main thread.
  static void abort(const Groups& groups);
  // The session to which the main thread is bound; NULL for none.
  static void bind(distwrap_session session) { bound = session; }

 private:
  MainWait(distwrap_group group, const Groups* groups)
      : is_main_(is_main_thread()), group_(group), groups_(groups) {
    if (is_main_) outer_ = std::exchange(waiting, this);
  }

  static const MainWait* waiting;
  static distwrap_session bound;
  const bool is_main_;
  const distwrap_group group_;
  const Groups* const groups_;
  // The wait of the call in whose callback this one is made.
  const MainWait* outer_ = nullptr;
};

// Releases the GIL while a call waits.
class Unlocked {
 public:
  Unlocked()
      : is_main_(MainWait::is_main_thread()), state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    if (!is_main_) come_back();
    PyEval_RestoreThread(state_);
    if (!is_main_) has_come_back();
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  static void come_back();
  static void has_come_back();
  const bool is_main_;
  PyThreadState* const state_;
};

// Frees a handle of something that belongs to a session. The last handle of a
// session that has been closed ends the session's threads, one of which may ask
// for the GIL in a callback, so from the first close on the GIL is released.
//
// Threads: with the GIL.
class Free {
 public:
  template <class F>
  explicit Free(const F& free_handle) {
    std::optional<Unlocked> released;
    if (has_closed) released.emplace();
    free_handle();
  }
  static void sessions_have_closed() { has_closed = true; }

 private:
  static bool has_closed;
};

// A group's handle in Python. A rank outside of a group that others have made
// has one without a handle, which every call refuses.
struct ProcessGroup {
  distwrap_group handle = nullptr;
  ProcessGroup() = default;
  explicit ProcessGroup(distwrap_group taken) : handle(taken) {}
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  ~ProcessGroup() {
    if (handle != nullptr) Free([this] { distwrap_group_free(handle); });
  }
};

// The group of an argument; NULL, the world, for None.
distwrap_group group_of(const char* call, nanobind::handle group);
// Sets the function that tells our group behind a group of PyTorch, or None.
// None: there are no such groups.
void set_other_groups(nanobind::handle function);
// Our group by that function; None without one.
nanobind::object group_behind(nanobind::handle group);
// The groups of an argument that is a list of groups, or one group.
std::vector<distwrap_group> groups_of(nanobind::handle groups);
// Nanoseconds of a timedelta or of seconds; 0 for None, DW_FOREVER for
// infinity.
int64_t nanoseconds_of(const char* call, nanobind::handle timeout);
// The peer of a pair of arguments such as src and group_src.
// The value of an argument of any integer type.
int64_t integer_of(const char* call, const char* argument,
                   nanobind::handle value);
distwrap_peer peer_of(const char* call, const char* argument,
                      nanobind::handle global, nanobind::handle group);
// The DW_REDUCE_* of a ReduceOp, of torch's, or of a name. A PREMUL_SUM has a
// factor: the second value, or the tensor in `factor_tensor`.
struct Reduction {
  int32_t kind = DW_REDUCE_SUM;
  double factor = 1;
  bool has_factor = false;
  std::unique_ptr<Tensor> factor_tensor;
  Reduction(const char* call, nanobind::handle op);
  // Adds the factor to a call's options.
  void give(distwrap_op_options* options) const;
  Elements elements() const {
    return kind == DW_REDUCE_SUM || kind == DW_REDUCE_AVG ? Elements::kSummed
                                                          : Elements::kReduced;
  }
};

// The buffers of an operation, which it uses until it has ended. The first two
// tensors and the first reduction, which most calls do not exceed, need no
// memory of their own.
struct Held {
  Tensor first[2];
  int used = 0;
  std::optional<Reduction> reduction;
  std::vector<std::unique_ptr<Tensor>> tensors;
  std::vector<std::unique_ptr<Tensors>> lists;
  // One of the tensors, when they lie on a device; otherwise NULL.
  const Tensor* on_device = nullptr;
  std::vector<std::unique_ptr<Held>> parts;  // the operations of a batch
  std::shared_ptr<Held> prepared;            // buffers of a prepared operation
  // For Work.result: the only output, or a list of several.
  nanobind::object outputs;
  bool has_list = false;

  Tensor& tensor() {
    if (used < 2) return first[used++];
    tensors.push_back(std::make_unique<Tensor>());
    return *tensors.back();
  }
  void add_output(nanobind::handle object) {
    if (!outputs.is_valid()) {
      outputs = nanobind::borrow(object);
      return;
    }
    if (!has_list) {
      nanobind::list all;
      all.append(outputs);
      outputs = all;
      has_list = true;
    }
    nanobind::borrow<nanobind::list>(outputs).append(object);
  }
};

struct Batch;
// The batch that the thread records, or NULL.
extern thread_local Batch* recording;
// Adds to a batch what its next operation uses, and the argument `group`.
void keep_in_batch(std::unique_ptr<Held> held, nanobind::handle group);
distwrap_batch handle_of(const Batch* batch);

class Options {
 public:
  Options(const char* call, nanobind::handle group, nanobind::handle timeout,
          nanobind::handle label);
  distwrap_op_options* get() { return &options_; }
  distwrap_group group() const { return options_.group; }

 private:
  distwrap_op_options options_ = {};
};

// Marks that the main thread starts a session or waits for a store, so that
// Ctrl-C can end that: there is no group that could be aborted.
//
// Threads: with the GIL.
class MainStart {
 public:
  MainStart();
  ~MainStart();
  MainStart(const MainStart&) = delete;
  MainStart& operator=(const MainStart&) = delete;

  void give(distwrap_init_options* options) const {
    options->has_interrupt_fd = fd_ < 0 ? 0 : 1;
    options->interrupt_fd = fd_;
  }
  int fd() const { return fd_; }
  // False when the main thread starts nothing.
  static bool interrupt();

 private:
  static int starting;
  const int fd_;
  const int outer_;
};

// The interpreter ends a thread that asks for the GIL too late, and such an end
// within C++ ends the process with a line on stderr. So once the sessions are
// closed, end_interpreter() lets nobody but the main thread ask for it: a
// callback returns at once, and what it holds stays with the process; a thread
// that comes out of a call stays where it is.
void end_interpreter();

// Takes the GIL for a callback, unless it is too late.
class Locked {
 public:
  Locked();
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  explicit operator bool() const { return is_locked_; }

 private:
  bool is_locked_;
  PyGILState_STATE state_ = {};
};

// Throws what a hook has raised in a call of this thread to end the program, if
// one has.
void raise_of_hook();

// Runs `f(error)` without the GIL and throws its error, or KeyboardInterrupt
// when Ctrl-C ended it. `on`: the group of the call, or its Groups.
template <class On, class F>
void wait_in(const On& on, const F& f) {
  Error error;
  int32_t code;
  {
    const MainWait marked(on);
    const Unlocked released;
    code = f(&error.handle);
  }
  if (code == DW_OK) [[likely]]
    return;
  raise_of_hook();
  if (MainWait::is_main_thread() && PyErr_CheckSignals() != 0)
    throw nanobind::python_error();
  raise(code, error);
}

// Listens to Ctrl-C, which a session does from its start on.
void watch_interrupts();

// Runs `f(error)`, a call on a store, as wait_in does. There may be no session.
// It serves other calls too that wait for nothing but the store.
template <class F>
void wait_in_store(const F& f) {
  watch_interrupts();
  const MainStart marked;
  wait_in(distwrap_group{}, [&](distwrap_error* error) {
    if (marked.fd() < 0) return f(error);
    distwrap_store_interrupt_by(marked.fd(), nullptr);
    const int32_t code = f(error);
    distwrap_store_interrupt_by(-1, nullptr);
    return code;
  });
}

// A Work object for a started operation, which holds what the operation uses.
// `group`: the argument of the call, or a list of those of a batch.
nanobind::object make_work(distwrap_work work, std::unique_ptr<Held> held,
                           nanobind::handle group, const char* name);

// A PreparedOperation, which holds what the operation uses.
nanobind::object make_prepared(distwrap_prepared prepared,
                               std::unique_ptr<Held> held,
                               nanobind::handle group);

// One operation: its options, and its buffers, which lie on the stack while the
// call waits and in memory of the operation otherwise.
class OperationCall {
 public:
  OperationCall(const char* name, nanobind::handle group, bool async_op,
                nanobind::handle timeout, nanobind::handle label)
      : name_(name),
        group_(group),
        async_op_(async_op),
        options_(name, group, timeout, label),
        kept_(async_op || recording != nullptr ? std::make_unique<Held>()
                                               : nullptr) {}
  OperationCall(const OperationCall&) = delete;
  OperationCall& operator=(const OperationCall&) = delete;

  // counts_rows: a tensor without dimensions is refused.
  const distwrap_tensor* tensor(nanobind::handle object, const char* name,
                                Use use, Elements elements = Elements::kMoved,
                                bool counts_rows = false) {
    return read(object, name, use, elements, counts_rows).get();
  }
  // A tensor that this rank only reads if it is the root, or if it is not, as
  // `root_reads` says.
  const distwrap_tensor* tensor_of_root(nanobind::handle object,
                                        const char* name, distwrap_peer root,
                                        bool root_reads,
                                        Elements elements = Elements::kMoved) {
    const Tensor& one = read(object, name, Use::kEither, elements, false);
    if (one.is_read_only() && is_me(root) != root_reads)
      Tensor::refuse_read_only(name_, name);
    return one.get();
  }
  // NULL for None.
  const distwrap_tensor* tensor_or_none(nanobind::handle object,
                                        const char* name, Use use,
                                        bool counts_rows) {
    return object.is_none()
               ? nullptr
               : tensor(object, name, use, Elements::kMoved, counts_rows);
  }
  const Tensors& list(nanobind::handle object, const char* name, Use use,
                      Elements elements = Elements::kMoved);
  // An empty list for None.
  const Tensors& list_or_none(nanobind::handle object, const char* name,
                              Use use);
  // Puts the factor of a PREMUL_SUM into the options, too.
  const Reduction& reduction(nanobind::handle op);
  distwrap_peer peer(const char* argument, nanobind::handle global,
                     nanobind::handle group) const {
    return peer_of(name_, argument, global, group);
  }

  // Runs `f(options, work, error)`: recorded in the thread's batch, waited for,
  // or started. None, or a Work.
  template <class F>
  nanobind::object run(const F& f) {
    if (recording != nullptr) {
      Error error;
      check(f(options_.get(), static_cast<distwrap_work*>(nullptr),
              &error.handle),
            error);
      keep_in_batch(std::move(kept_), group_);
      return nanobind::none();
    }
    return run_on(options_.group(), group_, f);
  }
  // Runs `f` for a call whose options name no group, and that no batch takes.
  template <class On, class F>
  nanobind::object run_on(const On& waits_on, nanobind::handle group,
                          const F& f) {
    distwrap_work work = nullptr;
    wait_in(waits_on, [&](distwrap_error* error) {
      return f(options_.get(), async_op_ ? &work : nullptr, error);
    });
    if (!async_op_) return nanobind::none();
    return make_work(work, std::move(kept_), group, name_);
  }
  // The buffers are those of a prepared operation.
  void use_buffers_of(const std::shared_ptr<Held>& prepared) {
    held().prepared = prepared;
    if (prepared->parts.empty()) return;
    held().outputs = prepared->parts.front()->outputs;
    held().has_list = prepared->parts.front()->has_list;
  }
  Options& options() { return options_; }
  // The buffers, for whoever makes the Work.
  std::unique_ptr<Held> take() { return std::move(kept_); }

 private:
  Tensor& read(nanobind::handle object, const char* name, Use use,
               Elements elements, bool counts_rows) {
    Tensor& one = held().tensor();
    one.read(object, name_, name, use, elements);
    if (counts_rows) one.check_rows(name_, name);
    if (kept_ != nullptr && use != Use::kRead) kept_->add_output(object);
    if (one.is_on_device()) order_by(one);
    return one;
  }
  // The operation takes its turn among the work of the tensor's library.
  void order_by(const Tensor& on_device) {
    options_.get()->stream = on_device.current_stream();
    held().on_device = &on_device;
  }
  // Whether `peer` is this rank; false where that cannot be known.
  bool is_me(distwrap_peer peer) const;
  Held& held() { return kept_ != nullptr ? *kept_ : local_; }

  const char* const name_;
  const nanobind::handle group_;
  const bool async_op_;
  Options options_;
  std::unique_ptr<Held> kept_;
  Held local_;
};

// Adds the names of each part to the module.
void add_operations(nanobind::module_& m);
void add_work(nanobind::module_& m);
void add_prepared(nanobind::module_& m);
void add_groups(nanobind::module_& m);
void add_objects(nanobind::module_& m);
void add_meshes(nanobind::module_& m);
void add_moe(nanobind::module_& m);
void add_moe_raw(nanobind::module_& m);
void add_moe_pieces(nanobind::module_& m);
void add_windows(nanobind::module_& m);
void add_hooks(nanobind::module_& m);
void add_arrays(nanobind::module_& m);

}  // namespace distwrap_python

#endif  // DISTWRAP_PYTHON_SRC_CALL_H_
