// The extension distwrap.moe.sum: rows that are added up on their way. A
// backend gives the bits of the sums in their order, or refuses the operation
// and touches nothing.
#include "checks.h"
#include "run_rows.h"
#include "sdk/half.h"
#include "sdk/moe_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::conformance {
namespace {

constexpr dw_dtype kF16 = {2, 16, 1}, kBF16 = {4, 16, 1}, kF32 = {2, 32, 1},
                   kF64 = {2, 64, 1}, kI32 = {0, 32, 1};
constexpr unsigned char kUntouched = 0xa5;
constexpr size_t kGuard = 64;

enum class Weights { kNone, kOfTerms, kOfRows };

struct Shape {
  dw_dtype in, wire, out;
  int width, results;
  Weights weights;
  bool gives, adds;  // rows that travel are sums; those that come are added
  uint32_t biases;
  bool keeps = true;  // sums that travel have rows of `kept`
};
// Rows that fit a slot, that go in several pieces of a staging ring, and larger
// than a piece.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes = {
      {kBF16, kBF16, kBF16, 3, 5, Weights::kOfTerms, true, true, 2},
      {kF32, kF32, kF32, 7, 40, Weights::kNone, false, true, 0},
      {kF16, kF32, kF32, 300, 70, Weights::kOfTerms, true, true, 1},
      {kBF16, kBF16, kF32, 900, 60, Weights::kOfRows, false, true, 0},
      {kF32, kF32, kF32, 9000, 16, Weights::kOfRows, false, true, 2},
      {kF32, kF32, kF32, 9000, 16, Weights::kOfTerms, true, true, 0},
      {kF64, kF64, kF64, 257, 20, Weights::kOfTerms, true, true, 1},
      {kI32, kI32, kI32, 513, 20, Weights::kNone, true, true, 0},
      {kBF16, kF32, kBF16, 640, 30, Weights::kOfTerms, true, false, 0},
      {kF32, kF32, kF32, 40000, 3, Weights::kOfTerms, true, true, 1},
      {kBF16, kBF16, kF32, 3000, 40, Weights::kOfTerms, true, true, 1, false},
      {kF16, kF32, kF16, 2000, 30, Weights::kNone, true, true, 2, false},
  };
  return kShapes;
}

bool same(dw_dtype a, dw_dtype b) { return dw_dtype_equal(a, b) != 0; }
bool is_integer(dw_dtype dtype) { return dtype.code == 0; }

// The number that a type makes of x, which it holds if x is the result of one
// addition or product of its numbers.
double rounded(dw_dtype dtype, double x) {
  if (same(dtype, kI32))
    return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(x)));
  if (same(dtype, kF64)) return x;
  const auto f = static_cast<float>(x);
  if (same(dtype, kF16)) return dw_sdk::f16_to_f32(dw_sdk::f32_to_f16(f));
  if (same(dtype, kBF16)) return dw_sdk::bf16_to_f32(dw_sdk::f32_to_bf16(f));
  return f;
}
void store(dw_dtype dtype, double x, unsigned char* to) {
  const auto put = [to](auto value) { std::memcpy(to, &value, sizeof value); };
  if (same(dtype, kI32)) return put(static_cast<int32_t>(x));
  if (same(dtype, kF64)) return put(x);
  const auto f = static_cast<float>(x);
  if (same(dtype, kF16)) return put(dw_sdk::f32_to_f16(f));
  if (same(dtype, kBF16)) return put(dw_sdk::f32_to_bf16(f));
  put(f);
}

struct Term {
  dw_moe_term term;
  float weight;
};
using Terms = std::vector<Term>;

// One exchange, in which every rank can work out what any rank does.
class Exchange {
 public:
  Exchange(const Shape& shape, const Member& member, uint64_t seed)
      : shape_(shape),
        rank_(member.rank),
        size_(member.size),
        seed_(seed),
        in_(member, allocates_inputs(seed, rank_), rows_bytes(kRows, shape.in),
            0) {
    fill(&kept_, kRows, shape_.in, 1);
    std::copy(kept_.begin(), kept_.end(), in_.data());
    fill(&kept_, kRows, shape_.wire, 2);
    fill(&bias_[0], shape_.results, shape_.out, 3);
    fill(&bias_[1], shape_.results, shape_.out, 4);
    for (int r = 0; r < size_; ++r) {
      give_first_.push_back(static_cast<int64_t>(gives_));
      get_first_.push_back(got_);
      const int gives = r == rank_ ? 0 : rows(rank_, r),
                gets = r == rank_ ? 0 : rows(r, rank_);
      for (int i = 0; i < gives; ++i, ++gives_) {
        give_.push_back(row_given(rank_, r, i));
        given_.add(given(rank_, r, i));
      }
      got_ += gets;
      row_bytes_ =
          static_cast<size_t>(shape_.width) * dw_dtype_bytes(shape_.wire) +
          (shape_.weights == Weights::kOfRows ? 4 : 0);
      in_counts_.push_back(gives * static_cast<int64_t>(row_bytes_));
      out_counts_.push_back(gets * static_cast<int64_t>(row_bytes_));
    }
    for (int i = 0; i < shape_.results; ++i) results_.add(result(rank_, i));
    for (int m = 0; m < kRows; ++m) weights_.push_back(row_weight(rank_, m));
    out_.emplace(member, allocates_outputs(seed, rank_),
                 static_cast<size_t>(outputs()) * out_row() + kGuard,
                 kUntouched);
    channels_.push_back(
        {in_.data(), out_->data(),
         static_cast<size_t>(shape_.width) * dw_dtype_bytes(shape_.wire),
         kept_.data()});
    if (shape_.weights == Weights::kOfRows)
      channels_.push_back({weights_.data(), nullptr, 4, nullptr});
    lists_.head = {sizeof lists_, DW_EXT_REQUIRED, dw_sdk::kMoeId, &sums_.head};
    lists_.channels = channels_.data();
    lists_.n_channels = channels_.size();
    lists_.give_first = give_first_.data();
    lists_.get_first = get_first_.data();
    if (!shape_.gives) lists_.give = give_.data();
    sums_.head = {sizeof sums_, DW_EXT_REQUIRED, dw_sdk::kMoeSumId, nullptr};
    sums_.in = shape_.in;
    sums_.wire = shape_.wire;
    sums_.out = shape_.out;
    sums_.width = static_cast<uint64_t>(shape_.width);
    const bool weighted = shape_.weights == Weights::kOfTerms;
    if (shape_.gives) sums_.given = given_.list(weighted);
    if (!shape_.adds) return;
    sums_.results = results_.list(weighted);
    sums_.n_biases = shape_.biases;
    for (uint32_t b = 0; b < shape_.biases; ++b)
      sums_.bias[b] = bias_[b].data();
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  dw_op op(uint64_t seq) const {
    return rows_op(&lists_.head, in_counts_, out_counts_, seq);
  }
  dw_ext_moe& lists() { return lists_; }
  dw_ext_moe_sum& sums() { return sums_; }
  std::vector<int64_t>& in_counts() { return in_counts_; }
  std::vector<int64_t>& out_counts() { return out_counts_; }

  // The mistakes after an exchange that `moved` rows; "" when all is right.
  std::string wrong(bool moved) const {
    Bytes want(out_->size(), kUntouched);
    const size_t size = dw_dtype_bytes(type_of_output());
    for (int64_t i = 0; moved && i < outputs(); ++i) {
      const Numbers row = shape_.adds ? added(i) : came(i);
      for (size_t x = 0; x < row.size(); ++x)
        store(type_of_output(), row[x],
              want.data() + static_cast<size_t>(i) * out_row() + x * size);
    }
    for (size_t i = 0; i < want.size(); ++i)
      if (want[i] != (*out_)[i])
        return "a sum is wrong at byte " + std::to_string(i % out_row()) +
               " of row " + std::to_string(i / out_row());
    Bytes in;
    fill(&in, kRows, shape_.in, 1);
    return std::equal(in.begin(), in.end(), in_.data())
               ? ""
               : "wrote into the input";
  }

 private:
  using Bytes = std::vector<unsigned char>;
  static constexpr int kRows = 9;  // input rows, and kept ones

  // A list of sums as the extension has it.
  struct Lists {
    std::vector<int64_t> first = {0};
    std::vector<dw_moe_term> terms;
    std::vector<float> weights;
    void add(const Terms& sum) {
      for (const Term& one : sum) {
        terms.push_back(one.term);
        weights.push_back(one.weight);
      }
      first.push_back(static_cast<int64_t>(terms.size()));
    }
    dw_moe_terms list(bool weighted) const {
      return {first.data(), terms.data(), weighted ? weights.data() : nullptr,
              first.size() - 1};
    }
  };

  uint64_t mixed(uint64_t a, uint64_t b, uint64_t c) const {
    uint64_t x = seed_ + 0x9e3779b97f4a7c15u * (a + 1) +
                 0xbf58476d1ce4e5b9u * (b + 1) + 0x94d049bb133111ebu * (c + 1);
    x ^= x >> 31;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 29;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
  }
  uint64_t mixed(int a, int b, int c, uint64_t d) const {
    return mixed(static_cast<uint64_t>(a), static_cast<uint64_t>(b),
                 static_cast<uint64_t>(c) * 16 + d);
  }
  // Numbers of many sizes, so that the order of additions shows.
  double number(dw_dtype dtype, int rank, uint64_t which, uint64_t at) const {
    const uint64_t x = mixed(static_cast<uint64_t>(rank), which, at);
    if (is_integer(dtype)) return static_cast<int32_t>(x);
    const double size =
        std::ldexp(1.0 + static_cast<double>(x >> 40) / (1 << 24),
                   static_cast<int>(x % 9) - 4);
    return rounded(dtype, x % 2 == 0 ? size : -size);
  }
  size_t rows_bytes(int count, dw_dtype dtype) const {
    return static_cast<size_t>(count) * static_cast<size_t>(shape_.width) *
           dw_dtype_bytes(dtype);
  }
  void fill(Bytes* rows, int count, dw_dtype dtype, uint64_t which) const {
    const size_t size = dw_dtype_bytes(dtype);
    rows->resize(rows_bytes(count, dtype));
    const size_t n = rows->size() / size;
    for (size_t i = 0; i < n; ++i)
      store(dtype, number(dtype, rank_, which, i), rows->data() + i * size);
  }
  float row_weight(int rank, int row) const {
    return static_cast<float>(
        number(kF32, rank, 5, static_cast<uint64_t>(row)));
  }

  // Terms that result `i` of rank `to` has from a rank: some have none.
  int terms_from(int from, int to, int i) const {
    return static_cast<int>(mixed(from, to, i, 0) % 3);
  }
  int rows(int from, int to) const {
    int sum = 0;
    for (int i = 0; i < shape_.results; ++i) sum += terms_from(from, to, i);
    return sum;
  }
  int row_given(int from, int to, int i) const {
    return static_cast<int>(mixed(from, to, i, 1) % kRows);
  }
  dw_moe_term term(uint8_t from, int row, uint64_t how) const {
    return {row, from, static_cast<uint8_t>(how % 3),
            static_cast<uint8_t>(how / 3 % 4), 0};
  }
  float weight(uint64_t x) const {
    return 0.5f + static_cast<float>(x >> 40) / (1 << 24);
  }
  // All sums end in the result.
  static void close(Terms* sum) {
    if (!sum->empty()) sum->back().term.then = DW_MOE_CLOSE_0 | DW_MOE_CLOSE_1;
  }
  // Row `i` that a rank gives to another, as a sum.
  Terms given(int from, int to, int i) const {
    Terms sum;
    const int n = 1 + static_cast<int>(mixed(from, to, i, 2) % 3);
    for (int k = 0; k < n; ++k) {
      const uint64_t x = mixed(from, to, i, 3 + static_cast<uint64_t>(k));
      const uint8_t lies =
          shape_.keeps && x % 4 == 0 ? DW_MOE_FROM_KEPT : DW_MOE_FROM_IN;
      sum.push_back(
          {term(lies, static_cast<int>(x / 4 % kRows), x >> 8), weight(x)});
    }
    close(&sum);
    return sum;
  }
  Terms result(int rank, int i) const {
    Terms sum;
    for (int r = 0; r < size_; ++r) {
      int64_t row = get_first_of(rank, r);
      for (int before = 0; before < i; ++before)
        row += terms_from(r, rank, before);
      for (int k = 0; k < terms_from(r, rank, i); ++k) {
        const uint64_t x = mixed(rank, r, i, 6 + static_cast<uint64_t>(k));
        const uint8_t own = x % 4 == 0 ? DW_MOE_FROM_KEPT : DW_MOE_FROM_IN;
        sum.push_back(
            {r == rank
                 ? term(own, static_cast<int>(x / 4 % kRows), x >> 8)
                 : term(DW_MOE_FROM_RANKS, static_cast<int>(row) + k, x >> 8),
             weight(x)});
      }
    }
    close(&sum);
    return sum;
  }
  int64_t get_first_of(int rank, int from) const {
    int64_t first = 0;
    for (int r = 0; r < from; ++r) first += r == rank ? 0 : rows(r, rank);
    return first;
  }

  // ---- the rows that have to come out ----

  using Numbers = std::vector<double>;

  Numbers row_of(int rank, dw_dtype dtype, uint64_t which, int64_t row) const {
    const auto width = static_cast<uint64_t>(shape_.width);
    Numbers numbers(width);
    for (uint64_t x = 0; x < width; ++x)
      numbers[x] =
          number(dtype, rank, which, static_cast<uint64_t>(row) * width + x);
    return numbers;
  }
  Numbers own_row(int rank, const dw_moe_term& term) const {
    return term.from == DW_MOE_FROM_KEPT
               ? row_of(rank, shape_.wire, 2, term.row)
               : row_of(rank, shape_.in, 1, term.row);
  }
  double product(double x, double weight) const {
    const double exact = x * weight;
    return same(shape_.in, kF64) ? exact : static_cast<float>(exact);
  }
  Numbers weighed(Numbers row, float weight) const {
    if (shape_.weights != Weights::kNone)
      for (double& x : row) x = product(x, weight);
    return row;
  }
  // The sum of rows that are weighed already.
  Numbers sum_of(const Terms& terms, const std::vector<Numbers>& rows,
                 const std::vector<Numbers>& biases, dw_dtype end) const {
    const dw_dtype type =
        is_integer(shape_.in) || same(shape_.in, kF64) ? shape_.in : kF32;
    Numbers result(static_cast<size_t>(shape_.width));
    for (size_t x = 0; x < result.size(); ++x) {
      double sums[3] = {};
      bool has[3] = {};
      const auto add = [&](int into, double number) {
        sums[into] = has[into] ? rounded(type, sums[into] + number) : number;
        has[into] = true;
      };
      for (const Numbers& bias : biases) add(2, bias[x]);
      for (size_t k = 0; k < terms.size(); ++k) {
        add(terms[k].term.into, rows[k][x]);
        for (int level = 0; level < 2; ++level)
          if ((terms[k].term.then & 1 << level) != 0 && has[level]) {
            add(level + 1, sums[level]);
            has[level] = false;
          }
      }
      result[x] = has[2] ? rounded(end, sums[2]) : 0;
    }
    return result;
  }
  // The row with number k that comes to this rank.
  Numbers came(int64_t k) const {
    const auto [from, i] = source_of(k);
    if (!shape_.gives)
      return row_of(from, shape_.in, 1, row_given(from, rank_, i));
    const Terms terms = given(from, rank_, i);
    std::vector<Numbers> rows;
    for (const Term& one : terms)
      rows.push_back(weighed(own_row(from, one.term), one.weight));
    return sum_of(terms, rows, {}, shape_.wire);
  }
  std::pair<int, int> source_of(int64_t k) const {
    int from = 0;
    while (from + 1 < size_ && get_first_[static_cast<size_t>(from) + 1] <= k)
      ++from;
    return {from, static_cast<int>(k - get_first_[static_cast<size_t>(from)])};
  }
  // Result i.
  Numbers added(int64_t i) const {
    std::vector<Numbers> biases, rows;
    for (uint32_t b = 0; b < shape_.biases; ++b)
      biases.push_back(row_of(rank_, shape_.out, 3 + b, i));
    const bool by_row = shape_.weights == Weights::kOfRows;
    const Terms terms = result(rank_, static_cast<int>(i));
    for (const Term& one : terms) {
      if (one.term.from != DW_MOE_FROM_RANKS) {
        rows.push_back(
            weighed(own_row(rank_, one.term), by_row ? 1 : one.weight));
        continue;
      }
      const auto [from, number] = source_of(one.term.row);
      rows.push_back(
          weighed(came(one.term.row),
                  by_row ? row_weight(from, row_given(from, rank_, number))
                         : one.weight));
    }
    return sum_of(terms, rows, biases, shape_.out);
  }
  dw_dtype type_of_output() const {
    return shape_.adds ? shape_.out : shape_.wire;
  }
  int64_t outputs() const { return shape_.adds ? shape_.results : got_; }
  size_t out_row() const {
    return static_cast<size_t>(shape_.width) * dw_dtype_bytes(type_of_output());
  }

  const Shape& shape_;
  const int rank_, size_;
  const uint64_t seed_;
  int64_t got_ = 0;
  size_t gives_ = 0;
  uint64_t row_bytes_ = 0;
  RowMemory in_;
  std::optional<RowMemory> out_;
  Bytes kept_, bias_[2];
  Lists given_, results_;
  std::vector<float> weights_;
  std::vector<int32_t> give_;
  std::vector<int64_t> give_first_, get_first_, in_counts_, out_counts_;
  std::vector<dw_moe_channel> channels_;
  dw_ext_moe lists_ = {};
  dw_ext_moe_sum sums_ = {};
};

void add_up(Member& member, const Shape& shape, uint64_t seed) {
  run_exchange<Exchange>(member, shape, seed,
                         "sums of rows of " + std::to_string(shape.width));
}

void refuse(Member& member, int32_t want, const char* what,
            void (*spoil)(Exchange&, dw_op&)) {
  refuse_exchange(member, shapes()[2], want, std::string("sums: ") + what,
                  spoil);
}

void refuse_mistakes(Member& member) {
  refuse(member, DW_UNIMPLEMENTED, "rows of bytes", [](Exchange& e, dw_op&) {
    e.sums().in = {1, 8, 1};
  });
  refuse(member, DW_INVALID_ARGUMENT, "sums that cross in another type",
         [](Exchange& e, dw_op&) {
           e.sums().wire = {4, 16, 1};
         });
  refuse(member, DW_INVALID_ARGUMENT, "results of another type",
         [](Exchange& e, dw_op&) {
           e.sums().out = {4, 16, 1};
         });
  refuse(member, DW_INVALID_ARGUMENT, "rows of another width",
         [](Exchange& e, dw_op&) { ++e.sums().width; });
  refuse(member, DW_INVALID_ARGUMENT, "three biases",
         [](Exchange& e, dw_op&) { e.sums().n_biases = 3; });
  refuse(member, DW_INVALID_ARGUMENT, "no terms",
         [](Exchange& e, dw_op&) { e.sums().results.terms = nullptr; });
  refuse(member, DW_INVALID_ARGUMENT, "no sums",
         [](Exchange& e, dw_op&) { e.sums().results = e.sums().given = {}; });
  refuse(member, DW_INVALID_ARGUMENT, "places beside results",
         [](Exchange& e, dw_op&) {
           static const int32_t kPlace = 0;
           e.lists().place = &kPlace;
         });
  refuse(member, DW_INVALID_ARGUMENT, "a struct that is too short",
         [](Exchange& e, dw_op&) { e.sums().head.struct_size = 8; });
}

}  // namespace

void check_row_sums(const dw_backend_api& api, int size, const Limits& limits,
                    Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    {
      Exchange asked(shapes()[1], member, 0);
      const dw_op op = asked.op(member.next_seq);
      if (member.api.query(member.comm, &op, nullptr) > DW_OK)
        return refuse(member, DW_UNIMPLEMENTED, "not known",
                      [](Exchange&, dw_op&) {});
    }
    for (const uint64_t seed : {1u, 2u})
      for (const Shape& shape : shapes()) add_up(member, shape, seed);
    refuse_mistakes(member);
  });
}

}  // namespace distwrap::conformance
