// A rank that is a process and prints the bits of a layer at each level:
//
//   moe_bits_rank BACKEND
#include "ranks/moe_bits.h"

#include <cstdio>

int main(int argc, char** argv) {
  using namespace distwrap;  // NOLINT(google-build-using-namespace)
  const auto session = init_process_group({.backend = argc > 1 ? argv[1] : ""});
  if (!session.ok()) {
    std::fprintf(stderr, "%s\n", session.status().ToString().c_str());
    return 1;
  }
  for (const MoeDedup level :
       {MoeDedup::kNone, MoeDedup::kRank, MoeDedup::kNode}) {
    const auto bits = testing::moe_bits(level);
    if (!bits.ok()) {
      std::fprintf(stderr, "%s\n", bits.status().ToString().c_str());
      return 1;
    }
    std::printf("%llu\n", static_cast<unsigned long long>(*bits));
  }
  return destroy_process_group().ok() ? 0 : 1;
}
