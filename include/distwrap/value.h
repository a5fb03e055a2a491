// Boxed arguments: values whose type is known at run time, and their stack.
//
// A value borrows the tensor, list or text that it is made of, or owns it. The
// arguments of a typed call are borrowed, results are owned; copying a value
// makes an owned one.
//
// Threads: one thread at a time. Ownership: as above.
//
//   Stack stack;
//   stack.push_back(Value::own(x));
//   stack.push_back(Value(2.5));
//   Status status = find_operator("dw::mul.Scalar").call_boxed(stack);
//   Tensor y = stack[0].tensor();
#ifndef DISTWRAP_VALUE_H_
#define DISTWRAP_VALUE_H_

#include "distwrap/arguments.h"
#include "distwrap/export.h"
#include "distwrap/random.h"
#include "distwrap/scalar.h"
#include "distwrap/tensor.h"

#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace distwrap {

class Value {
 public:
  enum class Tag : uint8_t {
    kNone,
    kTensor,
    kInt,
    kFloat,
    kBool,
    kDType,
    kDevice,
    // The kinds below point to memory, which is borrowed or owned.
    kString,
    kGenerator,
    kTensors,  // undefined entries are None
    kInts,
    kFloats,
    kBools,
  };

  Value() : int_(0) {}
  explicit Value(int64_t value) : int_(value), tag_(Tag::kInt) {}
  explicit Value(double value) : float_(value), tag_(Tag::kFloat) {}
  explicit Value(bool value) : int_(value ? 1 : 0), tag_(Tag::kBool) {}
  explicit Value(DType value)
      : int_(static_cast<int64_t>(value)), tag_(Tag::kDType) {}
  explicit Value(Device value)
      : int_(value.id),
        length_(static_cast<uint32_t>(value.type)),
        tag_(Tag::kDevice) {}
  explicit Value(const Scalar& value) {
    if (value.is_float()) {
      float_ = value.to<double>();
      tag_ = Tag::kFloat;
    } else {
      int_ = value.to<int64_t>();
      tag_ = value.kind() == Scalar::Kind::kBool ? Tag::kBool : Tag::kInt;
    }
  }

  // These borrow: the value is valid as long as the argument is.
  static Value borrow(const Tensor& tensor) {
    Value value;
    value.pointer_ = tensor.state();
    value.tag_ = Tag::kTensor;
    return value;
  }
  static Value borrow(absl::string_view text) {
    return Value(Tag::kString, text.data(), text.size());
  }
  static Value borrow(const Generator& generator) {
    return Value(Tag::kGenerator, &generator, 1);
  }
  static Value borrow(TensorList tensors) {
    return Value(Tag::kTensors, tensors.data(), tensors.size());
  }
  static Value borrow(Ints ints) {
    return Value(Tag::kInts, ints.data(), ints.size());
  }
  static Value borrow(absl::Span<const double> floats) {
    return Value(Tag::kFloats, floats.data(), floats.size());
  }
  static Value borrow(absl::Span<const bool> bools) {
    return Value(Tag::kBools, bools.data(), bools.size());
  }
  static Value own(Tensor tensor) {
    Value value;
    value.pointer_ = tensor.release();
    value.tag_ = Tag::kTensor;
    value.owned_ = true;
    return value;
  }
  // A copy of whatever can be borrowed.
  template <class T>
  static Value own_copy(const T& borrowed) {
    return borrow(borrowed).copy();
  }

  Value(Value&& other) noexcept { take(other); }
  Value& operator=(Value&& other) noexcept {
    if (this != &other) {
      drop();
      take(other);
    }
    return *this;
  }
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  ~Value() { drop(); }
  // An owned value that is equal.
  DISTWRAP_EXPORT Value copy() const;

  Tag tag() const { return tag_; }
  bool is_owned() const { return owned_; }
  bool is_none() const { return tag_ == Tag::kNone; }
  bool is_tensor() const { return tag_ == Tag::kTensor; }
  // Each of these asks for the tag of its name.
  const Tensor& tensor() const {
    return *reinterpret_cast<const Tensor*>(&pointer_);
  }
  int64_t to_int() const { return int_; }
  double to_float() const {
    return tag_ == Tag::kFloat ? float_ : static_cast<double>(int_);
  }
  bool to_bool() const { return int_ != 0; }
  DType to_dtype() const { return static_cast<DType>(int_); }
  Device to_device() const {
    return {static_cast<int32_t>(length_), static_cast<int32_t>(int_)};
  }
  Scalar to_scalar() const {
    if (tag_ == Tag::kFloat) return Scalar(float_);
    return tag_ == Tag::kBool ? Scalar(int_ != 0) : Scalar(int_);
  }
  absl::string_view to_string() const {
    return {static_cast<const char*>(pointer_), length_};
  }
  const Generator& to_generator() const {
    return *static_cast<const Generator*>(pointer_);
  }
  TensorList to_tensors() const {
    return {static_cast<const Tensor*>(pointer_), length_};
  }
  Ints to_ints() const {
    return {static_cast<const int64_t*>(pointer_), length_};
  }
  absl::Span<const double> to_floats() const {
    return {static_cast<const double*>(pointer_), length_};
  }
  absl::Span<const bool> to_bools() const {
    return absl::MakeConstSpan(static_cast<const bool*>(pointer_), length_);
  }
  // Takes the tensor out; the value becomes None.
  Tensor take_tensor() {
    Tensor result = owned_ ? Tensor::adopt(static_cast<internal::TensorState*>(
                                 const_cast<void*>(pointer_)))
                           : Tensor(tensor());
    owned_ = false;
    tag_ = Tag::kNone;
    return result;
  }
  // "Tensor f32 [2, 3] cpu", "int 4", for errors.
  DISTWRAP_EXPORT std::string text() const;

 private:
  Value(Tag tag, const void* pointer, size_t length)
      : pointer_(pointer), length_(static_cast<uint32_t>(length)), tag_(tag) {}
  void take(Value& other) {
    int_ = other.int_;
    length_ = other.length_;
    tag_ = std::exchange(other.tag_, Tag::kNone);
    owned_ = std::exchange(other.owned_, false);
  }
  void drop() {
    if (owned_) free_owned();
  }
  DISTWRAP_EXPORT void free_owned();

  union {
    int64_t int_;
    double float_;
    const void* pointer_;
  };
  uint32_t length_ = 0;
  Tag tag_ = Tag::kNone;
  bool owned_ = false;
};
static_assert(sizeof(Value) == 16);

// The values of a boxed call: its arguments, then its results. Eight values
// need no allocation, more need one.
class Stack {
 public:
  Stack() : values_(inline_values()) {}
  ~Stack() {
    shrink(0);
    if (capacity_ > kInline)
      std::allocator<Value>().deallocate(values_, capacity_);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Value& operator[](size_t index) {
    assert(index < size_);
    return values_[index];
  }
  const Value& operator[](size_t index) const {
    assert(index < size_);
    return values_[index];
  }
  Value& back() { return (*this)[size_ - 1]; }
  Value* begin() { return values_; }
  Value* end() { return values_ + size_; }
  const Value* begin() const { return values_; }
  const Value* end() const { return values_ + size_; }

  void push_back(Value value) {
    if (size_ == capacity_) [[unlikely]] {
      grow();
    }
    new (values_ + size_) Value(std::move(value));
    ++size_;
  }
  void pop_back() { values_[--size_].~Value(); }
  // Drops the values from number `size` on.
  void shrink(size_t size) {
    while (size_ > size) pop_back();
  }

 private:
  static constexpr size_t kInline = 8;
  Value* inline_values() { return reinterpret_cast<Value*>(inline_); }
  DISTWRAP_EXPORT void grow();

  Value* values_;
  size_t size_ = 0, capacity_ = kInline;
  alignas(Value) unsigned char inline_[kInline * sizeof(Value)];
};

}  // namespace distwrap

#endif  // DISTWRAP_VALUE_H_
