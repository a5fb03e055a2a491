#include "cpu/vector_math.h"

#include "cpu/vector_math_tables.h"

#include <atomic>

namespace distwrap::cpu {
namespace {

std::atomic<const VectorMath*> chosen{nullptr};

struct Candidate {
  const VectorMath* table;
  bool (*runs_here)();
};

constexpr Candidate kCandidates[] = {
    {&kMathAvx512, [] { return __builtin_cpu_supports("avx512f") != 0; }},
    {&kMathAvx, [] { return __builtin_cpu_supports("avx") != 0; }},
    {&kMathSse2, [] { return true; }}};

}  // namespace

const VectorMath& vector_math() {
  const VectorMath* table = chosen.load(std::memory_order_relaxed);
  if (table == nullptr) [[unlikely]] {
    table = vector_math_table(0);
    chosen.store(table, std::memory_order_relaxed);
  }
  return *table;
}

const VectorMath* vector_math_table(int index) {
  for (const Candidate& candidate : kCandidates) {
    if (candidate.runs_here() && index-- == 0) return candidate.table;
  }
  return nullptr;
}

void use_vector_math(const VectorMath* table) {
  chosen.store(table, std::memory_order_relaxed);
}

}  // namespace distwrap::cpu
