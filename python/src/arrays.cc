#include "arrays.h"

#include "call.h"
#include "docs.h"

#include <cstring>
#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

struct Named {
  const char* name;
  int32_t dtype;
  const char* format;  // the buffer protocol's
};
constexpr Named kNames[] = {
    {"uint8", DW_DTYPE_U8, "B"},
    {"int8", DW_DTYPE_I8, "b"},
    {"uint16", DW_DTYPE_U16, "H"},
    {"int16", DW_DTYPE_I16, "h"},
    {"uint32", DW_DTYPE_U32, "I"},
    {"int32", DW_DTYPE_I32, "i"},
    {"uint64", DW_DTYPE_U64, "Q"},
    {"int64", DW_DTYPE_I64, "q"},
    {"float16", DW_DTYPE_F16, "e"},
    {"bfloat16", DW_DTYPE_BF16, "H"},
    {"float32", DW_DTYPE_F32, "f"},
    {"float64", DW_DTYPE_F64, "d"},
    {"bool", DW_DTYPE_BOOL, "?"},
    {"float8_e4m3fn", DW_DTYPE_F8E4M3FN, "B"},
    {"float8_e5m2", DW_DTYPE_F8E5M2, "B"},
};

const Named* named(dw_dtype dtype) {
  for (const Named& one : kNames) {
    const dw_dtype known = distwrap_dtype(one.dtype);
    if (known.code == dtype.code && known.bits == dtype.bits &&
        dtype.lanes == 1)
      return &one;
  }
  return nullptr;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  Pages& pages = *nb::inst_ptr<Pages>(self);
  if (pages.device.device_type != DW_DEVICE_CPU) {
    PyErr_SetString(PyExc_BufferError, "this is memory of a device");
    return -1;
  }
  Py_ssize_t bytes = pages.dtype.bits / 8;
  for (const Py_ssize_t extent : pages.shape) bytes *= extent;
  *view = {};
  view->buf = pages.data;
  view->len = bytes;
  view->itemsize = pages.dtype.bits / 8;
  view->ndim = static_cast<int>(pages.shape.size());
  if ((flags & PyBUF_FORMAT) != 0) view->format = pages.format.data();
  if ((flags & PyBUF_ND) != 0) view->shape = pages.shape.data();
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES)
    view->strides = pages.strides.data();
  view->obj = Py_NewRef(self);
  return 0;
}

// Pages as a DLPack capsule, which keeps them.
nb::object dlpack_of(nb::handle self) {
  struct Shown {
    distwrap_managed_tensor managed = {};
    std::vector<int64_t> shape;
    PyObject* pages = nullptr;
  };
  const Pages& pages = *nb::inst_ptr<Pages>(self);
  auto shown = std::make_unique<Shown>();
  shown->shape.assign(pages.shape.begin(), pages.shape.end());
  shown->managed.version = {1, 0};
  shown->managed.dl_tensor = {pages.data,
                              pages.device,
                              static_cast<int32_t>(pages.shape.size()),
                              pages.dtype,
                              shown->shape.data(),
                              nullptr,
                              0};
  shown->managed.manager_ctx = shown.get();
  shown->managed.deleter = [](distwrap_managed_tensor* managed) {
    const std::unique_ptr<Shown> ended(
        static_cast<Shown*>(managed->manager_ctx));
    const Locked locked;
    if (locked) Py_DECREF(ended->pages);
  };
  PyObject* const capsule = PyCapsule_New(
      &shown->managed, "dltensor_versioned", [](PyObject* unused) {
        if (PyCapsule_IsValid(unused, "dltensor_versioned") == 0) return;
        auto* const managed = static_cast<distwrap_managed_tensor*>(
            PyCapsule_GetPointer(unused, "dltensor_versioned"));
        managed->deleter(managed);
      });
  if (capsule == nullptr) throw nb::python_error();
  shown.release()->pages = self.inc_ref().ptr();
  return nb::steal(capsule);
}

PyType_Slot pages_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)}, {0, nullptr}};

// A module; None where it is not installed.
nb::object installed_module(const char* name) {
  PyObject* const module = PyImport_ImportModule(name);
  if (module == nullptr) {
    PyErr_Clear();
    return nb::none();
  }
  return nb::steal(module);
}

// Whether NumPy itself lacks the type. An array of its bits would be reduced as
// integers.
bool is_of_ml_dtypes(dw_dtype dtype) {
  constexpr uint8_t kBfloat = 4, kFloat8 = 7;  // DLPack's, the first of eight
  return dtype.code == kBfloat || dtype.code >= kFloat8;
}

nb::object array_of_ml_dtypes(const char* call, const nb::object& pages,
                              const char* name) {
  const nb::object types = installed_module("ml_dtypes");
  if (!types.is_none())
    return installed_module("numpy").attr("asarray")(pages).attr("view")(
        types.attr(name));
  const nb::object torch = loaded_module("torch");
  if (!torch.is_none()) return torch.attr("from_dlpack")(pages);
  raise_value(call,
              std::string("no library that is here has arrays of ") + name,
              "install ml_dtypes, or import torch first");
}

}  // namespace

nb::object loaded_module(const char* name) {
  const nb::dict modules =
      nb::borrow<nb::dict>(nb::module_::import_("sys").attr("modules"));
  PyObject* const found = PyDict_GetItemString(modules.ptr(), name);
  return found == nullptr ? nb::none() : nb::borrow(found);
}

int32_t dtype_of(const char* call, nb::handle dtype) {
  // "float32", numpy.float32, numpy.dtype("float32"), torch.float32
  std::string name;
  if (PyUnicode_Check(dtype.ptr()) != 0)
    name = nb::cast<std::string>(dtype);
  else if (nb::hasattr(dtype, "name"))
    name = nb::cast<std::string>(nb::str(dtype.attr("name")));
  else if (nb::hasattr(dtype, "__name__"))
    name = nb::cast<std::string>(nb::str(dtype.attr("__name__")));
  else
    name = nb::cast<std::string>(nb::str(dtype));
  name = name.substr(name.rfind('.') + 1);
  for (const Named& one : kNames)
    if (name == one.name) return one.dtype;
  if (name == "float") return DW_DTYPE_F64;
  if (name == "int") return DW_DTYPE_I64;
  raise_value(call, "there is no element type " + name,
              "give one such as 'float32', 'int64' or 'bool'");
}

nb::object pages_of(const char* call, void* data, dw_dtype dtype,
                    const int64_t* shape, int ndim,
                    std::function<void()> release) {
  auto made = std::make_unique<Pages>();
  made->release = std::move(release);
  const Named* const type = named(dtype);
  if (type == nullptr)
    raise_value(call, "the element type has no array in Python",
                "use one of the types of docs/operations.md");
  made->data = data;
  made->dtype = dtype;
  made->format = type->format;
  made->shape.assign(shape, shape + ndim);
  made->strides.resize(made->shape.size());
  Py_ssize_t step = dtype.bits / 8;
  for (size_t i = made->shape.size(); i-- > 0;) {
    made->strides[i] = step;
    step *= made->shape[i];
  }
  return nb::cast(made.release(), nb::rv_policy::take_ownership);
}

nb::object array_of(const char* call, void* data, dw_dtype dtype,
                    const int64_t* shape, int ndim,
                    std::function<void()> release) {
  const nb::object pages =
      pages_of(call, data, dtype, shape, ndim, std::move(release));
  return array_in(call, pages);
}

nb::object array_in(const char* call, const nb::object& pages) {
  const dw_dtype dtype = nb::inst_ptr<Pages>(pages)->dtype;
  if (is_of_ml_dtypes(dtype))
    return array_of_ml_dtypes(call, pages, named(dtype)->name);
  const nb::object library = installed_module("numpy");
  if (library.is_none()) return nb::steal(PyMemoryView_FromObject(pages.ptr()));
  return library.attr("asarray")(pages);
}

// Memory of the program that a backend knows.
class Memory {
 public:
  Memory(nb::handle pool, nb::handle group) {
    constexpr const char* kCall = "register_mem_pool";
    pool_.read(pool, kCall, "pool", Use::kWritten, Elements::kMoved);
    const distwrap_tensor& all = *pool_.get();
    int64_t bytes = all.dtype.bits / 8;
    for (int i = 0; i < all.ndim; ++i) bytes *= all.shape[i];
    Error error;
    check(distwrap_register_mem_pool(
              group_of(kCall, group), all.device,
              static_cast<char*>(all.data) + all.byte_offset, bytes, &handle_,
              &error.handle),
          error);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (handle_ == nullptr) return;
    const Unlocked released;
    distwrap_mem_free(handle_, nullptr);
  }
  void release() {
    if (handle_ == nullptr) return;
    Error error;
    int32_t code;
    {
      const Unlocked released;
      code = distwrap_mem_free(handle_, &error.handle);
    }
    check(code, error);
    handle_ = nullptr;
  }

 private:
  Tensor pool_;
  distwrap_memory handle_ = nullptr;
};

std::vector<int64_t> extents_of(const char* call, nb::handle shape) {
  if (PyIndex_Check(shape.ptr()) != 0)
    return {integer_of(call, "the shape", shape)};
  std::vector<int64_t> extents;
  for (nb::handle one : nb::borrow<nb::iterable>(shape))
    extents.push_back(integer_of(call, "an extent of the shape", one));
  return extents;
}

// The device of a tensor, or DLPack's pair; memory of the host for None.
distwrap_device device_of(const char* call, nb::handle device) {
  if (device.is_none()) return {DW_DEVICE_CPU, 0};
  const nb::object pair = nb::hasattr(device, "__dlpack_device__")
                              ? device.attr("__dlpack_device__")()
                              : nb::borrow(device);
  if (!nb::isinstance<nb::tuple>(pair) || nb::len(pair) != 2)
    raise_value(call, "the device is neither a tensor nor a pair of numbers",
                "give a tensor that lies there, or DLPack's pair, (2, 0)");
  const auto number = [&](size_t i) {
    const int64_t given = integer_of(call, "a number of the device", pair[i]);
    if (given < 0 || given > INT32_MAX)
      raise_value(call, "the device has the number " + std::to_string(given),
                  "give DLPack's pair, (2, 0)");
    return static_cast<int32_t>(given);
  };
  return {number(0), number(1)};
}

// An array of zeros in the backend's memory of the host, or memory of a device,
// which may hold anything at first. Where the backend has none of its own, in
// plain memory if `or_plain`.
nb::object allocated(const char* call, nb::handle shape, nb::handle dtype,
                     nb::handle group, distwrap_device device, bool or_plain) {
  const std::vector<int64_t> extents = extents_of(call, shape);
  const dw_dtype type = distwrap_dtype(dtype_of(call, dtype));
  int64_t bytes = type.bits / 8;
  for (const int64_t extent : extents)
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
      raise_value(call, "the shape is impossible", "give extents of 0 or more");
  const int ndim = static_cast<int>(extents.size());
  distwrap_memory memory = nullptr;
  void* data = nullptr;
  Error error;
  const int32_t code = distwrap_mem_alloc(group_of(call, group), device, bytes,
                                          &memory, &data, &error.handle);
  if (code == DW_UNIMPLEMENTED && or_plain) {
    void* const plain = calloc(1, static_cast<size_t>(bytes) + 1);
    if (plain == nullptr) throw std::bad_alloc();
    return array_of(call, plain, type, extents.data(), ndim,
                    [plain] { free(plain); });
  }
  check(code, error);
  const auto release = [memory] {
    const Unlocked released;
    distwrap_mem_free(memory, nullptr);
  };
  if (device.device_type == DW_DEVICE_CPU)
    return array_of(call, data, type, extents.data(), ndim, release);
  const nb::object pages =
      pages_of(call, data, type, extents.data(), ndim, release);
  nb::inst_ptr<Pages>(pages)->device = device;
  return pages;
}

class MemAllocator {
 public:
  MemAllocator(nb::handle group, nb::handle device)
      : group_(nb::borrow(group)),
        device_(device_of("get_mem_allocator", device)) {
    // Only an allocation tells whether the backend has memory of its own.
    allocated("get_mem_allocator", nb::int_(1), nb::str("uint8"), group_,
              device_, false);
  }
  nb::object allocate(nb::handle shape, nb::handle dtype) const {
    return allocated("allocate", shape, dtype, group_, device_, false);
  }

 private:
  const nb::object group_;
  const distwrap_device device_;
};

void add_arrays(nb::module_& m) {
  nb::class_<Memory>(m, "Memory", doc::Memory)
      .def("release", &Memory::release, doc::Memory_release);
  m.def(
      "register_mem_pool",
      [](nb::handle pool, nb::handle group) {
        return nb::cast(new Memory(pool, group), nb::rv_policy::take_ownership);
      },
      "pool"_a, "group"_a = nb::none(), doc::register_mem_pool);
  nb::class_<Pages>(m, "_Pages", nb::type_slots(pages_slots))
      .def("__dlpack__",
           [](nb::handle self, const nb::kwargs&) { return dlpack_of(self); })
      .def("__dlpack_device__", [](nb::handle self) {
        const distwrap_device on = nb::inst_ptr<Pages>(self)->device;
        return nb::make_tuple(on.device_type, on.device_id);
      });
  nb::class_<MemAllocator>(m, "MemAllocator", doc::MemAllocator)
      .def("allocate", &MemAllocator::allocate, "shape"_a,
           "dtype"_a = "float32", doc::MemAllocator_allocate);
  m.def(
      "get_mem_allocator",
      [](nb::handle group, nb::handle device) {
        return nb::cast(new MemAllocator(group, device),
                        nb::rv_policy::take_ownership);
      },
      "group"_a = nb::none(), "device"_a = nb::none(), doc::get_mem_allocator);
  m.def(
      "empty",
      [](nb::handle shape, nb::handle dtype, nb::handle group) {
        return allocated("empty", shape, dtype, group, {DW_DEVICE_CPU, 0},
                         true);
      },
      "shape"_a, "dtype"_a = "float32", "group"_a = nb::none(), doc::empty);
}

}  // namespace distwrap_python
