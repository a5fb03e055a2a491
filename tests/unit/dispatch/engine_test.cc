// The engine, custom functions, writes in place, and their errors.
#include "distwrap/autograd.h"
#include "distwrap/function.h"
#include "distwrap/registration.h"
#include "distwrap/throwing.h"

#include <absl/strings/match.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <pthread.h>
#include <thread>

namespace distwrap::autograd {
namespace {

using ::testing::HasSubstr;
using namespace throwing;  // NOLINT(google-build-using-namespace)

Tensor leaf(double value) {
  Tensor x = throwing::full({}, value, DType::kF64);
  check(x.set_requires_grad());
  return x;
}
double number(const Tensor& x) { return unwrap(x.item()).to<double>(); }

TEST(Engine, AddsGradientsOfAllUsesAndOfSeveralRuns) {
  const Tensor x = leaf(3);
  ASSERT_TRUE(backward({x * x + x}).ok());
  EXPECT_EQ(number(x.grad()), 7);
  ASSERT_TRUE(backward({x * 2.0}).ok());
  EXPECT_EQ(number(x.grad()), 9);
}

TEST(Engine, GivesGradientsOfChosenInputsAndLeavesLeavesAlone) {
  const Tensor x = leaf(3), y = leaf(4), unused = leaf(1);
  const Tensor inner = x * y;
  const Tensor out = inner * inner;
  const auto grads = grad({out}, {inner, x}, {}, {.retain_graph = true});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_EQ(number((*grads)[0]), 24);
  EXPECT_EQ(number((*grads)[1]), 96);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(
      error_reason(grad({out}, {unused}, {}, {.retain_graph = true}).status()),
      Reason::kArgument);
  const auto allowed = grad({out}, {unused, y}, {}, {.allow_unused = true});
  ASSERT_TRUE(allowed.ok()) << allowed.status();
  EXPECT_FALSE((*allowed)[0].defined());
  EXPECT_EQ(number((*allowed)[1]), 72);
}

TEST(Engine, DifferentiatesItsOwnGradients) {
  const Tensor x = leaf(2);
  Tensor y = x * x * x * x;
  double wanted[] = {32, 48, 48, 24};
  for (const double value : wanted) {
    const auto grads = grad({y}, {x}, {}, {.create_graph = true});
    ASSERT_TRUE(grads.ok()) << grads.status();
    y = (*grads)[0];
    EXPECT_EQ(number(y), value);
  }
}

TEST(Engine, RefusesAskingTwiceUnlessTold) {
  const Tensor x = leaf(2);
  const Tensor y = x * x;
  ASSERT_TRUE(backward({y}, {}, {.retain_graph = true}).ok());
  ASSERT_TRUE(backward({y}).ok());
  const absl::Status status = backward({y});
  EXPECT_EQ(error_reason(status), Reason::kBackwardTwice);
  EXPECT_THAT(std::string(status.message()), HasSubstr("dw::mul.Tensor"));
}

TEST(Engine, RefusesGradientsThatDoNotFit) {
  const Tensor x = throwing::ones({2}, DType::kF64);
  check(x.set_requires_grad());
  const Tensor y = x * 2.0;
  EXPECT_EQ(error_reason(backward({y})), Reason::kArgument);
  EXPECT_EQ(error_reason(backward({y}, {throwing::ones({3}, DType::kF64)})),
            Reason::kGradShape);
  EXPECT_EQ(error_reason(backward({y}, {throwing::ones({2})})),
            Reason::kGradShape);
  EXPECT_EQ(error_reason(backward({throwing::ones({})})), Reason::kArgument);
}

TEST(Engine, CallsHooksOfTensorsNodesAndLeaves) {
  const Tensor x = leaf(2);
  const Tensor y = x * 3.0, z = y * 5.0;
  std::vector<std::string> heard;
  check(add_hook(y, [&](const Tensor& g) -> absl::StatusOr<Tensor> {
    heard.push_back("tensor");
    return g * 10.0;
  }));
  node_of(z)->hooks.push_back([&](Grads& inputs, const Grads& outputs) {
    heard.push_back("node");
    EXPECT_EQ(number(inputs[0]), 5);
    EXPECT_EQ(number(outputs[0]), 1);
    return absl::OkStatus();
  });
  check(add_leaf_hook(x, [&](const Tensor& of) {
    heard.push_back("leaf");
    EXPECT_EQ(number(of.grad()), 150);
    return absl::OkStatus();
  }));
  ASSERT_TRUE(backward({z}).ok());
  EXPECT_THAT(heard, ::testing::ElementsAre("node", "tensor", "leaf"));
}

// A chain as long as this would overflow the stack by recursion, in the run as
// well as when it is freed.
void* long_chain(void* /*unused*/) {
  const Tensor x = leaf(1);
  Tensor y = x;
  const char* const wanted = std::getenv("TEST_CHAIN");
  const int length = wanted == nullptr ? 200000 : std::atoi(wanted);
  for (int i = 0; i < length; ++i) y = throwing::neg(y);
  EXPECT_TRUE(backward({y}, {}, {.retain_graph = true}).ok());
  EXPECT_EQ(number(x.grad()), 1);
  y = Tensor();
  return nullptr;
}

TEST(Engine, RunsAndFreesLongChainsOnASmallStack) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, &long_chain, nullptr), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(Modes, NoGradNotesNothingAndNests) {
  const Tensor x = leaf(2);
  {
    const NoGradGuard off;
    EXPECT_FALSE((x * x).requires_grad());
    {
      const EnableGradGuard on;
      EXPECT_TRUE((x * x).requires_grad());
    }
    EXPECT_FALSE((x * x).requires_grad());
  }
  EXPECT_TRUE((x * x).requires_grad());
  EXPECT_FALSE(throwing::detach(x * x).requires_grad());
}

struct Scale : Function<Scale> {
  static absl::StatusOr<Tensor> forward(Ctx& ctx, const Tensor& x, double k) {
    ctx.save_for_backward({x});
    ctx.put("k", k);
    return x * k;
  }
  static absl::StatusOr<Grads> backward(Ctx& ctx,
                                        absl::Span<const Tensor> grads) {
    EXPECT_EQ(ctx.saved(0).count(), 1);
    EXPECT_TRUE(ctx.needs_input_grad(0));
    return Grads{grads[0] * ctx.get<double>("k")};
  }
};
struct WrongCount : Function<WrongCount> {
  static absl::StatusOr<Tensor> forward(Ctx& /*ctx*/, const Tensor& x) {
    return x * 1.0;
  }
  static absl::StatusOr<Grads> backward(Ctx& /*ctx*/,
                                        absl::Span<const Tensor> grads) {
    return Grads{grads[0], grads[0]};
  }
};
struct TwoOut : Function<TwoOut> {
  static absl::StatusOr<std::tuple<Tensor, Tensor>> forward(Ctx& ctx,
                                                            const Tensor& x) {
    const Tensor plain = x * 2.0;
    ctx.mark_non_differentiable(plain);
    return std::tuple{x * 3.0, plain};
  }
  static absl::StatusOr<Grads> backward(Ctx& /*ctx*/,
                                        absl::Span<const Tensor> grads) {
    EXPECT_TRUE(grads[1].defined()) << "zeros for an output without gradient";
    return Grads{grads[0] * 3.0};
  }
};

TEST(Functions, OfAProgramHaveTheirOwnGradient) {
  const Tensor x = leaf(2);
  const auto y = Scale::apply(x, 4.0);
  ASSERT_TRUE(y.ok());
  ASSERT_TRUE(backward({*y}).ok());
  EXPECT_EQ(number(x.grad()), 4);
  const auto two = TwoOut::apply(x);
  ASSERT_TRUE(two.ok());
  EXPECT_FALSE(std::get<1>(*two).requires_grad());
  ASSERT_TRUE(backward({std::get<0>(*two)}).ok());
  EXPECT_EQ(number(x.grad()), 7);
  const absl::Status status = backward({*WrongCount::apply(x)});
  EXPECT_EQ(error_reason(status), Reason::kArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("WrongCount"));
}

TEST(Writes, ToLeavesAndTheirViewsAreRefused) {
  const Tensor x = throwing::ones({2}, DType::kF64);
  const Tensor before = throwing::select(x, 0, 0);
  check(x.set_requires_grad());
  const Tensor one = throwing::full({}, 1, DType::kF64);
  EXPECT_EQ(error_reason(ops::add_(x, one)), Reason::kLeafWrite);
  EXPECT_EQ(error_reason(ops::add_(throwing::select(x, 0, 1), one)),
            Reason::kLeafWrite);
  EXPECT_EQ(x.data<double>()[0], 1) << "nothing was written";
  {
    const NoGradGuard off;
    EXPECT_TRUE(ops::add_(x, one).ok());
  }
  EXPECT_EQ(x.version(), 1U);
  EXPECT_EQ(x.data<double>()[1], 2);
}

TEST(Writes, ToViewsThatCannotBeFollowedAreRefused) {
  const Tensor x = leaf(2);
  const Tensor y = throwing::expand(x * 2.0, {3});
  const Tensor one = throwing::full({}, 1, DType::kF64);
  EXPECT_EQ(error_reason(ops::add_(y, one)), Reason::kViewWrite);
  const Tensor base = throwing::expand(x, {2}) * 2.0;
  Tensor quiet;
  {
    const NoGradGuard off;
    quiet = throwing::select(base, 0, 0);
  }
  EXPECT_EQ(error_reason(ops::add_(quiet, x)), Reason::kViewWrite);
}

TEST(Writes, OfSavedValuesAreFound) {
  const Tensor x = leaf(2);
  const Tensor y = x * 3.0;
  const Tensor z = y * y;
  throwing::add_(throwing::detach(y), throwing::full({}, 1, DType::kF64));
  const absl::Status status = backward({z});
  EXPECT_EQ(error_reason(status), Reason::kSavedChanged);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("saved at version 0, is 1"));
}

// A value that is saved before a write in place stays the value before it.
TEST(Writes, OfATensorByItselfHaveTheRightGradient) {
  const Tensor x = leaf(3);
  const Tensor y = x * 1.0;
  throwing::mul_(y, y);
  const auto grads = grad({y}, {x}, {}, {.create_graph = true});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_EQ(number((*grads)[0]), 6);
  EXPECT_EQ(number((*grad({(*grads)[0]}, {x}))[0]), 2);
}

TEST(NoGradient, IsNeverSilent) {
  const auto defined = dispatch::define("t::plain(Tensor x) -> Tensor");
  const auto kernel = dispatch::implement(
      "t::plain", {dispatch::kDense, kCpu},
      dispatch::kernel(+[](const Tensor& x) { return throwing::clone(x); }));
  const auto plain = dispatch::find_op<Tensor(const Tensor&)>("t::plain");
  const Tensor x = leaf(2);
  const auto y = plain.call(x);
  ASSERT_TRUE(y.ok());
  EXPECT_TRUE(y->requires_grad());
  const absl::Status status = backward({*y});
  EXPECT_EQ(error_reason(status), Reason::kNoGradient);
  EXPECT_THAT(std::string(status.message()), HasSubstr("t::plain"));
  const NoGradGuard off;
  EXPECT_FALSE(plain.call(x)->requires_grad());
}

TEST(Threads, RunBackwardOverSharedLeaves) {
  const Tensor w = leaf(3);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&w] {
      for (int step = 0; step < 200; ++step) {
        const auto grads = grad({w * w}, {w});
        ASSERT_TRUE(grads.ok()) << grads.status();
        ASSERT_EQ(number((*grads)[0]), 6);
      }
    });
  }
  for (std::thread& one : threads) one.join();
}

}  // namespace
}  // namespace distwrap::autograd
