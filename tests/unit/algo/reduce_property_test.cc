// Compares every kernel of every variant that runs here with the reference and
// the other variants: every number of inputs, lengths around the widths of
// vectors and of a block, the output separate and in each input (for the best
// variant; for others in the first).
#include "algo/reduce_kernels.h"
#include "reduce_reference.h"

#include <gtest/gtest.h>

#include <memory>

namespace distwrap::algo {
namespace {

using testing::ReductionInfo;
using testing::TypeInfo;

constexpr size_t kMostInputs = 8;
constexpr size_t kCounts[] = {0, 1, 3, 7, 8, 17, 79, 1023, 4097};
constexpr char kGuard = 0x5a;

// Memory that ends where its elements end, `shift` elements behind an aligned
// address, so that no address is better aligned than the type requires.
class Memory {
 public:
  Memory(const TypeInfo& type, const std::string& bytes, size_t shift)
      : offset_(shift * type.bytes),
        size_(bytes.size()),
        memory_(new char[offset_ + size_ + kBehind]) {
    std::fill_n(memory_.get(), offset_ + size_ + kBehind, kGuard);
    std::copy(bytes.begin(), bytes.end(), data());
  }
  char* data() const { return memory_.get() + offset_; }
  std::string bytes() const { return std::string(data(), size_); }
  bool guarded() const {
    const auto whole = [](const char* p, size_t n) {
      return std::all_of(p, p + n, [](char c) { return c == kGuard; });
    };
    return whole(memory_.get(), offset_) && whole(data() + size_, kBehind);
  }

 private:
  static constexpr size_t kBehind = 64;
  size_t offset_;
  size_t size_;
  std::unique_ptr<char[]> memory_;
};

class ReduceProperty
    : public ::testing::TestWithParam<std::tuple<TypeInfo, ReductionInfo>> {
 protected:
  // Calls the kernel with the output in input `alias`, or separate. `first` has
  // the result of the first call, or is empty.
  void check(dw_reduce_fn kernel, const std::vector<std::string>& inputs,
             size_t alias, const std::string& operand, const std::string& want,
             std::string* first) {
    const auto& [type, reduction] = GetParam();
    std::vector<Memory> in;
    std::vector<const void*> addresses;
    for (size_t k = 0; k < inputs.size(); ++k) {
      in.emplace_back(type, inputs[k], k % 3);
      addresses.push_back(in.back().data());
    }
    const Memory apart(type, std::string(want.size(), '\x7e'), 1);
    const Memory& out = alias < in.size() ? in[alias] : apart;
    kernel(out.data(), addresses.data(), in.size(), want.size() / type.bytes,
           operand.empty() ? nullptr : operand.data());
    ASSERT_EQ(first_difference(type, reduction.reduce, out.data(), want), -1);
    if (first->empty()) *first = out.bytes();
    // Here zeros have a sign.
    ASSERT_EQ(first_difference(type, DW_REDUCE_SUM, out.data(), *first), -1);
    ASSERT_TRUE(out.guarded());
    for (size_t k = 0; k < in.size(); ++k) {
      ASSERT_TRUE(in[k].guarded()) << "input " << k;
      ASSERT_TRUE(k == alias || in[k].bytes() == inputs[k]) << "input " << k;
    }
  }
};

TEST_P(ReduceProperty, IsWhatTheReferenceSays) {
  const auto& [type, reduction] = GetParam();
  const std::vector<KernelVariant> variants = kernel_variants();
  for (const KernelVariant& variant : variants)
    ASSERT_EQ(variant.find(type.dtype, reduction.reduce) != nullptr,
              testing::exists(type, reduction.reduce))
        << variant.name;
  if (!testing::exists(type, reduction.reduce)) return;
  std::mt19937_64 random(20261);
  for (const size_t count : kCounts)
    for (size_t n = 1; n <= kMostInputs; ++n) {
      std::vector<std::string> inputs;
      for (size_t k = 0; k < n; ++k)
        inputs.push_back(testing::random_elements(type, count, random));
      const std::string operand =
          testing::random_operand(type, reduction.reduce, random);
      const std::string want =
          testing::reference(type, reduction.reduce, inputs, operand);
      std::string first;
      for (const KernelVariant& variant : variants)
        for (size_t alias = 0; alias <= n;
             alias += variant.find == variants[0].find ? 1 : n) {
          SCOPED_TRACE(::testing::Message()
                       << variant.name << ", count " << count << ", inputs "
                       << n << ", output in " << alias);
          check(variant.find(type.dtype, reduction.reduce), inputs, alias,
                operand, want, &first);
          if (HasFatalFailure()) return;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, ReduceProperty,
    ::testing::Combine(::testing::ValuesIn(testing::kTypes),
                       ::testing::ValuesIn(testing::kReductions)),
    [](const auto& test) {
      return std::string(std::get<0>(test.param).name) + "_" +
             std::get<1>(test.param).name;
    });

}  // namespace
}  // namespace distwrap::algo
