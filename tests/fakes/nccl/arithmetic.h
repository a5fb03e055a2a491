// The reductions of the fake NCCL: slow, and with NCCL's own rules. Floats are
// rounded to their type at every hop, avg scales the inputs before they are
// added, and min and max drop NaN.
#ifndef DISTWRAP_TESTS_FAKES_NCCL_ARITHMETIC_H_
#define DISTWRAP_TESTS_FAKES_NCCL_ARITHMETIC_H_

#include <cstddef>
#include <vector>

namespace fakes::nccl {

// Bytes of an ncclDataType_t, 0 for one that NCCL 2.19 does not have.
size_t bytes_of(int type);

// A reduction: one of NCCL's own, or a premul_sum.
struct Reduction {
  int op = 0;
  bool premul = false;
};

// out[i] = inputs[0][i] (+) inputs[1][i] ..., from some rank on; `out` may be
// one of the inputs. `factors`: with premul, each input's factor, of the type.
void reduce(const Reduction& reduction, int type,
            const std::vector<const char*>& inputs,
            const std::vector<const char*>& factors, size_t count, char* out);

}  // namespace fakes::nccl

#endif  // DISTWRAP_TESTS_FAKES_NCCL_ARITHMETIC_H_
