// The list that a rank publishes beside memory that it lends for rows: where in
// that memory the rows of another rank belong, or which of its rows the other
// rank adds up. Lists lie in the heap, so they are read where they lie.
//
// Threads: the one that runs collectives.
#ifndef DISTWRAP_BACKENDS_SHM_ROW_LIST_H_
#define DISTWRAP_BACKENDS_SHM_ROW_LIST_H_

#include "distwrap/abi/moe.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace shm_backend {

class Arena;
class Run;

// Behind it follow `firsts` numbers of 32 bits, the entries, and the weights.
struct RowListHead {
  uint64_t rows;   // rows of the lent memory; every entry is less
  uint64_t first;  // without entries, row i of the list is row first + i
  // 0: a row has one entry; otherwise one more than the list has rows.
  uint64_t firsts;
  uint64_t entries;   // each an int32_t, or a dw_moe_term if rows are sums
  uint64_t weights;   // a float for each entry or each row; 0: none
  dw_dtype in, wire;  // types of rows that are added up

  bool has_terms() const { return in.bits != 0 && firsts != 0; }
  size_t entry_bytes() const {
    return has_terms() ? sizeof(dw_moe_term) : sizeof(int32_t);
  }
  size_t entries_at() const { return sizeof *this + firsts * sizeof(uint32_t); }
  size_t weights_at() const { return entries_at() + entries * entry_bytes(); }
  size_t bytes() const { return weights_at() + weights * sizeof(float); }
};

// A list of another rank. Its owner may change it at any time, so each value is
// loaded once, and checked before it serves as a place.
class RowList {
 public:
  // A reader's own numbers of a list.
  struct Known {
    size_t rows;
    size_t row_bytes;  // bytes of a row that is placed
    bool adds;         // rows are added up, `width` numbers of the type `wire`
    uint64_t width;
    dw_dtype wire;
  };
  // Finds the list that `rank` has published at `place` for its memory at
  // `memory`. False: the call has failed.
  bool find(Run* run, int rank, size_t place, size_t memory,
            const Known& known);

  bool has_terms() const { return head_.has_terms(); }
  dw_dtype in() const { return head_.in; }

  // The numbers of the entries of row i. Nonsense fails the call.
  struct Range {
    size_t begin, end;
  };
  Range entries_of(size_t i) const;
  // Where the lent row of an entry lies.
  char* row(size_t entry) const;
  // An entry of a list with terms, and where its row lies.
  dw_moe_term term(size_t entry, const char** row) const;
  // NULL: there are none.
  const float* weight(size_t entry) const {
    return weights_ == nullptr ? nullptr : weights_ + entry;
  }

 private:
  bool is_sane(const Known& known) const;
  char* row_at(uint64_t row) const;

  Run* run_ = nullptr;
  int rank_ = 0;
  RowListHead head_ = {};
  size_t row_bytes_ = 0;
  const char* at_ = nullptr;
  const float* weights_ = nullptr;
  char* memory_ = nullptr;
};

// The memory of this rank's lists, which grows to what an operation needs.
class RowListMemory {
 public:
  RowListMemory() = default;
  ~RowListMemory() { release(); }
  RowListMemory(const RowListMemory&) = delete;
  RowListMemory& operator=(const RowListMemory&) = delete;

  // False: there is not so much.
  bool grow(const std::shared_ptr<Arena>& arena, size_t bytes);
  char* data() const { return data_; }
  size_t place() const { return place_; }

 private:
  void release();

  std::shared_ptr<Arena> arena_;
  char* data_ = nullptr;
  size_t place_ = 0, bytes_ = 0;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_ROW_LIST_H_
