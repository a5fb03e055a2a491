#include "moe/messages.h"

#include <cstring>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

template <class T>
uint8_t* put(uint8_t* to, const T* from, int64_t count) {
  const size_t bytes = at(count) * sizeof(T);
  if (bytes > 0) memcpy(to, from, bytes);
  return to + bytes;
}
template <class T>
const uint8_t* take(const uint8_t* from, T* to, int64_t count) {
  const size_t bytes = at(count) * sizeof(T);
  if (bytes > 0) memcpy(to, from, bytes);
  return from + bytes;
}

}  // namespace

uint8_t* write_list(const Lists& lists, int rank, uint8_t* to) {
  const size_t row = at(lists.row_first[at(rank)]);
  const size_t pair = at(lists.pair_first[at(rank)]);
  to = put(to, lists.row_token.data() + row, lists.rows_of(rank));
  to = put(to, lists.row_pairs.data() + row, lists.rows_of(rank));
  to = put(to, lists.pair_bucket.data() + pair, lists.pairs_of(rank));
  return put(to, lists.pair_slot.data() + pair, lists.pairs_of(rank));
}

void read_list(const uint8_t* from, int source, Lists* lists) {
  const size_t row = at(lists->row_first[at(source)]);
  const size_t pair = at(lists->pair_first[at(source)]);
  from = take(from, lists->row_token.data() + row, lists->rows_of(source));
  from = take(from, lists->row_pairs.data() + row, lists->rows_of(source));
  from = take(from, lists->pair_bucket.data() + pair, lists->pairs_of(source));
  take(from, lists->pair_slot.data() + pair, lists->pairs_of(source));
}

int64_t verdict_bytes(int64_t buckets, int64_t pairs) {
  return static_cast<int64_t>(sizeof(Needed)) + 8 * buckets + (pairs + 7) / 8;
}

uint8_t* write_verdict(const Needed& needed, absl::Span<const int64_t> dropped,
                       absl::Span<const uint8_t> kept, uint8_t* to) {
  to = put(to, &needed, 1);
  to = put(to, dropped.data(), static_cast<int64_t>(dropped.size()));
  for (size_t i = 0; i < kept.size(); i += 8, ++to) {
    *to = 0;
    for (size_t j = i; j < kept.size() && j < i + 8; ++j)
      *to = static_cast<uint8_t>(*to | (kept[j] & 1) << (j - i));
  }
  return to;
}

void read_verdict(const uint8_t* from, int64_t buckets, int64_t pairs,
                  Needed* needed, int64_t* dropped, uint8_t* kept) {
  from = take(from, needed, 1);
  from = take(from, dropped, buckets);
  for (int64_t i = 0; i < pairs; ++i) kept[i] = from[i / 8] >> (i % 8) & 1;
}

}  // namespace distwrap::moe
