#include "row_results.h"

#include "run.h"

#include <algorithm>
#include <cstring>

namespace shm_backend {
namespace {

// From this size on a result is written past the caches in an operation that
// outgrows them.
constexpr size_t kLongResult = 1 << 10;

}  // namespace

RowResults::RowResults(Run& run)
    : run_(run), row_bytes_(run.call.rows.row_bytes()) {}

RowResults::~RowResults() {
  if (own_ != nullptr)
    run_.comm->host->scratch_free(run_.comm->host->self, own_);
}

bool RowResults::begin() {
  run_.comm->rows_from.assign(static_cast<size_t>(run_.size), {});
  const dw_ext_moe& lists = run_.call.rows.lists();
  const size_t bytes = run_.call.rows.numbers(run_.size, [&](int r) {
    return run_.call.out_pieces[r].bytes;
  }) * row_bytes_;
  if (lists.scratch != nullptr && bytes <= lists.scratch_bytes) {
    store_ = static_cast<char*>(lists.scratch);
    return true;
  }
  if (bytes == 0) return true;
  own_ = run_.comm->host->scratch_alloc(run_.comm->host->self, bytes);
  store_ = static_cast<char*>(own_);
  if (own_ == nullptr) run_.fail_no_memory();
  return own_ != nullptr;
}

RowsFrom& RowResults::of(int rank) const {
  return run_.comm->rows_from[static_cast<size_t>(rank)];
}

// The rank that gives the row with a number: the last one whose numbers begin
// there or before.
int RowResults::rank_of(int64_t number) const {
  const int64_t* const first = run_.call.rows.lists().get_first;
  return static_cast<int>(std::upper_bound(first, first + run_.size, number) -
                          first) -
         1;
}

template <class Holds>
bool RowResults::all_rows(int64_t result, const Holds& holds) const {
  const dw_moe_terms& results = run_.call.rows.sums().lists().results;
  const int64_t* const first = run_.call.rows.lists().get_first;
  for (int64_t t = results.first[result]; t < results.first[result + 1]; ++t) {
    const dw_moe_term& term = results.terms[t];
    if (term.from != DW_MOE_FROM_RANKS) continue;
    const int rank = rank_of(term.row);
    if (!holds(of(rank), term.row - first[rank])) return false;
  }
  return true;
}

bool RowResults::has_come(int64_t result) const {
  return all_rows(result, [](const RowsFrom& from, int64_t row) {
    return row < from.came;
  });
}

dw_sdk::MoeCame RowResults::row(int64_t number) {
  const int rank = rank_of(number);
  const RowsFrom& from = of(rank);
  if (from.lent != nullptr)
    return lent_row(
        *from.lent,
        static_cast<size_t>(number - run_.call.rows.lists().get_first[rank]));
  const auto begin =
      static_cast<size_t>(number - run_.call.rows.lists().get_first[rank]) *
      row_bytes_;
  return run_.call.rows.sums().staged(
      from.piece != nullptr && begin >= from.begin
          ? from.piece + (begin - from.begin)
          : store_ + static_cast<size_t>(number) * row_bytes_);
}

dw_sdk::MoeCame RowResults::lent_row(const RowList& list, size_t i) {
  const auto [begin, end] = list.entries_of(i);
  if (!list.has_terms()) return {list.row(begin), list.weight(begin)};
  const dw_sdk::MoeSums& sums = run_.call.rows.sums();
  std::vector<dw_moe_operand>& operands = run_.comm->operands;
  operands.clear();
  for (size_t entry = begin; entry < end; ++entry) {
    const char* at;
    const dw_moe_term term = list.term(entry, &at);
    const float* const weight = list.weight(entry);
    operands.push_back({at,
                        list.in(),
                        weight == nullptr ? 1 : *weight,
                        term.into,
                        term.then,
                        {}});
  }
  char* const sum = run_.comm->row_sums.data() + sums_++ * row_bytes_;
  sums.add_up(sum, list.in(), operands.data(), operands.size(),
              list.weight(0) != nullptr);
  return {sum, nullptr};
}

// Makes room for the sums of lent rows that a result has as terms.
void RowResults::reserve_sums(int64_t result) {
  size_t n = 0;
  all_rows(result, [&n](const RowsFrom& from, int64_t) {
    n += from.lent != nullptr && from.lent->has_terms();
    return true;
  });
  std::vector<char>& memory = run_.comm->row_sums;
  if (memory.size() < n * row_bytes_) memory.resize(n * row_bytes_);
  sums_ = 0;
}

void RowResults::mark_used(int64_t result) {
  all_rows(result, [](RowsFrom& from, int64_t row) {
    from.used = std::max(from.used, row + 1);
    return true;
  });
}

void RowResults::store(int from, size_t begin, const char* data, size_t bytes) {
  if (bytes == 0) return;
  const auto first =
      static_cast<size_t>(run_.call.rows.lists().get_first[from]);
  run_.take(from, store_ + first * row_bytes_ + begin, data, bytes);
}

void RowResults::hold(int from, size_t begin, const char* data, size_t bytes,
                      bool stays) {
  RowsFrom& rows = of(from);
  const size_t end = begin + bytes;
  rows.came = static_cast<int64_t>(end / row_bytes_);
  // The end of a row whose beginning is stored.
  const size_t whole =
      stays ? std::min(end, (begin + row_bytes_ - 1) / row_bytes_ * row_bytes_)
            : end;
  store(from, begin, data, whole - begin);
  rows.piece = stays ? data + (whole - begin) : nullptr;
  rows.begin = whole;
  rows.end = end;
}

void RowResults::borrow(int from, const RowList& list) {
  RowsFrom& rows = of(from);
  rows.lent = &list;
  rows.came =
      static_cast<int64_t>(run_.call.out_pieces[from].bytes / row_bytes_);
}

void RowResults::add() {
  const dw_sdk::MoeSums& sums = run_.call.rows.sums();
  const uint32_t flags =
      run_.past_caches() && sums.result_bytes() >= kLongResult
          ? DW_MOE_SUM_PAST_CACHES
          : 0;
  for (; next_ < sums.results() && !run_.failed() && has_come(next_); ++next_) {
    reserve_sums(next_);
    sums.add(
        next_, [this](int64_t k) { return row(k); }, flags);
    mark_used(next_);
  }
  for (int r = 0; r < run_.size; ++r) {
    RowsFrom& from = of(r);
    if (from.piece == nullptr) continue;
    const size_t left = std::clamp(static_cast<size_t>(from.used) * row_bytes_,
                                   from.begin, from.end);
    store(r, left, from.piece + (left - from.begin), from.end - left);
    from.piece = nullptr;
  }
}

}  // namespace shm_backend
