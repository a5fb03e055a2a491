// Random programs with views, writes in place and shared parts: gradients are
// those of central differences, and a second run gives the same bits.
#include "distwrap/abi/note.h"
#include "distwrap/autograd.h"
#include "distwrap/function.h"
#include "distwrap/throwing.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#if DW_SANITIZER == DW_SANITIZER_ADDRESS
#include <sanitizer/lsan_interface.h>
#else
namespace __lsan {
struct ScopedDisabler {
  ~ScopedDisabler() {}
};
}  // namespace __lsan
#endif

namespace distwrap::autograd {
namespace {

using namespace throwing;  // NOLINT(google-build-using-namespace)

// Tensors that the program has made; all have two dimensions.
class Program {
 public:
  Program(unsigned seed, TensorList inputs)
      : random_(seed), made_(inputs.begin(), inputs.end()) {}

  std::vector<Tensor> run() {
    const int steps = 3 + pick(7);
    for (int i = 0; i < steps; ++i) step();
    std::vector<Tensor> results;
    for (const Tensor& one : made_) {
      if (one.requires_grad() && !one.is_leaf()) results.push_back(one);
    }
    return results;
  }

  const std::string& text() const { return text_; }

 private:
  int pick(int most) {
    return static_cast<int>(random_() % static_cast<unsigned>(most));
  }
  int size() const { return static_cast<int>(made_.size()); }
  void keep(Tensor tensor) { made_.push_back(std::move(tensor)); }

  // The sums of one tensor over what keeps it from fitting the other.
  static Tensor fit(const Tensor& tensor, const Tensor& to) {
    Tensor result = tensor;
    for (int d = 0; d < 2; ++d) {
      if (result.size(d) != to.size(d) && result.size(d) != 1) {
        result = throwing::sum(result, Ints({d}), true);
      }
    }
    return result;
  }

  void step() {
    const int first = pick(size()), second = pick(size()), kind = pick(13);
    const Tensor a = made_[static_cast<size_t>(first)];
    const Tensor b = made_[static_cast<size_t>(second)];
    absl::StrAppend(&text_, kind, "(", first, ", ", second, ") ");
    switch (kind) {
      case 0:
        return keep(a + fit(b, a));
      case 1:
        return keep(a * fit(b, a));
      case 2:
        return keep(throwing::sin(a));
      case 3:
        return keep(throwing::tanh(a * 0.5));
      case 4:
        return keep(throwing::transpose(a));
      case 5: {
        const int64_t from = pick(static_cast<int>(a.size(0)));
        return keep(throwing::slice(a, 0, from, a.size(0)));
      }
      case 6:
        return keep(throwing::unsqueeze(throwing::select(a, 1, 0), pick(2)));
      case 7:
        return keep(throwing::mm(a, throwing::transpose(a)));
      case 8:
        return keep(throwing::cat({a, a * 0.5}, pick(2)));
      case 9:
        return keep(throwing::view(throwing::contiguous(a), {1, a.count()}));
      case 10:
        return write(a, [&] { return ops::add_(a, fit(b, a), 0.5); });
      case 11:
        return write(a, [&] { return ops::mul_(a, fit(b, a)); });
      default:
        return keep(throwing::softmax(a, pick(2)));
    }
  }
  // Leaves and their views are not written.
  template <class Write>
  void write(const Tensor& to, Write run) {
    if (internal::check_write(to, "program", true).ok()) check(run());
  }

  std::mt19937 random_;
  std::vector<Tensor> made_;
  std::string text_;  // the steps: kind and operands
};

std::vector<Tensor> inputs_of(unsigned seed) {
  std::vector<Tensor> inputs;
  const int64_t rows = 1 + seed % 3, columns = 1 + seed / 3 % 3;
  for (uint64_t i = 0; i < 2; ++i) {
    inputs.push_back(throwing::randn({rows, columns}, DType::kF64, kCpu,
                                     Generator{.seed = seed, .call = i}));
    check(inputs.back().set_requires_grad());
  }
  // A constant whose views may be written.
  inputs.push_back(throwing::randn({2, 3}, DType::kF64, kCpu,
                                   Generator{.seed = seed, .call = 9}));
  return inputs;
}

std::string bits_of(const std::vector<Tensor>& tensors) {
  std::string bits;
  for (const Tensor& one : tensors) {
    if (!one.defined()) continue;
    const Tensor dense = throwing::contiguous(throwing::detach(one));
    bits.append(static_cast<const char*>(dense.data()),
                static_cast<size_t>(dense.count()) * 8);
  }
  return bits;
}

TEST(RandomPrograms, HaveTheGradientsOfCentralDifferences) {
  const char* const wanted = std::getenv("TEST_GRADIENT_PROGRAMS");
  const unsigned programs =
      wanted == nullptr ? 300 : static_cast<unsigned>(std::atoi(wanted));
  unsigned refused = 0, empty = 0;
  for (unsigned seed = 0; seed < programs; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const std::vector<Tensor> inputs = inputs_of(seed);
    std::string text;
    const Checked function =
        [&](TensorList given) -> absl::StatusOr<std::vector<Tensor>> {
      // Gradients are on in each run, so all runs refuse and keep the same.
      const EnableGradGuard on;
      // The constant is written: each run has its own.
      std::vector<Tensor> own(given.begin(), given.end());
      own[2] = throwing::clone(own[2]);
      Program program(seed, own);
      std::vector<Tensor> results = program.run();
      text = program.text();
      return results;
    };
    const absl::Status status = [&] {
      // A program that is refused may have made a cycle: docs/tensors.md.
      const __lsan::ScopedDisabler keeps_memory;
      return grad_check(function, inputs, {.rtol = 2e-3});
    }();
    if (!status.ok()) {
      // A program may write what a gradient needs: that is an error of the
      // program, and found.
      const Reason reason = error_reason(status);
      ASSERT_TRUE(reason == Reason::kSavedChanged ||
                  reason == Reason::kViewWrite)
          << status << "\n"
          << text;
      ++refused;
      continue;
    }
    const auto gradients = [&]() -> std::vector<Tensor> {
      const std::vector<Tensor> outputs = unwrap(function(inputs));
      if (outputs.empty()) return {};
      std::vector<Tensor> seeds;
      for (const Tensor& one : outputs) {
        seeds.push_back(throwing::full_like(one, 0.5));
      }
      return unwrap(
          grad(outputs, {inputs.data(), 2}, seeds, {.allow_unused = true}));
    };
    const std::vector<Tensor> first = gradients();
    if (first.empty()) ++empty;
    ASSERT_EQ(bits_of(first), bits_of(gradients()));
  }
  EXPECT_LT(refused, programs / 3);
  EXPECT_LT(empty, programs / 10);
}

}  // namespace
}  // namespace distwrap::autograd
