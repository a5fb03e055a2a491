// Chooses the calls: a sample of all pairs, or everything.
#ifndef DISTWRAP_TESTS_CONFORMANCE_SAMPLE_H_
#define DISTWRAP_TESTS_CONFORMANCE_SAMPLE_H_

#include "case.h"
#include "promises.h"

#include <cstdint>
#include <vector>

namespace distwrap::conformance {

// The part for `size` of a sample of all promised calls over all sizes of
// groups, in which every pair of values of two dimensions occurs.
std::vector<Case> sampled_cases(const Promises& promises, const Limits& limits,
                                int size);

// All calls that `size` ranks can make: kinds, types, reductions, forms, counts
// and roots in every combination; the other dimensions take turns.
std::vector<Case> all_cases(const Promises& promises, int size);

// One case of each promised kind and form, of f32 or what there is instead.
std::vector<Case> one_of_each(const Promises& promises, size_t count,
                              Calling calling);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_SAMPLE_H_
