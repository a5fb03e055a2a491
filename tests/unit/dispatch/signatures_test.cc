// Operators with generated signatures: for each number of arguments from 0 to
// 12, types in turn, a call that goes typed to boxed to typed gives the kernel
// the values that the caller gave.
#include "distwrap/registration.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <tuple>

namespace distwrap::dispatch {
namespace {

// A value of each schema type that C++ has, and a word for each value.
Tensor tensor(int64_t n) { return *Tensor::empty({n}, DType::kF32, kMeta); }
const Tensor kOne = tensor(1), kTwo = tensor(2);
const std::array<Tensor, 2> kList = {kOne, kTwo};
const std::array<Tensor, 2> kHoles = {Tensor(), kTwo};
const std::array<int64_t, 3> kInts = {3, 1, 2};
const std::array<double, 2> kFloats = {0.5, 1.5};
const std::array<bool, 3> kBools = {true, false, true};
const std::array<Scalar, 2> kScalars = {Scalar(3), Scalar(true)};
const Generator kGenerator{.seed = 3, .call = 4};

std::string word(const Tensor& x) {
  return x.defined() ? absl::StrCat("t", x.id()) : "none";
}
std::string word(const Tensor* x) { return x == nullptr ? "none" : word(*x); }
std::string word(TensorList list) {
  std::string text = "[";
  for (const Tensor& one : list) absl::StrAppend(&text, word(one), " ");
  return text + "]";
}
std::string word(OptTensorSpan list) { return word(TensorList(list)); }
std::string word(int64_t x) { return absl::StrCat("i", x); }
std::string word(double x) { return absl::StrCat("f", x); }
std::string word(bool x) { return x ? "true" : "false"; }
std::string word(absl::string_view x) { return absl::StrCat("'", x, "'"); }
std::string word(const Scalar& x) {
  return absl::StrCat("s", static_cast<int>(x.kind()), " ", x.to<double>());
}
std::string word(DType x) { return std::string(dtype_name(x)); }
std::string word(Device x) { return absl::StrCat("d", x.type, ":", x.id); }
std::string word(const Generator& x) {
  return absl::StrCat(x.seed, "/", x.call);
}
template <class T>
std::string word(absl::Span<const T> list) {
  std::string text = "(";
  for (const T one : list) absl::StrAppend(&text, word(one), " ");
  return text + ")";
}
template <class T>
std::string word(const std::optional<T>& x) {
  return x.has_value() ? "some " + word(*x) : "none";
}

// The parameters of the signatures, by number; index modulo their count.
template <size_t kIndex>
struct Param;
#define DW_PARAM(index, schema_text, type, first, second)                  \
  template <>                                                              \
  struct Param<index> {                                                    \
    using Type = type;                                                     \
    static constexpr char kSchema[] = schema_text;                         \
    static type value(bool other) {                                        \
      return other ? static_cast<type>(second) : static_cast<type>(first); \
    }                                                                      \
  };
DW_PARAM(0, "Tensor", const Tensor&, kOne, kTwo)
DW_PARAM(1, "int", int64_t, -7, 1LL << 40)
DW_PARAM(2, "Tensor?", const Tensor*, nullptr, &kTwo)
DW_PARAM(3, "float", double, 0.25, -1e300)
DW_PARAM(4, "Tensor[]", TensorList, kList, TensorList())
DW_PARAM(5, "bool", bool, true, false)
DW_PARAM(6, "str", absl::string_view, "word", "")
DW_PARAM(7, "Scalar", const Scalar&, kScalars[0], kScalars[1])
DW_PARAM(8, "int[]", Ints, kInts, Ints())
DW_PARAM(9, "ScalarType", DType, DType::kBF16, DType::kBool)
DW_PARAM(10, "Device", Device, kCpu, (Device{.type = 2, .id = 3}))
DW_PARAM(11, "float[]", absl::Span<const double>, kFloats,
         absl::Span<const double>())
DW_PARAM(12, "bool[]", absl::Span<const bool>, kBools, absl::Span<const bool>())
DW_PARAM(13, "Generator", const Generator&, kGenerator, kGenerator)
DW_PARAM(14, "Tensor?[]", OptTensorSpan, kHoles, OptTensorSpan(kList))
DW_PARAM(15, "int?", std::optional<int64_t>, std::nullopt, 5)
DW_PARAM(16, "int[]?", std::optional<Ints>, std::nullopt, Ints(kInts))
DW_PARAM(17, "Scalar?", std::optional<Scalar>, Scalar(2.5), std::nullopt)
DW_PARAM(18, "int[2]", Ints, kInts, kInts)
#undef DW_PARAM
constexpr size_t kParams = 19;

// The arguments of the kernel, as words.
std::string g_given;

template <size_t kFirst, class Indices>
struct Signature;
template <size_t kFirst, size_t... I>
struct Signature<kFirst, std::index_sequence<I...>> {
  template <size_t kIndex>
  using At = Param<(kFirst + kIndex) % kParams>;

  static int64_t run(typename At<I>::Type... args) {
    g_given.clear();
    (absl::StrAppend(&g_given, word(args), ";"), ...);
    return static_cast<int64_t>(sizeof...(I));
  }
  static std::string schema(const std::string& name) {
    std::vector<std::string> params;
    (params.push_back(absl::StrCat(At<I>::kSchema, " a", I)), ...);
    std::string text = name + "(";
    for (const std::string& one : params) {
      absl::StrAppend(&text, &one == &params.front() ? "" : ", ", one);
    }
    return text + ") -> int";
  }

  static void check([[maybe_unused]] bool other) {
    const std::string name = absl::StrCat("sig::f", sizeof...(I), "_", kFirst);
    const auto defined = define(schema(name));
    ASSERT_TRUE(defined.ok()) << defined.status();
    const auto kept = implement(name, kCompositeExplicit, kernel<&run>());
    ASSERT_TRUE(kept.ok()) << kept.status();
    const auto op = find_op<int64_t(typename At<I>::Type...)>(name);
    std::string wanted;
    (absl::StrAppend(&wanted, word(At<I>::value(other)), ";"), ...);

    EXPECT_EQ(op.call(At<I>::value(other)...).value(), sizeof...(I));
    EXPECT_EQ(g_given, wanted) << name << " typed";
    g_given = "not called";
    const IncludeGuard guard{KeySet(kUser3)};
    EXPECT_EQ(op.call(At<I>::value(other)...).value(), sizeof...(I));
    EXPECT_EQ(g_given, wanted) << name << " boxed on the way";
    // One value less, and a value of another type, are errors.
    if (sizeof...(I) > 0) {
      Stack few;
      EXPECT_EQ(error_reason(op.handle().redispatch_boxed(KeySet(), few)),
                Reason::kArgument);
    }
  }
};

template <size_t kCount, size_t... kFirst>
void check_count(std::index_sequence<kFirst...>) {
  for (const bool other : {false, true}) {
    (Signature<kFirst, std::make_index_sequence<kCount>>::check(other), ...);
  }
}

TEST(Signatures, OfEveryTypeAndUpToTwelveArgumentsKeepTheirValues) {
  const auto hop =
      fallback(kUser3, boxed(+[](const OpHandle& op, KeySet set, Stack& stack) {
                 return op.redispatch_boxed(set.below(kUser3), stack);
               }));
  ASSERT_TRUE(hop.ok());
  [&]<size_t... kCount>(std::index_sequence<kCount...>) {
    // Each number of arguments begins at three types.
    (check_count<kCount>(
         std::index_sequence<kCount % kParams, (kCount * 7 + 5) % kParams,
                             (kCount * 3 + 11) % kParams>()),
     ...);
  }
  (std::make_index_sequence<13>());
  check_count<1>(std::make_index_sequence<kParams>());
}

}  // namespace
}  // namespace distwrap::dispatch
