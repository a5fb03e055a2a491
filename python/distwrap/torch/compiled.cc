// The compiled form of the backend for PyTorch: `python -m distwrap.torch
// build` makes it for the PyTorch that is there. Calls that trainers make most
// often, with plain tensors, go from c10d to the C API without the interpreter;
// all others go on to the form in Python, so there is one place for each rule.
//
// Threads: any, as c10d's backends. Ownership: an operation in flight holds its
// tensors, whoever drops its Work.
#include <distwrap/c.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>
#include <torch/extension.h>
#include <utility>
#include <vector>

namespace {

using c10::intrusive_ptr;
using c10d::Work;
using Tensors = std::vector<at::Tensor>;
using std::chrono::milliseconds;

// ---- errors ----

struct Error {
  distwrap_error handle = nullptr;
  Error() = default;
  Error(const Error&) = delete;
  Error& operator=(const Error&) = delete;
  ~Error() { distwrap_error_free(handle); }
};

// An error for who asks from any thread, such as a future's: of PyTorch's
// class, with the whole text.
[[noreturn]] void raise_in_any_thread(distwrap_error error) {
  const std::string text = distwrap_error_text(error);
  const int32_t reason = distwrap_error_reason(error);
  distwrap_error_info info = {};
  info.struct_size = sizeof info;
  const bool lost_peer =
      distwrap_error_read(error, &info) == DW_OK && info.cause != nullptr &&
      std::string(info.cause).find("kPeerLost") != std::string::npos;
  if (reason == DW_REASON_PEER_LOST || lost_peer)
    C10_THROW_ERROR(DistNetworkError, text);
  if (reason == DW_REASON_STORE_UNREACHABLE ||
      reason == DW_REASON_STORE_CONFLICT)
    C10_THROW_ERROR(DistStoreError, text);
  C10_THROW_ERROR(DistBackendError, text);
}

// The error of a call: the exception that the form in Python raises.
void check(int32_t code, const Error& error) {
  if (code == DW_OK) [[likely]]
    return;
  const py::gil_scoped_acquire gil;
  py::module_::import("distwrap.torch._errors")
      .attr("raise_at")(code, reinterpret_cast<uintptr_t>(error.handle));
}

// ---- arguments ----

// The DW_DTYPE_* of a type that all backends reduce; none for others.
std::optional<int32_t> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return DW_DTYPE_U8;
    case at::kChar:
      return DW_DTYPE_I8;
    case at::kShort:
      return DW_DTYPE_I16;
    case at::kInt:
      return DW_DTYPE_I32;
    case at::kLong:
      return DW_DTYPE_I64;
    case at::kHalf:
      return DW_DTYPE_F16;
    case at::kBFloat16:
      return DW_DTYPE_BF16;
    case at::kFloat:
      return DW_DTYPE_F32;
    case at::kDouble:
      return DW_DTYPE_F64;
    default:
      return std::nullopt;
  }
}

std::optional<int32_t> reduction_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return DW_REDUCE_SUM;
    case c10d::ReduceOp::PRODUCT:
      return DW_REDUCE_PRODUCT;
    case c10d::ReduceOp::MIN:
      return DW_REDUCE_MIN;
    case c10d::ReduceOp::MAX:
      return DW_REDUCE_MAX;
    case c10d::ReduceOp::AVG:
      return DW_REDUCE_AVG;
    default:
      return std::nullopt;
  }
}

// Whether the elements lie in the host's memory, one behind the other.
bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() &&
         tensor.layout() == at::kStrided && tensor.is_contiguous() &&
         !tensor.is_conj() && !tensor.is_neg() &&
         !tensor.unsafeGetTensorImpl()->is_python_dispatch() &&
         !tensor.key_set().has(c10::DispatchKey::Functionalize) &&
         dtype_of(tensor.scalar_type()).has_value();
}

bool is_plain(const Tensors& tensors) {
  return tensors.size() == 1 && is_plain(tensors[0]);
}

// A tensor as rows of equal length.
class Rows {
 public:
  Rows(const at::Tensor& tensor, int64_t rows) {
    shape_[0] = rows;
    shape_[1] = rows == 0 ? 1 : tensor.numel() / rows;
    view_.data = tensor.data_ptr();
    view_.device = {DW_DEVICE_CPU, 0};
    view_.ndim = 2;
    view_.dtype = distwrap_dtype(*dtype_of(tensor.scalar_type()));
    view_.shape = shape_;
  }
  explicit Rows(const at::Tensor& tensor) : Rows(tensor, tensor.numel()) {}
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  const distwrap_tensor* get() const { return &view_; }

 private:
  int64_t shape_[2];
  distwrap_tensor view_ = {};
};

int64_t nanoseconds(milliseconds limit, int64_t otherwise) {
  return limit.count() > 0 ? limit.count() * 1'000'000 : otherwise;
}

// ---- works ----

// The Work of every call that ended before it returned.
intrusive_ptr<Work> finished() {
  static const intrusive_ptr<Work> work = [] {
    auto future = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(Tensors()));
    return Work::create_from_future(future);
  }();
  return work;
}

// The tensors and the future of an operation in flight, once nobody holds its
// Work any more.
struct Kept {
  Tensors inputs, outputs;
  intrusive_ptr<c10::ivalue::Future> future;

  // The callback of an operation's end.
  static void ended(void* user, int32_t code, distwrap_error error) {
    const std::unique_ptr<Kept> kept(static_cast<Kept*>(user));
    if (kept->future == nullptr) return;
    if (code == DW_OK) {
      kept->future->markCompleted(c10::IValue(kept->outputs));
      return;
    }
    try {
      raise_in_any_thread(error);
    } catch (...) {
      kept->future->setError(std::current_exception());
    }
  }
};

class Begun final : public Work {
 public:
  Begun(distwrap_work work, Tensors inputs, Tensors outputs)
      : work_(work), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}
  ~Begun() override {
    if (!isCompleted()) keep(nullptr);
    distwrap_work_free(work_);
  }

  bool isCompleted() override {
    int32_t ended = 0;
    return distwrap_work_test(work_, &ended, nullptr) != DW_OK || ended != 0;
  }
  bool isSuccess() const override {
    int32_t ended = 0;
    return distwrap_work_test(work_, &ended, nullptr) == DW_OK && ended != 0 &&
           distwrap_work_status(work_, nullptr) == DW_OK;
  }
  std::exception_ptr exception() const override {
    Error error;
    if (distwrap_work_status(work_, &error.handle) == DW_OK) return nullptr;
    try {
      raise_in_any_thread(error.handle);
    } catch (...) {
      return std::current_exception();
    }
  }
  bool wait(milliseconds timeout) override {
    Error error;
    const int32_t code = distwrap_work_wait(
        work_, nanoseconds(timeout, DW_FOREVER), &error.handle);
    check(code, error);
    return true;
  }
  void synchronize() override { wait(milliseconds(0)); }
  Tensors result() override { return outputs_; }
  intrusive_ptr<c10::ivalue::Future> getFuture() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (future_ == nullptr) {
      future_ = c10::make_intrusive<c10::ivalue::Future>(
          c10::ListType::create(c10::TensorType::get()));
      keep(future_);
    }
    return future_;
  }

 private:
  void keep(intrusive_ptr<c10::ivalue::Future> future) {
    auto kept =
        std::make_unique<Kept>(Kept{inputs_, outputs_, std::move(future)});
    if (distwrap_work_on_done(work_, Kept::ended, kept.get(), nullptr) == DW_OK)
      kept.release();
  }

  const distwrap_work work_;
  const Tensors inputs_, outputs_;
  intrusive_ptr<c10::ivalue::Future> future_;
};

// ---- the backend ----

class Compiled final : public c10d::Backend {
 public:
  Compiled(intrusive_ptr<Backend> python, uintptr_t group)
      : Backend(python->getRank(), python->getSize()),
        python_(std::move(python)),
        group_(reinterpret_cast<distwrap_group>(group)) {}

  const intrusive_ptr<Backend>& python() const { return python_; }

  intrusive_ptr<Work> broadcast(Tensors& tensors,
                                const c10d::BroadcastOptions& opts) override {
    if (in_block_ || !is_plain(tensors))
      return python_->broadcast(tensors, opts);
    const Rows view(tensors[0]);
    const distwrap_peer root = {DW_RANK_OF_GROUP,
                                static_cast<int32_t>(opts.rootRank)};
    return run(opts, {}, tensors, [&](auto* options, auto* work, auto* error) {
      return distwrap_broadcast(view.get(), view.get(), root, options, work,
                                error);
    });
  }

  intrusive_ptr<Work> allreduce(Tensors& tensors,
                                const c10d::AllreduceOptions& opts) override {
    const std::optional<int32_t> reduction = reduction_of(opts.reduceOp);
    if (in_block_ || !reduction || !is_plain(tensors))
      return python_->allreduce(tensors, opts);
    const Rows view(tensors[0]);
    return run(opts, {}, tensors, [&](auto* options, auto* work, auto* error) {
      return distwrap_all_reduce(view.get(), view.get(), *reduction, options,
                                 work, error);
    });
  }

  intrusive_ptr<Work> all_gather_single(
      at::Tensor& output, at::Tensor& input,
      const c10d::AllgatherOptions& opts) override {
    if (in_block_ || !fit(output, input, getSize(), 1))
      return python_->all_gather_single(output, input, opts);
    const Rows out(output), in(input);
    return run(opts, {input}, {output},
               [&](auto* options, auto* work, auto* error) {
                 return distwrap_all_gather_into_tensor(out.get(), in.get(),
                                                        options, work, error);
               });
  }

  intrusive_ptr<Work> reduce_scatter_single(
      at::Tensor& output, at::Tensor& input,
      const c10d::ReduceScatterOptions& opts) override {
    const std::optional<int32_t> reduction = reduction_of(opts.reduceOp);
    if (in_block_ || !reduction || !fit(output, input, 1, getSize()))
      return python_->reduce_scatter_single(output, input, opts);
    const Rows out(output), in(input);
    return run(opts, {input}, {output},
               [&](auto* options, auto* work, auto* error) {
                 return distwrap_reduce_scatter_tensor(
                     out.get(), in.get(), *reduction, options, work, error);
               });
  }

  intrusive_ptr<Work> all_to_all_single(
      at::Tensor& output, at::Tensor& input, std::vector<int64_t>& to_get,
      std::vector<int64_t>& to_give,
      const c10d::AllToAllOptions& opts) override {
    if (in_block_ || !is_plain(output) || !is_plain(input) ||
        output.scalar_type() != input.scalar_type() || output.dim() == 0 ||
        input.dim() == 0)
      return python_->all_to_all_single(output, input, to_get, to_give, opts);
    const Rows out(output, output.size(0)), in(input, input.size(0));
    return run(opts, {input}, {output},
               [&](auto* options, auto* work, auto* error) {
                 return distwrap_all_to_all_single(
                     out.get(), in.get(), data(to_get), to_get.size(),
                     data(to_give), to_give.size(), options, work, error);
               });
  }

  intrusive_ptr<Work> barrier(const c10d::BarrierOptions& opts) override {
    if (in_block_) return python_->barrier(opts);
    return run(opts, {}, {}, [&](auto* options, auto* work, auto* error) {
      return distwrap_barrier(options, work, error);
    });
  }

  intrusive_ptr<Work> send(Tensors& tensors, int to, int tag) override {
    if (in_block_ || !is_plain(tensors)) return python_->send(tensors, to, tag);
    const Rows view(tensors[0]);
    return message(tensors, {}, [&](auto* options, auto* work, auto* error) {
      return distwrap_isend(view.get(), {DW_RANK_OF_GROUP, to}, tag, options,
                            work, error);
    });
  }

  intrusive_ptr<Work> recv(Tensors& tensors, int source, int tag) override {
    if (in_block_ || !is_plain(tensors))
      return python_->recv(tensors, source, tag);
    const Rows view(tensors[0]);
    return message({}, tensors, [&](auto* options, auto* work, auto* error) {
      return distwrap_irecv(view.get(), {DW_RANK_OF_GROUP, source}, tag,
                            options, work, error);
    });
  }

  // ---- the form in Python has the rest ----

  intrusive_ptr<Work> allreduce_sparse(
      Tensors& tensors, const c10d::AllreduceOptions& opts) override {
    return python_->allreduce_sparse(tensors, opts);
  }
  intrusive_ptr<Work> allreduce_coalesced(
      Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override {
    return python_->allreduce_coalesced(tensors, opts);
  }
  intrusive_ptr<Work> reduce(Tensors& tensors,
                             const c10d::ReduceOptions& opts) override {
    return python_->reduce(tensors, opts);
  }
  intrusive_ptr<Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                const c10d::AllgatherOptions& opts) override {
    return python_->allgather(outputs, inputs, opts);
  }
  intrusive_ptr<Work> allgather_coalesced(
      std::vector<Tensors>& outputs, Tensors& inputs,
      const c10d::AllgatherOptions& opts) override {
    return python_->allgather_coalesced(outputs, inputs, opts);
  }
  intrusive_ptr<Work> all_gather_single_coalesced(
      Tensors& outputs, Tensors& inputs,
      const c10d::AllgatherOptions& opts) override {
    return python_->all_gather_single_coalesced(outputs, inputs, opts);
  }
  intrusive_ptr<Work> gather(std::vector<Tensors>& outputs, Tensors& inputs,
                             const c10d::GatherOptions& opts) override {
    return python_->gather(outputs, inputs, opts);
  }
  intrusive_ptr<Work> gather_single(at::Tensor& output, at::Tensor& input,
                                    const c10d::GatherOptions& opts) override {
    return python_->gather_single(output, input, opts);
  }
  intrusive_ptr<Work> scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                              const c10d::ScatterOptions& opts) override {
    return python_->scatter(outputs, inputs, opts);
  }
  intrusive_ptr<Work> reduce_scatter(
      Tensors& outputs, std::vector<Tensors>& inputs,
      const c10d::ReduceScatterOptions& opts) override {
    return python_->reduce_scatter(outputs, inputs, opts);
  }
  intrusive_ptr<Work> reduce_scatter_single_coalesced(
      Tensors& outputs, Tensors& inputs,
      const c10d::ReduceScatterOptions& opts) override {
    return python_->reduce_scatter_single_coalesced(outputs, inputs, opts);
  }
  intrusive_ptr<Work> alltoall(Tensors& outputs, Tensors& inputs,
                               const c10d::AllToAllOptions& opts) override {
    return python_->alltoall(outputs, inputs, opts);
  }
  intrusive_ptr<Work> recvAnysource(Tensors& tensors, int tag) override {
    return python_->recvAnysource(tensors, tag);
  }
  void monitoredBarrier(const c10d::BarrierOptions& opts,
                        bool wait_all_ranks) override {
    python_->monitoredBarrier(opts, wait_all_ranks);
  }
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override {
    python_->startCoalescing();
    in_block_ = true;
  }
  intrusive_ptr<Work> endCoalescing() override {
    in_block_ = false;
    return python_->endCoalescing();
  }
  bool supportsSplitting() const override { return true; }
  intrusive_ptr<Backend> split(const intrusive_ptr<c10d::Store>& store,
                               const std::vector<int>& ranks,
                               const intrusive_ptr<Options>& opts) override {
    return python_->split(store, ranks, opts);
  }
  const std::string getBackendName() const override {
    return python_->getBackendName();
  }
  intrusive_ptr<Options> getBackendOptions() override {
    return python_->getBackendOptions();
  }
  void setTimeout(milliseconds timeout) override {
    python_->setTimeout(timeout);
  }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override {
    return sequence_ + python_->getSequenceNumberForGroup();
  }
  void abort() override { python_->abort(); }
  void shutdown() override { python_->shutdown(); }

 private:
  // Whether the tensors are plain and of one type, and elements of `output` by
  // `a` are those of `input` by `b`.
  static bool fit(const at::Tensor& output, const at::Tensor& input, int a,
                  int b) {
    return is_plain(output) && is_plain(input) &&
           output.scalar_type() == input.scalar_type() &&
           output.numel() * b == input.numel() * a;
  }

  static const int64_t* data(const std::vector<int64_t>& splits) {
    return splits.empty() ? nullptr : splits.data();
  }

  // Runs a call of the C API in this thread when the caller waits anyhow, else
  // begins it.
  template <class Opts, class F>
  intrusive_ptr<Work> run(const Opts& opts, Tensors inputs, Tensors outputs,
                          const F& call) {
    ++sequence_;
    distwrap_op_options options = {};
    options.struct_size = sizeof options;
    options.group = group_;
    options.timeout = nanoseconds(opts.timeout, 0);
    Error error;
    if (!opts.asyncOp) {
      check(call(&options, static_cast<distwrap_work*>(nullptr), &error.handle),
            error);
      return finished();
    }
    distwrap_work work = nullptr;
    check(call(&options, &work, &error.handle), error);
    return c10::make_intrusive<Begun>(work, std::move(inputs),
                                      std::move(outputs));
  }

  template <class F>
  intrusive_ptr<Work> message(Tensors inputs, Tensors outputs, const F& call) {
    distwrap_op_options options = {};
    options.struct_size = sizeof options;
    options.group = group_;
    distwrap_work work = nullptr;
    Error error;
    check(call(&options, &work, &error.handle), error);
    return c10::make_intrusive<Begun>(work, std::move(inputs),
                                      std::move(outputs));
  }

  const intrusive_ptr<Backend> python_;
  const distwrap_group group_;  // python_ holds the handle
  bool in_block_ = false;
  uint64_t sequence_ = 0;
};

}  // namespace

PYBIND11_MODULE(distwrap_torch_compiled, m) {
  m.attr("KEY") = DISTWRAP_TORCH_KEY;
  py::class_<Compiled, c10d::Backend, intrusive_ptr<Compiled>>(m, "Backend")
      .def(py::init<intrusive_ptr<c10d::Backend>, uintptr_t>())
      .def_property_readonly("python_form", &Compiled::python);
}
