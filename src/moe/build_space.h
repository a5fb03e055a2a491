// The memory of the exchanges that make a plan. It belongs to the plan, so that
// a plan in the memory of an earlier one allocates nothing.
#ifndef DISTWRAP_SRC_MOE_BUILD_SPACE_H_
#define DISTWRAP_SRC_MOE_BUILD_SPACE_H_

#include "moe/exchange.h"
#include "moe/messages.h"

#include <cstdint>
#include <vector>

namespace distwrap::moe {

// The bytes of one side of an exchange: a part for each rank, packed.
class Parts {
 public:
  // Parts of `bytes` for each of `ranks` ranks.
  void set_equal(int ranks, int64_t bytes) {
    clear();
    for (int r = 0; r < ranks; ++r) add(bytes);
  }
  void clear() {
    counts_.clear();
    displs_.clear();
    total_ = 0;
  }
  void add(int64_t bytes) {
    counts_.push_back(bytes);
    displs_.push_back(total_);
    total_ += bytes;
  }
  // After the last part: the memory, of which there may be none.
  void allocate() { bytes_.resize(static_cast<size_t>(total_)); }
  uint8_t* at(int rank) {
    return bytes_.data() + displs_[static_cast<size_t>(rank)];
  }
  ByteParts parts() { return {bytes_.data(), counts_, displs_}; }

 private:
  std::vector<int64_t> counts_, displs_;
  int64_t total_ = 0;
  std::vector<uint8_t> bytes_;
};

struct BuildSpace {
  std::vector<Offer> offers, given;
  std::vector<Crossings> crossings;
  Parts out, in;
  std::vector<int64_t> rows, pairs;            // by rank
  std::vector<int64_t> dropped;                // by bucket
  std::vector<int64_t> of_rank;                // by bucket of another rank
  std::vector<int64_t> masked, of_masked;      // by expert
  std::vector<uint8_t> kept;                   // by pair
  std::vector<int64_t> counts_out, counts_in;  // two for each rank
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_BUILD_SPACE_H_
