#include "lent_rows.h"

#include "run.h"
#include "straight.h"

#include <algorithm>
#include <cstring>

namespace shm_backend {
namespace {

// Bytes that a rank writes to memory of another one before it looks whether the
// other has given up.
constexpr size_t kWrite = 256 << 10;
// From this size on a row is written past the caches in an operation that
// outgrows them.
constexpr size_t kLongRow = 1 << 10;

// Copies entries of a list; returns the highest row that they name, -1 if one
// of them is no row of lent memory.
int64_t copy_entries(const int32_t* from, size_t n, int32_t* to) {
  int64_t least = 0, last = 0;
  for (size_t i = 0; i < n; ++i) {
    least = std::min<int64_t>(least, from[i]);
    last = std::max<int64_t>(last, from[i]);
    to[i] = from[i];
  }
  return least < 0 ? -1 : last;
}

int64_t copy_entries(const dw_moe_term* from, size_t n, dw_moe_term* to) {
  int64_t last = 0;
  for (size_t i = 0; i < n; ++i) {
    if (from[i].from != DW_MOE_FROM_IN) return -1;
    last = std::max<int64_t>(last, from[i].row);
    to[i] = from[i];
  }
  return last;
}

}  // namespace

LentRows::LentRows(Run& run, bool adds)
    : run_(run),
      adds_(adds),
      row_bytes_(run.call.has_rows ? run.call.rows.row_bytes() : 1),
      part_(run.call.has_rows ? run.call.rows.lists().channels[0].bytes : 1) {}

Pair& LentRows::pair(int other) const {
  return run_.comm->pairs[static_cast<size_t>(other)];
}

size_t LentRows::gives(int to) const { return run_.call.in_pieces[to].bytes; }
size_t LentRows::takes(int from) const {
  return run_.call.out_pieces[from].bytes;
}

template <class Body>
void LentRows::for_told(const Body& body) const {
  for (int r = 0; r < run_.size; ++r)
    if (r != run_.rank && is_told(gives(r), takes(r))) body(r);
}

// ---- offers ----

void LentRows::choose(int other) {
  Pair& pair = this->pair(other);
  pair.written = 0;
  pair.offer = {0, 0, part_ | (adds_ ? RowOffer::kAdds : 0), began_ns_};
  const size_t bytes = takes(other);
  pair.tries_rows = false;
  if (!pair.takes_rows.can_lend(bytes)) return;
  pair.takes_rows.heard(pair.takes_rows.preferred());
  if (pair.takes_rows.lends(bytes, pair.rows_taken))
    pair.offer.part |= RowOffer::kWants;
  pair.tries_rows = pair.takes_rows.is_try(bytes, pair.rows_taken++);
}

size_t LentRows::listed(int other) const {
  const bool wants = (pair(other).offer.part & RowOffer::kWants) != 0;
  return (adds_ ? gives(other) : wants ? takes(other) : 0) / row_bytes_;
}

RowListHead LentRows::head_for(int other) const {
  const dw_ext_moe& lists = run_.call.rows.lists();
  const dw_sdk::MoeSums& sums = run_.call.rows.sums();
  const size_t n = listed(other);
  RowListHead head = {};
  if (!adds_) {
    const int64_t first = lists.get_first[other];
    head.first = static_cast<uint64_t>(first);
    if (lists.place_first != nullptr) {
      const int64_t* const places = lists.place_first + first;
      head.firsts = n + 1;
      head.entries = static_cast<uint64_t>(places[n] - places[0]);
    } else if (lists.place != nullptr) {
      head.entries = n;
    }
    return head;
  }
  const int64_t first = lists.give_first[other];
  head.in = sums.lists().in;
  head.wire = sums.lists().wire;
  if (sums.gives()) {
    const dw_moe_terms& given = sums.lists().given;
    head.firsts = n + 1;
    head.entries = static_cast<uint64_t>(
        given.first[first + static_cast<int64_t>(n)] - given.first[first]);
    head.weights = given.weights != nullptr ? head.entries : 0;
    return head;
  }
  head.first = static_cast<uint64_t>(first);
  head.entries = lists.give != nullptr ? n : 0;
  head.weights = lists.n_channels > 1 ? n : 0;
  return head;
}

// Writes a list. False: there are no rows, or some lie in memory that is not
// lent.
bool LentRows::fill(int other, RowListHead head, char* at) {
  const dw_ext_moe& lists = run_.call.rows.lists();
  const dw_moe_terms& given = run_.call.rows.sums().lists().given;
  const auto n = static_cast<int64_t>(listed(other));
  if (head.entries > UINT32_MAX || (head.firsts != 0 && head.entries == 0))
    return false;
  const int64_t first =
      adds_ ? lists.give_first[other] : lists.get_first[other];
  int64_t first_entry = first;
  if (head.firsts != 0) {
    const int64_t* const from =
        (adds_ ? given.first : lists.place_first) + first;
    auto* const firsts = reinterpret_cast<uint32_t*>(at + sizeof head);
    first_entry = from[0];
    for (size_t i = 0; i < head.firsts; ++i)
      firsts[i] = static_cast<uint32_t>(from[i] - first_entry);
  }
  int64_t last = first + n - 1;
  char* const entries = at + head.entries_at();
  if (head.has_terms())
    last = copy_entries(given.terms + first_entry, head.entries,
                        reinterpret_cast<dw_moe_term*>(entries));
  else if (head.entries != 0)
    last = copy_entries((adds_ ? lists.give : lists.place) + first_entry,
                        head.entries, reinterpret_cast<int32_t*>(entries));
  if (last < 0) return false;

  auto* const weights = reinterpret_cast<float*>(at + head.weights_at());
  if (head.weights != 0 && head.has_terms())
    std::copy_n(given.weights + first_entry, head.weights, weights);
  else if (head.weights != 0)
    for (int64_t i = first; i < first + n; ++i)
      weights[i - first] = static_cast<const float*>(
          lists.channels[1]
              .in)[lists.give == nullptr ? i : int64_t{lists.give[i]}];
  head.rows = static_cast<uint64_t>(last) + 1;
  rows_ = std::max<size_t>(rows_, head.rows);
  std::memcpy(at, &head, sizeof head);
  return true;
}

void LentRows::offer() {
  const dw_host_api& host = *run_.comm->host;
  began_ns_ = host.now_ns(host.self);
  const dw_moe_channel& channel = run_.call.rows.lists().channels[0];
  const std::shared_ptr<Arena>& arena = run_.comm->room.arena();
  size_t bytes = 0;
  for_told([&](int other) {
    choose(other);
    if (listed(other) != 0) bytes += whole_lines(head_for(other).bytes());
  });
  char* const lent = adds_ ? static_cast<char*>(const_cast<void*>(channel.in))
                           : static_cast<char*>(channel.out);
  if (bytes == 0 || arena->heap().place_of(lent, 1) == 0 ||
      !run_.comm->row_lists.grow(arena, bytes))
    return;
  size_t next = 0;
  for_told([&](int other) {
    if (listed(other) == 0) return;
    const RowListHead head = head_for(other);
    if (fill(other, head, run_.comm->row_lists.data() + next))
      pair(other).offer.list = run_.comm->row_lists.place() + next;
    next += whole_lines(head.bytes());
  });
  const size_t row = adds_
                         ? run_.call.rows.sums().lists().width *
                               dw_dtype_bytes(run_.call.rows.sums().lists().in)
                         : part_;
  const size_t place = run_.lend_bytes(
      adds_ ? run_.comm->lease.in : run_.comm->lease.out, {lent, rows_ * row});
  for_told([&](int other) {
    RowOffer& mine = pair(other).offer;
    if (mine.list != 0) mine.place = place;
  });
}

void LentRows::agree(int other, const RowOffer& theirs) {
  Pair& pair = this->pair(other);
  pair.began_ns = theirs.began_ns;
  const RowOffer& mine = pair.offer;
  if (((theirs.part ^ mine.part) & ~RowOffer::kWants) != 0) return;
  const bool i_want = (mine.part & RowOffer::kWants) != 0,
             they_want = (theirs.part & RowOffer::kWants) != 0;
  const auto borrow = [&](size_t bytes) {
    const dw_ext_moe_sum& sums = run_.call.rows.sums().lists();
    return pair.list.find(
        &run_, other, theirs.list, theirs.place,
        {bytes / row_bytes_, part_, adds_, adds_ ? sums.width : 0,
         adds_ ? sums.wire : dw_dtype{}});
  };
  if (i_want && takes(other) != 0 && (adds_ ? theirs.place : mine.place) != 0) {
    pair.rows_come = adds_ ? RowWay::kRead : RowWay::kWritten;
    if (!adds_) lends_ = true;
    if (adds_ && !borrow(takes(other))) return;
  }
  if (they_want && gives(other) != 0 &&
      (adds_ ? mine.place : theirs.place) != 0) {
    pair.rows_given = adds_ ? RowWay::kRead : RowWay::kWritten;
    if (adds_) lends_ = true;
    if (!adds_) borrow(gives(other));
  }
}

// ---- writing to memory of others ----

void LentRows::write_part(int to, size_t row, size_t skip, size_t bytes) const {
  const RowList& list = pair(to).list;
  const dw_sdk::MoeRows& rows = run_.call.rows;
  const auto [begin, end] = list.entries_of(row);
  const char* from = nullptr;
  for (size_t entry = begin; entry < end; ++entry) {
    char* const at = list.row(entry) + skip;
    if (from == nullptr && rows.sums().gives()) {
      const size_t number = rows.sums().wire_bytes();
      rows.sums().give(rows.lists().give_first[to] + static_cast<int64_t>(row),
                       skip / number, bytes / number, at);
      from = at;
      continue;
    }
    if (from == nullptr) from = rows.given_row(to, row) + skip;
    if (run_.past_caches() && bytes >= kLongRow)
      copy_past_caches(at, from, bytes);
    else
      run_.comm->stage_copy(at, from, bytes);
  }
}

bool LentRows::write(int to, size_t upto) {
  Pair& pair = this->pair(to);
  if (pair.rows_given != RowWay::kWritten) return false;
  CmaPiece& lane = run_.comm->room.lane(run_.rank, to);
  const size_t all = gives(to) / row_bytes_ * part_;
  upto = std::min(upto, all);
  while (pair.written < upto && !run_.failed()) {
    const size_t end = std::min(pair.written + kWrite, upto);
    uint64_t writing = 0;
    if (!lane.length.compare_exchange_strong(writing, end - pair.written)) {
      run_.fail_left(to);
      return false;
    }
    writing = end - pair.written;
    while (pair.written < end) {
      const size_t skip = pair.written % part_;
      const size_t bytes = std::min(part_ - skip, end - pair.written);
      write_part(to, pair.written / part_, skip, bytes);
      pair.written += bytes;
    }
    if (!lane.length.compare_exchange_strong(writing, 0)) {
      // the taker waits for that
      lane.sent.store(kNoMore, std::memory_order_release);
      run_.fail_left(to);
      return false;
    }
  }
  return pair.written < all && !run_.failed();
}

// ---- the end ----

void LentRows::give_up() const {
  if (adds_ || !run_.lends()) return;
  Comm* const comm = run_.comm;
  // The state is set first, so that a rank that is told to stop finds why.
  comm->room.leave(State::kAborted);
  const int64_t end_ns = comm->host->now_ns(comm->host->self) + kLastWriteNs;
  for_told([&](int other) {
    if (pair(other).offer.place != 0) stop_writes_of(other, comm, end_ns);
  });
}

void LentRows::learn() const {
  const dw_host_api& host = *run_.comm->host;
  const int64_t now_ns = host.now_ns(host.self);
  for_told([&](int from) {
    Pair& pair = this->pair(from);
    // Timed from when both ranks had entered, since waiting is not the way's
    // fault.
    if (pair.tries_rows)
      pair.takes_rows.took(takes(from), pair.rows_come != RowWay::kStaged,
                           now_ns - std::max(began_ns_, pair.began_ns));
  });
}

}  // namespace shm_backend
