#include "distwrap/value.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>

namespace distwrap {
namespace {

template <class T>
const void* copy_of(absl::Span<const T> items) {
  T* const copy = new T[items.size()];
  std::copy(items.begin(), items.end(), copy);
  return copy;
}

}  // namespace

Value Value::copy() const {
  Value result;
  result.int_ = int_;
  result.length_ = length_;
  result.owned_ = true;
  switch (tag_) {
    case Tag::kTensor:
      return own(tensor());
    case Tag::kString:
      result.pointer_ = copy_of(absl::MakeConstSpan(to_string()));
      break;
    case Tag::kGenerator:
      result.pointer_ = copy_of(absl::MakeConstSpan(&to_generator(), 1));
      break;
    case Tag::kTensors:
      result.pointer_ = copy_of(to_tensors());
      break;
    case Tag::kInts:
      result.pointer_ = copy_of(to_ints());
      break;
    case Tag::kFloats:
      result.pointer_ = copy_of(to_floats());
      break;
    case Tag::kBools:
      result.pointer_ = copy_of(to_bools());
      break;
    default:
      result.owned_ = false;
      break;
  }
  result.tag_ = tag_;
  return result;
}

void Value::free_owned() {
  owned_ = false;
  switch (tag_) {
    case Tag::kTensor:
      Tensor::adopt(
          static_cast<internal::TensorState*>(const_cast<void*>(pointer_)));
      break;
    case Tag::kString:
      delete[] static_cast<const char*>(pointer_);
      break;
    case Tag::kGenerator:
      delete[] static_cast<const Generator*>(pointer_);
      break;
    case Tag::kTensors:
      delete[] static_cast<const Tensor*>(pointer_);
      break;
    case Tag::kInts:
      delete[] static_cast<const int64_t*>(pointer_);
      break;
    case Tag::kFloats:
      delete[] static_cast<const double*>(pointer_);
      break;
    case Tag::kBools:
      delete[] static_cast<const bool*>(pointer_);
      break;
    default:
      break;
  }
}

std::string Value::text() const {
  switch (tag_) {
    case Tag::kNone:
      return "None";
    case Tag::kTensor:
      return absl::StrCat("Tensor ", tensor().text());
    case Tag::kInt:
      return absl::StrCat("int ", int_);
    case Tag::kFloat:
      return absl::StrCat("float ", float_);
    case Tag::kBool:
      return int_ != 0 ? "bool True" : "bool False";
    case Tag::kDType:
      return absl::StrCat("ScalarType ", dtype_name(to_dtype()));
    case Tag::kDevice:
      return absl::StrCat("Device type ", to_device().type);
    case Tag::kString:
      return absl::StrCat("str \"", to_string(), "\"");
    case Tag::kGenerator:
      return absl::StrCat("Generator seed ", to_generator().seed);
    case Tag::kTensors:
      return absl::StrCat("Tensor[", length_, "]");
    case Tag::kInts:
      return absl::StrCat("int[] [", absl::StrJoin(to_ints(), ", "), "]");
    case Tag::kFloats:
      return absl::StrCat("float[] [", absl::StrJoin(to_floats(), ", "), "]");
    case Tag::kBools:
      return absl::StrCat("bool[", length_, "]");
  }
  return "?";
}

void Stack::grow() {
  std::allocator<Value> memory;
  Value* const longer = memory.allocate(2 * capacity_);
  for (size_t i = 0; i < size_; ++i) {
    new (longer + i) Value(std::move(values_[i]));
    values_[i].~Value();
  }
  if (capacity_ > kInline) memory.deallocate(values_, capacity_);
  values_ = longer;
  capacity_ *= 2;
}

}  // namespace distwrap
