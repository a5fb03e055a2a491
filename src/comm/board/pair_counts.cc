#include "comm/board/pair_counts.h"

#include <algorithm>

namespace distwrap::comm {
namespace {

bool is_of_pairs(uint16_t kind) {
  return kind == DW_OP_ALL_TO_ALL || kind == DW_OP_GATHER ||
         kind == DW_OP_SCATTER;
}

// Of a count on its way; nothing on its way has none.
uint64_t print_of(uint64_t number, int from, int to, int64_t count) {
  if (count == 0) return 0;
  const uint64_t way = static_cast<uint64_t>(from) << 32 |
                       static_cast<uint64_t>(static_cast<uint32_t>(to));
  return mix(mix(number + mix(way)) + static_cast<uint64_t>(count));
}

// Where a call's counts are among those shown: its number, then what is sent to
// each rank, then what is expected of each. 0 when there is no room for one.
size_t words_of(int size) {
  const size_t words = 1 + 2 * static_cast<size_t>(size);
  return words <= ShownCounts::kWords ? words : 0;
}
size_t place_of(size_t words, uint64_t number) {
  return number % (ShownCounts::kWords / words) * words;
}

uint32_t shown_as(int64_t count) {
  return static_cast<uint32_t>(std::clamp<int64_t>(count, 0, ShownPair::kMost));
}

// `sends` and `expects` tell the counts of each peer.
template <class Sends, class Expects>
void show_all(ShownCounts* shown, int size, uint64_t number, Sends sends,
              Expects expects) {
  constexpr auto kOrder = std::memory_order_release;
  const size_t words = words_of(size);
  if (words == 0) return;
  std::atomic<uint32_t>* const place =
      shown->words.data() + place_of(words, number);
  place->store(0, std::memory_order_relaxed);
  for (int peer = 0; peer < size; ++peer) {
    place[1 + peer].store(shown_as(sends(peer)), kOrder);
    place[1 + size + peer].store(shown_as(expects(peer)), kOrder);
  }
  place->store(static_cast<uint32_t>(number), kOrder);
}

}  // namespace

bool PairCounts::are_in(const dw_op& op) {
  return (op.flags & DW_FLAG_PER_RANK) != 0 && is_of_pairs(op.kind);
}

bool PairCounts::are_in(const SeenCall& call) {
  return (call.what & SeenCall::kWithCounts) != 0 &&
         is_of_pairs(static_cast<uint16_t>(call.what & 0xff));
}

int64_t PairCounts::sends(int peer) const {
  if (peer == rank_) return 0;
  const bool all = op_.kind == DW_OP_ALL_TO_ALL;
  if (all || (op_.kind == DW_OP_SCATTER && rank_ == op_.peer))
    return op_.in.counts[peer];
  return op_.kind == DW_OP_GATHER && peer == op_.peer ? op_.in.count : 0;
}

int64_t PairCounts::expects(int peer) const {
  if (peer == rank_) return 0;
  const bool all = op_.kind == DW_OP_ALL_TO_ALL;
  if (all || (op_.kind == DW_OP_GATHER && rank_ == op_.peer))
    return op_.out.counts[peer];
  return op_.kind == DW_OP_SCATTER && peer == op_.peer ? op_.out.count : 0;
}

uint64_t PairCounts::balance() const {
  uint64_t sum = 0;
  for (int peer = 0; peer < size_; ++peer)
    sum += print_of(op_.seq, rank_, peer, sends(peer)) -
           print_of(op_.seq, peer, rank_, expects(peer));
  return sum;
}

void PairCounts::show(ShownCounts* shown) const {
  show_all(
      shown, size_, op_.seq, [&](int peer) { return sends(peer); },
      [&](int peer) { return expects(peer); });
}

void show_common_counts(const dw_op& op, int size, ShownCounts* shown) {
  if (const int64_t* const counts = common_counts(op); counts != nullptr)
    show_all(
        shown, size, op.seq, [](int) { return 0; },
        [&](int rank) { return counts[rank]; });
}

std::optional<ShownPair> ShownPair::read(const ShownCounts& shown, int size,
                                         uint64_t number, int peer) {
  constexpr auto kOrder = std::memory_order_acquire;
  const size_t words = words_of(size);
  if (words == 0) return std::nullopt;
  const std::atomic<uint32_t>* const place =
      shown.words.data() + place_of(words, number);
  const auto is_there = [&] {
    return place->load(kOrder) == static_cast<uint32_t>(number);
  };
  if (!is_there()) return std::nullopt;
  const ShownPair pair = {place[1 + peer].load(kOrder),
                          place[1 + size + peer].load(kOrder)};
  return is_there() ? std::optional(pair) : std::nullopt;
}

}  // namespace distwrap::comm
