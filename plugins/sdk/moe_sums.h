// Reads the extension distwrap.moe.sum, and adds rows up by the host's
// function.
//
//   dw_sdk::MoeSums sums;
//   if (int32_t code = sums.read(op, lists, rank, error)) return code;
//   sums.use(dw_sdk::moe_sum_api_of(*host));
//   sums.give(entry, 0, sums.width(), staging);
//   sums.add(result, [&](int64_t k) { return sums.staged(row(k)); }, 0);
#ifndef DISTWRAP_PLUGINS_SDK_MOE_SUMS_H_
#define DISTWRAP_PLUGINS_SDK_MOE_SUMS_H_

#include "distwrap/abi/moe.h"
#include "distwrap/abi/plugin.h"
#include "sdk/dtype.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace dw_sdk {

inline constexpr dw_str kMoeSumId = {DW_EXT_MOE_SUM, sizeof DW_EXT_MOE_SUM - 1};

inline const dw_ext* moe_sum_extension_of(const dw_op& op) {
  return op.next == nullptr ? nullptr : dw_find_extension(op.next, kMoeSumId);
}

// The host's function; NULL: it has none.
inline const dw_moe_sum_api* moe_sum_api_of(const dw_host_api& host) {
  return host.extension == nullptr
             ? nullptr
             : static_cast<const dw_moe_sum_api*>(
                   host.extension(host.self, kMoeSumId, DW_ABI_MINOR));
}

// A row that came: its numbers, and its weight where rows have one.
struct MoeCame {
  const char* row;
  const void* weight;
};

// Borrows the lists and the rows.
//
// Threads: one at a time. Ownership: keeps memory for the operands of a sum.
class MoeSums {
 public:
  // Reads and checks the extension of an operation whose rows are `lists`, or
  // finds none. DW_OK, or the code of the refusal.
  int32_t read(const dw_op& op, const dw_ext_moe& lists, int rank,
               dw_error* error);
  // Takes lists that are known to be right.
  void set(const dw_ext_moe& lists, const dw_ext_moe_sum& sums) {
    sums_ = sums;
    row_ = *lists.channels;
    has_weights_ = lists.n_channels > 1;
    gives_ = sums.given.first != nullptr;
    adds_ = sums.results.first != nullptr;
  }
  void clear() { gives_ = adds_ = false; }
  void use(const dw_moe_sum_api* api) { api_ = api; }

  // Whether rows that travel are sums; whether output rows are.
  bool gives() const { return gives_; }
  bool adds() const { return adds_; }
  const dw_ext_moe_sum& lists() const { return sums_; }
  int64_t results() const { return static_cast<int64_t>(sums_.results.n); }
  uint64_t result_bytes() const {
    return sums_.width * dw_dtype_bytes(sums_.out);
  }
  uint64_t wire_bytes() const { return dw_dtype_bytes(sums_.wire); }
  // A row that came with its weight behind it.
  MoeCame staged(const char* row) const {
    return {row, row + sums_.width * wire_bytes()};
  }

  // Writes `count` numbers of the given sum `i`, from number `begin` on.
  void give(int64_t i, uint64_t begin, uint64_t count, char* to) const;
  // Writes a sum of any operands, rows of the type `in`, as a row that travels.
  void add_up(char* to, dw_dtype in, const dw_moe_operand* operands, uint64_t n,
              bool weighted) const {
    api_->sum(to, sums_.wire, in, operands, n, sums_.width,
              weighted ? DW_MOE_SUM_WEIGHTED : 0);
  }
  // Writes result `i`. `came(k)` is the MoeCame of row k of those that came.
  // `flags`: 0 or DW_MOE_SUM_PAST_CACHES.
  template <class Came>
  void add(int64_t i, const Came& came, uint32_t flags) const;
  // Writes all results, with row k at base + k * row_bytes.
  void add_all(const char* base, uint64_t row_bytes) const {
    for (int64_t i = 0; i < results(); ++i)
      add(
          i,
          [&](int64_t k) {
            return staged(base + static_cast<uint64_t>(k) * row_bytes);
          },
          0);
  }

 private:
  int32_t check(const dw_op& op, const dw_ext_moe& lists, int rank,
                dw_error* error) const;
  static dw_moe_operand operand(const dw_moe_term& term, const void* base,
                                uint64_t stride, dw_dtype dtype, float weight) {
    return {static_cast<const char*>(base) +
                static_cast<uint64_t>(term.row) * stride,
            dtype,
            weight,
            term.into,
            term.then,
            {}};
  }

  dw_ext_moe_sum sums_ = {};
  dw_moe_channel row_ = {};
  bool has_weights_ = false, gives_ = false, adds_ = false;
  const dw_moe_sum_api* api_ = nullptr;
  mutable std::vector<dw_moe_operand> operands_;
};

// ---- implementation ----

inline int32_t MoeSums::read(const dw_op& op, const dw_ext_moe& lists, int rank,
                             dw_error* error) {
  clear();
  const dw_ext* const found = moe_sum_extension_of(op);
  if (found == nullptr) return DW_OK;
  dw_ext_moe_sum sums;
  if (int32_t code =
          dw_read_struct(&sums, sizeof sums, found, DW_EXT_MOE_SUM_SIZE_1_2))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the sums have a size or a field that is not known");
  set(lists, sums);
  const int32_t code = check(op, lists, rank, error);
  if (code != DW_OK) clear();
  return code;
}

inline int32_t MoeSums::check(const dw_op& op, const dw_ext_moe& lists,
                              int rank, dw_error* error) const {
  const auto is_float = [](int dtype) {
    return dtype == DW_DTYPE_F16 || dtype == DW_DTYPE_BF16 ||
           dtype == DW_DTYPE_F32;
  };
  const int in = dw_dtype_index(sums_.in), wire = dw_dtype_index(sums_.wire),
            out = dw_dtype_index(sums_.out);
  if (!is_float(in) && in != DW_DTYPE_F64 && in != DW_DTYPE_I32 &&
      in != DW_DTYPE_I64)
    return dw_unsupported(error, "rows of this type cannot be added up");
  if ((wire != in && (wire != DW_DTYPE_F32 || !is_float(in))) ||
      (out != in && out != DW_DTYPE_F32))
    return dw_invalid(error, "sums cross or end in another type");
  const bool weighs = lists.n_channels > 1 || sums_.given.weights != nullptr ||
                      sums_.results.weights != nullptr;
  if (weighs && (in == DW_DTYPE_I32 || in == DW_DTYPE_I64))
    return dw_invalid(error, "integers take no weights");
  uint64_t bytes;
  if (sums_.width == 0 ||
      __builtin_mul_overflow(sums_.width, dw_dtype_bytes(sums_.wire), &bytes) ||
      bytes != lists.channels[0].bytes)
    return dw_invalid(error, "a row is not as many numbers as its sum");
  if (lists.n_channels > 2 ||
      (lists.n_channels == 2 && (lists.channels[1].bytes != 4 || gives_)))
    return dw_invalid(error, "a row that is added has a weight at most");
  const auto lacks_terms = [](const dw_moe_terms& list) {
    return list.terms == nullptr && list.first[list.n] != list.first[0];
  };
  if ((gives_ && (lists.give != nullptr || lacks_terms(sums_.given))) ||
      (adds_ && (lists.place != nullptr || lists.place_first != nullptr ||
                 lacks_terms(sums_.results))) ||
      (!gives_ && !adds_) || (!gives_ && in != wire))
    return dw_invalid(error, "sums lack terms, or have places too");
  if (sums_.n_biases > 2) return dw_invalid(error, "more than two biases");
  for (uint32_t b = 0; b < sums_.n_biases; ++b)
    if (sums_.bias[b] == nullptr && sums_.results.n != 0)
      return dw_invalid(error, "a bias has no memory");
  if (op.in.counts[rank] != 0 || op.out.counts[rank] != 0)
    return dw_invalid(error, "rows of a rank for itself do not move to sums");
  return DW_OK;
}

inline void MoeSums::give(int64_t i, uint64_t begin, uint64_t count,
                          char* to) const {
  const dw_moe_terms& given = sums_.given;
  const uint64_t in_size = dw_dtype_bytes(sums_.in);
  operands_.clear();
  for (int64_t t = given.first[i]; t < given.first[i + 1]; ++t) {
    const dw_moe_term& term = given.terms[t];
    const float weight = given.weights != nullptr ? given.weights[t] : 1;
    const bool is_kept = term.from == DW_MOE_FROM_KEPT;
    const uint64_t size = is_kept ? wire_bytes() : in_size;
    operands_.push_back(operand(term, is_kept ? row_.kept : row_.in,
                                sums_.width * size,
                                is_kept ? sums_.wire : sums_.in, weight));
    const void*& at = operands_.back().at;
    at = static_cast<const char*>(at) + begin * size;
  }
  api_->sum(to, sums_.wire, sums_.in, operands_.data(), operands_.size(), count,
            given.weights != nullptr ? DW_MOE_SUM_WEIGHTED : 0);
}

template <class Came>
void MoeSums::add(int64_t i, const Came& came, uint32_t flags) const {
  const dw_moe_terms& results = sums_.results;
  const uint64_t wire_row = sums_.width * wire_bytes(),
                 in_row = sums_.width * dw_dtype_bytes(sums_.in);
  operands_.clear();
  for (uint32_t b = 0; b < sums_.n_biases; ++b)
    operands_.push_back(operand({static_cast<int32_t>(i), 0, 2, 0, 0},
                                sums_.bias[b], result_bytes(), sums_.out, 1));
  for (int64_t t = results.first[i]; t < results.first[i + 1]; ++t) {
    const dw_moe_term& term = results.terms[t];
    float weight = results.weights != nullptr ? results.weights[t] : 1;
    if (term.from == DW_MOE_FROM_RANKS) {
      const MoeCame row = came(term.row);
      if (has_weights_) std::memcpy(&weight, row.weight, sizeof weight);
      operands_.push_back(
          {row.row, sums_.wire, weight, term.into, term.then, {}});
    } else {
      const bool is_kept = term.from == DW_MOE_FROM_KEPT;
      operands_.push_back(operand(term, is_kept ? row_.kept : row_.in,
                                  is_kept ? wire_row : in_row,
                                  is_kept ? sums_.wire : sums_.in, weight));
    }
  }
  if (has_weights_ || results.weights != nullptr) flags |= DW_MOE_SUM_WEIGHTED;
  api_->sum(
      static_cast<char*>(row_.out) + static_cast<uint64_t>(i) * result_bytes(),
      sums_.out, sums_.in, operands_.data(), operands_.size(), sums_.width,
      flags);
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_MOE_SUMS_H_
