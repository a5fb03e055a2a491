// Objects of every kind, made from a seed.
#ifndef DISTWRAP_TESTS_UNIT_ALGO_OBJECTS_RANDOM_OBJECT_H_
#define DISTWRAP_TESTS_UNIT_ALGO_OBJECTS_RANDOM_OBJECT_H_

#include "distwrap/object.h"

#include <random>
#include <string>

namespace distwrap::testing {

using Random = std::mt19937_64;

// 0 to `most`.
size_t pick(Random& random, size_t most);
std::string random_bytes(Random& random, size_t most);

// Containers nest to `depth`.
Object random_object(Random& random, int depth);
// An object that may be a key.
Object random_key(Random& random, int depth);

// One object with all kinds in it, always the same.
Object every_kind();

// "82 01 02" as bytes.
std::string from_hex(absl::string_view hex);

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_UNIT_ALGO_OBJECTS_RANDOM_OBJECT_H_
