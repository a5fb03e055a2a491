// Operators: definitions, kernels, calls, boxing, errors.
#include "distwrap/registration.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace distwrap::dispatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Tensor make(Ints sizes, Device device = kMeta) {
  return *Tensor::empty(sizes, DType::kF32, device);
}

Reason reason(const absl::Status& status) { return error_reason(status); }

std::string text(const absl::Status& status) {
  return std::string(status.message());
}

// Registrations that last as long as the object.
class Kept {
 public:
  Kept& define(absl::string_view schema) {
    return keep(dispatch::define(schema));
  }
  Kept& implement(absl::string_view op, Target target, Kernel kernel,
                  Existing existing = Existing::kRefuse) {
    return keep(dispatch::implement(op, target, std::move(kernel), existing));
  }
  Kept& fallback(Key key, Kernel kernel) {
    return keep(dispatch::fallback(key, std::move(kernel)));
  }
  Kept& keep(absl::StatusOr<Registration> made) {
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) kept_.push_back(*std::move(made));
    return *this;
  }
  void drop_newest() { kept_.pop_back(); }

 private:
  std::vector<Registration> kept_;
};

Tensor first_of_two(const Tensor& a, const Tensor& /*b*/) { return a; }
Tensor second_of_two(const Tensor& /*a*/, const Tensor& b) { return b; }

constexpr char kTwo[] = "t::two(Tensor a, Tensor b) -> Tensor";
using Two = Tensor(const Tensor&, const Tensor&);

TEST(KeySets, KnowTheirHighestLayerAndKeepBackends) {
  const KeySet set = KeySet(kDense, kCpu) | KeySet(kAutograd, kMeta);
  EXPECT_EQ(set.highest(), kAutograd);
  EXPECT_EQ(set.backend(), backend_of(kMeta));
  EXPECT_EQ(set.minus(kAutograd).highest(), kDense);
  EXPECT_EQ(set.minus(kAutograd).backend(), backend_of(kMeta));
  EXPECT_EQ(set.below(kAutograd), set.minus(kAutograd));
  EXPECT_TRUE(set.has_all(KeySet(kDense, kCpu)));
  EXPECT_FALSE(KeySet().has_layer());
  EXPECT_EQ(set.text(), "Dense|Autograd|cpu|meta");
}

TEST(KeySets, AllocatesKeysBetweenTwoNamedOnesAndThenRefuses) {
  const absl::StatusOr<Key> mine = allocate_key("Mine", kAutograd, kDense);
  ASSERT_TRUE(mine.ok());
  EXPECT_GT(*mine, kDense);
  EXPECT_LT(*mine, kAutograd);
  EXPECT_EQ(key_name(*mine), "Mine");
  EXPECT_EQ(reason(allocate_key("None", kUser2, kUser1).status()),
            Reason::kOutOfKeys);
  Kept kept;
  kept.define(kTwo).implement("t::two", *mine, kernel<&second_of_two>());
  const auto two = find_op<Two>("t::two");
  const IncludeGuard guard{KeySet(*mine)};
  const Tensor a = make({1}), b = make({2});
  EXPECT_TRUE(two.call(a, b)->is_same(b));
}

TEST(Calls, TakeTheHighestBackendOfAllTensors) {
  Kept kept;
  kept.define(kTwo)
      .implement("t::two", {kDense, kMeta}, kernel<&first_of_two>())
      .implement("t::two", {kDense, kCpu}, kernel<&second_of_two>());
  const auto two = find_op<Two>("t::two");
  const Tensor meta = make({1}), cpu = make({2}, kCpu);
  EXPECT_TRUE(two.call(meta, cpu)->is_same(meta));
  EXPECT_TRUE(two.call(cpu, meta)->is_same(cpu));
  EXPECT_TRUE(two.call(cpu, cpu)->is_same(cpu));
}

// D-H7: an operator with a sparse operand in any place reaches the sparse
// kernel.
TEST(Calls, OfDenseAndSparseReachSparseInAnyOrder) {
  struct Coo {
    std::vector<int64_t> index;
  };
  const auto sparse = [] {
    Tensor tensor = make({4}, kCpu);
    tensor.state()->keys = KeySet(kSparse, kCpu);
    tensor.state()->extension = std::make_shared<Coo>();
    return tensor;
  };
  Kept kept;
  kept.define("t::join(Tensor[] tensors, Tensor? last=None) -> Tensor");
  using Join = Tensor(TensorList, const Tensor*);
  kept.implement("t::join", {kDense, kCpu},
                 kernel(+[](TensorList t, const Tensor*) { return t[0]; }))
      .implement("t::join", {kSparse, kCpu},
                 kernel(+[](TensorList, const Tensor*) { return Tensor(); }));
  const auto join = find_op<Join>("t::join");
  const Tensor dense = make({4}, kCpu), coo = sparse();
  EXPECT_TRUE(join.call({dense, dense}, nullptr)->defined());
  EXPECT_FALSE(join.call({dense, coo}, nullptr)->defined());
  EXPECT_FALSE(join.call({coo, dense}, nullptr)->defined());
  EXPECT_FALSE(join.call({dense}, &coo)->defined());
  // Undefined entries of a list bring nothing.
  EXPECT_TRUE(join.call({dense, Tensor()}, nullptr)->defined());
}

TEST(Calls, DoNotCountReferences) {
  Kept kept;
  kept.define("t::uses(Tensor a) -> int");
  kept.implement("t::uses", {kDense, kMeta},
                 kernel(+[](const Tensor& a) { return a.use_count(); }));
  const Tensor a = make({1});
  EXPECT_EQ(find_op<int64_t(const Tensor&)>("t::uses").call(a).value(), 1);
}

TEST(Calls, ExcludeAndIncludeLayersOfThisThread) {
  Kept kept;
  kept.define(kTwo)
      .implement("t::two", {kDense, kMeta}, kernel<&first_of_two>())
      .implement("t::two", kUser1, kernel<&second_of_two>());
  const auto two = find_op<Two>("t::two");
  const Tensor a = make({1}), b = make({2});
  EXPECT_TRUE(two.call(a, b)->is_same(a));
  {
    const IncludeGuard include{KeySet(kUser1)};
    EXPECT_TRUE(two.call(a, b)->is_same(b));
    { const IncludeGuard again{KeySet(kUser1)}; }
    EXPECT_TRUE(two.call(a, b)->is_same(b)) << "a guard takes its own back";
    const ExcludeGuard exclude{KeySet(kUser1)};
    EXPECT_TRUE(two.call(a, b)->is_same(a)) << "exclude wins";
    const TlsState state = TlsState::capture();
    std::thread([&] {
      EXPECT_EQ(thread_keys.include, 0U);
      const TlsState before = state.restore();
      EXPECT_EQ(thread_keys.exclude, KeySet(kUser1).bits());
      before.restore();
    }).join();
  }
  EXPECT_TRUE(two.call(a, b)->is_same(a));
}

Tensor doubled_below(KeySet set, const Tensor& a, const Tensor& b) {
  static const auto two = find_op<Two>("t::two");
  return *two.redispatch(set.below(kUser1), b, a);
}

TEST(Calls, RedispatchToTheLayersBelow) {
  Kept kept;
  kept.define(kTwo)
      .implement("t::two", {kDense, kMeta}, kernel<&first_of_two>())
      .implement("t::two", kUser1, kernel<&doubled_below>());
  const Tensor a = make({1}), b = make({2});
  const IncludeGuard include{KeySet(kUser1)};
  EXPECT_TRUE(find_op<Two>("t::two").call(a, b)->is_same(b));
}

int g_boxed_calls = 0;
absl::Status count_and_go_on(const OpHandle& op, KeySet set, Stack& stack) {
  ++g_boxed_calls;
  return op.redispatch_boxed(set.below(kUser2), stack);
}

TEST(Boxing, AFallbackServesTypedCallsOfEveryOperator) {
  Kept kept;
  kept.define(kTwo)
      .implement("t::two", {kDense, kMeta}, kernel<&first_of_two>())
      .fallback(kUser2, boxed(&count_and_go_on));
  const Tensor a = make({1}), b = make({2});
  const auto two = find_op<Two>("t::two");
  g_boxed_calls = 0;
  {
    const IncludeGuard include{KeySet(kUser2)};
    EXPECT_TRUE(two.call(a, b)->is_same(a));
  }
  EXPECT_EQ(g_boxed_calls, 1);
  EXPECT_TRUE(two.call(a, b)->is_same(a));
  EXPECT_EQ(g_boxed_calls, 1);
}

// Every C++ type of a schema, boxed and unboxed again.
std::tuple<Tensor, int64_t> everything(
    const Tensor& tensor, const Tensor* maybe, TensorList list, int64_t i,
    double f, bool b, absl::string_view s, const Scalar& scalar, DType dtype,
    Device device, Ints ints, std::optional<Ints> no_ints,
    std::optional<double> no_float) {
  EXPECT_EQ(maybe, nullptr);
  EXPECT_EQ(list.size(), 2U);
  EXPECT_FALSE(list[1].defined());
  EXPECT_EQ(f, 2.5);
  EXPECT_TRUE(b);
  EXPECT_EQ(s, "text");
  EXPECT_EQ(scalar, Scalar(7));
  EXPECT_EQ(dtype, DType::kBF16);
  EXPECT_EQ(device, kMeta);
  EXPECT_THAT(ints, ::testing::ElementsAre(1, 2, 3));
  EXPECT_FALSE(no_ints.has_value());
  EXPECT_EQ(no_float, 0.5);
  return {tensor, i + 1};
}

TEST(Boxing, KeepsEveryTypeThroughTypedBoxedTyped) {
  Kept kept;
  kept.define(
      "t::all(Tensor t, Tensor? m, Tensor[] l, int i, float f, bool b, str s, "
      "Scalar sc, ScalarType d, Device dev, int[] ints, int[]? no=None, "
      "float? nf=0.5) -> (Tensor, int)");
  kept.implement("t::all", {kDense, kMeta}, kernel<&everything>())
      .fallback(kUser2, boxed(&count_and_go_on));
  const Tensor t = make({1});
  const Tensor list[] = {t, Tensor()};
  const int64_t ints[] = {1, 2, 3};
  const auto all = find_op<decltype(everything)>("t::all");
  const auto call = [&] {
    return all.call(t, nullptr, list, 41, 2.5, true, "text", 7, DType::kBF16,
                    kMeta, ints, std::nullopt, 0.5);
  };
  ASSERT_TRUE(call().ok());
  const IncludeGuard include{KeySet(kUser2)};
  const auto result = call();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(std::get<0>(*result).is_same(t));
  EXPECT_EQ(std::get<1>(*result), 42);

  // From a stack: the defaults are those of the schema.
  Stack stack;
  stack.push_back(Value::borrow(t));
  stack.push_back(Value());
  stack.push_back(Value::borrow(TensorList(list)));
  stack.push_back(Value(int64_t{1}));
  stack.push_back(Value(2.5));
  stack.push_back(Value(true));
  stack.push_back(Value::borrow(absl::string_view("text")));
  stack.push_back(Value(Scalar(7)));
  stack.push_back(Value(DType::kBF16));
  stack.push_back(Value(kMeta));
  stack.push_back(Value::borrow(Ints(ints)));
  const absl::Status status = find_operator("t::all").call_boxed(stack);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(stack.size(), 2U);
  EXPECT_TRUE(stack[0].tensor().is_same(t));
  EXPECT_EQ(stack[1].to_int(), 2);
}

void write_nothing(const Tensor& /*self*/, double /*value*/) {}

TEST(Boxing, InPlaceGivesBackTheSameHandle) {
  Kept kept;
  kept.define("t::write_(Tensor(a!) self, float value) -> Tensor(a!)")
      .implement("t::write_", {kDense, kMeta}, kernel<&write_nothing>())
      .fallback(kUser2, boxed(&count_and_go_on));
  const IncludeGuard include{KeySet(kUser2)};
  const Tensor self = make({3});
  Stack stack;
  stack.push_back(Value::borrow(self));
  stack.push_back(Value(1.0));
  ASSERT_TRUE(find_operator("t::write_").call_boxed(stack).ok());
  ASSERT_EQ(stack.size(), 1U);
  EXPECT_TRUE(stack[0].tensor().is_same(self));
  EXPECT_EQ(self.version(), 1U) << "the schema declares a write";
  EXPECT_TRUE(find_op<decltype(write_nothing)>("t::write_").call(self, 2).ok());
  EXPECT_EQ(self.version(), 2U);
}

TEST(Registering, WorksInAnyOrderAndUndoesExactlyItself) {
  Kept kept;
  kept.implement("t::order", {kDense, kMeta}, kernel<&first_of_two>());
  EXPECT_THAT(dangling_implementations(),
              ::testing::Contains(HasSubstr("t::order dispatch_test.cc")));
  const auto two = find_op<Two>("t::order");
  const Tensor a = make({1}), b = make({2});
  EXPECT_THAT(text(two.call(a, b).status()),
              AllOf(HasSubstr("kOpUnknown"), HasSubstr("no definition"),
                    HasSubstr("dispatch_test.cc:")));
  kept.define("t::order(Tensor a, Tensor b) -> Tensor");
  EXPECT_TRUE(two.call(a, b)->is_same(a));
  kept.implement("t::order", {kDense, kMeta}, kernel<&second_of_two>(),
                 Existing::kOverride);
  EXPECT_TRUE(two.call(a, b)->is_same(b)) << "the newest wins";
  kept.drop_newest();
  EXPECT_TRUE(two.call(a, b)->is_same(a)) << "what lay beneath is back";
  kept.drop_newest();
  EXPECT_THAT(text(two.call(a, b).status()), HasSubstr("was removed"));
  EXPECT_TRUE(check_invariants().ok());
}

TEST(Registering, RefusesWhatIsThereOrDoesNotFit) {
  Kept kept;
  kept.define(kTwo).implement("t::two", {kDense, kMeta},
                              kernel<&first_of_two>());
  const auto refused = [](absl::StatusOr<Registration> made) {
    return made.ok() ? Reason::kNone : error_reason(made.status());
  };
  EXPECT_EQ(refused(define(kTwo)), Reason::kDuplicate);
  EXPECT_EQ(
      refused(implement("t::two", {kDense, kMeta}, kernel<&second_of_two>())),
      Reason::kDuplicate);
  EXPECT_EQ(
      refused(implement("t::two", {kDense, kCpu}, kernel<&write_nothing>())),
      Reason::kSignatureMismatch);
  EXPECT_EQ(refused(implement("t::two", kDense, kernel<&first_of_two>())),
            Reason::kArgument)
      << "Dense needs a device";
  EXPECT_EQ(refused(define("t::three(Tensor a Tensor b) -> Tensor")),
            Reason::kSchemaParse);
  Kept namespaces;
  namespaces.keep(own_namespace("mine"));
  EXPECT_EQ(refused(own_namespace("mine")), Reason::kDuplicate);
  kept.implement("t::late", {kDense, kMeta}, kernel<&first_of_two>());
  EXPECT_EQ(refused(define("t::late(Tensor a, int b) -> Tensor")),
            Reason::kSchemaMismatch);
  kept.define("t::early(Tensor a, int b) -> Tensor");
  EXPECT_EQ(
      refused(implement("t::early", {kDense, kMeta}, kernel<&first_of_two>())),
      Reason::kSchemaMismatch);
  Kept layer;
  layer.fallback(kUser3, boxed(&count_and_go_on));
  EXPECT_EQ(refused(fallback(kUser3, boxed(&count_and_go_on))),
            Reason::kDuplicate);
}

double twice(const Tensor& /*a*/, double b) { return 2 * b; }

TEST(Registering, AnotherSignatureFitsAfterTheFirstHasGone) {
  {
    Kept kept;
    kept.implement("t::later", {kDense, kMeta}, kernel<&first_of_two>());
  }
  Kept kept;
  kept.define("t::later(Tensor a, float b) -> float")
      .implement("t::later", {kDense, kMeta}, kernel<&twice>());
  EXPECT_EQ(find_op<decltype(twice)>("t::later").call(make({1}), 2).value(), 4);
  EXPECT_EQ(error_reason(
                implement("t::later", {kDense, kCpu}, kernel<&first_of_two>())
                    .status()),
            Reason::kSignatureMismatch);
}

TEST(Registering, KeepsTags) {
  Kept kept;
  kept.keep(define("t::tagged(Tensor a) -> Tensor", {Tag::kRandom}));
  const OpHandle op = find_operator("t::tagged");
  EXPECT_TRUE(has_tag(op, Tag::kRandom));
  EXPECT_FALSE(has_tag(op, Tag::kPointwise));
}

TEST(Registering, TellsListenersOfOperatorsAndRemovals) {
  static std::vector<std::string> heard;
  heard.clear();
  Kept before;
  before.define("t::old(Tensor a) -> Tensor");
  const Registration listening = listen(
      {.defined = [](void*, const OpHandle& op) { heard.push_back(op.name()); },
       .removed =
           [](void*, const OpHandle& op) {
             EXPECT_TRUE(op.schema().ok()) << "before it is cleared";
             heard.push_back("-" + op.name());
           }});
  EXPECT_THAT(heard, ::testing::Contains("t::old"));
  {
    Kept kept;
    kept.define(kTwo);
  }
  EXPECT_THAT(heard, ::testing::IsSupersetOf({"t::two", "-t::two"}));
}

TEST(Errors, OfMissingKernelsNameWhatThereIs) {
  Kept kept;
  kept.define(kTwo).implement("t::two", {kDense, kMeta},
                              kernel<&first_of_two>());
  const auto two = find_op<Two>("t::two");
  const Tensor other = make({2, 3}, kMeta);
  Tensor cpu = make({2}, kCpu);
  EXPECT_THAT(
      text(two.call(cpu, cpu).status()),
      AllOf(HasSubstr("kNoKernel"), HasSubstr("t::two"), HasSubstr("Dense/cpu"),
            HasSubstr("f32 [2] cpu"), HasSubstr("expected Dense/meta")));
  Kept none;
  none.define("t::none() -> int");
  EXPECT_THAT(text(find_op<int64_t()>("t::none").call().status()),
              HasSubstr("no tensor arguments"));
  EXPECT_THAT(text(find_op<Two>("t::twoo").call(cpu, cpu).status()),
              AllOf(HasSubstr("kOpUnknown"), HasSubstr("did you mean t::two")));
  EXPECT_EQ(
      reason(find_op<int64_t(const Tensor&)>("t::two").call(cpu).status()),
      Reason::kSignatureMismatch);
}

TEST(Errors, OfBoxedArgumentsNamePositionAndType) {
  Kept kept;
  kept.define(kTwo).implement("t::two", {kDense, kMeta},
                              kernel<&first_of_two>());
  const Tensor a = make({1});
  Stack stack;
  stack.push_back(Value::borrow(a));
  stack.push_back(Value(int64_t{3}));
  EXPECT_THAT(text(find_operator("t::two").call_boxed(stack)),
              AllOf(HasSubstr("kArgument"), HasSubstr("argument 2 'b'"),
                    HasSubstr("expected Tensor, got int 3")));
  Stack few;
  few.push_back(Value::borrow(a));
  EXPECT_THAT(text(find_operator("t::two").call_boxed(few)),
              HasSubstr("'b' is missing"));
}

Tensor throws(const Tensor& /*a*/, const Tensor& /*b*/) {
  throw std::runtime_error("the kernel broke");
}

TEST(Errors, AnExceptionOfAKernelIsAStatus) {
  Kept kept;
  kept.define(kTwo).implement("t::two", {kDense, kMeta}, kernel<&throws>());
  const Tensor a = make({1});
  const absl::Status status = find_op<Two>("t::two").call(a, a).status();
  EXPECT_EQ(reason(status), Reason::kKernelFailed);
  EXPECT_THAT(text(status), HasSubstr("the kernel broke"));
  EXPECT_EQ(thread_keys.depth, 0U) << "the call has ended";
}

TEST(Errors, ADumpShowsEachSlotAndWhy) {
  Kept kept;
  kept.define(kTwo)
      .implement("t::two", {kDense, kMeta}, kernel<&first_of_two>())
      .implement("t::two", kAutograd, kernel<&second_of_two>());
  EXPECT_THAT(
      find_operator("t::two").dump(),
      AllOf(HasSubstr("t::two(Tensor a, Tensor b) -> Tensor  dispatch_test.cc"),
            ::testing::ContainsRegex("dense/meta +kernel +dispatch_test.cc"),
            ::testing::ContainsRegex("autograd/cpu +alias +dispatch_test.cc")));
}

}  // namespace
}  // namespace distwrap::dispatch
