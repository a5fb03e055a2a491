#include "comm/board/pair_counts.h"

#include <algorithm>

namespace distwrap::comm {
namespace {

bool is_of_pairs(uint16_t kind) {
  return kind == DW_OP_ALL_TO_ALL || kind == DW_OP_GATHER ||
         kind == DW_OP_SCATTER;
}

// The print (hash) of one count from one rank to another; a count of zero has
// none.
uint64_t print_of(uint64_t number, int from, int to, int64_t count) {
  if (count == 0) return 0;
  const uint64_t way = static_cast<uint64_t>(from) << 32 |
                       static_cast<uint64_t>(static_cast<uint32_t>(to));
  return mix(mix(number + mix(way)) + static_cast<uint64_t>(count));
}

// Where a call's counts stand among the published ones: the call's number, then
// what is sent to each rank, then what is expected of each rank. The divisions
// are 32 bits wide because every such call makes them.
uint32_t words_of(int size) { return 1 + 2 * static_cast<uint32_t>(size); }
bool have_room(int size) { return words_of(size) <= ShownCounts::kWords; }
uint32_t place_of(int size, uint64_t number) {
  const uint32_t words = words_of(size);
  return static_cast<uint32_t>(number) %
         (uint32_t{ShownCounts::kWords} / words) * words;
}

uint32_t shown_as(int64_t count) {
  return static_cast<uint32_t>(std::clamp<int64_t>(count, 0, ShownPair::kMost));
}

// A call's counts, as they are being written.
class Writing {
 public:
  Writing(ShownCounts* shown, int size, uint64_t number)
      : size_(size), number_(static_cast<uint32_t>(number)) {
    if (!have_room(size)) return;
    place_ = shown->words.data() + place_of(size, number);
    place_->store(0, std::memory_order_relaxed);
  }
  ~Writing() {
    if (place_ != nullptr) place_->store(number_, kOrder);
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  void pair(int peer, int64_t sends, int64_t expects) {
    if (place_ == nullptr) return;
    place_[1 + peer].store(shown_as(sends), kOrder);
    place_[1 + size_ + peer].store(shown_as(expects), kOrder);
  }

 private:
  static constexpr auto kOrder = std::memory_order_release;
  std::atomic<uint32_t>* place_ = nullptr;
  const int size_;
  const uint32_t number_;
};

}  // namespace

bool PairCounts::are_in(const dw_op& op) {
  return (op.flags & DW_FLAG_PER_RANK) != 0 && is_of_pairs(op.kind);
}

bool PairCounts::are_in(const SeenCall& call) {
  constexpr uint64_t kOwn = SeenCall::kWithCounts | SeenCall::kPrepared;
  return (call.what & kOwn) == SeenCall::kWithCounts &&
         is_of_pairs(static_cast<uint16_t>(call.what & 0xff));
}

PairCounts::Pair PairCounts::with(int peer) const {
  const bool all = op_.kind == DW_OP_ALL_TO_ALL;
  const bool gathers = op_.kind == DW_OP_GATHER;
  const bool is_root = op_.peer == rank_;
  if (peer == rank_) return {};
  const bool root = !all && peer == op_.peer;
  Pair pair;
  // By rank, or of the root alone.
  if ((all || (is_root && !gathers)) && op_.in.counts != nullptr)
    pair.sends = op_.in.counts[peer];
  else if (root && gathers)
    pair.sends = op_.in.count;
  if ((all || (is_root && gathers)) && op_.out.counts != nullptr)
    pair.expects = op_.out.counts[peer];
  else if (root && !gathers)
    pair.expects = op_.out.count;
  return pair;
}

uint64_t PairCounts::show(ShownCounts* shown) const {
  uint64_t balance = 0;
  Writing writing(shown, size_, op_.seq);
  for (int peer = 0; peer < size_; ++peer) {
    const Pair pair = with(peer);
    balance += print_of(op_.seq, rank_, peer, pair.sends) -
               print_of(op_.seq, peer, rank_, pair.expects);
    writing.pair(peer, pair.sends, pair.expects);
  }
  return balance;
}

void show_common_counts(const dw_op& op, int size, ShownCounts* shown) {
  const int64_t* const counts = common_counts(op);
  if (counts == nullptr) return;
  Writing writing(shown, size, op.seq);
  for (int rank = 0; rank < size; ++rank) writing.pair(rank, 0, counts[rank]);
}

std::optional<ShownPair> ShownPair::read(const ShownCounts& shown, int size,
                                         uint64_t number, int peer) {
  constexpr auto kOrder = std::memory_order_acquire;
  if (!have_room(size)) return std::nullopt;
  const std::atomic<uint32_t>* const place =
      shown.words.data() + place_of(size, number);
  const auto is_there = [&] {
    return place->load(kOrder) == static_cast<uint32_t>(number);
  };
  if (!is_there()) return std::nullopt;
  const ShownPair pair = {place[1 + peer].load(kOrder),
                          place[1 + size + peer].load(kOrder)};
  return is_there() ? std::optional(pair) : std::nullopt;
}

}  // namespace distwrap::comm
