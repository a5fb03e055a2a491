// The extension distwrap.moe: rows that lie apart. A backend moves them as the
// lists say, or refuses the operation and touches nothing.
#include "checks.h"
#include "run_rows.h"
#include "sdk/moe_rows.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace distwrap::conformance {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr unsigned char kUntouched = 0xa5;
constexpr size_t kGuard = 64;

struct Shape {
  std::vector<uint64_t> channels;  // bytes of each channel's part of a row
  int most;                        // rows for one rank
  bool in_order;                   // without lists
  bool repeats;                    // rows have up to three places, or none
};
// Rows that fit a slot, that cross several pieces of a staging ring, and of a
// size that nothing is a multiple of.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes = {
      {{1}, 3, true, false},       {{8}, 9, false, false},
      {{8}, 9, false, true},       {{24, 4}, 40, false, true},
      {{24, 4}, 40, true, false},  {{4099}, 70, false, true},
      {{4099}, 70, true, false},   {{14336, 32, 1}, 30, false, true},
      {{300000}, 2, false, false},
  };
  return kShapes;
}

// One exchange, in which every rank can work out what any rank does.
class Exchange {
 public:
  Exchange(const Shape& shape, const Member& member, uint64_t seed)
      : shape_(shape), rank_(member.rank), size_(member.size), seed_(seed) {
    for (int r = 0; r < size_; ++r) {
      give_first_.push_back(static_cast<int64_t>(give_.size()));
      for (int i = 0; i < rows(rank_, r); ++i)
        give_.push_back(row_given(rank_, r, i));
      get_first_.push_back(got_);
      got_ += rows(r, rank_);
    }
    lay_out_places();
    for (const uint64_t bytes : shape_.channels) {
      ins_.emplace_back(member, allocates_inputs(seed, rank_),
                        static_cast<size_t>(inputs(rank_)) * bytes + kGuard, 0);
      outs_.emplace_back(member, allocates_outputs(seed, rank_),
                         (places_ + 2) * bytes + kGuard, kUntouched);
      row_bytes_ += bytes;
    }
    for (size_t c = 0; c < ins_.size(); ++c)
      for (size_t i = 0; i < ins_[c].size(); ++i)
        ins_[c].data()[i] = value(rank_, c, i);
    for (size_t c = 0; c < ins_.size(); ++c)
      channels_.push_back(
          {ins_[c].data(), outs_[c].data(), shape_.channels[c], nullptr});
    for (int r = 0; r < size_; ++r) {
      in_counts_.push_back(rows(rank_, r) * static_cast<int64_t>(row_bytes_));
      out_counts_.push_back(rows(r, rank_) * static_cast<int64_t>(row_bytes_));
    }
    lists_.head = {sizeof lists_, DW_EXT_REQUIRED, dw_sdk::kMoeId, nullptr};
    lists_.channels = channels_.data();
    lists_.n_channels = channels_.size();
    lists_.give_first = give_first_.data();
    lists_.get_first = get_first_.data();
    if (!shape_.in_order) {
      lists_.give = give_.data();
      lists_.place = place_.data();
    }
    if (shape_.repeats) lists_.place_first = place_first_.data();
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  dw_op op(uint64_t seq) const {
    return rows_op(&lists_.head, in_counts_, out_counts_, seq);
  }
  dw_ext_moe& lists() { return lists_; }
  std::vector<int64_t>& in_counts() { return in_counts_; }

  // The mistakes after an exchange that `moved` rows; "" when all is right.
  std::string wrong(bool moved) const {
    for (size_t c = 0; c < outs_.size(); ++c) {
      for (size_t i = 0; i < ins_[c].size(); ++i)
        if (ins_[c][i] != value(rank_, c, i)) return "wrote into the input";
      Bytes want(outs_[c].size(), kUntouched);
      const uint64_t bytes = shape_.channels[c];
      int64_t k = 0;
      for (int r = 0; r < size_ && moved; ++r)
        for (int i = 0; i < rows(r, rank_); ++i, ++k)
          for (const int32_t place : places_of(k))
            for (uint64_t b = 0; b < bytes; ++b)
              want[static_cast<size_t>(place) * bytes + b] = value(
                  r, c,
                  static_cast<size_t>(row_given(r, rank_, i)) * bytes + b);
      for (size_t i = 0; i < want.size(); ++i)
        if (outs_[c][i] != want[i])
          return want[i] == kUntouched
                     ? "wrote where no row belongs, at byte " +
                           std::to_string(i) + " of channel " +
                           std::to_string(c)
                     : "a row is not at its place: byte " + std::to_string(i) +
                           " of channel " + std::to_string(c);
    }
    return "";
  }

 private:
  uint64_t mixed(uint64_t a, uint64_t b, uint64_t c) const {
    uint64_t x = seed_ + 0x9e3779b97f4a7c15u * (a + 1) +
                 0xbf58476d1ce4e5b9u * (b + 1) + 0x94d049bb133111ebu * (c + 1);
    x ^= x >> 31;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 29;
  }
  // Never the value of an untouched byte.
  unsigned char value(int rank, size_t channel, size_t byte) const {
    const auto x = static_cast<unsigned char>(
        mixed(static_cast<uint64_t>(rank), channel, byte) % 255);
    return x == kUntouched ? 255 : x;
  }
  // Rows of rank `from` for rank `to`. Some pairs have none, and one rank in
  // some exchanges gives nothing at all.
  int rows(int from, int to) const {
    const uint64_t x =
        mixed(static_cast<uint64_t>(from), static_cast<uint64_t>(to), 17);
    if (x % 5 == 0 ||
        (seed_ % 3 == 0 && from == static_cast<int>(seed_) % size_))
      return 0;
    return static_cast<int>(x % static_cast<uint64_t>(shape_.most + 1));
  }
  // The rows of a rank's input; a row may go to several ranks.
  int inputs(int rank) const {
    int most = 1;
    for (int r = 0; r < size_; ++r) most += rows(rank, r);
    return most;
  }
  int32_t row_given(int from, int to, int i) const {
    int before = 0;
    for (int r = 0; r < to; ++r) before += rows(from, r);
    if (shape_.in_order) return before + i;
    return static_cast<int32_t>(mixed(static_cast<uint64_t>(from),
                                      static_cast<uint64_t>(to),
                                      static_cast<uint64_t>(100 + i)) %
                                static_cast<uint64_t>(inputs(from)));
  }
  void lay_out_places() {
    std::mt19937_64 random(seed_ + 977 * static_cast<uint64_t>(rank_));
    for (int64_t k = 0; k < got_; ++k) {
      place_first_.push_back(static_cast<int64_t>(places_));
      places_ += shape_.repeats ? random() % 4 : 1;
    }
    place_first_.push_back(static_cast<int64_t>(places_));
    // A broken backend that has one place for each row stays inside, too.
    places_ = std::max(places_, static_cast<size_t>(got_));
    place_.resize(places_);
    std::iota(place_.begin(), place_.end(), 0);
    if (!shape_.in_order) std::shuffle(place_.begin(), place_.end(), random);
  }
  std::vector<int32_t> places_of(int64_t k) const {
    if (shape_.in_order) return {static_cast<int32_t>(k)};
    const auto at = static_cast<size_t>(k);
    return {place_.begin() + place_first_[at],
            place_.begin() + place_first_[at + 1]};
  }

  const Shape& shape_;
  const int rank_, size_;
  const uint64_t seed_;
  int64_t got_ = 0;
  size_t places_ = 0;
  uint64_t row_bytes_ = 0;
  std::vector<int32_t> give_, place_;
  std::vector<int64_t> give_first_, get_first_, place_first_;
  std::vector<int64_t> in_counts_, out_counts_;
  std::deque<RowMemory> ins_, outs_;
  std::vector<dw_moe_channel> channels_;
  dw_ext_moe lists_ = {};
};

void move(Member& member, const Shape& shape, uint64_t seed) {
  run_exchange<Exchange>(
      member, shape, seed,
      "rows of " + std::to_string(shape.channels.size()) + " channels");
}

void refuse(Member& member, int32_t want, const char* what,
            void (*spoil)(Exchange&, dw_op&)) {
  refuse_exchange(member, shapes()[2], want, std::string("rows: ") + what,
                  spoil);
}

void refuse_mistakes(Member& member) {
  refuse(member, DW_INVALID_ARGUMENT, "a buffer beside the lists",
         [](Exchange& exchange, dw_op& op) { op.in.data = &exchange; });
  refuse(member, DW_INVALID_ARGUMENT, "half a row", [](Exchange& e, dw_op& op) {
    e.in_counts().back() += 4;
    op.in.count += 4;
  });
  refuse(member, DW_INVALID_ARGUMENT, "no channels",
         [](Exchange& e, dw_op&) { e.lists().n_channels = 0; });
  refuse(member, DW_INVALID_ARGUMENT, "no rows to give",
         [](Exchange& e, dw_op&) { e.lists().give_first = nullptr; });
  refuse(member, DW_INVALID_ARGUMENT, "a struct that is too short",
         [](Exchange& e, dw_op&) { e.lists().head.struct_size = 8; });
  refuse(member, DW_UNIMPLEMENTED, "rows of a broadcast",
         [](Exchange&, dw_op& op) {
           op.kind = DW_OP_BROADCAST;
           op.peer = 0;
         });
  refuse(member, DW_UNIMPLEMENTED, "another extension",
         [](Exchange& e, dw_op&) {
           static const dw_ext kOther = {
               sizeof(dw_ext), DW_EXT_REQUIRED, {"x-other", 7}, nullptr};
           e.lists().head.next = &kOther;
         });
}

}  // namespace

void check_rows(const dw_backend_api& api, int size, const Limits& limits,
                Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    {
      Exchange asked(shapes()[1], member, 0);
      const dw_op op = asked.op(member.next_seq);
      const int32_t code = member.api.query(member.comm, &op, nullptr);
      if (code > DW_OK)
        return refuse(member, DW_UNIMPLEMENTED, "not known",
                      [](Exchange&, dw_op&) {});
    }
    // First with memory of the backend on all ranks, which is tried first.
    for (const uint64_t seed : {1u, 2u, 3u, 0u})
      for (const Shape& shape : shapes()) move(member, shape, seed);
    refuse_mistakes(member);
  });
}

}  // namespace distwrap::conformance
