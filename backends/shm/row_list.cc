#include "row_list.h"

#include "arena.h"
#include "run.h"
#include "sdk/dtype.h"

#include <cstring>

namespace shm_backend {
namespace {

// Loads a value that its owner may change.
template <class T>
T load(const char* from, size_t i) {
  T value;
  std::memcpy(&value, const_cast<const char*>(from) + i * sizeof(T), sizeof(T));
  asm volatile("" : "+m"(value));
  return value;
}

// The most that each number of a list can be.
constexpr uint64_t kMost = uint64_t{1} << 32;

bool is_number(dw_dtype in, dw_dtype wire) {
  const int type = dw_dtype_index(in);
  return (type == DW_DTYPE_F16 || type == DW_DTYPE_BF16 ||
          type == DW_DTYPE_F32 || type == DW_DTYPE_F64 ||
          type == DW_DTYPE_I32 || type == DW_DTYPE_I64) &&
         (dw_dtype_equal(in, wire) != 0 ||
          (dw_dtype_index(wire) == DW_DTYPE_F32 &&
           (type == DW_DTYPE_F16 || type == DW_DTYPE_BF16)));
}

}  // namespace

bool RowList::is_sane(const Known& known) const {
  const RowListHead& head = head_;
  for (const uint64_t number :
       {head.rows, head.first, head.firsts, head.entries, head.weights})
    if (number > kMost) return false;
  if (head.rows == 0 || (head.firsts != 0 && head.firsts != known.rows + 1))
    return false;
  const bool has_entries = head.firsts != 0 || head.entries != 0;
  if (has_entries ? head.firsts == 0 && head.entries != known.rows
                  : head.first + known.rows > head.rows)
    return false;
  if (!known.adds) return head.weights == 0 && head.in.bits == 0;
  if (head.weights != 0 &&
      head.weights != (head.has_terms() ? head.entries : known.rows))
    return false;
  return dw_dtype_equal(head.wire, known.wire) != 0 &&
         is_number(head.in, head.wire) &&
         (head.has_terms() || dw_dtype_equal(head.in, head.wire) != 0);
}

bool RowList::find(Run* run, int rank, size_t place, size_t memory,
                   const Known& known) {
  run_ = run;
  rank_ = rank;
  const char* const head = run->find_lent(rank, place, sizeof head_);
  if (head == nullptr) return false;
  std::memcpy(&head_, head, sizeof head_);
  if (!is_sane(known)) {
    run->fail_nonsense(rank);
    return false;
  }
  row_bytes_ =
      known.adds ? known.width * dw_dtype_bytes(head_.in) : known.row_bytes;
  size_t bytes;
  if (__builtin_mul_overflow(head_.rows, row_bytes_, &bytes)) {
    run->fail_nonsense(rank);
    return false;
  }
  at_ = run->find_lent(rank, place, head_.bytes());
  memory_ = at_ == nullptr ? nullptr : run->find_lent(rank, memory, bytes);
  weights_ = head_.weights == 0 || at_ == nullptr
                 ? nullptr
                 : reinterpret_cast<const float*>(at_ + head_.weights_at());
  return memory_ != nullptr;
}

RowList::Range RowList::entries_of(size_t i) const {
  if (head_.firsts == 0) return {i, i + 1};
  const auto begin = load<uint32_t>(at_ + sizeof head_, i),
             end = load<uint32_t>(at_ + sizeof head_, i + 1);
  if (begin <= end && end <= head_.entries) return {begin, end};
  run_->fail_nonsense(rank_);
  return {0, 0};
}

char* RowList::row_at(uint64_t row) const {
  if (row >= head_.rows) {
    run_->fail_nonsense(rank_);
    row = 0;
  }
  return memory_ + row * row_bytes_;
}

char* RowList::row(size_t entry) const {
  if (head_.entries == 0) return row_at(head_.first + entry);
  const auto row = load<int32_t>(at_ + head_.entries_at(), entry);
  return row_at(static_cast<uint64_t>(int64_t{row}));
}

dw_moe_term RowList::term(size_t entry, const char** row) const {
  auto term = load<dw_moe_term>(at_ + head_.entries_at(), entry);
  if (term.from != DW_MOE_FROM_IN || term.into > 2) {
    run_->fail_nonsense(rank_);
    term.into = 2;
  }
  *row = row_at(static_cast<uint64_t>(int64_t{term.row}));
  return term;
}

bool RowListMemory::grow(const std::shared_ptr<Arena>& arena, size_t bytes) {
  if (bytes <= bytes_) return true;
  release();
  bytes += bytes / 4;
  if (arena->heap().take(bytes, &place_, &data_, nullptr) != DW_OK)
    return false;
  arena_ = arena;
  bytes_ = bytes;
  return true;
}

void RowListMemory::release() {
  if (bytes_ != 0) arena_->heap().give_back(place_, bytes_, nullptr);
  bytes_ = 0;
}

}  // namespace shm_backend
