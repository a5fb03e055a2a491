// A sum over memory of the backend, and a window on it: docs/memory.md.
#include <distwrap/distwrap.h>
#include <distwrap/memory.h>

#include <cstdint>
#include <cstdio>

int main() {
  const auto session = distwrap::init_process_group();
  if (!session.ok()) return 1;
  const auto allocator = distwrap::get_mem_allocator();
  if (!allocator.ok()) {  // no such memory: any other buffer will do
    std::puts("none");
    return distwrap::destroy_process_group().ok() ? 0 : 1;
  }

  constexpr int64_t kCount = 100000;
  auto memory = allocator->allocate(kCount * 8);
  if (!memory.ok()) return 1;
  const distwrap::TensorView view = memory->view(distwrap::DType::kI64);
  auto* const x = static_cast<int64_t*>(view.data());
  for (int64_t i = 0; i < kCount; ++i) x[i] = i;
  // The ranks read each other's elements where they lie.
  if (!distwrap::all_reduce(view, distwrap::ReduceOp::kSum).ok()) return 1;

  // Other ranks may access the memory too, by puts, gets and atomics.
  const auto window = distwrap::new_window({.memory = view});
  if (!window.ok()) return 1;
  const auto old =
      window->fetch_add(int64_t{1}, distwrap::Peer::group(0), kCount - 1);
  if (!old.ok() || !window->destroy().ok()) return 1;
  std::printf("%lld\n", static_cast<long long>(x[1]));

  if (!memory->release().ok()) return 1;
  return distwrap::destroy_process_group().ok() ? 0 : 1;
}
