#include "arrays.h"

#include "call.h"

#include <cstring>
#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

struct Named {
  const char* name;
  int32_t dtype;
  const char* format;  // of the buffer protocol
};
constexpr Named kNames[] = {
    {"uint8", DW_DTYPE_U8, "B"},    {"int8", DW_DTYPE_I8, "b"},
    {"uint16", DW_DTYPE_U16, "H"},  {"int16", DW_DTYPE_I16, "h"},
    {"uint32", DW_DTYPE_U32, "I"},  {"int32", DW_DTYPE_I32, "i"},
    {"uint64", DW_DTYPE_U64, "Q"},  {"int64", DW_DTYPE_I64, "q"},
    {"float16", DW_DTYPE_F16, "e"}, {"bfloat16", DW_DTYPE_BF16, "H"},
    {"float32", DW_DTYPE_F32, "f"}, {"float64", DW_DTYPE_F64, "d"},
    {"bool", DW_DTYPE_BOOL, "?"},
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

PyType_Slot pages_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)}, {0, nullptr}};

nb::object loaded_module(const char* name) {
  const nb::dict modules =
      nb::borrow<nb::dict>(nb::module_::import_("sys").attr("modules"));
  PyObject* const found = PyDict_GetItemString(modules.ptr(), name);
  return found == nullptr ? nb::none() : nb::borrow(found);
}

// NumPy; None where it is not installed.
nb::object numpy() {
  PyObject* const module = PyImport_ImportModule("numpy");
  if (module == nullptr) {
    PyErr_Clear();
    return nb::none();
  }
  return nb::steal(module);
}

}  // namespace

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

nb::object array_of(const char* call, void* data, dw_dtype dtype,
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
  const nb::object pages =
      nb::cast(made.release(), nb::rv_policy::take_ownership);
  const nb::object library = numpy();
  if (library.is_none()) return nb::steal(PyMemoryView_FromObject(pages.ptr()));
  nb::object array = library.attr("asarray")(pages);
  if (dtype.code == 4) {  // NumPy itself has no bfloat16
    const nb::object types = loaded_module("ml_dtypes");
    if (!types.is_none()) array = array.attr("view")(types.attr("bfloat16"));
  }
  return array;
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

void add_arrays(nb::module_& m) {
  nb::class_<Memory>(m, "Memory", "Memory that a backend knows, until it ends.")
      .def("release", &Memory::release,
           "Ends it now. ValueError while an operation uses the memory.");
  m.def(
      "register_mem_pool",
      [](nb::handle pool, nb::handle group) {
        return nb::cast(new Memory(pool, group), nb::rv_policy::take_ownership);
      },
      "pool"_a, "group"_a = nb::none(),
      "Tells the group's backend of an array, such as the pool of another "
      "library, so that operations on it need no copies. Returns a Memory, "
      "whose end takes it back. NotImplementedError where the backend has no "
      "use for it. NCCL: ncclCommRegister.");
  nb::class_<Pages>(m, "_Pages", nb::type_slots(pages_slots));
  m.def(
      "empty",
      [](nb::handle shape, nb::handle dtype, nb::handle group) {
        constexpr const char* kCall = "empty";
        std::vector<int64_t> extents;
        if (PyIndex_Check(shape.ptr()) != 0) {
          extents.push_back(nb::cast<int64_t>(shape));
        } else {
          for (nb::handle one : nb::borrow<nb::iterable>(shape))
            extents.push_back(nb::cast<int64_t>(one));
        }
        const dw_dtype type = distwrap_dtype(dtype_of(kCall, dtype));
        int64_t bytes = type.bits / 8;
        for (const int64_t extent : extents)
          if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
            raise_value(kCall, "the shape is impossible",
                        "give extents of 0 or more");
        const distwrap_group of = group_of(kCall, group);
        distwrap_memory memory = nullptr;
        void* data = nullptr;
        Error error;
        const int32_t code = distwrap_mem_alloc(of, {DW_DEVICE_CPU, 0}, bytes,
                                                &memory, &data, &error.handle);
        if (code == DW_UNIMPLEMENTED) {
          // The backend takes any memory alike.
          void* const plain = calloc(1, static_cast<size_t>(bytes) + 1);
          if (plain == nullptr) throw std::bad_alloc();
          return array_of(kCall, plain, type, extents.data(),
                          static_cast<int>(extents.size()),
                          [plain] { free(plain); });
        }
        check(code, error);
        return array_of(kCall, data, type, extents.data(),
                        static_cast<int>(extents.size()), [memory] {
                          const Unlocked released;
                          distwrap_mem_free(memory, nullptr);
                        });
      },
      "shape"_a, "dtype"_a = "float32", "group"_a = nb::none(),
      "An array of zeros in memory of the group's backend, so that operations "
      "on it need no copies. It may outlive the group.");
}

}  // namespace distwrap_python
