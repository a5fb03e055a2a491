// Meshes of ranks, plans and redistribution.
#include "arrays.h"
#include "call.h"
#include "handles.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

using Numbers = std::vector<int64_t>;

distwrap_layout layout_of(const Numbers& sizes, const std::string& text) {
  return {sizes.data(), sizes.size(), text.c_str()};
}

distwrap_plan_options options_of(const char* call, const std::string& mode,
                                 std::optional<int64_t> cap_bytes,
                                 nb::handle wire_dtype = nb::none()) {
  static const char* const kModes[] = {"fastest", "fewest_bytes", "pytorch"};
  distwrap_plan_options options = {};
  options.struct_size = sizeof options;
  options.mode = -1;
  for (int32_t i = 0; i < 3; ++i)
    if (mode == kModes[i]) options.mode = i;
  if (options.mode < 0)
    raise_value(call, "there is no mode " + mode,
                "give fastest, fewest_bytes or pytorch");
  if (cap_bytes.has_value() && *cap_bytes < 1)
    raise_value(call, "cap_bytes is below 1", "give a number of bytes");
  options.cap_bytes = cap_bytes.value_or(0);
  if (!wire_dtype.is_none())
    options.wire_dtype = distwrap_dtype(dtype_of(call, wire_dtype));
  return options;
}

class Mesh {
 public:
  Mesh(const Numbers& sizes,
       const std::optional<std::vector<std::string>>& names,
       const std::optional<std::vector<int32_t>>& ranks) {
    std::vector<const char*> texts;
    distwrap_mesh_options options = {};
    options.struct_size = sizeof options;
    options.axes = static_cast<uint32_t>(sizes.size());
    options.sizes = sizes.data();
    if (names.has_value()) {
      if (names->size() != sizes.size())
        raise_value("DeviceMesh",
                    std::to_string(names->size()) + " names for " +
                        std::to_string(sizes.size()) + " axes",
                    "give a name for each axis", DW_REASON_MESH_SHAPE);
      for (const std::string& name : *names) texts.push_back(name.c_str());
      options.names = texts.data();
    }
    if (ranks.has_value()) {
      options.ranks = ranks->data();
      options.ranks_count = ranks->size();
    }
    Error error;
    check(distwrap_mesh_create(&options, &handle_, &error.handle), error);
  }
  explicit Mesh(distwrap_mesh taken) : handle_(taken) {}
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;
  ~Mesh() {
    const Unlocked released;
    distwrap_mesh_free(handle_);
  }

  Numbers sizes() const {
    const distwrap_mesh_info info = read();
    return {info.sizes, info.sizes + info.axes};
  }
  std::vector<int32_t> ranks() const {
    const distwrap_mesh_info info = read();
    return {info.ranks, info.ranks + info.size};
  }
  int64_t rank() const { return read().rank; }

  nb::object along(const std::vector<int32_t>& axes) const {
    distwrap_mesh part = nullptr;
    Error error;
    check(distwrap_mesh_along(handle_, axes.data(), axes.size(), &part,
                              &error.handle),
          error);
    return nb::cast(new Mesh(part), nb::rv_policy::take_ownership);
  }
  nb::object group(const std::vector<int32_t>& axes) const {
    distwrap_group group = nullptr;
    wait_in(distwrap_group{}, [&](distwrap_error* error) {
      return distwrap_mesh_group(handle_, axes.data(), axes.size(), &group,
                                 error);
    });
    return nb::cast(new ProcessGroup(group), nb::rv_policy::take_ownership);
  }
  // None, or a Work whose result is `out`.
  nb::object redistribute(nb::handle out, const std::string& to,
                          nb::handle tensor, const std::string& from,
                          const Numbers& shape, const std::string& mode,
                          std::optional<int64_t> cap_bytes,
                          nb::handle wire_dtype, nb::handle timeout,
                          bool async_op) const {
    constexpr const char* kCall = "redistribute";
    distwrap_plan_options options =
        options_of(kCall, mode, cap_bytes, wire_dtype);
    options.timeout = nanoseconds_of(kCall, timeout);
    auto held = std::make_unique<Held>();
    held->tensors.push_back(std::make_unique<Tensor>());
    held->tensors.push_back(std::make_unique<Tensor>());
    Tensor &written = *held->tensors[0], &read = *held->tensors[1];
    written.read(out, kCall, "out", Use::kWritten, Elements::kPlaced);
    read.read(tensor, kCall, "tensor", Use::kRead, Elements::kPlaced);
    const auto dims = static_cast<int32_t>(shape.size());
    distwrap_work work = nullptr;
    wait_in(nullptr, [&](distwrap_error* error) {
      return async_op
                 ? distwrap_redistribute_async(
                       handle_, written.get(), to.c_str(), read.get(),
                       from.c_str(), shape.data(), dims, &options, &work, error)
                 : distwrap_redistribute(handle_, written.get(), to.c_str(),
                                         read.get(), from.c_str(), shape.data(),
                                         dims, &options, error);
    });
    if (!async_op) return nb::none();
    nb::list outputs;
    outputs.append(out);
    held->outputs = outputs;
    return make_work(work, std::move(held), nb::none(), kCall);
  }
  void redistribute_many(nb::handle outs, const std::string& to,
                         nb::handle tensors, const std::string& from,
                         const std::vector<Numbers>& shapes,
                         const std::string& mode,
                         std::optional<int64_t> cap_bytes,
                         nb::handle wire_dtype, nb::handle timeout) const {
    constexpr const char* kCall = "redistribute_many";
    distwrap_plan_options options =
        options_of(kCall, mode, cap_bytes, wire_dtype);
    options.timeout = nanoseconds_of(kCall, timeout);
    Tensors written, read;
    written.read_list(outs, kCall, "outs", Use::kWritten, Elements::kPlaced);
    read.read_list(tensors, kCall, "tensors", Use::kRead, Elements::kPlaced);
    if (written.size() != shapes.size() || read.size() != shapes.size())
      raise_value(kCall,
                  std::to_string(read.size()) + " tensors, " +
                      std::to_string(written.size()) + " outs and " +
                      std::to_string(shapes.size()) + " shapes",
                  "give one of each for every tensor");
    std::vector<const int64_t*> extents;
    std::vector<int32_t> dims;
    for (const Numbers& shape : shapes) {
      extents.push_back(shape.data());
      dims.push_back(static_cast<int32_t>(shape.size()));
    }
    wait_in(nullptr, [&](distwrap_error* error) {
      return distwrap_redistribute_many(
          handle_, written.data(), to.c_str(), read.data(), from.c_str(),
          extents.data(), dims.data(), shapes.size(), &options, error);
    });
  }
  void redistribute_to(const Mesh& to_mesh, nb::handle out,
                       const std::string& to, nb::handle tensor,
                       const std::string& from, const Numbers& shape,
                       const std::string& mode,
                       std::optional<int64_t> cap_bytes, nb::handle wire_dtype,
                       nb::handle timeout) const {
    constexpr const char* kCall = "redistribute";
    distwrap_plan_options options =
        options_of(kCall, mode, cap_bytes, wire_dtype);
    options.timeout = nanoseconds_of(kCall, timeout);
    Tensor written, read;
    if (!out.is_none())
      written.read(out, kCall, "out", Use::kWritten, Elements::kPlaced);
    if (!tensor.is_none())
      read.read(tensor, kCall, "tensor", Use::kRead, Elements::kPlaced);
    wait_in(nullptr, [&](distwrap_error* error) {
      return distwrap_redistribute_between(
          to_mesh.handle_, out.is_none() ? nullptr : written.get(), to.c_str(),
          handle_, tensor.is_none() ? nullptr : read.get(), from.c_str(),
          shape.data(), static_cast<int32_t>(shape.size()), &options, error);
    });
  }

 private:
  distwrap_mesh_info read() const {
    distwrap_mesh_info info = {};
    info.struct_size = sizeof info;
    Error error;
    check(distwrap_mesh_read(handle_, &info, &error.handle), error);
    return info;
  }

  distwrap_mesh handle_ = nullptr;
};

class LayoutPlan {
 public:
  LayoutPlan(const Numbers& sizes, const std::string& from,
             const std::string& to, const Numbers& shape, int64_t itemsize,
             const std::string& mode, std::optional<int64_t> cap_bytes,
             int64_t ranks_per_host) {
    distwrap_plan_options options = options_of("plan", mode, cap_bytes);
    options.ranks_per_host = ranks_per_host;
    const distwrap_layout source = layout_of(sizes, from),
                          target = layout_of(sizes, to);
    Error error;
    check(distwrap_plan_create(&source, &target, shape.data(),
                               static_cast<int32_t>(shape.size()), itemsize,
                               &options, &handle_, &error.handle),
          error);
    read();
  }
  explicit LayoutPlan(distwrap_plan taken) : handle_(taken) { read(); }
  LayoutPlan(const LayoutPlan&) = delete;
  LayoutPlan& operator=(const LayoutPlan&) = delete;
  ~LayoutPlan() { distwrap_plan_free(handle_); }

  nb::object backward() const {
    distwrap_plan made = nullptr;
    Error error;
    check(distwrap_plan_backward(handle_, &made, &error.handle), error);
    return nb::cast(new LayoutPlan(made), nb::rv_policy::take_ownership);
  }

  const distwrap_plan_info& info() const { return info_; }
  std::string text() const {
    List list;
    Error error;
    check(distwrap_plan_text(handle_, &list.handle, &error.handle), error);
    const distwrap_bytes one = list.item(0);
    return {static_cast<const char*>(one.data), one.size};
  }

 private:
  void read() {
    Error error;
    info_.struct_size = sizeof info_;
    check(distwrap_plan_read(handle_, &info_, &error.handle), error);
  }

  distwrap_plan handle_ = nullptr;
  distwrap_plan_info info_ = {};
};

std::pair<Numbers, Numbers> layout_part(const Numbers& sizes,
                                        const std::string& text,
                                        const Numbers& shape, int64_t rank) {
  std::pair<Numbers, Numbers> part(Numbers(shape.size()),
                                   Numbers(shape.size()));
  const distwrap_layout layout = layout_of(sizes, text);
  Error error;
  check(distwrap_layout_part(
            &layout, shape.data(), static_cast<int32_t>(shape.size()), rank,
            part.first.data(), part.second.data(), &error.handle),
        error);
  return part;
}

}  // namespace

void add_meshes(nb::module_& m) {
  nb::class_<Mesh>(m, "_Mesh")
      .def(nb::init<const Numbers&,
                    const std::optional<std::vector<std::string>>&,
                    const std::optional<std::vector<int32_t>>&>(),
           "sizes"_a, "names"_a = nb::none(), "ranks"_a = nb::none())
      .def("sizes", &Mesh::sizes)
      .def("ranks", &Mesh::ranks)
      .def("rank", &Mesh::rank)
      .def("along", &Mesh::along, "axes"_a)
      .def("group", &Mesh::group, "axes"_a)
      .def("redistribute", &Mesh::redistribute, "out"_a, "to"_a, "tensor"_a,
           "from_"_a, "shape"_a, "mode"_a, "cap_bytes"_a.none(),
           "wire_dtype"_a.none(), "timeout"_a.none(), "async_op"_a)
      .def("redistribute_many", &Mesh::redistribute_many, "outs"_a, "to"_a,
           "tensors"_a, "from_"_a, "shapes"_a, "mode"_a, "cap_bytes"_a.none(),
           "wire_dtype"_a.none(), "timeout"_a.none())
      .def("redistribute_to", &Mesh::redistribute_to, "to_mesh"_a,
           "out"_a.none(), "to"_a, "tensor"_a.none(), "from_"_a, "shape"_a,
           "mode"_a, "cap_bytes"_a.none(), "wire_dtype"_a.none(),
           "timeout"_a.none());
  nb::class_<LayoutPlan>(
      m, "Plan",
      "The steps by which a tensor gets from one layout to "
      "another, equal on all ranks. Counts are elements of the "
      "rank, or the host, with the most.")
      .def(nb::init<const Numbers&, const std::string&, const std::string&,
                    const Numbers&, int64_t, const std::string&,
                    std::optional<int64_t>, int64_t>(),
           "sizes"_a, "src"_a, "dst"_a, "shape"_a, "itemsize"_a = 4,
           "mode"_a = "fastest", "cap_bytes"_a = nb::none(),
           "ranks_per_host"_a = 0)
      .def("__str__", &LayoutPlan::text)
      .def("backward", &LayoutPlan::backward,
           "The plan for the gradient: from that of the result, of the layout "
           "dst, to that of the tensor, of the layout src. S and R stay, R^ "
           "becomes P, and P becomes R^. kPartialState for partial layouts "
           "that have no gradient, such as P(max).")
      .def_prop_ro("text", &LayoutPlan::text,
                   "The plan as docs/redistribution.md "
                   "explains it.")
      .def_prop_ro(
          "collectives",
          [](const LayoutPlan& p) { return p.info().collectives; },
          "Number of steps that communicate.")
      .def_prop_ro(
          "steps", [](const LayoutPlan& p) { return p.info().steps; },
          "Number of all steps.")
      .def_prop_ro(
          "received", [](const LayoutPlan& p) { return p.info().received; },
          "Elements received.")
      .def_prop_ro(
          "peak", [](const LayoutPlan& p) { return p.info().peak; },
          "Elements held at once.")
      .def_prop_ro(
          "into_host", [](const LayoutPlan& p) { return p.info().into_host; },
          "Elements from other hosts.")
      .def_prop_ro(
          "floor",
          [](const LayoutPlan& p) -> std::optional<int64_t> {
            if (p.info().floor < 0) return std::nullopt;
            return p.info().floor;
          },
          "Elements of the target that a rank lacks; None with partial axes.")
      .def_prop_ro(
          "price", [](const LayoutPlan& p) { return p.info().price; },
          "Estimated nanoseconds.")
      .def_prop_ro(
          "diverged",
          [](const LayoutPlan& p) { return p.info().diverged != 0; },
          "Whether PyTorch's steps give another result, so that this plan is "
          "the fastest one.");
  m.def("_layout_part", &layout_part, "sizes"_a, "text"_a, "shape"_a, "rank"_a);
}

}  // namespace distwrap_python
