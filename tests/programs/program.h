// A random program of groups and operations, made from a seed. The program is
// equal on every rank; each rank runs its part.
//
// The result of each operation follows from the program alone, without running
// it: inputs are a function of operation, rank and place.
#ifndef DISTWRAP_TESTS_PROGRAMS_PROGRAM_H_
#define DISTWRAP_TESTS_PROGRAMS_PROGRAM_H_

#include "distwrap/types.h"

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::programs {

enum class Kind : uint8_t {
  kBarrier,
  kBroadcast,
  kReduce,
  kAllReduce,
  kGather,
  kScatter,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kScan,
  kExscan,
  kRing,      // messages to the next rank, from the one before
  kBackward,  // messages of several tags, received in the opposite order
};
inline constexpr int kKinds = 13;

struct Operation {
  Kind kind = Kind::kBarrier;
  DType dtype = DType::kF32;
  int reduction = 0;  // 0 sum, 1 product, 2 min, 3 max
  int64_t n = 0;      // elements of a rank; of rank 0 where they are uneven
  bool uneven = false;
  int root = 0;  // rank of the group
  bool async = false;
  uint32_t salt = 0;

  // The number of elements that rank `from` has for rank `to`.
  int64_t piece(int from, int to, int size) const;
  // Element `i` that global rank `rank` gives to `to`; small enough to be exact
  // in every type after every reduction.
  int64_t value(int rank, int to, int64_t i) const;
  int64_t reduce(int64_t a, int64_t b) const;
  std::string name() const;
};

enum class Act : uint8_t { kOperate, kSplit, kColor, kNew, kNewLocal, kEnd };

struct Step {
  Act act = Act::kOperate;
  int group = 0;  // the group that is operated on, ended, or the parent
  Operation operation = {};
  // New groups, numbered from `first`, as ranks of the parent; in kNew and
  // kNewLocal one list of ranks of the world.
  std::vector<std::vector<int>> lists = {};
  int first = 0;
};

struct Program {
  uint64_t seed = 0;
  int ranks = 1;
  // The members of each group, the world first: global ranks in the group's
  // order.
  std::vector<std::vector<int>> members = {};
  std::vector<Step> steps = {};

  std::string text() const;
};

// 2 to `most_ranks` ranks, `steps` steps; a group is not used after its end.
Program make_program(uint64_t seed, int most_ranks, int steps);

}  // namespace distwrap::programs

#endif  // DISTWRAP_TESTS_PROGRAMS_PROGRAM_H_
