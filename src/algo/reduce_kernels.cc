#include "algo/reduce_kernels.h"

#include "algo/kernels/variants.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace distwrap::algo {
namespace {

#if defined(__x86_64__)

// Compilers have different names for this feature.
bool has_f16c() {
  constexpr unsigned kBit = 1u << 29;
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kBit) != 0;
}

bool has_avx2() { return __builtin_cpu_supports("avx2") && has_f16c(); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

bool has_avx512_bf16() {
  return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

#endif

bool always() { return true; }

struct Candidate {
  KernelVariant variant;
  bool (*runs_here)();
};

// The best candidate first.
constexpr Candidate kCandidates[] = {
#if defined(__x86_64__)
    {{"avx512_bf16", kernels::avx512_bf16::find, kernels::avx512::sum_rows},
     has_avx512_bf16},
    {{"avx512", kernels::avx512::find, kernels::avx512::sum_rows}, has_avx512},
    {{"avx2", kernels::avx2::find, kernels::avx2::sum_rows}, has_avx2},
#endif
    {{"portable", kernels::portable::find, kernels::portable::sum_rows},
     always}};

}  // namespace

std::vector<KernelVariant> kernel_variants() {
  std::vector<KernelVariant> all;
  for (const Candidate& one : kCandidates)
    if (one.runs_here()) all.push_back(one.variant);
  return all;
}

dw_reduce_fn reduce_kernel(dw_dtype dtype, uint16_t reduce) {
  static const auto kFind = kernel_variants().front().find;
  return kFind(dtype, reduce);
}

const dw_moe_sum_api& row_sums() {
  static const dw_moe_sum_api kSums = {sizeof(dw_moe_sum_api), 0,
                                       kernel_variants().front().sum_rows};
  return kSums;
}

}  // namespace distwrap::algo
