// Uses what the library exports; ends with 0 when it answered right.
#include <distwrap/abi/plugin.h>
#include <distwrap/status.h>
#include <distwrap/store.h>
#include <distwrap/types.h>

#include <cstdio>

int main() {
  auto store = distwrap::Store::in_memory();
  auto deadline = distwrap::Deadline::after(absl::Seconds(10));
  auto sum = store->add("key", 2, deadline);
  if (!sum.ok() || *sum != 2) return 1;
  if (distwrap::dtype_name(distwrap::DType::kF32) != "f32") return 2;
  std::printf("distwrap answers\n");
  return 0;
}
