// Exchanges of one piece for each rank.
#include "arrays.h"
#include "call.h"
#include "lists.h"

#include <memory>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

using H = nb::handle;

nb::object dynamic(H outs, H output_counts, H ins, H input_counts, H group,
                   bool async_op, H timeout, H label) {
  OperationCall call("alltoallv_dynamic", group, async_op, timeout, label);
  const Tensors& to = call.list(outs, "outs", Use::kWritten);
  const auto* const received =
      call.tensor(output_counts, "output_counts", Use::kWritten);
  const Tensors& from = call.list(ins, "ins", Use::kRead);
  const auto* const counts =
      call.tensor(input_counts, "input_counts", Use::kRead);
  return call.run([&](auto* o, auto* w, auto* e) {
    return distwrap_alltoallv_dynamic(to.data(), to.size(), received,
                                      from.data(), from.size(), counts, o, w,
                                      e);
  });
}

nb::object dynamic_split(H outs, H output_counts, H input,
                         H input_split_lengths, H group, bool async_op,
                         H timeout, H label) {
  OperationCall call("alltoallv_dynamic_split", group, async_op, timeout,
                     label);
  const Tensors& to = call.list(outs, "outs", Use::kWritten);
  const auto* const received =
      call.tensor(output_counts, "output_counts", Use::kWritten);
  const auto* const from = call.tensor(input, "input", Use::kRead);
  const auto* const lengths =
      call.tensor(input_split_lengths, "input_split_lengths", Use::kRead);
  return call.run([&](auto* o, auto* w, auto* e) {
    return distwrap_alltoallv_dynamic_split(to.data(), to.size(), received,
                                            from, lengths, o, w, e);
  });
}

nb::object single(H output, H input, H output_split_sizes, H input_split_sizes,
                  H hints, H group, bool async_op, H timeout, H label) {
  constexpr const char* kCall = "device_alltoallv_single";
  OperationCall call(kCall, group, async_op, timeout, label);
  const auto* const to = call.tensor(output, "output", Use::kWritten);
  const auto* const from = call.tensor(input, "input", Use::kRead);
  const auto* const receives =
      call.tensor(output_split_sizes, "output_split_sizes", Use::kRead);
  const auto* const sends =
      call.tensor(input_split_sizes, "input_split_sizes", Use::kRead);
  const Pairs given(kCall, hints);
  return call.run([&](auto* o, auto* w, auto* e) {
    return distwrap_device_alltoallv_single(to, from, receives, sends,
                                            given.pairs.data(),
                                            given.pairs.size(), o, w, e);
  });
}

// A prepared exchange. Arrays over its memory keep it.
class PreparedExchange {
 public:
  PreparedExchange(H group, int64_t capacity_bytes, int64_t max_bytes_per_peer)
      : group_(nb::borrow(group)) {
    distwrap_alltoallv_op made = nullptr;
    Error error;
    check(distwrap_alltoallv_op_create(on(), capacity_bytes, max_bytes_per_peer,
                                       &made, &error.handle),
          error);
    op_ = std::make_shared<Owned>(made);
  }

  void setup() {
    wait_in(on(), [&](distwrap_error* error) {
      return distwrap_alltoallv_op_setup(op_->handle, error);
    });
  }
  void close() {
    wait_in(on(), [&](distwrap_error* error) {
      return distwrap_alltoallv_op_close(op_->handle, error);
    });
  }
  nb::object send_buffer(int64_t count, H dtype) {
    constexpr const char* kCall = "send_buffer";
    distwrap_output memory = {};
    Error error;
    check(
        distwrap_alltoallv_op_send_buffer(
            op_->handle, count, dtype_of(kCall, dtype), &memory, &error.handle),
        error);
    return array_over(kCall, memory, {count});
  }
  nb::object run(H x, H out_splits, H in_splits, H timeout, H label) {
    constexpr const char* kCall = "alltoallv";
    OperationCall call(kCall, nb::none(), false, timeout, label);
    const auto* const from = call.tensor_or_none(x, "x", Use::kRead, true);
    const Rows outs(kCall, "out_splits", out_splits),
        ins(kCall, "in_splits", in_splits);
    if (outs.rows.size() != ins.rows.size())
      raise_value(kCall, "out_splits and in_splits differ in size",
                  "give one number of rows for each rank in both");
    distwrap_output came = {};
    wait_in(on(), [&](distwrap_error* error) {
      return distwrap_alltoallv_op_run(op_->handle, from, outs.data(),
                                       ins.data(), outs.rows.size(),
                                       call.options().get(), &came, error);
    });
    std::vector<int64_t> shape = {0};
    for (const int64_t rows : outs.rows) shape[0] += rows;
    for (int d = 1; from != nullptr && d < from->ndim; ++d)
      shape.push_back(from->shape[d]);
    return array_over(kCall, came, shape);
  }

 private:
  struct Owned {
    explicit Owned(distwrap_alltoallv_op taken) : handle(taken) {}
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() {
      Free([this] { distwrap_alltoallv_op_free(handle); });
    }
    const distwrap_alltoallv_op handle;
  };

  distwrap_group on() const { return group_of("AllToAllVOp", group_); }
  nb::object array_over(const char* call, const distwrap_output& memory,
                        const std::vector<int64_t>& shape) const {
    return array_of(call, memory.data, distwrap_dtype(memory.dtype),
                    shape.data(), static_cast<int>(shape.size()),
                    [kept = op_] {});
  }

  const nb::object group_;
  std::shared_ptr<Owned> op_;
};

}  // namespace

void add_moe_pieces(nb::module_& m) {
  nb::class_<PreparedExchange>(m, "_PreparedExchange")
      .def(nb::init<H, int64_t, int64_t>(), "group"_a.none(),
           "capacity_bytes"_a, "max_bytes_per_peer"_a)
      .def("setup", &PreparedExchange::setup)
      .def("close", &PreparedExchange::close)
      .def("send_buffer", &PreparedExchange::send_buffer, "count"_a, "dtype"_a)
      .def("run", &PreparedExchange::run, "x"_a.none(), "out_splits"_a,
           "in_splits"_a, "timeout"_a.none(), "label"_a.none());
  m.def("_dynamic", &dynamic, "outs"_a, "output_counts"_a, "ins"_a,
        "input_counts"_a, "group"_a.none(), "async_op"_a, "timeout"_a.none(),
        "label"_a.none());
  m.def("_dynamic_split", &dynamic_split, "outs"_a, "output_counts"_a,
        "input"_a, "input_split_lengths"_a, "group"_a.none(), "async_op"_a,
        "timeout"_a.none(), "label"_a.none());
  m.def("_alltoallv_single", &single, "output"_a, "input"_a,
        "output_split_sizes"_a, "input_split_sizes"_a, "hints"_a.none(),
        "group"_a.none(), "async_op"_a, "timeout"_a.none(), "label"_a.none());
}

}  // namespace distwrap_python
