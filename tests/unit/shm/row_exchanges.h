// Exchanges of rows over the shm backend, in memory of the backend or of the
// process.
#ifndef DISTWRAP_TESTS_UNIT_SHM_ROW_EXCHANGES_H_
#define DISTWRAP_TESTS_UNIT_SHM_ROW_EXCHANGES_H_

#include "backend.h"
#include "sdk/moe_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace distwrap::shm_test {

using Counts = std::vector<int64_t>;

inline constexpr dw_dtype kF32 = {2, 32, 1};
inline constexpr int kRows = 60;     // rows of an input
inline constexpr int kWidth = 1027;  // numbers of a row
inline constexpr float kUntouched = -7;

// A rank as these checks see it: a thread or a process.
struct Peer {
  const dw_backend_api& api;
  dw_backend* backend;
  dw_comm* comm;
  int rank, size;
  shm_backend::Comm& shm() const { return *shm_backend::of(comm); }
};
template <class Rank>
Peer peer_of(Rank& rank) {
  return {rank.api, rank.backend, rank.comm, rank.rank, rank.size};
}

// Numbers in memory of the backend or of the process.
class Numbers {
 public:
  Numbers(const Peer& peer, bool allocated, size_t count)
      : api_(peer.api), count_(count) {
    void* data = nullptr;
    if (allocated && api_.mem_alloc(peer.backend, count * sizeof(float),
                                    &memory_, &data, nullptr) == DW_OK) {
      data_ = static_cast<float*>(data);
    } else {
      own_.resize(count);
      data_ = own_.data();
    }
    std::fill_n(data_, count, kUntouched);
  }
  ~Numbers() { release(); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  int32_t release() {
    dw_error error = {};
    const int32_t code = memory_ == nullptr
                             ? int32_t{DW_OK}
                             : api_.mem_release(nullptr, memory_, &error);
    memory_ = nullptr;
    return code;
  }
  float* data() { return data_; }
  float operator[](size_t i) const { return data_[i]; }
  size_t size() const { return count_; }
  bool all_are(float value) const {
    return std::all_of(data_, data_ + count_,
                       [value](float one) { return one == value; });
  }

 private:
  const dw_backend_api& api_;
  const size_t count_;
  dw_mem* memory_ = nullptr;
  std::vector<float> own_;
  float* data_ = nullptr;
};

inline float value(int rank, int row, int i) {
  return static_cast<float>((rank * 61 + row * 7 + i) % 509);
}

// Whether a row of one rank goes to another.
inline bool goes(int from, int row, int to) {
  return (row * 5 + from + to) % 3 != 0;
}

// Rows that go to some ranks, in any order, with two places each or none.
class Dispatch {
 public:
  // `drops`: no row has a place, and the output has room for none.
  Dispatch(const Peer& peer, bool in, bool out, bool with_side,
           bool drops = false)
      : peer_(peer),
        x_(peer, in, size_t{kRows} * kWidth),
        side_(peer, false, kRows) {
    for (int row = 0; row < kRows; ++row) {
      side_.data()[row] = value(peer.rank, row, -1);
      for (int i = 0; i < kWidth; ++i)
        x_.data()[row * kWidth + i] = value(peer.rank, row, i);
    }
    for (int r = 0; r < peer.size; ++r) {
      give_first_.push_back(static_cast<int64_t>(give_.size()));
      get_first_.push_back(static_cast<int64_t>(came_.size()));
      for (int row = kRows; row-- > 0;) {
        if (goes(peer.rank, row, r)) give_.push_back(row);
        if (goes(r, row, peer.rank)) came_.push_back({r, row});
      }
    }
    give_first_.push_back(static_cast<int64_t>(give_.size()));
    get_first_.push_back(static_cast<int64_t>(came_.size()));
    const size_t places = 2 * came_.size();
    out_.emplace(peer, out, drops ? 1 : places * kWidth);
    side_out_.emplace(peer, false, places);
    place_first_.push_back(0);
    for (size_t k = 0; k < came_.size(); ++k) {
      if (k % 7 != 0 && !drops) {
        place_.push_back(static_cast<int32_t>(places - 1 - 2 * k));
        place_.push_back(static_cast<int32_t>(places - 2 - 2 * k));
      }
      place_first_.push_back(static_cast<int64_t>(place_.size()));
    }
    channels_[0] = {x_.data(), out_->data(), kWidth * sizeof(float), nullptr};
    channels_[1] = {side_.data(), side_out_->data(), sizeof(float), nullptr};
    lists_.head = {sizeof lists_, DW_EXT_REQUIRED, dw_sdk::kMoeId, nullptr};
    lists_.channels = channels_;
    lists_.n_channels = with_side ? 2 : 1;
    lists_.give_first = give_first_.data();
    lists_.give = give_.data();
    lists_.get_first = get_first_.data();
    lists_.place_first = place_first_.data();
    lists_.place = place_.data();
  }

  // `with_own`: the rank's rows for itself move, too.
  dw_op op(uint64_t seq, bool with_own = true) {
    const int64_t row = (kWidth + (lists_.n_channels == 2 ? 1 : 0)) * 4;
    const auto fill = [&](const Counts& first, Counts* counts, dw_buf* buf) {
      counts->clear();
      for (int r = 0; r < peer_.size; ++r) {
        const bool moves = with_own || r != peer_.rank;
        counts->push_back(moves ? row * (first[static_cast<size_t>(r) + 1] -
                                         first[static_cast<size_t>(r)])
                                : 0);
        buf->count += counts->back();
      }
      buf->counts = counts->data();
      buf->dtype = {1, 8, 1};
    };
    dw_op op = {};
    op.struct_size = sizeof op;
    op.kind = DW_OP_ALL_TO_ALL;
    op.flags = DW_FLAG_PER_RANK | DW_FLAG_CALLER_WAITS;
    op.peer = -1;
    op.seq = seq;
    op.timeout_ns = 60'000'000'000;
    op.next = &lists_.head;
    fill(give_first_, &gives_, &op.in);
    fill(get_first_, &takes_, &op.out);
    return op;
  }
  // The first mistake, or null.
  const char* wrong() const {
    std::vector<float> want(out_->size(), kUntouched),
        side(side_out_->size(), kUntouched);
    for (size_t k = 0; k < came_.size(); ++k)
      for (int64_t j = place_first_[k]; j < place_first_[k + 1]; ++j) {
        const auto p = static_cast<size_t>(place_[static_cast<size_t>(j)]);
        if (lists_.n_channels == 2)
          side[p] = value(came_[k].rank, came_[k].row, -1);
        for (int i = 0; i < kWidth; ++i)
          want[p * kWidth + static_cast<size_t>(i)] =
              value(came_[k].rank, came_[k].row, i);
      }
    for (size_t i = 0; i < want.size(); ++i)
      if (want[i] != (*out_)[i]) return "a row is wrong";
    for (size_t i = 0; i < side.size(); ++i)
      if (side[i] != (*side_out_)[i]) return "a side row is wrong";
    return nullptr;
  }
  Numbers& x() { return x_; }
  Numbers& out() { return *out_; }

 private:
  struct Came {
    int rank, row;
  };
  const Peer peer_;
  Numbers x_, side_;
  std::optional<Numbers> out_, side_out_;
  std::vector<int32_t> give_, place_;
  std::vector<Came> came_;
  Counts give_first_, get_first_, place_first_, gives_, takes_;
  dw_moe_channel channels_[2];
  dw_ext_moe lists_ = {};
};

// How the rows of a combine travel.
enum class Travel { kPlain, kWeighed, kSums };

// Each result is the sum of one row of every rank, or of a weighted sum of two
// of its rows.
class Combine {
 public:
  Combine(const Peer& peer, bool in, Travel travel)
      : peer_(peer),
        travel_(travel),
        y_(peer, in, size_t{kRows} * kWidth),
        out_(peer, false, size_t{kRows} * kWidth) {
    for (int row = 0; row < kRows; ++row) {
      weights_.push_back(weight(peer.rank, row));
      for (int i = 0; i < kWidth; ++i)
        y_.data()[row * kWidth + i] = value(peer.rank, row, i);
    }
    given_first_.push_back(0);
    for (int r = 0; r < peer.size; ++r) {
      first_.push_back(kRows * (r - (r > peer.rank ? 1 : 0)));
      for (int row = 0; row < kRows && r != peer.rank; ++row) {
        give_.push_back(row);
        for (const int one : {row, (row + 1) % kRows}) {
          given_.push_back({one, DW_MOE_FROM_IN, 2, 0, 0});
          given_weights_.push_back(weight(peer.rank, one));
        }
        given_first_.push_back(static_cast<int64_t>(given_.size()));
      }
    }
    first_.push_back(kRows * (peer.size - 1));
    result_first_.push_back(0);
    for (int row = 0; row < kRows; ++row) {
      for (int r = 0; r < peer.size; ++r) {
        const bool own = r == peer.rank;
        results_.push_back(
            {own ? row
                 : static_cast<int32_t>(first_[static_cast<size_t>(r)]) + row,
             own ? uint8_t{DW_MOE_FROM_IN} : uint8_t{DW_MOE_FROM_RANKS}, 2, 0,
             0});
        result_weights_.push_back(own ? weight(r, row) : 1);
      }
      result_first_.push_back(static_cast<int64_t>(results_.size()));
    }
    const bool weighed = travel == Travel::kWeighed;
    channels_[0] = {y_.data(), out_.data(), kWidth * sizeof(float), nullptr};
    channels_[1] = {weights_.data(), nullptr, sizeof(float), nullptr};
    lists_.head = {sizeof lists_, DW_EXT_REQUIRED, dw_sdk::kMoeId, &sums_.head};
    lists_.channels = channels_;
    lists_.n_channels = weighed ? 2 : 1;
    lists_.give_first = lists_.get_first = first_.data();
    if (travel != Travel::kSums) lists_.give = give_.data();
    sums_.head = {sizeof sums_, DW_EXT_REQUIRED, dw_sdk::kMoeSumId, nullptr};
    sums_.in = sums_.wire = sums_.out = kF32;
    sums_.width = kWidth;
    if (travel == Travel::kSums)
      sums_.given = {given_first_.data(), given_.data(), given_weights_.data(),
                     given_first_.size() - 1};
    sums_.results = {
        result_first_.data(), results_.data(),
        travel == Travel::kPlain ? nullptr : result_weights_.data(), kRows};
  }

  dw_op op(uint64_t seq) {
    const int64_t row = (kWidth + (lists_.n_channels == 2 ? 1 : 0)) * 4;
    counts_.assign(static_cast<size_t>(peer_.size), row * kRows);
    counts_[static_cast<size_t>(peer_.rank)] = 0;
    dw_op op = {};
    op.struct_size = sizeof op;
    op.kind = DW_OP_ALL_TO_ALL;
    op.flags = DW_FLAG_PER_RANK | DW_FLAG_CALLER_WAITS;
    op.peer = -1;
    op.seq = seq;
    op.timeout_ns = 60'000'000'000;
    op.next = &lists_.head;
    op.in.counts = counts_.data();
    op.in.count = row * kRows * (peer_.size - 1);
    op.in.dtype = {1, 8, 1};
    op.out = op.in;
    return op;
  }
  const char* wrong() const {
    for (int row = 0; row < kRows; ++row)
      for (int i = 0; i < kWidth; ++i) {
        float sum = 0;
        for (int r = 0; r < peer_.size; ++r) {
          const int next = (row + 1) % kRows;
          if (travel_ == Travel::kPlain)
            sum += value(r, row, i);
          else if (r == peer_.rank || travel_ == Travel::kWeighed)
            sum += weight(r, row) * value(r, row, i);
          else
            sum += weight(r, row) * value(r, row, i) +
                   weight(r, next) * value(r, next, i);
        }
        if (out_[static_cast<size_t>(row * kWidth + i)] != sum)
          return "a sum is wrong";
      }
    return nullptr;
  }
  Numbers& y() { return y_; }

 private:
  static float weight(int rank, int row) {
    return static_cast<float>(1 + (rank + row) % 3);
  }
  const Peer peer_;
  const Travel travel_;
  Numbers y_, out_;
  std::vector<int32_t> give_;
  std::vector<dw_moe_term> given_, results_;
  std::vector<float> weights_, given_weights_, result_weights_;
  Counts first_, given_first_, result_first_, counts_;
  dw_moe_channel channels_[2];
  dw_ext_moe lists_ = {};
  dw_ext_moe_sum sums_ = {};
};

}  // namespace distwrap::shm_test

#endif  // DISTWRAP_TESTS_UNIT_SHM_ROW_EXCHANGES_H_
