// Prints the time of some kernels on this machine, in one thread, beside that
// of the memory traffic or of the product alone.
//
//   ops_cpu_speed [operator ...]
#include "cpu/kernels.h"

#include <algorithm>
#include <cblas.h>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <time.h>
#include <vector>

namespace distwrap::cpu {
namespace {

using Call = std::function<void()>;

// The processor time of this thread, in nanoseconds: other programs of the
// machine do not count.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 +
         static_cast<double>(time.tv_nsec);
}

// The least time of a call, in nanoseconds.
double time_of(const Call& call) {
  int64_t calls = 1;
  double best = 1e300;
  const double end = now() + 4e8;
  while (now() < end) {
    const double start = now();
    for (int64_t i = 0; i < calls; ++i) call();
    const double spent = now() - start;
    best = std::min(best, spent / static_cast<double>(calls));
    if (spent < 2e5) calls *= 2;
  }
  return best;
}

int run(const std::vector<std::string>& wanted) {
  const auto show = [&](const std::string& name, const std::string& size,
                        const Call& call, const Call& beside) {
    if (!wanted.empty() &&
        std::find(wanted.begin(), wanted.end(), name) == wanted.end()) {
      return;
    }
    const double time = time_of(call), other = time_of(beside);
    std::printf("%-22s %-12s %12.1f ns  %12.1f ns  %5.2f\n", name.c_str(),
                size.c_str(), time, other, time / other);
  };
  std::printf("%-22s %-12s %15s  %15s  ratio\n", "operator", "size", "kernel",
              "copy or BLAS");
  for (const int64_t n : {64, 128, 256, 512, 1024}) {
    const Tensor a = *randn(Dims{n, n}), b = *randn(Dims{n, n});
    std::vector<float> out(static_cast<size_t>(n * n));
    const auto m = static_cast<int>(n);
    show(
        "mm", std::to_string(n), [&] { (void)mm(a, b); },
        [&] {
          cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, m, m, 1,
                      a.data<float>(), m, b.data<float>(), m, 0, out.data(), m);
        });
  }
  {
    // A batch of products beside a call of BLAS for each.
    constexpr int kBatch = 16, kSize = 64;
    const Tensor a = *randn(Dims{kBatch, kSize, kSize});
    const Tensor b = *randn(Dims{kBatch, kSize, kSize});
    std::vector<float> out(kBatch * kSize * kSize);
    show(
        "bmm", "16 x 64", [&] { (void)bmm(a, b); },
        [&] {
          for (int i = 0; i < kBatch; ++i) {
            const int first = i * kSize * kSize;
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize,
                        kSize, 1, a.data<float>() + first, kSize,
                        b.data<float>() + first, kSize, 0, out.data() + first,
                        kSize);
          }
        });
  }
  const Tensor tiny = *randn(Dims{2, 2});
  show(
      "add", "2x2", [&] { (void)add(tiny, tiny, 1); },
      [&] { (void)Tensor::empty(tiny.sizes()); });
  for (const int64_t rows : {1, 4096}) {
    const Tensor x = *randn(Dims{rows, 1024}), y = *randn(Dims{rows, 1024});
    const Tensor w = *randn(Dims{1024});
    const Tensor column = *randn(Dims{rows, 1});
    const std::string size = rows == 1 ? "4 KiB" : "16 MiB";
    std::vector<float> into(static_cast<size_t>(x.count()));
    const Call copy = [&] {
      std::memcpy(into.data(), x.data(), into.size() * sizeof(float));
      asm volatile("" : : "r"(into.data()) : "memory");
    };
    const auto one = [&](const char* name, const Call& call) {
      show(name, size, call, copy);
    };
    one("clone", [&] { (void)clone(x); });
    one("add", [&] { (void)add(x, y, 1); });
    one("add_", [&] { (void)add_(x, y, 1e-30); });
    one("add-row", [&] { (void)add(x, w, 1); });
    one("mul-column", [&] { (void)mul(x, column); });
    one("exp", [&] { (void)exp(x); });
    one("tanh", [&] { (void)tanh(x); });
    one("gelu", [&] { (void)gelu(x); });
    one("gelu_backward", [&] { (void)gelu_backward(x, y); });
    one("silu", [&] { (void)silu(x); });
    one("softmax", [&] { (void)softmax(x, -1); });
    one("log_softmax", [&] { (void)log_softmax(x, -1); });
    one("layer_norm", [&] { (void)layer_norm(x, &w, &w); });
    one("layer_norm_backward",
        [&] { (void)layer_norm_backward(x, y, &w, 1e-5); });
    one("rms_norm", [&] { (void)rms_norm(x, &w); });
    one("sum", [&] { (void)sum(x); });
    one("sum-columns", [&] { (void)sum(x, Ints({0})); });
    one("randn", [&] { (void)randn(x.sizes()); });
    one("dropout", [&] { (void)dropout(x, 0.1); });
    const Dims turned = {1024, rows}, steps = {1, 1024};
    const Tensor t = *Tensor::of_storage(x.storage(), x.dtype(), turned, steps);
    one("clone-transposed", [&] { (void)clone(t); });
  }
  return 0;
}

}  // namespace
}  // namespace distwrap::cpu

int main(int argc, char** argv) {
  return distwrap::cpu::run(std::vector<std::string>(argv + 1, argv + argc));
}
