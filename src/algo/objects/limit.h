// The limit of an object's bytes in this process.
//
// Threads: any.
#ifndef DISTWRAP_SRC_ALGO_OBJECTS_LIMIT_H_
#define DISTWRAP_SRC_ALGO_OBJECTS_LIMIT_H_

#include <cstdint>

namespace distwrap::objects {

uint64_t max_bytes();
void set_max_bytes(uint64_t bytes);

}  // namespace distwrap::objects

#endif  // DISTWRAP_SRC_ALGO_OBJECTS_LIMIT_H_
