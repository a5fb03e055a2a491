// Runs one kernel over 4000 elements in a function of its own, which
// kernel_instructions.sh counts under callgrind.
//
//   kernel_count DTYPE REDUCTION INPUTS
#include "algo/reduce_kernels.h"

#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr uint64_t kCount = 4000;
constexpr size_t kLargestElement = 8;

dw_reduce_fn find(const char* dtype, const char* reduction) {
  uint16_t reduce = DW_REDUCE_NONE;
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  if (std::strcmp(reduction, #text) == 0) reduce = value;
#include "distwrap/abi/reductions.def"
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  if (std::strcmp(dtype, #text) == 0)                                \
    return distwrap::algo::reduce_kernel({code, bits, 1}, reduce);
#include "distwrap/abi/dtypes.def"
  return nullptr;
}

}  // namespace

extern "C" [[gnu::noinline]] void count_kernel(dw_reduce_fn kernel, void* out,
                                               const void* const* in,
                                               uint64_t n) {
  kernel(out, in, n, kCount, nullptr);
}

int main(int argc, char** argv) {
  const dw_reduce_fn kernel = argc == 4 ? find(argv[1], argv[2]) : nullptr;
  const size_t n = kernel == nullptr ? 0 : std::strtoul(argv[3], nullptr, 10);
  if (n == 0) return 2;
  std::vector<std::vector<char>> memory(
      n + 1, std::vector<char>(kCount * kLargestElement));
  std::vector<const void*> in;
  for (size_t k = 0; k < n; ++k) in.push_back(memory[k].data());
  // The first call examines the processor.
  kernel(memory[n].data(), in.data(), n, 1, nullptr);
  count_kernel(kernel, memory[n].data(), in.data(), n);
  return 0;
}
