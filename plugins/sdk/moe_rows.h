// Reads the extension distwrap.moe, and copies its rows as streams of bytes:
// what this rank gives to another is one stream, its rows one behind the other,
// of which any part may be gathered or scattered by itself. Rows that are sums
// (distwrap.moe.sum) are added up where they are gathered; results are added by
// `sums()`.
//
//   dw_sdk::MoeRows rows;
//   if (int32_t code = rows.read(op, rank, size, error)) return code;
//   rows.gather(to, begin, bytes, staging, copy);
#ifndef DISTWRAP_PLUGINS_SDK_MOE_ROWS_H_
#define DISTWRAP_PLUGINS_SDK_MOE_ROWS_H_

#include "distwrap/abi/moe.h"
#include "sdk/dtype.h"
#include "sdk/fail.h"
#include "sdk/moe_sums.h"
#include "sdk/read_op.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace dw_sdk {

inline constexpr dw_str kMoeId = {DW_EXT_MOE, sizeof DW_EXT_MOE - 1};

inline const dw_ext* moe_extension_of(const dw_op& op) {
  return op.next == nullptr ? nullptr : dw_find_extension(op.next, kMoeId);
}

// Borrows the channels and the lists; the streams' bytes are the operation's
// counts.
class MoeRows {
 public:
  // Reads and checks an operation that has the extension. DW_OK, or the code of
  // the refusal.
  int32_t read(const dw_op& op, int rank, int size, dw_error* error);

  // Takes lists that are known to be right; `sums` may be NULL.
  void set(const dw_ext_moe& lists, const dw_ext_moe_sum* sums = nullptr) {
    ext_ = lists;
    row_bytes_ = 0;
    for (uint64_t c = 0; c < ext_.n_channels; ++c)
      row_bytes_ += ext_.channels[c].bytes;
    sums_.clear();
    if (sums != nullptr) sums_.set(lists, *sums);
  }
  // The host's function, for operations with sums.
  void use(const dw_moe_sum_api* api) { sums_.use(api); }

  uint64_t row_bytes() const { return row_bytes_; }
  const dw_ext_moe& lists() const { return ext_; }
  const MoeSums& sums() const { return sums_; }
  bool has_sums() const { return sums_.gives() || sums_.adds(); }
  // One more than the highest number of a row that comes; `bytes_of(r)` come
  // from rank r.
  template <class BytesOf>
  uint64_t numbers(int ranks, const BytesOf& bytes_of) const {
    uint64_t end = 0;
    for (int r = 0; r < ranks; ++r)
      if (const auto bytes = static_cast<uint64_t>(bytes_of(r)); bytes != 0)
        end = std::max(
            end, static_cast<uint64_t>(ext_.get_first[r]) + bytes / row_bytes_);
    return end;
  }

  // The bytes that the stream from rank `from`, of `bytes`, fills at its
  // places.
  uint64_t placed_bytes(int from, uint64_t bytes) const {
    if (ext_.place_first == nullptr) return bytes;
    const int64_t* const first = ext_.place_first + ext_.get_first[from];
    const auto rows = static_cast<int64_t>(bytes / row_bytes_);
    return static_cast<uint64_t>(first[rows] - first[0]) * row_bytes_;
  }

  // The memory where entry 0 of `give`, or number 0 of the rows that come,
  // lies, if all others lie behind it in order; else NULL.
  const char* given_in_order() const {
    return ext_.n_channels == 1 && ext_.give == nullptr && !sums_.gives()
               ? static_cast<const char*>(ext_.channels->in)
               : nullptr;
  }
  char* taken_in_order() const {
    return ext_.n_channels == 1 && ext_.place == nullptr &&
                   ext_.place_first == nullptr && !sums_.adds()
               ? static_cast<char*>(ext_.channels->out)
               : nullptr;
  }

  // The first channel's part of row `row` for rank `to`, which is no sum.
  const char* given_row(int to, uint64_t row) const {
    return in_of(*ext_.channels, ext_.give_first[to], row);
  }

  // Copies a part of the stream for rank `to` to `data`.
  // `copy(char* to, const char* from, size_t bytes)` copies a part of a row.
  // Parts of sums begin and end with a number.
  template <class Copy>
  void gather(int to, uint64_t begin, uint64_t bytes, char* data,
              const Copy& copy) const {
    const int64_t first = ext_.give_first[to];
    const uint64_t size = sums_.gives() ? sums_.wire_bytes() : 1;
    each_part(begin, bytes,
              [&](const dw_moe_channel& channel, uint64_t row, uint64_t skip,
                  uint64_t n) {
                if (sums_.gives())
                  sums_.give(first + static_cast<int64_t>(row), skip / size,
                             n / size, data);
                else
                  copy(data, in_of(channel, first, row) + skip, n);
                data += n;
              });
  }
  // Copies a part of the stream from rank `from`, which is at `data`, to its
  // places.
  template <class Copy>
  void scatter(int from, uint64_t begin, uint64_t bytes, const char* data,
               const Copy& copy) const {
    const int64_t first = ext_.get_first[from];
    each_part(begin, bytes,
              [&](const dw_moe_channel& channel, uint64_t row, uint64_t skip,
                  uint64_t n) {
                each_place(first, row, [&](int64_t place) {
                  copy(out_of(channel, place) + skip, data, n);
                });
                data += n;
              });
  }
  // Copies a part of this rank's stream for itself to its places.
  template <class Copy>
  void keep(int rank, uint64_t begin, uint64_t bytes, const Copy& copy) const {
    const int64_t give = ext_.give_first[rank], get = ext_.get_first[rank];
    each_part(begin, bytes,
              [&](const dw_moe_channel& channel, uint64_t row, uint64_t skip,
                  uint64_t n) {
                const char* const from = in_of(channel, give, row) + skip;
                each_place(get, row, [&](int64_t place) {
                  copy(out_of(channel, place) + skip, from, n);
                });
              });
  }

 private:
  int32_t check_side(const dw_buf& buf, int size, dw_error* error) const;

  // Calls `visit(channel, row of the stream, first byte of the row's part,
  // bytes)` for all parts of rows in a part of a stream.
  template <class Visit>
  void each_part(uint64_t begin, uint64_t bytes, const Visit& visit) const {
    uint64_t row = begin / row_bytes_, skip = begin % row_bytes_;
    for (; bytes != 0; ++row)
      for (uint64_t c = 0; c < ext_.n_channels && bytes != 0; ++c) {
        const dw_moe_channel& channel = ext_.channels[c];
        if (skip >= channel.bytes) {
          skip -= channel.bytes;
          continue;
        }
        const uint64_t n = std::min(channel.bytes - skip, bytes);
        visit(channel, row, skip, n);
        bytes -= n;
        skip = 0;
      }
  }
  template <class Visit>
  void each_place(int64_t first, uint64_t row, const Visit& visit) const {
    const int64_t k = first + static_cast<int64_t>(row);
    if (ext_.place_first == nullptr)
      return visit(ext_.place == nullptr ? k : int64_t{ext_.place[k]});
    for (int64_t j = ext_.place_first[k]; j < ext_.place_first[k + 1]; ++j)
      visit(ext_.place[j]);
  }
  const char* in_of(const dw_moe_channel& channel, int64_t first,
                    uint64_t row) const {
    const int64_t k = first + static_cast<int64_t>(row);
    const int64_t at = ext_.give == nullptr ? k : ext_.give[k];
    return at < 0 ? static_cast<const char*>(channel.kept) +
                        static_cast<uint64_t>(~at) * channel.bytes
                  : static_cast<const char*>(channel.in) +
                        static_cast<uint64_t>(at) * channel.bytes;
  }
  static char* out_of(const dw_moe_channel& channel, int64_t place) {
    return static_cast<char*>(channel.out) +
           static_cast<uint64_t>(place) * channel.bytes;
  }

  dw_ext_moe ext_ = {};
  uint64_t row_bytes_ = 1;
  MoeSums sums_;
};

// ---- implementation ----

inline int32_t MoeRows::check_side(const dw_buf& buf, int size,
                                   dw_error* error) const {
  if (buf.data != nullptr || buf.parts != nullptr || buf.displs != nullptr ||
      buf.counts == nullptr)
    return dw_invalid(error, "rows have counts, and no other memory");
  if (buf.count < 0 || buf.count > INT64_MAX / 64)
    return dw_invalid(error, "a count is not between 0 and the most");
  int64_t sum = 0;
  for (int r = 0; r < size; ++r) {
    const int64_t count = buf.counts[r];
    if (count < 0 || count > buf.count - sum)
      return dw_invalid(error, "counts of ranks do not fit");
    if (static_cast<uint64_t>(count) % row_bytes_ != 0)
      return dw_invalid(error, "a count is not one of whole rows");
    sum += count;
  }
  return sum == buf.count
             ? int32_t{DW_OK}
             : dw_invalid(error, "a count is not the sum of the ranks'");
}

inline int32_t MoeRows::read(const dw_op& op, int rank, int size,
                             dw_error* error) {
  if (op.kind != DW_OP_ALL_TO_ALL || (op.flags & DW_FLAG_PER_RANK) == 0 ||
      dw_dtype_index(op.in.dtype) != DW_DTYPE_U8 ||
      dw_dtype_index(op.out.dtype) != DW_DTYPE_U8)
    return dw_unsupported(error, "only an all_to_all_v of bytes moves rows");
  if (int32_t code = dw_read_struct(&ext_, sizeof ext_, moe_extension_of(op),
                                    DW_EXT_MOE_SIZE_1_2))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the rows have a size or a field that is not known");
  if (ext_.channels == nullptr || ext_.n_channels == 0 ||
      ext_.give_first == nullptr || ext_.get_first == nullptr)
    return dw_invalid(error, "rows lack channels or lists");
  row_bytes_ = 0;
  for (uint64_t c = 0; c < ext_.n_channels; ++c)
    if (ext_.channels[c].bytes == 0 ||
        __builtin_add_overflow(row_bytes_, ext_.channels[c].bytes, &row_bytes_))
      return dw_invalid(error, "a row has no bytes, or too many");
  if (int32_t code = check_side(op.in, size, error)) return code;
  if (int32_t code = check_side(op.out, size, error)) return code;
  if (op.in.counts[rank] != op.out.counts[rank])
    return dw_invalid(error, "input and output do not fit");
  return sums_.read(op, ext_, rank, error);
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_MOE_ROWS_H_
