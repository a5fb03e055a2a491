// Layers that serve operators of any library by one boxed fallback each: a
// trace, functionalization, distribution; and an operator that overrides them.
#include "distwrap/registration.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace distwrap::dispatch {
namespace {

constexpr Device kDevice = kCpu;

Tensor tensor(std::vector<float> values) {
  Tensor made = *Tensor::empty({static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), made.data<float>());
  return made;
}
std::vector<float> values(const Tensor& x) {
  return {x.data<float>(), x.data<float>() + x.count()};
}

// The operators of a stranger, who knows nothing of the layers.
absl::Status double_(const Tensor& self) {
  for (int64_t i = 0; i < self.count(); ++i) self.data<float>()[i] *= 2;
  return absl::OkStatus();
}
absl::StatusOr<Tensor> plus(const Tensor& a, const Tensor& b) {
  absl::StatusOr<Tensor> sum = Tensor::empty(a.sizes());
  for (int64_t i = 0; sum.ok() && i < a.count(); ++i) {
    sum->data<float>()[i] = a.data<float>()[i] + b.data<float>()[i];
  }
  return sum;
}

// ---- a trace: kPreDispatch is for modes, so it is on kUser1 here ----
std::vector<std::string>* g_trace = nullptr;
absl::Status trace(const OpHandle& op, KeySet set, Stack& stack) {
  const size_t arguments = stack.size();
  absl::Status status = op.redispatch_boxed(set.below(kUser1), stack);
  g_trace->push_back(
      absl::StrCat(op.name(), " ", arguments, " -> ", stack.size()));
  return status;
}

// ---- functionalization: a write goes to a copy, and the wrapper gets it ----
struct Functional {
  Tensor value;
};
Tensor wrap(const Tensor& value) {
  Tensor made = *Tensor::empty({value.count()}, DType::kF32, kMeta);
  made.state()->keys = KeySet(kFunctionalize, kDevice);
  made.state()->extension = std::make_shared<Functional>(Functional{value});
  return made;
}
Functional& functional_of(const Tensor& x) {
  return *static_cast<Functional*>(x.state()->extension.get());
}
absl::Status functionalize(const OpHandle& op, KeySet set, Stack& stack) {
  const auto schema = op.schema();
  if (!schema.ok()) return schema.status();
  const size_t count = (*schema)->params.size();
  const size_t first = stack.size() - count;
  std::vector<Tensor> written;
  Stack inner;
  for (size_t i = 0; i < count; ++i) {
    const Value& value = stack[first + i];
    if (!value.is_tensor() || !value.tensor().keys().has(kFunctionalize)) {
      inner.push_back(value.copy());
      continue;
    }
    Functional& wrapper = functional_of(value.tensor());
    if (((*schema)->written >> i & 1) != 0) {
      // The value before stays as it was for whoever holds it.
      wrapper.value = tensor(values(wrapper.value));
      written.push_back(value.tensor());
    }
    inner.push_back(Value::own(wrapper.value));
  }
  absl::Status status = op.redispatch_boxed(
      set.below(kFunctionalize) | KeySet(kDense, kDevice), inner);
  if (!status.ok()) return status;
  stack.shrink(first);
  for (size_t i = 0; i < inner.size(); ++i) {
    const bool same = i < written.size() && (*schema)->result_of[i] >= 0;
    stack.push_back(Value::own(same ? written[i] : wrap(inner[i].tensor())));
  }
  return status;
}

// ---- distribution: each operator runs on the parts ----
struct Parts {
  std::vector<Tensor> parts;
};
Tensor distribute_tensor(std::vector<Tensor> parts) {
  Tensor made = *Tensor::empty({1}, DType::kF32, kMeta);
  made.state()->keys = KeySet(kDTensorLocal, kDevice);
  made.state()->extension = std::make_shared<Parts>(Parts{std::move(parts)});
  return made;
}
Parts& parts_of(const Tensor& x) {
  return *static_cast<Parts*>(x.state()->extension.get());
}
absl::Status distribute(const OpHandle& op, KeySet set, Stack& stack) {
  std::vector<Tensor> results;
  for (size_t part = 0; part < 2; ++part) {
    Stack inner;
    for (const Value& value : stack) {
      inner.push_back(Value::own(parts_of(value.tensor()).parts[part]));
    }
    absl::Status status = op.redispatch_boxed(
        set.below(kDTensorLocal) | KeySet(kDense, kDevice), inner);
    if (!status.ok()) return status;
    results.push_back(inner[0].tensor());
  }
  stack.shrink(0);
  stack.push_back(Value::own(distribute_tensor(std::move(results))));
  return absl::OkStatus();
}

class Fallbacks : public ::testing::Test {
 protected:
  void SetUp() override {
    keep(define("far::double_(Tensor(a!) self) -> Tensor(a!)"));
    keep(define("far::plus(Tensor a, Tensor b) -> Tensor"));
    keep(implement("far::double_", {kDense, kDevice}, kernel<&double_>()));
    keep(implement("far::plus", {kDense, kDevice}, kernel<&plus>()));
    keep(fallback(kUser1, boxed(&trace)));
    keep(fallback(kFunctionalize, boxed(&functionalize)));
    keep(fallback(kDTensorLocal, boxed(&distribute)));
    g_trace = &trace_;
  }
  void keep(absl::StatusOr<Registration> made) {
    ASSERT_TRUE(made.ok()) << made.status();
    kept_.push_back(*std::move(made));
  }
  using Plus = Tensor(const Tensor&, const Tensor&);
  const Op<Plus> plus_ = find_op<Plus>("far::plus");
  const Op<void(const Tensor&)> double_op_ =
      find_op<void(const Tensor&)>("far::double_");
  std::vector<Registration> kept_;
  std::vector<std::string> trace_;
};

TEST_F(Fallbacks, ATraceSeesOperatorsOfStrangers) {
  const IncludeGuard guard{KeySet(kUser1)};
  const Tensor x = tensor({1, 2});
  ASSERT_TRUE(double_op_.call(plus_.call(x, x).value()).ok());
  EXPECT_EQ(trace_, (std::vector<std::string>{"far::plus 2 -> 1",
                                              "far::double_ 1 -> 1"}));
}

TEST_F(Fallbacks, FunctionalizationTurnsAWriteIntoANewValue) {
  const Tensor before = tensor({1, 2});
  const Tensor x = wrap(before);
  ASSERT_TRUE(double_op_.call(x).ok());
  EXPECT_EQ(values(before), (std::vector<float>{1, 2})) << "nothing is written";
  EXPECT_EQ(values(functional_of(x).value), (std::vector<float>{2, 4}));
  const Tensor sum = plus_.call(x, tensor({1, 1})).value();
  EXPECT_EQ(values(functional_of(sum).value), (std::vector<float>{3, 5}));
}

TEST_F(Fallbacks, DistributionRunsAnOperatorOnTheParts) {
  const Tensor x = distribute_tensor({tensor({1}), tensor({2, 3})});
  const Tensor sum = plus_.call(x, x).value();
  EXPECT_EQ(values(parts_of(sum).parts[0]), (std::vector<float>{2}));
  EXPECT_EQ(values(parts_of(sum).parts[1]), (std::vector<float>{4, 6}));
}

TEST_F(Fallbacks, AnOperatorOverridesEachOfThem) {
  const auto marked = +[](const Tensor& a, const Tensor& /*b*/) { return a; };
  for (const Key key : {kUser1, kFunctionalize, kDTensorLocal}) {
    const auto own = implement("far::plus", key, kernel(marked));
    ASSERT_TRUE(own.ok()) << own.status();
    const IncludeGuard guard{KeySet(key)};
    const Tensor x = tensor({1});
    EXPECT_TRUE(plus_.call(x, tensor({5})).value().is_same(x)) << key_name(key);
  }
  EXPECT_TRUE(trace_.empty());
}

TEST_F(Fallbacks, AFallthroughKernelTakesOneOperatorOutOfALayer) {
  const auto none = implement("far::plus", kUser1, fallthrough());
  ASSERT_TRUE(none.ok());
  const IncludeGuard guard{KeySet(kUser1)};
  const Tensor x = tensor({1});
  ASSERT_TRUE(plus_.call(x, x).ok());
  ASSERT_TRUE(double_op_.call(x).ok());
  EXPECT_EQ(trace_, (std::vector<std::string>{"far::double_ 1 -> 1"}));
  ASSERT_TRUE(check_invariants().ok());
}

TEST_F(Fallbacks, AFallthroughForOneBackendLeavesTheOthers) {
  // The gradient's layer has nothing to do on the CPU, and a kernel on meta.
  static int ran = 0;
  const auto none = implement("far::plus", {kAutograd, kCpu}, fallthrough());
  const auto some = implement(
      "far::plus", {kAutograd, kMeta},
      kernel(+[](const Tensor& a, const Tensor&) { return ++ran, a; }));
  const IncludeGuard guard{KeySet(kAutograd)};
  const Tensor x = tensor({1});
  ASSERT_TRUE(plus_.call(x, x).ok());
  EXPECT_EQ(ran, 0);
  const Tensor meta = *Tensor::empty({1}, DType::kF32, kMeta);
  ASSERT_TRUE(plus_.call(meta, meta).ok());
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace distwrap::dispatch
