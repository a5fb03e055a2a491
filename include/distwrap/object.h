// An object: a value of any shape that ranks send to each other with the
// functions of objects.h. Objects are data; nothing in them is ever run.
//
// Threads: several threads may read a value that does not change. Ownership:
// copies share their content and cost no more than a pointer.
//
//   Object report = Object::map({{"step", 12}, {"loss", 0.5}});
//   report.at("loss").to_double();  // 0.5
//   report.to_string();             // {"step": 12, "loss": 0.5}
//
// Types of the program can be sent, too, once they are registered:
//
//   register_object_type<Point>("point", write_point, read_point);
//   Object where = Object::of(Point{1, 2});
//   where.if_a<Point>()->x;  // 1
#ifndef DISTWRAP_OBJECT_H_
#define DISTWRAP_OBJECT_H_

#include "distwrap/export.h"
#include "distwrap/tensor_view.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

namespace distwrap {

// Elements in row-major order and in the machine's byte order (little-endian on
// every supported machine), with DLPack's description of their type.
struct ObjectTensor {
  uint8_t code = 2, bits = 32;
  uint16_t lanes = 1;
  std::vector<int64_t> shape = {};
  std::string bytes = {};

  // A read-only view of these bytes with this shape; nullopt when the type is
  // no DType or the shape is impossible.
  DISTWRAP_EXPORT std::optional<TensorView> view() const;
  friend bool operator==(const ObjectTensor&, const ObjectTensor&) = default;
};

// Bytes under the name of a type that this process has not registered.
struct ObjectExtension {
  std::string name = {};
  std::string bytes = {};
  friend bool operator==(const ObjectExtension&,
                         const ObjectExtension&) = default;
};

// An integer of any size. The magnitude is big-endian without leading zeros;
// zero has an empty magnitude and is not negative.
struct BigInteger {
  bool negative = false;
  std::string magnitude = {};
  friend bool operator==(const BigInteger&, const BigInteger&) = default;
};

class DISTWRAP_EXPORT Object {
 public:
  enum class Kind : uint8_t {
    kNull,
    kBool,
    kInteger,
    kFloat,
    kText,
    kBytes,
    kArray,
    kTuple,
    kMap,
    kTensor,
    kExtension,
    kOther,  // a value made by `of`
  };
  using Items = std::vector<Object>;
  using Entry = std::pair<Object, Object>;
  using Entries = std::vector<Entry>;

  // ---- making ----

  // The null object.
  Object() = default;
  Object(std::nullptr_t) {}
  template <class T>
  requires std::same_as<T, bool> Object(T value) : kind_(Kind::kBool) {
    value_.truth = value;
  }
  template <class T>
  requires(std::integral<T> && !std::same_as<T, bool>) Object(T value) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) >= sizeof(int64_t))
      set_unsigned(value);
    else
      set_integer(static_cast<int64_t>(value));
  }
  template <class T>
  requires(std::same_as<T, float> || std::same_as<T, double>) Object(T value)
      : kind_(Kind::kFloat) {
    value_.number = value;
  }
  // Text in UTF-8. `bytes` makes an object of other bytes.
  Object(const char* text) : Object(absl::string_view(text)) {}
  Object(absl::string_view text) : Object(std::string(text)) {}
  Object(std::string text);

  static Object bytes(std::string bytes);
  static Object integer(BigInteger value);
  static Object array(Items items);
  static Object tuple(Items items);
  // Keys are null, bools, integers, floats, text, bytes, or tuples of these; no
  // two keys are equal. The map keeps the order of its entries.
  static Object map(Entries entries);
  static Object tensor(ObjectTensor tensor);
  // Copies the elements with their shape. kInvalidArgument unless they are
  // contiguous in host memory.
  static absl::StatusOr<Object> tensor(const TensorView& view);
  static Object extension(std::string name, std::string bytes);
  // A value of a type that register_object_type knows by the time the object is
  // sent.
  template <class T>
  static Object of(T value) {
    bool (*equal)(const void*, const void*) = nullptr;
    if constexpr (std::equality_comparable<T>)
      equal = [](const void* a, const void* b) {
        return *static_cast<const T*>(a) == *static_cast<const T*>(b);
      };
    return other(typeid(T), std::make_shared<const T>(std::move(value)), equal);
  }

  Object(const Object& other) : kind_(other.kind_), value_(other.value_) {
    acquire();
  }
  Object(Object&& other) noexcept : kind_(other.kind_), value_(other.value_) {
    other.kind_ = Kind::kNull;
    other.value_ = {};
  }
  Object& operator=(const Object& other) {
    Object copy(other);
    swap(copy);
    return *this;
  }
  Object& operator=(Object&& other) noexcept {
    Object moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Object() {
    if (holds_node()) release(value_.node);
  }
  void swap(Object& other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(value_, other.value_);
  }

  // ---- reading: nullopt, null or empty for an object of another kind ----

  Kind kind() const;
  bool is_null() const { return kind_ == Kind::kNull; }
  std::optional<bool> to_bool() const;
  // Nullopt when the integer does not fit.
  std::optional<int64_t> to_int64() const;
  std::optional<uint64_t> to_uint64() const;
  std::optional<BigInteger> to_integer() const;
  std::optional<double> to_double() const;
  const std::string* if_text() const;
  const std::string* if_bytes() const;
  const ObjectTensor* if_tensor() const;
  const ObjectExtension* if_extension() const;
  template <class T>
  const T* if_a() const {
    return static_cast<const T*>(if_other(typeid(T)));
  }
  // The items of an array or a tuple; the entries of a map.
  absl::Span<const Object> items() const;
  absl::Span<const Entry> entries() const;
  // The number of items of an array or a tuple, or of entries of a map; else 0.
  size_t size() const;
  // The item or value; null for an index or a key that does not exist.
  const Object& at(size_t index) const;
  const Object& at(const Object& key) const;
  const Object* find(const Object& key) const;

  // Objects are equal when kind and content are: 1 is not 1.0, 0.0 is not -0.0,
  // and a NaN equals a NaN of the same bits. Maps may differ in their order.
  friend DISTWRAP_EXPORT bool operator==(const Object& a, const Object& b);

  // Text for people; longer text is cut after `limit` bytes and ends in "...".
  std::string to_string(size_t limit = 1024) const;
  friend DISTWRAP_EXPORT std::ostream& operator<<(std::ostream& out,
                                                  const Object& object);

 private:
  friend struct ObjectAccess;
  struct Node;

  bool holds_node() const { return kind_ >= Kind::kText; }
  void set_integer(int64_t value) {
    kind_ = Kind::kInteger;
    value_.integer = value;
  }
  void set_unsigned(uint64_t value);
  void acquire() const;
  static void release(Node* node);
  static Object other(std::type_index type, std::shared_ptr<const void> value,
                      bool (*equal)(const void*, const void*));
  const void* if_other(std::type_index type) const;

  // Integers outside int64_t are nodes whose own kind is kInteger. Here they
  // have the kind kOther, so that one comparison tells whether an object holds
  // a node.
  Kind kind_ = Kind::kNull;
  union {
    int64_t integer;
    bool truth;
    double number;
    Node* node;
  } value_ = {0};
};

// ---- types of the program ----

namespace internal {
using ObjectWriter = std::function<absl::StatusOr<std::string>(const void*)>;
using ObjectReader = std::function<absl::StatusOr<Object>(absl::string_view)>;
DISTWRAP_EXPORT absl::Status register_object_type(std::type_index type,
                                                  std::string name,
                                                  ObjectWriter write,
                                                  ObjectReader read);
}  // namespace internal

// Registers T, so that objects can hold and send values of T: one rank writes a
// value as bytes under `name`, another reads the bytes. The bytes come from
// another process, so `read` has to refuse bytes that `write` does not produce.
// Every rank registers the type, with the same name, before its first use.
// kInvalidArgument when the name or the type is registered already.
//   absl::StatusOr<std::string> write(const T&);
//   absl::StatusOr<T> read(absl::string_view);
template <class T, class Write, class Read>
absl::Status register_object_type(
    // Moved below, which clang-tidy does not see in a template.
    // NOLINTNEXTLINE(performance-unnecessary-value-param)
    std::string name, Write write, Read read) {
  return internal::register_object_type(
      typeid(T), std::move(name),
      [write =
           std::move(write)](const void* value) -> absl::StatusOr<std::string> {
        return write(*static_cast<const T*>(value));
      },
      [read =
           std::move(read)](absl::string_view bytes) -> absl::StatusOr<Object> {
        absl::StatusOr<T> value = read(bytes);
        if (!value.ok()) return value.status();
        return Object::of<T>(*std::move(value));
      });
}

// ---- bytes ----

// The limit of one object's bytes, unless DISTWRAP_OBJECT_MAX_BYTES says
// otherwise, and the limit to which containers nest.
inline constexpr uint64_t kObjectMaxBytes = uint64_t{1} << 30;
inline constexpr int kObjectMaxDepth = 64;

// Writes an object as bytes. kObjectType with the path of the part that cannot
// be written.
DISTWRAP_EXPORT absl::StatusOr<std::string> encode_object(
    const Object& object, uint64_t max_bytes = kObjectMaxBytes);
// Reads an object from bytes of any origin. kObjectDecode, with the place, for
// all bytes that encode_object does not write.
DISTWRAP_EXPORT absl::StatusOr<Object> decode_object(
    absl::string_view bytes, uint64_t max_bytes = kObjectMaxBytes);

}  // namespace distwrap

#endif  // DISTWRAP_OBJECT_H_
