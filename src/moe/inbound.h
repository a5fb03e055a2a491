// Everything that all ranks send to one rank: the lists that came in, which
// pairs fit into the capacity, and where each row lies in the output. Pure
// computation.
//
// Threads: one thread. Ownership: the vectors keep their memory for the next
// plan.
#ifndef DISTWRAP_SRC_MOE_INBOUND_H_
#define DISTWRAP_SRC_MOE_INBOUND_H_

#include "moe/routing.h"

#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::moe {

// The form of the output.
struct Form {
  bool expert_major = false;
  bool fixed_bases = false;
  int64_t alignment = 1;
  int64_t expert_capacity = 0, row_capacity = 0;  // 0: none

  bool has_capacity() const { return expert_capacity > 0 || row_capacity > 0; }
  int64_t aligned(int64_t rows) const {
    return (rows + alignment - 1) / alignment * alignment;
  }
};

// The capacity that would drop nothing.
struct Needed {
  int64_t expert = 0, rows = 0;
};

// The rows of the output, and which of them each inbound row fills.
struct Layout {
  int64_t rows = 0;                          // M, padding included
  int64_t capacity_rows = 0;                 // the least extent of an output
  std::vector<int64_t> offsets, counts;      // (E+1), (E)
  std::vector<int32_t> src_rank, src_token;  // by output row; -1 in padding
  // The inbound rows with a pair that was kept, by source and token; the output
  // rows of each, ascending, and for each the slot of its token. In rank-major
  // order each has one output row.
  std::vector<int64_t> row_first;  // (R+1)
  std::vector<int32_t> row_token;
  std::vector<int64_t> place_first;  // by row, one more at the end
  std::vector<int32_t> place;
  // The pairs that were kept: those of a row follow each other.
  std::vector<int64_t> pair_row_first;  // by row, one more at the end
  std::vector<int64_t> pair_first;      // (R+1): pairs by source
  std::vector<int32_t> pair_bucket, pair_slot;

  // Output rows that no pair fills, as [first, last) of each bucket.
  int64_t padding_begin(size_t bucket) const {
    return offsets[bucket] + counts[bucket];
  }
};

class Inbound {
 public:
  // Makes room for the lists of all sources; the counts are those that the
  // sources told.
  void resize(absl::Span<const int64_t> rows, absl::Span<const int64_t> pairs);
  Lists& lists() { return lists_; }
  const Lists& lists() const { return lists_; }

  // The fault of the lists of a source that has `tokens` tokens and
  // `slots` slots, for a rank with `buckets` experts; empty: nothing.
  std::string check(int source, int64_t tokens, int64_t slots,
                    int64_t buckets) const;

  // Decides which pairs are kept: the lowest (source, token, bucket) first.
  // Adds to `dropped` by bucket.
  Needed keep(const Form& form, int64_t buckets, std::vector<int64_t>* dropped);
  void keep_everything() { kept_.clear(); }
  // 1 for each pair that is kept, in the order of the lists.
  const std::vector<uint8_t>& kept() const { return kept_; }

  void lay_out(const Form& form, int64_t buckets, Layout* layout);

 private:
  Lists lists_;  // by source in place of the rank
  std::vector<uint8_t> kept_;
  std::vector<int64_t> counts_;
  std::vector<int64_t> next_;  // by bucket
};

// The lists of a source without the pairs that were not kept, and without rows
// that have none left. `kept`: 1 for each pair that stays.
void drop_pairs(const Lists& all, absl::Span<const uint8_t> kept, Lists* left);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_INBOUND_H_
