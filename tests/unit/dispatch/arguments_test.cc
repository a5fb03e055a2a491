// Arguments of calls: lists with holes, one number for a list, tags and forms
// that follow from schemas, thread state in composites, hints.
#include "distwrap/registration.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace distwrap::dispatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Tensor make(Device device = kMeta) {
  return *Tensor::empty({1}, DType::kF32, device);
}

TEST(Lists, WithUndefinedAndNoneEntriesBringTheKeysOfTheOthers) {
  static std::vector<bool> defined;
  const auto holes =
      define("args::holes(Tensor?[] list, Tensor? one=None) -> int");
  ASSERT_TRUE(holes.ok()) << holes.status();
  const auto kept =
      implement("args::holes", {kDense, kMeta},
                kernel(+[](OptTensorSpan list, const Tensor* one) {
                  defined.clear();
                  for (const Tensor& entry : list)
                    defined.push_back(entry.defined());
                  defined.push_back(one != nullptr && one->defined());
                  return int64_t{1};
                }));
  ASSERT_TRUE(kept.ok()) << kept.status();
  const auto op = find_op<int64_t(OptTensorSpan, const Tensor*)>("args::holes");
  const std::vector<Tensor> list = {Tensor(), make(), Tensor()};
  const Tensor undefined;
  ASSERT_TRUE(op.call(OptTensorSpan(list), nullptr).ok());
  EXPECT_THAT(defined, ElementsAre(false, true, false, false));
  ASSERT_TRUE(op.call(OptTensorSpan(list), &undefined).ok());
  EXPECT_THAT(defined, ElementsAre(false, true, false, false));
  // Boxed, where the second argument is left out.
  Stack stack;
  stack.push_back(Value::own_copy(TensorList(list)));
  ASSERT_TRUE(op.handle().call_boxed(stack).ok());
  EXPECT_THAT(defined, ElementsAre(false, true, false, false));
  // Holes alone bring no key.
  const std::vector<Tensor> none(2);
  EXPECT_EQ(error_reason(op.call(OptTensorSpan(none), nullptr).status()),
            Reason::kNoKernel);
}

TEST(Lists, TensorsAndOptionalTensorsAreTwoTypes) {
  const auto defined = define("args::plain(Tensor[] list) -> int");
  const auto other =
      implement("args::plain", kCompositeExplicit,
                kernel(+[](OptTensorSpan) { return int64_t{1}; }));
  EXPECT_EQ(error_reason(other.status()), Reason::kSchemaMismatch);
}

TEST(Lists, OneNumberFillsAListOfKnownLength) {
  static std::vector<int64_t> given;
  const auto defined = define("args::pair(Tensor x, int[3] size=2) -> ()");
  const auto kept = implement("args::pair", {kDense, kMeta},
                              kernel(+[](const Tensor&, Ints size) {
                                given.assign(size.begin(), size.end());
                              }));
  const OpHandle op = find_operator("args::pair");
  Stack stack;
  stack.push_back(Value::own(make()));
  ASSERT_TRUE(op.call_boxed(stack).ok());
  EXPECT_THAT(given, ElementsAre(2, 2, 2)) << "the default";
  Stack one;
  one.push_back(Value::own(make()));
  one.push_back(Value(int64_t{7}));
  ASSERT_TRUE(op.call_boxed(one).ok());
  EXPECT_THAT(given, ElementsAre(7, 7, 7));
}

TEST(Schemas, HaveTheTagsThatFollowFromThem) {
  const auto pure = define("args::pure(Tensor x) -> Tensor");
  const auto view = define("args::view(Tensor(a) x) -> Tensor(a)");
  const auto write = define("args::write_(Tensor(a!) x) -> Tensor(a!)");
  const auto out =
      define("args::add(Tensor x, *, Tensor(a!) out) -> Tensor(a!)");
  const auto drawn = define("args::drawn(Tensor x) -> Tensor", {Tag::kRandom});
  const auto turn =
      define("args::turn_(Tensor(a!) x) -> Tensor(a!)", {Tag::kInplaceView});
  const auto has = [](const char* name, Tag tag) {
    return has_tag(find_operator(name), tag);
  };
  EXPECT_TRUE(has("args::pure", Tag::kPure));
  EXPECT_TRUE(has("args::view", Tag::kPure));
  EXPECT_TRUE(has("args::view", Tag::kView));
  EXPECT_FALSE(has("args::pure", Tag::kView));
  EXPECT_FALSE(has("args::write_", Tag::kPure));
  EXPECT_FALSE(has("args::drawn", Tag::kPure));
  EXPECT_TRUE(has("args::turn_", Tag::kInplaceView));
  const auto schema = [](const char* name) {
    return **find_operator(name).schema();
  };
  EXPECT_TRUE(schema("args::add").out_form);
  EXPECT_FALSE(schema("args::add").in_place);
  EXPECT_FALSE(schema("args::write_").out_form);
  EXPECT_TRUE(schema("args::write_").in_place);
}

TEST(KeySets, GiveTheirLayersFromLowToHigh) {
  std::vector<Key> keys;
  const KeySet set =
      KeySet(kUser1) | KeySet(kAutograd, kMeta) | KeySet(kDense, kCpu);
  for (const Key key : set) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre(kDense, kAutograd, kUser1));
  for (const Key key : KeySet(kPreDispatch)) EXPECT_EQ(key, kPreDispatch);
  for ([[maybe_unused]] const Key key : KeySet::of_bits(KeySet::kBackendBits)) {
    FAIL() << "backends are no layers";
  }
}

// PIT-14: a composite's parts are called under the state of its caller.
TEST(Composites, RunUnderTheThreadStateOfTheirCaller) {
  static std::vector<uint64_t> seen;
  const auto inner = define("args::part(Tensor x) -> int");
  const auto outer = define("args::whole(Tensor x) -> int");
  const auto part = implement("args::part", {kDense, kMeta},
                              kernel(+[](KeySet set, const Tensor&) {
                                seen.push_back(set.bits());
                                seen.push_back(thread_keys.include);
                                seen.push_back(thread_keys.exclude);
                                return int64_t{1};
                              }));
  const auto user = implement(
      "args::part", kUser2, kernel(+[](KeySet set, const Tensor& x) {
        seen.push_back(2);
        static const auto op = find_op<int64_t(const Tensor&)>("args::part");
        return op.redispatch(set.below(kUser2), x);
      }));
  const auto whole = implement(
      "args::whole", kCompositeImplicit, kernel(+[](const Tensor& x) {
        static const auto op = find_op<int64_t(const Tensor&)>("args::part");
        return op.call(x);
      }));
  const auto call = [] {
    seen.clear();
    ASSERT_TRUE(
        find_op<int64_t(const Tensor&)>("args::whole").call(make()).ok());
  };
  call();
  EXPECT_EQ(seen.size(), 3U);
  {
    const IncludeGuard guard{KeySet(kUser2)};
    call();
    ASSERT_EQ(seen.size(), 4U);
    EXPECT_EQ(seen[0], 2U) << "the caller's layer sees the part, too";
    EXPECT_EQ(seen[2], KeySet(kUser2).bits());
    const ExcludeGuard off{KeySet(kUser2)};
    call();
    ASSERT_EQ(seen.size(), 3U);
    EXPECT_EQ(seen[2], KeySet(kUser2).bits());
  }
}

// PIT-8: the mask of an operator acts after the thread's includes.
TEST(Masks, ActAfterTheIncludesOfTheThread) {
  const auto defined = define("args::masked(Tensor x) -> int");
  const auto kept = implement("args::masked", {kDense, kMeta},
                              kernel(+[](KeySet set, const Tensor&) {
                                return static_cast<int64_t>(set.bits());
                              }));
  const IncludeGuard guard{KeySet(kUser1) | KeySet(kAutocast)};
  const auto bits =
      find_op<int64_t(const Tensor&)>("args::masked").call(make()).value();
  const KeySet set = KeySet::of_bits(static_cast<uint64_t>(bits));
  EXPECT_FALSE(set.has(kUser1)) << "no kernel there: nothing to do";
  EXPECT_FALSE(set.has(kAutocast));
  EXPECT_EQ(set.backend(), backend_of(kMeta));
}

TEST(Hints, OfALibraryReplaceTheAdviceAndGoWithIt) {
  const auto own = define("args::hinted(Tensor x) -> int");
  const auto kept =
      implement("args::hinted", {kDense, kMeta},
                kernel(+[](const Tensor&) { return int64_t{1}; }));
  const auto op = find_op<int64_t(const Tensor&)>("args::hinted");
  const auto text = [&] {
    return std::string(op.call(make(kCpu)).status().message());
  };
  // Another operator has a kernel there, this one has none.
  const auto other = define("args::other(Tensor x) -> int");
  const auto there =
      implement("args::other", {kDense, kCpu},
                kernel(+[](const Tensor&) { return int64_t{1}; }));
  EXPECT_THAT(text(), HasSubstr("not implemented for cpu"));
  {
    Registrar registrar;
    registrar.extend("args").hint("hinted", "load the library of hints");
    ASSERT_TRUE(registrar.status.ok());
    EXPECT_THAT(text(), HasSubstr("load the library of hints"));
  }
  EXPECT_THAT(text(), Not(HasSubstr("library of hints")));
}

TEST(Dumps, ShowTheDevicesThatAnOperatorMisses) {
  const auto own = define("args::some(Tensor x) -> int");
  const auto kept =
      implement("args::some", {kDense, kMeta},
                kernel(+[](const Tensor&) { return int64_t{1}; }));
  const auto other = define("args::other(Tensor x) -> int");
  const auto there =
      implement("args::other", {kDense, kPrivate2},
                kernel(+[](const Tensor&) { return int64_t{1}; }));
  const std::string text = find_operator("args::some").dump();
  EXPECT_THAT(text, HasSubstr("dense/meta"));
  EXPECT_THAT(text, HasSubstr("dense/private2     missing"));
  EXPECT_THAT(text, Not(HasSubstr("dense/private3"))) << "nobody serves it";
}

}  // namespace
}  // namespace distwrap::dispatch
