// Custom functions: what their context promises.
#include "distwrap/function.h"
#include "distwrap/throwing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

namespace distwrap::autograd {
namespace {

using namespace throwing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

Tensor leaf(std::vector<double> values) {
  Tensor x = *Tensor::empty({static_cast<int64_t>(values.size())}, DType::kF64);
  std::copy(values.begin(), values.end(), x.data<double>());
  check(x.set_requires_grad());
  return x;
}
Tensor two() { return full({}, 2.0, DType::kF64); }
std::vector<double> values(const Tensor& x) {
  return {x.data<double>(), x.data<double>() + x.count()};
}

// The parts of a tensor, as views.
struct Halves : Function<Halves> {
  static absl::StatusOr<Tensor> forward(Ctx&, const Tensor& x) {
    return ops::slice(x, 0, 0, 1);
  }
  static Grads backward(Ctx&, absl::Span<const Tensor> grads) {
    return {cat({grads[0], grads[0]}, 0)};
  }
};

TEST(Functions, ThatGiveAViewDoNotLetItBeWritten) {
  const Tensor x = leaf({1, 2});
  const Tensor y = unwrap(Halves::apply(x * 1.0));
  const absl::Status status = ops::mul_(y, two());
  EXPECT_EQ(error_reason(status), Reason::kViewWrite) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("custom function"));
  const NoGradGuard off;
  EXPECT_TRUE(ops::mul_(y, two()).ok());
}

// Doubles its argument in place.
struct Twice : Function<Twice> {
  static absl::StatusOr<Tensor> forward(Ctx& ctx, const Tensor& x) {
    absl::Status status = ops::mul_(x, two());
    if (!status.ok()) return status;
    ctx.mark_dirty(x);
    return x;
  }
  static Grads backward(Ctx&, absl::Span<const Tensor> grads) {
    return {grads[0] * 2.0};
  }
};

TEST(Functions, MarkWhatTheyWriteAndGiveBackTheSameHandle) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 3.0;
  const Tensor z = unwrap(Twice::apply(y));
  EXPECT_TRUE(z.is_same(y));
  EXPECT_EQ(values(y), (std::vector<double>{6, 12}));
  check(backward({sum(y)}));
  EXPECT_EQ(values(x.grad()), (std::vector<double>{6, 6}));
}

// Two outputs, of which backward() sees what arrives.
struct Both : Function<Both> {
  static absl::StatusOr<TwoTensors> forward(Ctx& ctx, const Tensor& x,
                                            bool materialize) {
    ctx.materialize_grads(materialize);
    return TwoTensors{x * 1.0, x * 2.0};
  }
  static Grads backward(Ctx&, absl::Span<const Tensor> grads) {
    seen = {grads[0].defined(), grads[1].defined()};
    return {grads[0].defined() ? grads[0] : grads[1]};
  }
  static inline std::vector<bool> seen;
};

TEST(Functions, GetZerosForOutputsWithoutGradientUnlessTheyDecline) {
  const Tensor x = leaf({1, 2});
  check(backward({sum(std::get<0>(unwrap(Both::apply(x, true))))}));
  EXPECT_EQ(Both::seen, (std::vector<bool>{true, true}));
  check(backward({sum(std::get<0>(unwrap(Both::apply(x, false))))}));
  EXPECT_EQ(Both::seen, (std::vector<bool>{true, false}));
}

// Saves its output, and asks what is noted meanwhile.
struct Exp : Function<Exp> {
  static absl::StatusOr<Tensor> forward(Ctx& ctx, const Tensor& x) {
    noted = (x * 2.0).requires_grad();
    const Tensor y = exp(x);
    ctx.save_for_backward({y});
    return y;
  }
  static Grads backward(Ctx& ctx, absl::Span<const Tensor> grads) {
    return {grads[0] * ctx.saved(0)};
  }
  static inline bool noted = true;
};

TEST(Functions, NoteNothingInForward) {
  unwrap(Exp::apply(leaf({1})));
  EXPECT_FALSE(Exp::noted);
}

TEST(Functions, ThatSaveAnOutputMakeNoCycle) {
  const Tensor x = leaf({0.5});
  WeakTensor weak;
  {
    const Tensor y = unwrap(Exp::apply(x));
    weak = WeakTensor(y);
    EXPECT_TRUE(weak.lock().defined());
  }
  EXPECT_FALSE(weak.lock().defined()) << "the node held its own output";
  // The saved output has its history: it can be differentiated again.
  const Tensor y = unwrap(Exp::apply(x));
  const Tensor first = unwrap(grad({y}, {x}, {}, {.create_graph = true}))[0];
  const Tensor second = unwrap(grad({first}, {x}))[0];
  EXPECT_NEAR(values(second)[0], std::exp(0.5), 1e-12);
}

// A gradient that runs another backward() inside.
struct Nested : Function<Nested> {
  static absl::StatusOr<Tensor> forward(Ctx& ctx, const Tensor& x) {
    ctx.save_for_backward({x});
    return x * x;
  }
  static absl::StatusOr<Grads> backward(Ctx& ctx,
                                        absl::Span<const Tensor> grads) {
    const EnableGradGuard on;
    const Tensor x = detach(ctx.saved(0));
    check(x.set_requires_grad());
    absl::Status status = autograd::backward({sum(x * x)});
    if (!status.ok()) return status;
    return Grads{grads[0] * x.grad()};
  }
};

TEST(Functions, MayRunBackwardInsideBackward) {
  const Tensor x = leaf({3});
  check(backward({unwrap(Nested::apply(x))}));
  EXPECT_EQ(values(x.grad()), std::vector<double>{6});
}

struct Wrong : Function<Wrong> {
  static absl::StatusOr<Tensor> forward(Ctx&, const Tensor& x, int64_t) {
    return x * 1.0;
  }
  static absl::StatusOr<Grads> backward(Ctx&, absl::Span<const Tensor> grads) {
    switch (kind) {
      case 0:
        return Grads{cat({grads[0], grads[0]}, 0)};
      case 1:
        return Grads{grads[0], grads[0]};
      default:
        return make_error({.reason = Reason::kKernelFailed,
                           .what = "no luck",
                           .op = "elsewhere"});
    }
  }
  static inline int kind = 0;
};

TEST(Functions, ThatFailNameThemselves) {
  const auto run = [](int kind) {
    Wrong::kind = kind;
    return backward({unwrap(Wrong::apply(leaf({1}), int64_t{1}))});
  };
  const absl::Status shape = run(0);
  EXPECT_EQ(error_reason(shape), Reason::kGradShape);
  EXPECT_THAT(std::string(shape.message()), HasSubstr("Wrong"));
  const absl::Status count = run(1);
  EXPECT_EQ(error_reason(count), Reason::kArgument);
  EXPECT_THAT(std::string(count.message()), HasSubstr("Wrong"));
  const absl::Status failed = run(2);
  EXPECT_EQ(error_reason(failed), Reason::kKernelFailed);
  EXPECT_THAT(std::string(failed.message()),
              AllOf(HasSubstr("Wrong"), HasSubstr("no luck")));
}

// Threads that use a leaf for the first time at once share one accumulator.
TEST(Leaves, MayBeUsedFirstByManyThreadsAtOnce) {
  for (int round = 0; round < 50; ++round) {
    const Tensor x = leaf({1, 2});
    std::vector<Tensor> sums(4);
    std::vector<std::thread> threads;
    for (Tensor& one : sums) {
      threads.emplace_back([&one, &x] { one = sum(x * 2.0); });
    }
    for (std::thread& one : threads) one.join();
    for (const Tensor& one : sums) check(backward({one}));
    EXPECT_EQ(values(x.grad()), (std::vector<double>{8, 8}));
  }
}

}  // namespace
}  // namespace distwrap::autograd
