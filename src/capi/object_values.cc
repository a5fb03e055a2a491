#include "capi/object_values.h"

#include "base/error.h"
#include "capi/entry.h"
#include "distwrap/c.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <memory>

namespace distwrap::capi {
namespace {

constexpr char kPut[] = "writer_put";

std::string string_of(const distwrap_bytes& bytes) {
  return {static_cast<const char*>(bytes.data), bytes.size};
}

absl::StatusOr<Object> tensor_of(const distwrap_value& value) {
  if (value.ndim < 0 || (value.ndim > 0 && value.shape == nullptr))
    return refuse(kPut, "the tensor's shape is missing",
                  "set ndim and shape; a scalar has neither");
  return Object::tensor({value.dtype.code,
                         value.dtype.bits,
                         value.dtype.lanes,
                         {value.shape, value.shape + value.ndim},
                         string_of(value.bytes)});
}

// A value with nothing inside.
absl::StatusOr<Object> leaf_of(const distwrap_value& value) {
  if (value.bytes.data == nullptr && value.bytes.size != 0)
    return refuse_null(kPut, "bytes.data");
  switch (value.kind) {
    case DW_VALUE_NULL:
      return Object();
    case DW_VALUE_BOOL:
      return Object(value.integer != 0);
    case DW_VALUE_INTEGER:
      return Object(value.integer);
    case DW_VALUE_BIG:
      return Object::integer({value.negative != 0, string_of(value.bytes)});
    case DW_VALUE_FLOAT:
      return Object(value.number);
    case DW_VALUE_TEXT:
      return Object(string_of(value.bytes));
    case DW_VALUE_BYTES:
      return Object::bytes(string_of(value.bytes));
    case DW_VALUE_TENSOR:
      return tensor_of(value);
    case DW_VALUE_EXTENSION:
      if (value.name == nullptr) return refuse_null(kPut, "name");
      return Object::extension(value.name, string_of(value.bytes));
    default:
      return refuse(kPut,
                    absl::StrCat("there is no value of kind ", value.kind),
                    "give one of DW_VALUE_*");
  }
}

Object container_of(int32_t kind, Object::Items items) {
  if (kind == DW_VALUE_ARRAY) return Object::array(std::move(items));
  if (kind == DW_VALUE_TUPLE) return Object::tuple(std::move(items));
  Object::Entries entries;
  for (size_t i = 0; i < items.size(); i += 2)
    entries.emplace_back(std::move(items[i]), std::move(items[i + 1]));
  return Object::map(std::move(entries));
}

distwrap_bytes bytes_of(absl::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

// ---- writing ----

absl::Status ObjectWriter::put(const distwrap_value& value) {
  base::MutexLock lock(mutex_);
  if (!done_.empty())
    return refuse(kPut, "the object is complete",
                  "take its bytes before the values of another one");
  const bool contains = value.kind == DW_VALUE_ARRAY ||
                        value.kind == DW_VALUE_TUPLE ||
                        value.kind == DW_VALUE_MAP;
  if (contains) {
    const uint64_t each = value.kind == DW_VALUE_MAP ? 2 : 1;
    if (value.count > kObjectMaxBytes)
      return refuse(kPut,
                    absl::StrCat("a container of ", value.count, " items"),
                    "give the number of values that follow");
    open_.push_back({value.kind, each * value.count, {}});
  } else {
    absl::StatusOr<Object> leaf = leaf_of(value);
    if (!leaf.ok()) return leaf.status();
    (open_.empty() ? done_ : open_.back().items).push_back(*std::move(leaf));
  }
  close_full();
  return absl::OkStatus();
}

void ObjectWriter::close_full() {
  while (!open_.empty() && open_.back().items.size() == open_.back().wanted) {
    Object made =
        container_of(open_.back().kind, std::move(open_.back().items));
    open_.pop_back();
    (open_.empty() ? done_ : open_.back().items).push_back(std::move(made));
  }
}

absl::StatusOr<std::string> ObjectWriter::take() {
  base::MutexLock lock(mutex_);
  if (done_.empty())
    return refuse("writer_take",
                  open_.empty() ? "there is no object"
                                : absl::StrCat("a container lacks ",
                                               open_.back().wanted -
                                                   open_.back().items.size(),
                                               " values"),
                  "put all values of the object first");
  absl::StatusOr<std::string> bytes = encode_object(done_.front());
  done_.clear();
  return bytes;
}

// ---- reading ----

distwrap_value ObjectReader::next() {
  base::MutexLock lock(mutex_);
  distwrap_value value = {};
  value.struct_size = sizeof value;
  value.kind = DW_VALUE_END;
  if (left_.empty()) return value;
  const Object& object = *left_.back();
  left_.pop_back();
  value.count = object.size();
  const absl::Span<const Object> items = object.items();
  for (size_t i = items.size(); i-- > 0;) left_.push_back(&items[i]);
  const absl::Span<const Object::Entry> entries = object.entries();
  for (size_t i = entries.size(); i-- > 0;) {
    left_.push_back(&entries[i].second);
    left_.push_back(&entries[i].first);
  }
  switch (object.kind()) {
    case Object::Kind::kNull:
      value.kind = DW_VALUE_NULL;
      break;
    case Object::Kind::kBool:
      value.kind = DW_VALUE_BOOL;
      value.integer = *object.to_bool() ? 1 : 0;
      break;
    case Object::Kind::kInteger:
      if (const auto small = object.to_int64()) {
        value.kind = DW_VALUE_INTEGER;
        value.integer = *small;
      } else {
        BigInteger big = *object.to_integer();
        value.kind = DW_VALUE_BIG;
        value.negative = big.negative ? 1 : 0;
        value.bytes =
            bytes_of(magnitudes_.emplace_back(std::move(big.magnitude)));
      }
      break;
    case Object::Kind::kFloat:
      value.kind = DW_VALUE_FLOAT;
      value.number = *object.to_double();
      break;
    case Object::Kind::kText:
      value.kind = DW_VALUE_TEXT;
      value.bytes = bytes_of(*object.if_text());
      break;
    case Object::Kind::kBytes:
      value.kind = DW_VALUE_BYTES;
      value.bytes = bytes_of(*object.if_bytes());
      break;
    case Object::Kind::kArray:
      value.kind = DW_VALUE_ARRAY;
      break;
    case Object::Kind::kTuple:
      value.kind = DW_VALUE_TUPLE;
      break;
    case Object::Kind::kMap:
      value.kind = DW_VALUE_MAP;
      break;
    case Object::Kind::kTensor: {
      const ObjectTensor& tensor = *object.if_tensor();
      value.kind = DW_VALUE_TENSOR;
      value.bytes = bytes_of(tensor.bytes);
      value.ndim = static_cast<int32_t>(tensor.shape.size());
      value.shape = tensor.shape.data();
      value.dtype = {tensor.code, tensor.bits, tensor.lanes};
      break;
    }
    case Object::Kind::kExtension:
      value.kind = DW_VALUE_EXTENSION;
      value.name = object.if_extension()->name.c_str();
      value.bytes = bytes_of(object.if_extension()->bytes);
      break;
    case Object::Kind::kOther:
      // Types that C++ code of this process has registered have no values here.
      value.kind = DW_VALUE_EXTENSION;
      value.name = "";
      break;
  }
  return value;
}

}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)

int32_t distwrap_writer_create(distwrap_writer* writer, distwrap_error* error) {
  constexpr const char* kCall = "writer_create";
  return entry(kCall, error, [&]() -> absl::Status {
    if (writer == nullptr) return refuse_null(kCall, "writer");
    *writer = nullptr;
    return hand_out(kCall, std::make_unique<ObjectWriter>(), writer);
  });
}

int32_t distwrap_writer_put(distwrap_writer writer, const distwrap_value* value,
                            distwrap_error* error) {
  return entry(kPut, error, [&]() -> absl::Status {
    const auto found = held(kPut, writer);
    if (!found.ok()) return found.status();
    if (value == nullptr) return refuse_null(kPut, "value");
    distwrap_value read;
    if (absl::Status status = read_options(kPut, value, &read); !status.ok())
      return status;
    return (**found)->put(read);
  });
}

int32_t distwrap_writer_take(distwrap_writer writer, distwrap_list* list,
                             distwrap_error* error) {
  constexpr const char* kCall = "writer_take";
  return entry(kCall, error, [&]() -> absl::Status {
    if (list == nullptr) return refuse_null(kCall, "list");
    *list = nullptr;
    const auto found = held(kCall, writer);
    if (!found.ok()) return found.status();
    absl::StatusOr<std::string> bytes = (**found)->take();
    return bytes.ok() ? hand_out(kCall, List{*std::move(bytes)}, list)
                      : bytes.status();
  });
}

int32_t distwrap_writer_free(distwrap_writer writer) {
  return free_handle(writer);
}

int32_t distwrap_reader_create(const distwrap_bytes* bytes,
                               distwrap_reader* reader, distwrap_error* error) {
  constexpr const char* kCall = "reader_create";
  return entry(kCall, error, [&]() -> absl::Status {
    if (reader == nullptr) return refuse_null(kCall, "reader");
    *reader = nullptr;
    if (bytes == nullptr || (bytes->data == nullptr && bytes->size != 0))
      return refuse_null(kCall, "bytes");
    absl::StatusOr<distwrap::Object> object = distwrap::decode_object(
        {static_cast<const char*>(bytes->data), bytes->size});
    if (!object.ok()) return object.status();
    return hand_out(kCall, std::make_unique<ObjectReader>(*std::move(object)),
                    reader);
  });
}

int32_t distwrap_reader_next(distwrap_reader reader, distwrap_value* value,
                             distwrap_error* error) {
  constexpr const char* kCall = "reader_next";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, reader);
    if (!found.ok()) return found.status();
    return write_info(kCall, (**found)->next(), value);
  });
}

int32_t distwrap_reader_free(distwrap_reader reader) {
  return free_handle(reader);
}
