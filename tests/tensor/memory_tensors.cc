// Two ranks sum a tensor in memory of their backend: the collective and the
// operators use the same bytes. Started by `distwrap run -n 2`.
#include "distwrap/autograd.h"
#include "distwrap/distwrap.h"
#include "distwrap/tensor_memory.h"
#include "distwrap/throwing.h"

#include <cstdio>
#include <stdexcept>

namespace {

using namespace distwrap;            // NOLINT(google-build-using-namespace)
using namespace distwrap::throwing;  // NOLINT(google-build-using-namespace)

void expect(bool right, const char* what) {
  if (!right) throw std::runtime_error(what);
}

void run() {
  check(init_process_group().status());
  const MemAllocator allocator = unwrap(get_mem_allocator());
  Tensor kept;
  {
    const Tensor x = unwrap(empty_in(allocator, {100, 1000}));
    expect(x.is_contiguous() && x.count() == 100000, "the shape");
    fill_(x, get_rank() + 1);
    void* const before = x.data();
    check(all_reduce(x, ReduceOp::kSum).status());
    expect(x.data() == before, "the memory");
    expect(unwrap(sum(x).item()).to<double>() == 300000, "the sum");
    kept = select(x, 0, 99);
  }
  // A view keeps the memory, also after the allocator's group has ended.
  check(destroy_process_group());
  expect(unwrap(sum(kept).item()).to<double>() == 3000, "the view");
  expect(!empty_in(allocator, {-1}).ok(), "impossible sizes");
  std::puts("right");
}

}  // namespace

int main() try {
  run();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "FAILED: %s\n", error.what());
  return 1;
}
