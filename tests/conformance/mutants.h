// The perfect backend with one rule broken.
#ifndef DISTWRAP_TESTS_CONFORMANCE_MUTANTS_H_
#define DISTWRAP_TESTS_CONFORMANCE_MUTANTS_H_

#include "checks.h"

#include <vector>

namespace distwrap::conformance {

struct Mutant {
  const char* name;
  CheckFunction caught_by;
  int size;          // size of the group
  const char* says;  // part of the expected finding
  void (*mutate)(dw_backend_api&);
};

// mutant_calls.cc: wrong results. mutant_rules.cc: everything else.
std::vector<Mutant> mutants_of_calls();
std::vector<Mutant> mutants_of_rules();

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_MUTANTS_H_
