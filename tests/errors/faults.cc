// Provokes faults and prints the resulting errors for grade.py:
//
//   faults [SEED [FAMILY]]
//
// The seed determines all random choices: which rank is killed, which operation
// is wrong. With `faults --rank SCENARIO` it runs as a rank of another
// process's job.
#include "errors/fault.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Family {
  const char* name;
  void (*run)(distwrap::faults::Choices&);
};

constexpr Family kFamilies[] = {
    {"arguments", distwrap::faults::of_arguments},
    {"objects", distwrap::faults::of_objects},
    {"handles", distwrap::faults::of_handles},
    {"c", distwrap::faults::of_c},
    {"backends", distwrap::faults::of_backends},
    {"start", distwrap::faults::of_the_start},
    {"mismatches", distwrap::faults::of_mismatches},
    {"absence", distwrap::faults::of_absence},
    {"processes", distwrap::faults::of_processes},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--rank") == 0)
    return distwrap::faults::rank_main(argv[2]);
  const uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  for (const Family& family : kFamilies) {
    if (argc > 2 && std::strcmp(argv[2], family.name) != 0) continue;
    // Each family begins with the seed, so that it makes the same choices alone
    // and among others.
    distwrap::faults::Choices choices(seed);
    family.run(choices);
  }
  return 0;
}
