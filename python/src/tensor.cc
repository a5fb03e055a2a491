#include "tensor.h"

#include "error.h"

#include <algorithm>
#include <cstring>
#include <nanobind/stl/string.h>
#include <string_view>

namespace nb = nanobind;

namespace distwrap_python {
namespace {

constexpr const char* kStrided =
    "is strided: its elements do not lie side by side";

// DLPack 1.3's table of functions. Its leading fields never move.
struct ExchangeTable {
  uint32_t major, minor;
  ExchangeTable* older;
  void* allocate;
  void* from_object;
  void* to_object;
  int (*tensor_of_object)(void* object, distwrap_tensor* tensor);
  int (*current_stream)(int32_t device_type, int32_t device, void** stream);
};

// CUDA's handle of the legacy default stream, which some call 0.
void* const kLegacyStream = reinterpret_cast<void*>(1);

// How objects of a type are read. A type stays as long as it is known here.
struct KnownType {
  PyTypeObject* type = nullptr;
  void* exchange = nullptr;  // the type's table, or NULL
};
constexpr int kKnownTypes = 8;
KnownType known_types[kKnownTypes];
int next_known = 0;

void* exchange_of(PyTypeObject* type) {
  PyObject* const capsule = PyObject_GetAttrString(
      reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
  if (capsule == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  void* table = nullptr;
  if (PyCapsule_CheckExact(capsule))
    table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  Py_DECREF(capsule);
  const auto* const given = static_cast<const ExchangeTable*>(table);
  return given != nullptr && given->major == 1 &&
                 given->tensor_of_object != nullptr
             ? table
             : nullptr;
}

void* known_exchange(PyTypeObject* type) {
  for (const KnownType& known : known_types)
    if (known.type == type) return known.exchange;
  KnownType& place = known_types[next_known++ % kKnownTypes];
  void* const exchange = exchange_of(type);
  Py_INCREF(reinterpret_cast<PyObject*>(type));
  PyTypeObject* const before = place.type;
  place = {type, exchange};
  Py_XDECREF(reinterpret_cast<PyObject*>(before));
  return exchange;
}

constexpr uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5,
                  kBool = 6;

// The element type of a format of the buffer protocol; bits of 0 for none.
dw_dtype dtype_of_format(const char* format, Py_ssize_t size,
                         const char** problem) {
  const auto bits = static_cast<uint8_t>(size * 8);
  if (format == nullptr) return {kUInt, 8, 1};
  if (*format == '>' || *format == '!') {
    *problem = "is big-endian";
    return {};
  }
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (std::strchr("bhilqn", *format) != nullptr && format[0] != '\0' &&
      format[1] == '\0')
    return {kInt, bits, 1};
  if (std::strchr("BHILQNc", *format) != nullptr && format[0] != '\0' &&
      format[1] == '\0')
    return {kUInt, bits, 1};
  if (std::strcmp(format, "?") == 0) return {kBool, 8, 1};
  if ((*format == 'e' || *format == 'f' || *format == 'd') && format[1] == '\0')
    return {kFloat, bits, 1};
  if (*format == 'Z' && (format[1] == 'f' || format[1] == 'd'))
    return {kComplex, bits, 1};
  *problem = "has elements that are no numbers of 8 to 64 bits";
  return {};
}

// The element type of a name of ml_dtypes; bits of 0 for others. The codes are
// DLPack's.
dw_dtype dtype_of_ml_dtypes(std::string_view name) {
  constexpr struct {
    std::string_view name;
    dw_dtype dtype;
  } kTypes[] = {
      {"bfloat16", {kBfloat, 16, 1}}, {"float8_e3m4", {7, 8, 1}},
      {"float8_e4m3", {8, 8, 1}},     {"float8_e4m3b11fnuz", {9, 8, 1}},
      {"float8_e4m3fn", {10, 8, 1}},  {"float8_e4m3fnuz", {11, 8, 1}},
      {"float8_e5m2", {12, 8, 1}},    {"float8_e5m2fnuz", {13, 8, 1}},
      {"float8_e8m0fnu", {14, 8, 1}},
  };
  for (const auto& one : kTypes)
    if (name == one.name) return one.dtype;
  return {};
}

bool known(dw_dtype dtype) {
  if (dtype.lanes != 1) return false;
  for (int32_t i = 0;; ++i) {
    const dw_dtype one = distwrap_dtype(i);
    if (one.bits == 0) return false;
    if (one.code == dtype.code && one.bits == dtype.bits) return true;
  }
}

}  // namespace

Tensor::~Tensor() {
  if (has_buffer_) PyBuffer_Release(&buffer_);
  if (managed_ != nullptr && managed_->deleter != nullptr)
    managed_->deleter(managed_);
  Py_XDECREF(owner_);
}

void Tensor::read(nb::handle object, const char* call, const char* name,
                  Use use, Elements elements) {
  void* const exchange = known_exchange(Py_TYPE(object.ptr()));
  const bool is_read = exchange != nullptr
                           ? read_exchange(object, exchange)
                           : read_buffer(object) || read_dlpack(object);
  if (!is_read) {
    if (PyErr_Occurred() != nullptr) {
      nb::python_error cause;
      raise_value(call, std::string(name) + " cannot be used: " + cause.what(),
                  "give a contiguous array of numbers");
    }
    raise_type(call,
               std::string(name) + " is of type " + type_of(object) +
                   ", which is no tensor",
               "give a NumPy array, a memoryview, or a tensor that speaks "
               "DLPack");
  }
  check(object, call, name, use, elements);
}

// False without an exception: the object is no tensor of this kind.
bool Tensor::read_exchange(nb::handle object, void* table) {
  const auto* const functions = static_cast<const ExchangeTable*>(table);
  if (functions->tensor_of_object(object.ptr(), &tensor_) != 0) return false;
  owner_ = object.inc_ref().ptr();
  exchange_ = table;
  return true;
}

dw_stream Tensor::current_stream() const {
  dw_stream stream = {tensor_.device.device_type, tensor_.device.device_id,
                      kLegacyStream};
  const auto* const functions = static_cast<const ExchangeTable*>(exchange_);
  if (functions == nullptr || functions->current_stream == nullptr)
    return stream;
  void* current = nullptr;
  if (functions->current_stream(stream.device_type, stream.device_id,
                                &current) != 0)
    throw nb::python_error();
  if (current != nullptr) stream.native = current;
  return stream;
}

bool Tensor::read_buffer(nb::handle object) {
  if (PyObject_CheckBuffer(object.ptr()) == 0 ||
      PyBytes_Check(object.ptr()) != 0)
    return false;
  if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_RECORDS_RO) != 0) {
    // NumPy's arrays of types that the protocol does not know.
    if (nb::hasattr(object, "__dlpack__")) PyErr_Clear();
    return read_of_ml_dtypes(object);
  }
  has_buffer_ = true;
  read_only_ = buffer_.readonly != 0;
  tensor_.data = buffer_.buf;
  tensor_.device = {DW_DEVICE_CPU, 0};
  tensor_.dtype = dtype_of_format(buffer_.format, buffer_.itemsize, &problem_);
  tensor_.ndim = buffer_.ndim;
  int64_t* shape = shape_;
  if (buffer_.ndim >= kDims) {
    long_shape_.resize(static_cast<size_t>(buffer_.ndim) + 1);
    shape = long_shape_.data();
  }
  Py_ssize_t packed = buffer_.itemsize;
  bool is_empty = false, is_packed = true;
  for (int i = buffer_.ndim; i-- > 0;) {
    shape[i] = buffer_.shape[i];
    is_empty = is_empty || shape[i] == 0;
    is_packed = is_packed && (shape[i] == 1 || buffer_.strides[i] == packed);
    packed *= buffer_.shape[i];
  }
  tensor_.shape = shape;
  if (is_packed || is_empty) return true;
  for (int i = 0; i < buffer_.ndim; ++i) {
    if (buffer_.strides[i] % buffer_.itemsize != 0) problem_ = kStrided;
    strides_.push_back(buffer_.strides[i] / buffer_.itemsize);
  }
  tensor_.strides = strides_.data();
  return true;
}

// NumPy's array of a type that the package ml_dtypes adds: its bits as
// integers, under the type's own name.
bool Tensor::read_of_ml_dtypes(nb::handle object) {
  if (!nb::hasattr(object, "view") || !nb::hasattr(object, "dtype"))
    return false;
  const nb::object type = object.attr("dtype");
  const dw_dtype named =
      dtype_of_ml_dtypes(nb::cast<std::string>(nb::str(type)));
  if (named.bits == 0) return false;
  PyErr_Clear();
  const nb::object bits =
      object.attr("view")(named.bits == 16 ? "uint16" : "uint8");
  if (!read_buffer(bits)) return false;  // the buffer holds the view
  tensor_.dtype = named;
  return true;
}

bool Tensor::read_dlpack(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack__")) return false;
  nb::object capsule;
  try {
    nb::dict arguments;
    arguments["max_version"] = nb::make_tuple(1, 0);
    // The library makes this stream wait for its work on the tensor.
    if (nb::hasattr(object, "__dlpack_device__")) {
      const nb::object device = object.attr("__dlpack_device__")();
      if (nb::cast<int>(device[0]) == DW_DEVICE_CUDA)
        arguments["stream"] = reinterpret_cast<intptr_t>(kLegacyStream);
    }
    capsule = object.attr("__dlpack__")(**arguments);
  } catch (nb::python_error& error) {
    error.restore();
    return false;
  }
  void* const managed =
      PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned");
  if (managed == nullptr) return false;
  PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
  managed_ = static_cast<distwrap_managed_tensor*>(managed);
  read_only_ = (managed_->flags & DW_DLPACK_READ_ONLY) != 0;
  tensor_ = managed_->dl_tensor;
  return true;
}

void Tensor::check(nb::handle object, const char* call, const char* name,
                   Use use, Elements elements) {
  const auto refuse = [&](const std::string& what, const std::string& next) {
    raise_value(call, std::string(name) + " " + what, next);
  };
  dims_ = tensor_.ndim;
  if (problem_ == nullptr && tensor_.strides != nullptr) {
    int64_t packed = 1;
    bool is_empty = false, is_packed = true;
    for (int i = tensor_.ndim; i-- > 0;) {
      is_empty = is_empty || tensor_.shape[i] == 0;
      is_packed =
          is_packed && (tensor_.shape[i] == 1 || tensor_.strides[i] == packed);
      packed *= tensor_.shape[i];
    }
    const bool is_strided = !is_packed && !is_empty;
    if (is_strided && elements != Elements::kPlaced) problem_ = kStrided;
    if (!is_strided || problem_ != nullptr) tensor_.strides = nullptr;
  }
  if (problem_ != nullptr && tensor_.dtype.bits == 0)
    refuse(problem_,
           "convert it, as by x.astype(x.dtype.newbyteorder('=')) or "
           "x.astype('float32')");
  if (problem_ != nullptr)
    refuse(problem_, use == Use::kRead
                         ? "give numpy.ascontiguousarray(x), or "
                           "tensor.contiguous()"
                         : "give an array made by numpy.ascontiguousarray or "
                           "tensor.contiguous(), and copy the result back");
  if (use == Use::kWritten && read_only_) refuse_read_only(call, name);
  if (known(tensor_.dtype)) return;
  // Complex numbers are pairs of floats, also in sums and averages; others are
  // bytes.
  const dw_dtype was = tensor_.dtype;
  const bool is_complex =
      was.code == kComplex && (was.bits == 64 || was.bits == 128);
  if (was.bits == 0 || was.bits % 8 != 0 || was.lanes != 1)
    refuse("has elements of no whole bytes", "give an array of numbers");
  if (elements == Elements::kReduced ||
      (elements == Elements::kSummed && !is_complex))
    refuse(is_complex ? "is complex, and only SUM and AVG take complex numbers"
                      : "has elements of type " +
                            nb::cast<std::string>(nb::str(nb::getattr(
                                object, "dtype", nb::str("unknown")))) +
                            ", which are moved and not reduced",
           "convert it, as to float32");
  int64_t* shape = shape_;
  if (tensor_.ndim >= kDims) {
    long_shape_.resize(static_cast<size_t>(tensor_.ndim) + 1);
    shape = long_shape_.data();
  }
  if (shape != tensor_.shape)
    std::copy(tensor_.shape, tensor_.shape + tensor_.ndim, shape);
  shape[tensor_.ndim] = is_complex ? 2 : was.bits / 8;
  tensor_.shape = shape;
  ++tensor_.ndim;
  tensor_.dtype = is_complex
                      ? dw_dtype{kFloat, static_cast<uint8_t>(was.bits / 2), 1}
                      : distwrap_dtype(DW_DTYPE_U8);
}

// The next step also serves a scalar of NumPy, whose copy is a scalar again.
void Tensor::refuse_read_only(const char* call, const char* name) {
  raise_value(call, std::string(name) + " is read-only, and the call writes it",
              "give a writable array, such as the copy numpy.array(x)");
}

void Tensor::check_rows(const char* call, const char* name) const {
  if (dims_ == 0)
    raise_value(call,
                std::string(name) + " has no dimensions, and its rows count",
                "give an array with rows, such as x.reshape(1)");
}

void Tensors::read_list(nb::handle list, const char* call, const char* name,
                        Use use, Elements elements) {
  if (PyList_Check(list.ptr()) == 0 && PyTuple_Check(list.ptr()) == 0)
    raise_type(call,
               std::string(name) + " is of type " + type_of(list) +
                   ", and no list of tensors",
               "give a list of one tensor for each rank");
  const nb::object items = nb::steal(PySequence_Tuple(list.ptr()));
  for (nb::handle item : nb::borrow<nb::tuple>(items)) {
    tensors_.push_back(std::make_unique<Tensor>());
    const std::string place =
        std::string(name) + "[" + std::to_string(pointers_.size()) + "]";
    tensors_.back()->read(item, call, place.c_str(), use, elements);
    pointers_.push_back(tensors_.back()->get());
  }
}

}  // namespace distwrap_python
