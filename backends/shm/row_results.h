// Results that are sums of rows of other ranks (abi/moe.h): a row is added
// where it lies in its rank's staging, if the other rows of its result have
// come, and is stored otherwise. Rows that a rank lends are added where they
// lie, and are there from the beginning; if they are terms of a sum, the sum is
// made in memory of this rank.
//
//   RowResults results(run);
//   if (!results.begin()) return;
//   results.hold(from, begin, data, bytes, true);  // of all ranks, a round
//   results.add();                                 // before the round is done
#ifndef DISTWRAP_BACKENDS_SHM_ROW_RESULTS_H_
#define DISTWRAP_BACKENDS_SHM_ROW_RESULTS_H_

#include "sdk/moe_sums.h"

#include <cstddef>
#include <cstdint>

namespace shm_backend {

class RowList;
class Run;

// The part of a rank's stream of rows that has come.
struct RowsFrom {
  const RowList* lent = nullptr;  // the rows, if the rank lends them
  const char* piece = nullptr;    // the part that lies in its staging, if any
  size_t begin = 0, end = 0;      // place of the part in the stream
  int64_t came = 0;               // whole rows up to here
  int64_t used = 0;               // rows of results that are written
};

class RowResults {
 public:
  explicit RowResults(Run& run);
  ~RowResults();
  RowResults(const RowResults&) = delete;
  RowResults& operator=(const RowResults&) = delete;

  // False: the call has failed.
  bool begin();
  // A part of the stream from a rank, behind the parts before. `stays`: until
  // `add`.
  void hold(int from, size_t begin, const char* data, size_t bytes, bool stays);
  // All rows of a rank, which stay where they lie.
  void borrow(int from, const RowList& list);
  // Writes the results whose rows have come, and stores the others.
  void add();

 private:
  RowsFrom& of(int rank) const;
  int rank_of(int64_t number) const;
  // Whether `holds(from, row)` is true for all rows of a result that come:
  // row `row` of the stream `from`.
  template <class Holds>
  bool all_rows(int64_t result, const Holds& holds) const;
  bool has_come(int64_t result) const;
  dw_sdk::MoeCame row(int64_t number);
  dw_sdk::MoeCame lent_row(const RowList& list, size_t i);
  void reserve_sums(int64_t result);
  void mark_used(int64_t result);
  void store(int from, size_t begin, const char* data, size_t bytes);

  Run& run_;
  const size_t row_bytes_;
  char* store_ = nullptr;  // row k begins at k * row_bytes_
  void* own_ = nullptr;    // memory of this operation alone
  int64_t next_ = 0;       // the first result that is not written
  // Sums of lent rows, for the result that is being written.
  size_t sums_ = 0;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_ROW_RESULTS_H_
