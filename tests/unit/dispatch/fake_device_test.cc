// A device that no other library knows: its library adds kernels to operators
// that exist, and everything above the kernels works on it.
#include "distwrap/autograd.h"
#include "distwrap/registration.h"
#include "distwrap/throwing.h"

#include <absl/strings/match.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap {
namespace {

using ::testing::HasSubstr;
using namespace throwing;  // NOLINT(google-build-using-namespace)

std::vector<double> numbers(const Tensor& tensor) {
  const Tensor host =
      throwing::contiguous(throwing::to(throwing::detach(tensor), kCpu));
  return {host.data<double>(), host.data<double>() + host.count()};
}

// The loss and the gradients of a small model on a device.
std::vector<std::vector<double>> train(Device device) {
  const auto leaf = [&](Ints sizes, uint64_t call) {
    const Tensor x = throwing::randn(sizes, DType::kF64, device,
                                     Generator{.seed = 4, .call = call});
    EXPECT_EQ(x.device(), device);
    check(x.set_requires_grad());
    return x;
  };
  const Tensor x = leaf({4, 6}, 0), w = leaf({5, 6}, 1), b = leaf({5}, 2);
  const Tensor hidden = throwing::gelu(throwing::linear(x, w, &b));
  throwing::mul_(throwing::select(hidden, 0, 1),
                 throwing::full({}, 2.0, DType::kF64, device));
  const std::vector<Tensor> parts = throwing::split(hidden, {2, 3}, 1);
  const Tensor loss = throwing::mean(throwing::softmax(parts[1]) *
                                     throwing::sum(parts[0], Ints({1}), true)) +
                      throwing::logsumexp(throwing::layer_norm(hidden));
  EXPECT_EQ(loss.device(), device);
  check(autograd::backward({loss}));
  EXPECT_EQ(w.grad().device(), device);
  return {numbers(loss), numbers(x.grad()), numbers(w.grad()),
          numbers(b.grad())};
}

TEST(FakeDevice, NeedsItsLibraryAndThenComputesAsTheCpu) {
  const absl::Status before = ops::randn({2}, DType::kF32, kPrivate1).status();
  EXPECT_EQ(error_reason(before), Reason::kNoKernel);
  EXPECT_THAT(std::string(before.message()),
              HasSubstr("is libdistwrap_ops_private1 loaded?"));
  const auto on_cpu = train(kCpu);
  ASSERT_TRUE(dispatch::load_library(FAKE_LIBRARY).ok());
  EXPECT_EQ(train(kPrivate1), on_cpu);
  for (const dispatch::OpHandle& op : dispatch::operators()) {
    const auto has = [dump = op.dump()](const std::string& device) {
      return absl::StrContains(dump, "dense/" + device) &&
             !absl::StrContains(dump, "composite");
    };
    EXPECT_EQ(has("private1"), has("cpu"))
        << op.name() << ": ops/fake/operators.def differs";
  }
  EXPECT_EQ(train(kCpu), on_cpu);
  {
    const Tensor there = throwing::to(throwing::ones({2}), kPrivate1);
    EXPECT_EQ(there.device(), kPrivate1);
    const absl::Status busy = dispatch::unload_library(
        FAKE_LIBRARY, Deadline::after(absl::Milliseconds(10)));
    EXPECT_EQ(error_reason(busy), Reason::kLibraryBusy);
    EXPECT_EQ(error_reason(ops::neg(there).status()), Reason::kNoKernel);
  }
  EXPECT_TRUE(
      dispatch::unload_library(FAKE_LIBRARY, Deadline::after(absl::Seconds(10)))
          .ok());
  EXPECT_EQ(error_reason(ops::zeros({2}, DType::kF32, kPrivate1).status()),
            Reason::kNoKernel);
  EXPECT_EQ(train(kCpu), on_cpu);
}

}  // namespace
}  // namespace distwrap
