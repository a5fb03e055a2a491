// Objects: values of Python in the encoding of docs/objects.md, value by value.
#include "arrays.h"
#include "call.h"
#include "docs.h"
#include "handles.h"

#include <cstdlib>
#include <cstring>
#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

constexpr int kMaxDepth = 64;
constexpr char kPickle[] = "python.pickle", kTorch[] = "torch.Tensor";

// type -> (name, write), and name -> read, of register_object_type. Never
// freed: the interpreter may have ended before.
nb::dict& writers() {
  static auto* const all = new nb::dict;
  return *all;
}
nb::dict& readers() {
  static auto* const all = new nb::dict;
  return *all;
}

struct Writer {
  distwrap_writer handle = nullptr;
  Writer() {
    Error error;
    check(distwrap_writer_create(&handle, &error.handle), error);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { distwrap_writer_free(handle); }
};

std::string encode(const char* call, nb::handle object, bool pickle);

// Writes one object; `path` leads to the part at hand.
// distwrap.Extension, kept for good.
nb::handle extension_type() {
  static PyObject* const type = nb::module_::import_("distwrap.objects")
                                    .attr("Extension")
                                    .inc_ref()
                                    .ptr();
  return type;
}

class Encoder {
 public:
  Encoder(const char* call, bool pickle) : call_(call), pickle_(pickle) {}

  std::string run(nb::handle object) {
    write(object, 0);
    List list;
    Error error;
    check(distwrap_writer_take(writer_.handle, &list.handle, &error.handle),
          error);
    const distwrap_bytes bytes = list.item(0);
    return {static_cast<const char*>(bytes.data), bytes.size};
  }

 private:
  void put(const distwrap_value& value) {
    Error error;
    check(distwrap_writer_put(writer_.handle, &value, &error.handle), error);
  }
  static distwrap_value value_of(int32_t kind) {
    distwrap_value value = {};
    value.struct_size = sizeof value;
    value.kind = kind;
    return value;
  }
  void put_bytes(int32_t kind, const void* data, size_t size,
                 const char* name = nullptr) {
    distwrap_value value = value_of(kind);
    value.bytes = {data, size};
    value.name = name;
    put(value);
  }
  [[noreturn]] void refuse(const std::string& why) {
    raise_value(
        call_,
        "cannot encode " + (path_.empty() ? "the object" : path_) + ": " + why,
        "change what the path leads to, register its type with "
        "register_object_type, or give pickle=True",
        DW_REASON_OBJECT_TYPE);
  }
  template <class F>
  void inside(const std::string& step, const F& f) {
    const size_t was = path_.size();
    path_ += step;
    f();
    path_.resize(was);
  }

  void write(nb::handle object, int depth) {
    PyObject* const o = object.ptr();
    if (depth > kMaxDepth)
      refuse("containers are nested more than " + std::to_string(kMaxDepth) +
             " deep");
    if (object.is_none()) return put(value_of(DW_VALUE_NULL));
    // A type of the program may derive from one of Python's.
    if (!is_of_python(o) && write_named(object)) return;
    if (PyBool_Check(o) != 0) {
      distwrap_value value = value_of(DW_VALUE_BOOL);
      value.integer = o == Py_True ? 1 : 0;
      return put(value);
    }
    if (PyLong_Check(o) != 0) return write_integer(object);
    if (PyFloat_Check(o) != 0) {
      distwrap_value value = value_of(DW_VALUE_FLOAT);
      value.number = PyFloat_AsDouble(o);
      return put(value);
    }
    if (PyUnicode_Check(o) != 0) {
      Py_ssize_t size = 0;
      const char* const text = PyUnicode_AsUTF8AndSize(o, &size);
      if (text == nullptr) {
        PyErr_Clear();
        refuse("the text is no UTF-8");
      }
      return put_bytes(DW_VALUE_TEXT, text, static_cast<size_t>(size));
    }
    if (PyBytes_Check(o) != 0)
      return put_bytes(DW_VALUE_BYTES, PyBytes_AsString(o),
                       static_cast<size_t>(PyBytes_Size(o)));
    if (PyByteArray_Check(o) != 0)
      return put_bytes(DW_VALUE_BYTES, PyByteArray_AsString(o),
                       static_cast<size_t>(PyByteArray_Size(o)));
    if (PyList_Check(o) != 0 || PyTuple_Check(o) != 0)
      return write_items(object, depth);
    if (PyDict_Check(o) != 0) return write_entries(object, depth);
    write_other(object, depth);
  }

  void write_integer(nb::handle object) {
    int overflow = 0;
    const long long small =
        PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    if (overflow == 0) {
      distwrap_value value = value_of(DW_VALUE_INTEGER);
      value.integer = small;
      return put(value);
    }
    const nb::object size = object.attr("__abs__")();
    const auto bits = nb::cast<int64_t>(size.attr("bit_length")());
    const nb::bytes magnitude =
        nb::borrow<nb::bytes>(size.attr("to_bytes")((bits + 7) / 8, "big"));
    distwrap_value value = value_of(DW_VALUE_BIG);
    value.bytes = {magnitude.c_str(), magnitude.size()};
    value.negative = overflow < 0 ? 1 : 0;
    put(value);
  }

  void write_items(nb::handle object, int depth) {
    // A copy: another thread may change the list.
    const nb::object items = nb::steal(PySequence_Tuple(object.ptr()));
    distwrap_value value = value_of(
        PyTuple_Check(object.ptr()) != 0 ? DW_VALUE_TUPLE : DW_VALUE_ARRAY);
    value.count = nb::len(items);
    put(value);
    size_t i = 0;
    for (nb::handle item : nb::borrow<nb::tuple>(items))
      inside("[" + std::to_string(i++) + "]", [&] { write(item, depth + 1); });
  }

  void write_entries(nb::handle object, int depth) {
    const nb::object copy = nb::steal(PyDict_Copy(object.ptr()));
    const nb::dict entries = nb::borrow<nb::dict>(copy);
    distwrap_value value = value_of(DW_VALUE_MAP);
    value.count = entries.size();
    put(value);
    for (auto [key, item] : entries)
      inside("[" + nb::cast<std::string>(nb::repr(key)) + "]",
             [&, k = key, v = item] {
               write(k, depth + 1);
               write(v, depth + 1);
             });
  }

  static bool is_of_python(PyObject* o) {
    return PyLong_CheckExact(o) != 0 || PyFloat_CheckExact(o) != 0 ||
           PyUnicode_CheckExact(o) != 0 || PyList_CheckExact(o) != 0 ||
           PyTuple_CheckExact(o) != 0 || PyDict_CheckExact(o) != 0 ||
           PyBytes_CheckExact(o) != 0 || PyBool_Check(o) != 0;
  }
  // Writes an object of a registered type, or an Extension; false for others.
  bool write_named(nb::handle object) {
    nb::object name, bytes;
    PyObject* const known = PyDict_GetItemWithError(
        writers().ptr(), reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
    if (known != nullptr) {
      const nb::tuple pair = nb::borrow<nb::tuple>(known);
      name = pair[0];
      bytes = nb::borrow(pair[1])(object);
    } else if (object.type().is(extension_type())) {
      name = object.attr("name");
      bytes = object.attr("bytes");
    } else {
      return false;
    }
    const std::string text = nb::cast<std::string>(name);
    if (PyBytes_Check(bytes.ptr()) == 0)
      refuse("the writer of " + text + " gave no bytes");
    put_bytes(DW_VALUE_EXTENSION, PyBytes_AsString(bytes.ptr()),
              static_cast<size_t>(PyBytes_Size(bytes.ptr())), text.c_str());
    return true;
  }

  void write_other(nb::handle object, int depth) {
    const bool is_array = nb::hasattr(object, "__dlpack__") ||
                          PyObject_CheckBuffer(object.ptr()) != 0;
    // A scalar of NumPy is a number.
    if (nb::hasattr(object, "item") && !nb::hasattr(object, "__dlpack__"))
      return write(object.attr("item")(), depth);
    if (is_array) return write_tensor(object);
    if (!pickle_) refuse(type_of(object) + " is no type of the encoding");
    const nb::object bytes =
        nb::module_::import_("pickle").attr("dumps")(object);
    put_bytes(DW_VALUE_EXTENSION, PyBytes_AsString(bytes.ptr()),
              static_cast<size_t>(PyBytes_Size(bytes.ptr())), kPickle);
  }

  void write_tensor(nb::handle object) {
    const std::string module =
        nb::cast<std::string>(nb::str(object.type().attr("__module__")));
    if (!in_torch_ && module.compare(0, 5, "torch") == 0) {
      // Told apart from NumPy's, so that the receiver gets what was sent.
      Encoder plain(call_, false);
      plain.in_torch_ = true;
      const std::string bytes =
          plain.run(object.attr("detach")().attr("cpu")().attr("contiguous")());
      return put_bytes(DW_VALUE_EXTENSION, bytes.data(), bytes.size(), kTorch);
    }
    Tensor tensor;
    const std::string place = path_.empty() ? "the object" : path_;
    tensor.read(object, call_, place.c_str(), Use::kRead, Elements::kReduced);
    const distwrap_tensor& t = *tensor.get();
    distwrap_value value = value_of(DW_VALUE_TENSOR);
    uint64_t bytes = t.dtype.bits / 8;
    for (int i = 0; i < t.ndim; ++i) bytes *= static_cast<uint64_t>(t.shape[i]);
    value.bytes = {static_cast<const char*>(t.data) + t.byte_offset, bytes};
    value.ndim = t.ndim;
    value.shape = t.shape;
    value.dtype = t.dtype;
    put(value);
  }

  const char* const call_;
  const bool pickle_;
  bool in_torch_ = false;
  Writer writer_;
  std::string path_;
};

std::string encode(const char* call, nb::handle object, bool pickle) {
  return Encoder(call, pickle).run(object);
}

struct Reader {
  distwrap_reader handle = nullptr;
  explicit Reader(const distwrap_bytes& bytes) {
    Error error;
    check(distwrap_reader_create(&bytes, &handle, &error.handle), error);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { distwrap_reader_free(handle); }
};

class Decoder {
 public:
  Decoder(const char* call, const distwrap_bytes& bytes, bool pickle)
      : call_(call), pickle_(pickle), reader_(bytes) {}

  nb::object read() {
    distwrap_value value = {};
    value.struct_size = sizeof value;
    Error error;
    check(distwrap_reader_next(reader_.handle, &value, &error.handle), error);
    const auto* const data = static_cast<const char*>(value.bytes.data);
    const size_t size = value.bytes.size;
    switch (value.kind) {
      case DW_VALUE_BOOL:
        return nb::bool_(value.integer != 0);
      case DW_VALUE_INTEGER:
        return nb::int_(value.integer);
      case DW_VALUE_BIG: {
        const nb::object integer =
            nb::borrow(reinterpret_cast<PyObject*>(&PyLong_Type))
                .attr("from_bytes")(nb::bytes(data, size), "big");
        return value.negative != 0 ? integer.attr("__neg__")() : integer;
      }
      case DW_VALUE_FLOAT:
        return nb::float_(value.number);
      case DW_VALUE_TEXT:
        return nb::str(data, size);
      case DW_VALUE_BYTES:
        return nb::bytes(data, size);
      case DW_VALUE_ARRAY:
      case DW_VALUE_TUPLE: {
        nb::list items;
        for (uint64_t i = 0; i < value.count; ++i) items.append(read());
        return value.kind == DW_VALUE_ARRAY
                   ? nb::object(items)
                   : nb::steal(PyList_AsTuple(items.ptr()));
      }
      case DW_VALUE_MAP: {
        nb::dict entries;
        for (uint64_t i = 0; i < value.count; ++i) {
          const nb::object key = read();
          entries[key] = read();
        }
        return entries;
      }
      case DW_VALUE_TENSOR:
        return tensor(value);
      case DW_VALUE_EXTENSION:
        return extension(value);
      default:
        return nb::none();
    }
  }

 private:
  nb::object tensor(const distwrap_value& value) {
    void* const copy = malloc(value.bytes.size + 1);
    if (copy == nullptr) throw std::bad_alloc();
    if (value.bytes.size != 0) memcpy(copy, value.bytes.data, value.bytes.size);
    const nb::object pages = pages_of(call_, copy, value.dtype, value.shape,
                                      value.ndim, [copy] { free(copy); });
    const nb::object torch = of_torch_ ? loaded_module("torch") : nb::none();
    return torch.is_none() ? array_in(call_, pages)
                           : torch.attr("from_dlpack")(pages);
  }
  nb::object extension(const distwrap_value& value) {
    const std::string name = value.name;
    const auto* const data = static_cast<const char*>(value.bytes.data);
    if (name == kPickle) {
      if (!pickle_)
        raise_value(call_, "an object was pickled, and pickle can run code",
                    "give pickle=True if all ranks are trusted",
                    DW_REASON_OBJECT_TYPE);
      return nb::module_::import_("pickle").attr("loads")(
          nb::bytes(data, value.bytes.size));
    }
    if (name == kTorch) {
      // The tensor that was sent, where torch is loaded; else an array.
      Decoder sent(call_, value.bytes, false);
      sent.of_torch_ = true;
      return sent.read();
    }
    PyObject* const read = PyDict_GetItemString(readers().ptr(), value.name);
    const nb::bytes bytes(data, value.bytes.size);
    if (read != nullptr) return nb::borrow(read)(bytes);
    return nb::module_::import_("distwrap.objects")
        .attr("Extension")(name, bytes);
  }

  const char* const call_;
  const bool pickle_;
  bool of_torch_ = false;
  Reader reader_;
};

nb::object decode(const char* call, const distwrap_bytes& bytes, bool pickle) {
  return Decoder(call, bytes, pickle).read();
}

nb::list decode_all(const char* call, const List& list, bool pickle) {
  nb::list all;
  for (uint64_t i = 0; i < list.size(); ++i)
    all.append(decode(call, list.item(i), pickle));
  return all;
}

// The bytes of what a rank gives. What cannot be encoded is sent as no object,
// so that the other ranks fail at once, and its error is kept for this rank.
class Given {
 public:
  Given(const char* call, nb::handle objects, bool pickle) {
    for (nb::handle object : nb::borrow<nb::iterable>(objects)) {
      try {
        texts_.push_back(error_ ? why_ : encode(call, object, pickle));
      } catch (nb::python_error& error) {
        const nb::object value = nb::borrow(error.value());
        why_ = nb::cast<std::string>(
            nb::str(nb::hasattr(value, "what") ? value.attr("what") : value));
        texts_.push_back(why_);
        error_ = std::make_unique<nb::python_error>(error);
      }
    }
    if (error_ != nullptr) texts_.assign(texts_.size(), why_);
    for (const std::string& text : texts_)
      bytes_.push_back({text.data(), text.size()});
  }
  // Objects, or why this rank has none.
  int32_t encoding() const {
    return error_ == nullptr ? DW_OBJECT_ENCODED : DW_OBJECT_REFUSED;
  }
  const distwrap_bytes* data() const { return bytes_.data(); }
  uint64_t size() const { return bytes_.size(); }
  template <class F>
  void exchange(distwrap_group group, const F& f) {
    try {
      wait_in(group, f);
    } catch (nb::python_error&) {
      if (error_ == nullptr) throw;
    }
    if (error_ != nullptr) throw nb::python_error(*error_);
  }

 private:
  std::vector<std::string> texts_;
  std::vector<distwrap_bytes> bytes_;
  std::unique_ptr<nb::python_error> error_;
  std::string why_;  // the text of the error
};

using H = nb::handle;

nb::list all_gather_object(H object, H group, bool pickle, H timeout, H label) {
  constexpr const char* kCall = "all_gather_object";
  Options options(kCall, group, timeout, label);
  Given given(kCall, nb::make_tuple(object), pickle);
  List list;
  given.exchange(options.group(), [&](auto* e) {
    return distwrap_all_gather_object(given.data(), given.encoding(),
                                      options.get(), &list.handle, e);
  });
  return decode_all(kCall, list, pickle);
}

nb::list gather_object(H object, H dst, H group_dst, H group, bool pickle,
                       H timeout, H label) {
  constexpr const char* kCall = "gather_object";
  Options options(kCall, group, timeout, label);
  const distwrap_peer root = peer_of(kCall, "dst", dst, group_dst);
  Given given(kCall, nb::make_tuple(object), pickle);
  List list;
  given.exchange(options.group(), [&](auto* e) {
    return distwrap_gather_object(given.data(), given.encoding(), root,
                                  options.get(), &list.handle, e);
  });
  return decode_all(kCall, list, pickle);
}

// `objects`: the list at the root; `count` is its length on all ranks.
nb::list broadcast_objects(H objects, uint64_t count, H src, H group_src,
                           H group, bool pickle, H timeout, H label) {
  constexpr const char* kCall = "broadcast_object_list";
  Options options(kCall, group, timeout, label);
  const distwrap_peer root = peer_of(kCall, "src", src, group_src);
  Given given(kCall, objects, pickle);
  List list;
  given.exchange(options.group(), [&](auto* e) {
    return distwrap_broadcast_object_list(
        given.size() == 0 ? nullptr : given.data(), count, given.encoding(),
        root, options.get(), &list.handle, e);
  });
  return decode_all(kCall, list, pickle);
}

nb::object scatter_objects(H objects, H src, H group_src, H group, bool pickle,
                           H timeout, H label) {
  constexpr const char* kCall = "scatter_object_list";
  Options options(kCall, group, timeout, label);
  const distwrap_peer root = peer_of(kCall, "src", src, group_src);
  Given given(kCall, objects, pickle);
  List list;
  given.exchange(options.group(), [&](auto* e) {
    return distwrap_scatter_object_list(
        given.size() == 0 ? nullptr : given.data(), given.size(),
        given.encoding(), root, options.get(), &list.handle, e);
  });
  return decode(kCall, list.item(0), pickle);
}

void send_objects(H objects, H dst, H group_dst, H group, bool pickle,
                  H timeout, H label) {
  constexpr const char* kCall = "send_object_list";
  Options options(kCall, group, timeout, label);
  const distwrap_peer peer = peer_of(kCall, "dst", dst, group_dst);
  Given given(kCall, objects, pickle);
  given.exchange(options.group(), [&](auto* e) {
    return distwrap_send_object_list(given.data(), given.size(),
                                     given.encoding(), peer, options.get(), e);
  });
}

nb::list recv_objects(uint64_t count, H src, H group_src, H group, bool pickle,
                      H timeout, H label) {
  constexpr const char* kCall = "recv_object_list";
  Options options(kCall, group, timeout, label);
  const distwrap_peer peer = peer_of(kCall, "src", src, group_src);
  List list;
  wait_in(options.group(), [&](auto* e) {
    return distwrap_recv_object_list(count, DW_OBJECT_ENCODED, peer,
                                     options.get(), &list.handle, e);
  });
  return decode_all(kCall, list, pickle);
}

}  // namespace

void add_objects(nb::module_& m) {
  const auto none = [](const char* name) { return nb::arg(name).none(); };
  m.def("_all_gather_object", &all_gather_object, none("object"), none("group"),
        "pickle"_a, none("timeout"), none("label"));
  m.def("_gather_object", &gather_object, none("object"), none("dst"),
        none("group_dst"), none("group"), "pickle"_a, none("timeout"),
        none("label"));
  m.def("_broadcast_objects", &broadcast_objects, "objects"_a, "count"_a,
        none("src"), none("group_src"), none("group"), "pickle"_a,
        none("timeout"), none("label"));
  m.def("_scatter_objects", &scatter_objects, "objects"_a, none("src"),
        none("group_src"), none("group"), "pickle"_a, none("timeout"),
        none("label"));
  m.def("_send_objects", &send_objects, "objects"_a, none("dst"),
        none("group_dst"), none("group"), "pickle"_a, none("timeout"),
        none("label"));
  m.def("_recv_objects", &recv_objects, "count"_a, none("src"),
        none("group_src"), none("group"), "pickle"_a, none("timeout"),
        none("label"));
  m.def(
      "encode_object",
      [](H object, bool pickle) {
        const std::string bytes = encode("encode_object", object, pickle);
        return nb::bytes(bytes.data(), bytes.size());
      },
      none("object"), "pickle"_a = false, doc::encode_object);
  m.def(
      "decode_object",
      [](nb::bytes bytes, bool pickle) {
        return decode("decode_object", {bytes.c_str(), bytes.size()}, pickle);
      },
      "bytes"_a, "pickle"_a = false, doc::decode_object);
  m.def("_register_object_type", [](const std::string& name, nb::object type,
                                    nb::object write, nb::object read) {
    if (writers().contains(type) || readers().contains(name.c_str()))
      raise_value("register_object_type",
                  "the type or the name " + name + " is registered already",
                  "register each type once, under its own name");
    writers()[type] = nb::make_tuple(name, write);
    readers()[name.c_str()] = read;
  });
}

}  // namespace distwrap_python
