#include "distwrap/object.h"

#include "algo/objects/node.h"
#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace distwrap {
namespace {

constexpr DType kNoType = static_cast<DType>(0xff);

struct TypeRow {
  DType dtype;
  uint8_t code, bits;
};
constexpr TypeRow kTypes[] = {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  {DType::enumerator, code, bits},
#include "distwrap/abi/dtypes.def"
};

DType dtype_of_tensor(const ObjectTensor& tensor) {
  for (const TypeRow& row : kTypes)
    if (row.code == tensor.code && row.bits == tensor.bits && tensor.lanes == 1)
      return row.dtype;
  return kNoType;
}

const Object& null_object() {
  static const Object* const kNull = new Object;
  return *kNull;
}

BigInteger big_of(uint64_t magnitude, bool negative) {
  BigInteger big{.negative = negative};
  for (int shift = 56; shift >= 0; shift -= 8)
    if (const uint64_t rest = magnitude >> shift; rest != 0)
      big.magnitude.push_back(static_cast<char>(rest & 0xff));
  return big;
}

// The magnitude of an integer of at most 8 bytes.
uint64_t magnitude_of(const BigInteger& big) {
  uint64_t value = 0;
  for (const char byte : big.magnitude)
    value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

constexpr uint64_t kMostInt64 = std::numeric_limits<int64_t>::max();

absl::Status bad_tensor(absl::string_view what, std::string actual) {
  return base::make_error(
      {.reason = Reason::kInvalidArgument,
       .what = std::string(what),
       .op = "Object::tensor",
       .actual = std::move(actual),
       .next_step = "give contiguous elements in host memory and their shape"});
}

}  // namespace

Object::Node::Node(Kind node_kind, Content node_content)
    : kind(node_kind), content(std::move(node_content)) {
  const auto contain = [this](const Object& child) {
    const uint32_t below = ObjectAccess::depth(child);
    if (below >= depth && below != std::numeric_limits<uint32_t>::max())
      depth = below + 1;
    key = key && ObjectAccess::key(child);
  };
  if (const Items* const items = std::get_if<Items>(&content)) {
    depth = 1;
    for (const Object& item : *items) contain(item);
    key = key && kind == Kind::kTuple;
  } else if (const Entries* const entries = std::get_if<Entries>(&content)) {
    depth = 1;
    for (const Entry& entry : *entries) {
      contain(entry.first);
      contain(entry.second);
    }
    key = false;
  } else {
    key = kind < Kind::kTensor;
  }
}

void Object::acquire() const {
  if (holds_node())
    value_.node->references.fetch_add(1, std::memory_order_relaxed);
}

void Object::release(Node* node) {
  Node* dead = nullptr;
  const auto drop = [&dead](Node* one) {
    if (one == nullptr ||
        one->references.fetch_sub(1, std::memory_order_acq_rel) != 1)
      return;
    one->next_dead = dead;
    dead = one;
  };
  drop(node);
  while (dead != nullptr) {
    Node* const one = dead;
    dead = one->next_dead;
    if (Items* const items = std::get_if<Items>(&one->content)) {
      for (Object& item : *items) drop(ObjectAccess::detach(item));
    } else if (Entries* const entries = std::get_if<Entries>(&one->content)) {
      for (Entry& entry : *entries) {
        drop(ObjectAccess::detach(entry.first));
        drop(ObjectAccess::detach(entry.second));
      }
    }
    delete one;
  }
}

Object::Object(std::string text)
    : Object(ObjectAccess::make(Kind::kText, std::move(text))) {}

Object Object::bytes(std::string bytes) {
  return ObjectAccess::make(Kind::kBytes, std::move(bytes));
}

void Object::set_unsigned(uint64_t value) {
  if (value <= kMostInt64)
    set_integer(static_cast<int64_t>(value));
  else
    *this = ObjectAccess::make(Kind::kInteger, big_of(value, false));
}

Object Object::integer(BigInteger value) {
  const size_t zeros =
      std::min(value.magnitude.find_first_not_of('\0'), value.magnitude.size());
  value.magnitude.erase(0, zeros);
  if (value.magnitude.empty()) return Object(0);
  if (value.magnitude.size() <= sizeof(int64_t)) {
    const uint64_t magnitude = magnitude_of(value);
    if (value.negative && magnitude <= kMostInt64 + 1)
      return Object(static_cast<int64_t>(-magnitude));
    if (!value.negative && magnitude <= kMostInt64)
      return Object(static_cast<int64_t>(magnitude));
  }
  return ObjectAccess::make(Kind::kInteger, std::move(value));
}

Object Object::array(Items items) {
  return ObjectAccess::make(Kind::kArray, std::move(items));
}

Object Object::tuple(Items items) {
  return ObjectAccess::make(Kind::kTuple, std::move(items));
}

Object Object::map(Entries entries) {
  return ObjectAccess::make(Kind::kMap, std::move(entries));
}

Object Object::tensor(ObjectTensor tensor) {
  return ObjectAccess::make(Kind::kTensor, std::move(tensor));
}

absl::StatusOr<Object> Object::tensor(const TensorView& view) {
  if (view.device().type != kCpu.type)
    return bad_tensor("the elements are not in host memory",
                      absl::StrCat("device type ", view.device().type));
  const auto* const row =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const TypeRow& r) { return r.dtype == view.dtype(); });
  if (row == std::end(kTypes))
    return bad_tensor("the element type is unknown",
                      absl::StrCat(static_cast<int>(view.dtype())));
  if (!view.contiguous() || view.count() < 0 ||
      (view.count() > 0 && view.data() == nullptr))
    return bad_tensor("the elements are not contiguous, or not there",
                      view.text());
  ObjectTensor tensor{.code = row->code, .bits = row->bits};
  for (int d = 0; d < view.dims(); ++d) tensor.shape.push_back(view.extent(d));
  const std::optional<uint64_t> bytes = tensor_bytes(tensor);
  if (!bytes.has_value())
    return bad_tensor("the elements do not fit into memory", view.text());
  if (*bytes != 0)
    tensor.bytes.assign(static_cast<const char*>(view.data()), *bytes);
  return Object::tensor(std::move(tensor));
}

Object Object::extension(std::string name, std::string bytes) {
  return ObjectAccess::make(Kind::kExtension,
                            ObjectExtension{std::move(name), std::move(bytes)});
}

Object Object::other(std::type_index type, std::shared_ptr<const void> value,
                     bool (*equal)(const void*, const void*)) {
  return ObjectAccess::make(Kind::kOther,
                            OtherValue{type, std::move(value), equal});
}

Object::Kind Object::kind() const {
  return holds_node() ? value_.node->kind : kind_;
}

std::optional<bool> Object::to_bool() const {
  if (kind_ != Kind::kBool) return std::nullopt;
  return value_.truth;
}

std::optional<int64_t> Object::to_int64() const {
  if (kind_ != Kind::kInteger) return std::nullopt;
  return value_.integer;
}

std::optional<uint64_t> Object::to_uint64() const {
  if (kind_ == Kind::kInteger) {
    if (value_.integer < 0) return std::nullopt;
    return static_cast<uint64_t>(value_.integer);
  }
  const BigInteger* const big =
      ObjectAccess::content<BigInteger>(*this, Kind::kInteger);
  if (big == nullptr || big->negative ||
      big->magnitude.size() > sizeof(uint64_t))
    return std::nullopt;
  return magnitude_of(*big);
}

std::optional<BigInteger> Object::to_integer() const {
  if (kind_ == Kind::kInteger) {
    const uint64_t bits = static_cast<uint64_t>(value_.integer);
    return big_of(value_.integer < 0 ? -bits : bits, value_.integer < 0);
  }
  const BigInteger* const big =
      ObjectAccess::content<BigInteger>(*this, Kind::kInteger);
  if (big == nullptr) return std::nullopt;
  return *big;
}

std::optional<double> Object::to_double() const {
  if (kind_ != Kind::kFloat) return std::nullopt;
  return value_.number;
}

const std::string* Object::if_text() const {
  return ObjectAccess::content<std::string>(*this, Kind::kText);
}

const std::string* Object::if_bytes() const {
  return ObjectAccess::content<std::string>(*this, Kind::kBytes);
}

const ObjectTensor* Object::if_tensor() const {
  return ObjectAccess::content<ObjectTensor>(*this, Kind::kTensor);
}

const ObjectExtension* Object::if_extension() const {
  return ObjectAccess::content<ObjectExtension>(*this, Kind::kExtension);
}

const void* Object::if_other(std::type_index type) const {
  const OtherValue* const value =
      ObjectAccess::content<OtherValue>(*this, Kind::kOther);
  return value != nullptr && value->type == type ? value->value.get() : nullptr;
}

absl::Span<const Object> Object::items() const {
  if (kind_ != Kind::kArray && kind_ != Kind::kTuple) return {};
  return value_.node->as<Items>();
}

absl::Span<const Object::Entry> Object::entries() const {
  if (kind_ != Kind::kMap) return {};
  return value_.node->as<Entries>();
}

size_t Object::size() const {
  return kind_ == Kind::kMap ? entries().size() : items().size();
}

const Object& Object::at(size_t index) const {
  const absl::Span<const Object> all = items();
  return index < all.size() ? all[index] : null_object();
}

const Object& Object::at(const Object& key) const {
  const Object* const found = find(key);
  return found == nullptr ? null_object() : *found;
}

const Object* Object::find(const Object& key) const {
  for (const Entry& entry : entries())
    if (entry.first == key) return &entry.second;
  return nullptr;
}

std::optional<TensorView> ObjectTensor::view() const {
  const DType dtype = dtype_of_tensor(*this);
  if (dtype == kNoType || tensor_bytes(*this) != bytes.size() ||
      shape.size() > TensorView::kMaxDims)
    return std::nullopt;
  const TensorView view(const_cast<char*>(bytes.data()), shape, dtype);
  if (!view.possible()) return std::nullopt;
  return view.as_read_only();
}

std::optional<uint64_t> tensor_bytes(const ObjectTensor& tensor) {
  if (tensor.bits == 0 || tensor.lanes == 0) return std::nullopt;
  const auto negative = [](int64_t extent) { return extent < 0; };
  if (std::any_of(tensor.shape.begin(), tensor.shape.end(), negative))
    return std::nullopt;
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) !=
      tensor.shape.end())
    return 0;
  uint64_t bits = uint64_t{tensor.bits} * tensor.lanes;
  for (const int64_t extent : tensor.shape)
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(extent), &bits))
      return std::nullopt;
  return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

}  // namespace distwrap
