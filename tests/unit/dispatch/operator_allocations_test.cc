// Calls allocate nothing on their way to a kernel, and take new states from the
// thread's free blocks. A call that finds no memory fails, and the process
// lives.
#include "distwrap/abi/note.h"
#include "distwrap/autograd.h"
#include "distwrap/function.h"
#include "distwrap/registration.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

namespace {

bool g_counting = false;
int g_allocations = 0;
bool g_none_left = false;

}  // namespace

// Every way by which the libraries get memory comes past these.
void* operator new(size_t bytes) {
  if (g_counting) ++g_allocations;
  if (void* const block = std::malloc(bytes == 0 ? 1 : bytes)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t /*bytes*/) noexcept {
  std::free(block);
}
#if DW_SANITIZER == DW_SANITIZER_NONE
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) {
  if (g_counting) ++g_allocations;
  if (g_none_left) return nullptr;
  void* block = nullptr;
  return posix_memalign(&block, alignment, bytes) == 0 ? block : nullptr;
}
#endif

namespace distwrap::dispatch {
namespace {

using Pair = int64_t(const Tensor&, const Tensor&);
using Output = Tensor(const Tensor&, const Tensor&);

int64_t nothing(const Tensor&, const Tensor&) { return 1; }
absl::StatusOr<Tensor> output(const Tensor& a, const Tensor&) {
  return Tensor::empty(a.sizes(), a.dtype(), a.device());
}
absl::Status pass_on(const OpHandle& op, KeySet set, Stack& stack) {
  return op.redispatch_boxed(set.below(kUser1), stack);
}
struct Noted : autograd::Formula<Noted> {
  static constexpr char kName[] = "alloc::output";
  static absl::StatusOr<Tensor> forward(autograd::Ctx& ctx, const Tensor& a,
                                        const Tensor& b) {
    static const auto op = find_op<Output>("alloc::output");
    ctx.save_for_backward({a, b});
    return op.call(a, b);
  }
  static autograd::Grads backward(autograd::Ctx&,
                                  absl::Span<const Tensor> grads) {
    return {grads[0], grads[0]};
  }
};

class Allocations : public ::testing::Test {
 protected:
  void SetUp() override {
    keep(define("alloc::pair(Tensor a, Tensor b) -> int"));
    keep(define("alloc::output(Tensor a, Tensor b) -> Tensor"));
    keep(implement("alloc::pair", {kDense, kCpu}, kernel<&nothing>()));
    keep(implement("alloc::output", {kDense, kCpu}, kernel<&output>()));
    keep(implement("alloc::output", kAutograd,
                   autograd::formula<Noted, Output>()));
    keep(fallback(kUser1, boxed(&pass_on)));
    ASSERT_TRUE(leaf_.set_requires_grad().ok());
  }
  void keep(absl::StatusOr<Registration> made) {
    ASSERT_TRUE(made.ok()) << made.status();
    kept_.push_back(*std::move(made));
  }
  // The allocations of one call, after others have filled the free lists.
  template <class F>
  int count(const F& call) {
    for (int i = 0; i < 3; ++i) call();
    g_allocations = 0;
    g_counting = true;
    call();
    g_counting = false;
    return g_allocations;
  }
  std::vector<Registration> kept_;
  Tensor a_ = *Tensor::empty({2, 2}), b_ = *Tensor::empty({2, 2});
  Tensor leaf_ = *Tensor::empty({2, 2});
};

TEST_F(Allocations, OfTypedCallsBoxedHopsAndRedispatchAreNone) {
  const auto pair = find_op<Pair>("alloc::pair");
  bool right = true;
  EXPECT_EQ(count([&] { right &= pair.call(a_, b_).ok(); }), 0);
  EXPECT_EQ(count([&] {
              right &= pair.redispatch(KeySet(kDense, kCpu), a_, b_).ok();
            }),
            0);
  const IncludeGuard guard{KeySet(kUser1)};
  EXPECT_EQ(count([&] { right &= pair.call(a_, b_).ok(); }), 0);
  EXPECT_TRUE(right);
}

TEST_F(Allocations, OfSmallOutputsAndNodesComeFromFreeLists) {
  if (DW_SANITIZER != DW_SANITIZER_NONE) {
    GTEST_SKIP() << "a sanitizer needs each block to be freed";
  }
  const auto op = find_op<Output>("alloc::output");
  bool right = true;
  EXPECT_EQ(count([&] { right &= op.call(a_, b_).ok(); }), 0);
  EXPECT_EQ(count([&] { right &= op.call(leaf_, b_)->requires_grad(); }), 0);
  EXPECT_TRUE(right);
}

TEST_F(Allocations, OfTensorsThatDoNotFitAreErrors) {
  if (DW_SANITIZER != DW_SANITIZER_NONE) {
    GTEST_SKIP() << "a sanitizer ends the process instead";
  }
  // More than a process can address.
  const absl::Status huge = Tensor::empty({int64_t{1} << 48}).status();
  EXPECT_EQ(error_reason(huge), Reason::kOutOfMemory) << huge;
  // A small one, when nothing is left: sizes that no free list holds.
  g_none_left = true;
  const absl::Status small = Tensor::empty({100}).status();
  g_none_left = false;
  EXPECT_EQ(error_reason(small), Reason::kOutOfMemory) << small;
  EXPECT_TRUE(Tensor::empty({100}).ok()) << "the process lives";
}

TEST_F(Allocations, AKernelWithoutMemoryIsAnError) {
  keep(define("alloc::short(Tensor a) -> int"));
  keep(implement(
      "alloc::short", {kDense, kCpu},
      kernel(+[](const Tensor&) -> int64_t { throw std::bad_alloc(); })));
  const auto status =
      find_op<int64_t(const Tensor&)>("alloc::short").call(a_).status();
  EXPECT_EQ(error_reason(status), Reason::kOutOfMemory) << status;
}

}  // namespace
}  // namespace distwrap::dispatch
