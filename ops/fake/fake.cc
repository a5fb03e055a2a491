// A device in host memory: private1. Its tensors are refused by kernels of the
// CPU, so a test that passes on it proves that nothing but kernels knows where
// memory lies. Each operator copies its tensors' handles into host tensors of
// the same memory, and calls the kernel of the CPU.
#include "distwrap/operator.h"
#include "distwrap/registration.h"
#include "distwrap/tensor.h"

#include <absl/strings/str_cat.h>

#include <cstdlib>
#include <utility>
#include <vector>

namespace distwrap::fake {
namespace {

using dispatch::KeySet;
using dispatch::OpHandle;

absl::StatusOr<Storage> allocate(int64_t bytes, Device device) {
  // Bytes that a kernel forgets to write are seen.
  void* const data = std::malloc(static_cast<size_t>(bytes) + 1);
  if (data == nullptr) return absl::ResourceExhaustedError("out of memory");
  std::fill_n(static_cast<unsigned char*>(data), bytes, 0xA5);
  return Storage(data, bytes, device, [](void* held) { std::free(held); });
}

// A tensor of another device on the same memory, which it keeps alive.
absl::StatusOr<Tensor> on(const Tensor& tensor, Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  const Storage held = tensor.storage();
  Storage other(held.data(), held.bytes(), device, [held](void*) {});
  return Tensor::of_storage(std::move(other), tensor.dtype(), tensor.sizes(),
                            tensor.strides(), tensor.storage_offset());
}

absl::StatusOr<Value> moved(const Value& value, Device device) {
  if (value.is_tensor()) {
    absl::StatusOr<Tensor> tensor = on(value.tensor(), device);
    if (!tensor.ok()) return std::move(tensor).status();
    return Value::own(*std::move(tensor));
  }
  if (value.tag() == Value::Tag::kTensors) {
    std::vector<Tensor> list;
    for (const Tensor& one : value.to_tensors()) {
      absl::StatusOr<Tensor> tensor = on(one, device);
      if (!tensor.ok()) return std::move(tensor).status();
      list.push_back(*std::move(tensor));
    }
    return Value::own_copy(TensorList(list));
  }
  if (value.tag() == Value::Tag::kDevice && value.to_device() == kPrivate1 &&
      device == kCpu) {
    return Value(kCpu);
  }
  return value.copy();
}

absl::Status run(const OpHandle& op, KeySet /*set*/, Stack& stack) {
  const auto schema = op.schema();
  if (!schema.ok()) return schema.status();
  const size_t count = (*schema)->params.size(), first = stack.size() - count;
  // A copy to the host has its result there.
  Device to = kPrivate1;
  for (size_t i = first; i < stack.size(); ++i) {
    if (stack[i].tag() == Value::Tag::kDevice) to = stack[i].to_device();
  }
  Tensor written;
  Stack host;
  for (size_t i = first; i < stack.size(); ++i) {
    if (((*schema)->written >> (i - first) & 1) != 0 && !written.defined()) {
      written = stack[i].tensor();
    }
    absl::StatusOr<Value> value = moved(stack[i], kCpu);
    if (!value.ok()) return std::move(value).status();
    host.push_back(*std::move(value));
  }
  absl::Status status =
      op.redispatch_boxed(KeySet(dispatch::kDense, kCpu), host);
  if (!status.ok()) return status;
  stack.shrink(first);
  for (const Value& result : host) {
    if (written.defined() && result.is_tensor()) {
      stack.push_back(Value::own(written));
      continue;
    }
    absl::StatusOr<Value> value = moved(result, to);
    if (!value.ok()) return std::move(value).status();
    stack.push_back(*std::move(value));
  }
  return absl::OkStatus();
}

}  // namespace

DW_OPERATORS(lib) {
  lib.allocator(kPrivate1.type, &allocate);
  for (const char* op : {
#define DW_FAKE(name) "dw::" #name,
#include "fake/operators.def"
       }) {
    lib.impl(op, {dispatch::kDense, kPrivate1}, dispatch::boxed(&run));
  }
}

}  // namespace distwrap::fake
