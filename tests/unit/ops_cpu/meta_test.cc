// A meta tensor gives the sizes, type and strides that the real tensor gives.
#include "cpu/kernels.h"
#include "distwrap/ops.h"
#include "samples.h"

namespace distwrap::cpu {
namespace {

Tensor on(Device device, const Tensor& tensor) {
  if (device == kCpu) return tensor;
  Storage storage = *Storage::allocate(tensor.storage().bytes(), device);
  return *Tensor::of_storage(storage, tensor.dtype(), tensor.sizes(),
                             tensor.strides(), tensor.storage_offset());
}

std::string shape_of(const Tensor& tensor) {
  std::string text = std::string(dtype_name(tensor.dtype()));
  for (int d = 0; d < tensor.dims(); ++d)
    text += " " + std::to_string(tensor.size(d)) + "/" +
            std::to_string(tensor.stride(d));
  return text;
}

template <class Result>
std::string shapes_of(const absl::StatusOr<Result>& result) {
  if (!result.ok())
    return std::string(reason_name(error_reason(result.status())));
  if constexpr (std::is_same_v<Result, Tensor>) {
    return shape_of(*result);
  } else {
    std::string all;
    std::apply(
        [&](const auto&... each) { ((all += shape_of(each) + ";"), ...); },
        *result);
    return all;
  }
}

std::string shapes_of(const absl::Status& status) {
  return std::string(reason_name(error_reason(status)));
}

// Calls an operator with real and with meta tensors.
template <class Call>
void expect_equal(const char* name, const Call& call) {
  const std::string real = shapes_of(call(kCpu));
  EXPECT_EQ(shapes_of(call(kMeta)), real) << name;
}

TEST(Meta, EqualsReal) {
  const Tensor f = swapped(sample({3, 4})), g = sample({4, 3});
  const Tensor row = sample({3}), cube = sample({2, 4, 3});
  const Tensor i = sample({4, 3}, DType::kU8), b = sample({4, 3}, DType::kBool);
  const Tensor at = tensor_of({2}, {1, 0}, DType::kI64);
  const Tensor four = tensor_of({4}, {0, 1, 2, 0}, DType::kI64);
  const Tensor grid = tensor_of({2, 2}, {0, 1, 1, 0}, DType::kI64);
  // `x` is a tensor on the device of the call, `d` that device.
#define DW_SAME(call)                                                   \
  expect_equal(#call, [&](Device d) {                                   \
    const auto x = [d](const Tensor& tensor) { return on(d, tensor); }; \
    (void)x;                                                            \
    return ops::call;                                                   \
  })
  DW_SAME(empty(Dims{2, 3}, DType::kF16, d));
  DW_SAME(full(Dims{2, 0}, 1, DType::kF16, d));
  DW_SAME(arange(0, 7, 2, DType::kI32, d));
  DW_SAME(rand(Dims{2}, DType::kF64, d));
  DW_SAME(randn(Dims{2}, DType::kF64, d));
  DW_SAME(clone(x(f)));
  DW_SAME(copy_(x(g), x(row)));
  DW_SAME(copy_(x(row), x(g)));
  DW_SAME(fill_(x(g), 1));
  DW_SAME(cat(std::vector<Tensor>{x(f), x(g)}, -1));
  DW_SAME(pad(x(f), Ints({1, -1, 0, 2}), 0));
  DW_SAME(slice_scatter(x(g), x(f), 0, 0, 9, 1));
  DW_SAME(neg(x(f)));
  DW_SAME(abs(x(i)));
  DW_SAME(sign(x(i)));
  DW_SAME(relu(x(f)));
  DW_SAME(exp(x(f)));
  DW_SAME(exp(x(i)));
  DW_SAME(log(x(f)));
  DW_SAME(sqrt(x(f)));
  DW_SAME(rsqrt(x(f)));
  DW_SAME(sin(x(f)));
  DW_SAME(cos(x(f)));
  DW_SAME(tanh(x(f)));
  DW_SAME(sigmoid(x(f)));
  DW_SAME(gelu(x(f)));
  DW_SAME(silu(x(f)));
  DW_SAME(add(x(f), x(row), 1));
  DW_SAME(add(x(i), x(i), 0.5));
  DW_SAME(sub(x(cube), x(f), 1));
  DW_SAME(sub(x(b), x(b), 1));
  DW_SAME(mul(x(b), x(b)));
  DW_SAME(div(x(f), x(f)));
  DW_SAME(div(x(i), x(i)));
  DW_SAME(maximum(x(i), x(i)));
  DW_SAME(eq(x(f), x(row)));
  DW_SAME(lt(x(f), x(i)));
  DW_SAME(where(x(b), x(f), x(row)));
  DW_SAME(mm(x(g), x(swapped(f))));
  DW_SAME(mm(x(g), x(g)));
  DW_SAME(bmm(x(cube), x(swapped(cube))));
  DW_SAME(sum(x(i), Ints({0}), true));
  DW_SAME(sum(x(f)));
  DW_SAME(amax(x(cube), Ints({0, -1})));
  DW_SAME(softmax(x(f), 0));
  DW_SAME(log_softmax(x(f), 1));
  DW_SAME(log_softmax(x(f), 2));
  DW_SAME(layer_norm(x(f)));
  DW_SAME(rms_norm(x(f)));
  DW_SAME(embedding(x(g), x(grid)));
  DW_SAME(nll_loss(x(g), x(four)));
  DW_SAME(attention_forward(x(cube), x(cube), x(cube)));
  DW_SAME(dropout(x(f), 0.5));
  DW_SAME(gather(x(g), 0, x(grid)));
  DW_SAME(index_add(x(g), 0, x(at), x(sample({2, 3}))));
  DW_SAME(scatter_add(x(g), 0, x(grid), x(sample({2, 2}))));
  DW_SAME(add_(x(g), x(row), 1));
  DW_SAME(mul_(x(g), x(row)));
  DW_SAME(adamw_(x(f), x(g), x(g), x(g), 0));
  DW_SAME(as_strided_backward(x(row), Ints({9}), Ints({3}), Ints({2}), 1));
  DW_SAME(gelu_backward(x(f), x(g)));
  DW_SAME(silu_backward(x(f), x(g)));
  DW_SAME(softmax_backward(x(f), x(g), 0));
  DW_SAME(log_softmax_backward(x(f), x(g), 0));
  DW_SAME(layer_norm_backward(x(f), x(g), nullptr, 1e-5));
  DW_SAME(rms_norm_backward(x(f), x(g), nullptr, 1e-5));
  DW_SAME(attention_backward(x(cube), x(cube), x(cube), x(cube), nullptr,
                             x(cube), x(sample({2, 4})), false, 1.0));
#undef DW_SAME
}

}  // namespace
}  // namespace distwrap::cpu
