#include "cpu/loops.h"

#include "cpu/loops_variants.h"

#include <atomic>
#include <cstring>

namespace distwrap::cpu {
namespace {

std::atomic<const Loops*> chosen{nullptr};

struct Candidate {
  const Loops* table;
  bool (*runs_here)();
};

constexpr Candidate kCandidates[] = {
    {&kLoopsAvx512,
     [] {
       return __builtin_cpu_supports("avx512f") != 0 &&
              __builtin_cpu_supports("avx512bw") != 0 &&
              __builtin_cpu_supports("avx512dq") != 0 &&
              __builtin_cpu_supports("avx512vl") != 0;
     }},
    {&kLoopsAvx2, [] { return __builtin_cpu_supports("avx2") != 0; }},
    {&kLoopsPortable, [] { return true; }}};

}  // namespace

const Loops& loops() {
  const Loops* table = chosen.load(std::memory_order_relaxed);
  if (table == nullptr) [[unlikely]] {
    table = loops_table(0);
    chosen.store(table, std::memory_order_relaxed);
  }
  return *table;
}

const Loops* loops_table(int index) {
  for (const Candidate& candidate : kCandidates) {
    if (candidate.runs_here() && index-- == 0) return candidate.table;
  }
  return nullptr;
}

void use_loops(const Loops* table) {
  chosen.store(table, std::memory_order_relaxed);
}

}  // namespace distwrap::cpu
