// Translates the buffers of an operation, in whatever form the host gave them,
// into addresses and bytes: one piece, or one piece for each rank.
#ifndef DISTWRAP_PLUGINS_SDK_BUFFERS_H_
#define DISTWRAP_PLUGINS_SDK_BUFFERS_H_

#include "sdk/dtype.h"
#include "sdk/shapes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dw_sdk {

// A part of a buffer. Inputs are only read.
struct Piece {
  char* at = nullptr;
  size_t bytes = 0;
};

// One piece for each rank. Equal pieces that lie one behind the other need no
// list.
class Pieces {
 public:
  void set_equal(char* base, size_t each) {
    list_.clear();
    base_ = base;
    each_ = each;
  }
  // Precondition: the pieces are equal.
  void move_to(char* base) { base_ = base; }
  // Moves all pieces by as many bytes as lie between two addresses.
  void move(const char* from, const char* to) {
    const auto moved = [&](const char* at) {
      return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(at) +
                                     reinterpret_cast<uintptr_t>(to) -
                                     reinterpret_cast<uintptr_t>(from));
    };
    base_ = moved(base_);
    for (Piece& piece : list_) piece.at = moved(piece.at);
  }
  Piece* set_list(size_t n) {
    if (list_.size() != n) list_.resize(n);
    return list_.data();
  }

  bool equal() const { return list_.empty(); }
  Piece operator[](int rank) const {
    const auto at = static_cast<size_t>(rank);
    return equal() ? Piece{base_ + at * each_, each_} : list_.data()[at];
  }
  size_t longest() const {
    size_t most = equal() ? each_ : 0;
    for (const Piece& piece : list_) most = std::max(most, piece.bytes);
    return most;
  }

 private:
  char* base_ = nullptr;
  size_t each_ = 0;
  std::vector<Piece> list_;  // empty when the pieces are equal and adjacent
};

struct Buffers {
  dw_dtype dtype = {0, 0, 0};
  int dtype_index = -1;  // DW_DTYPE_<NAME>
  size_t element = 1;    // bytes
  // The input and output of this rank as one piece (`in`, `out`) or, for
  // operations that divide the buffer, as one piece for each rank.
  Piece in, out;
  Pieces in_pieces, out_pieces;
  bool moves = false;  // whether data or a message is transferred, or ranks
                       // meet
};

// Reads the buffers of `op`, which has passed check_form. `types` are the
// element types of its reduction, if it reduces. Returns DW_OK, or the code of
// the refusal.
int32_t read_buffers(const dw_op& op, const Shape& shape, uint64_t types,
                     int rank, int size, Buffers* buffers, dw_error* error);

// Reads the counts of a buffer that is one piece of memory and has counts.
int32_t read_division(const dw_buf& buf, size_t element, int ranks,
                      Pieces* pieces, dw_error* error);

// ---- implementation ----

namespace internal {

// The limit of a buffer's elements, which keeps sizes in bytes from
// overflowing.
inline constexpr int64_t kMostElements = INT64_MAX / 64;

inline bool is_count(int64_t count) {
  return count >= 0 && count <= kMostElements;
}

inline int32_t read_whole(const dw_buf& buf, size_t element, Piece* all,
                          dw_error* error) {
  if (buf.counts != nullptr || buf.parts != nullptr)
    return dw_unsupported(error, "this buffer is one piece");
  *all = {static_cast<char*>(buf.data),
          static_cast<size_t>(buf.count) * element};
  return DW_OK;
}

// Reads a buffer that is divided among ranks and whose count has been checked.
// `at` maps a rank and its first element to the address of its piece.
template <class At>
int32_t read_list(const dw_buf& buf, size_t element, int ranks, const At& at,
                  Pieces* pieces, dw_error* error) {
  Piece* const list = pieces->set_list(static_cast<size_t>(ranks));
  int64_t sum = 0;
  for (int r = 0; r < ranks; ++r) {
    const int64_t count =
        buf.counts != nullptr ? buf.counts[r] : buf.count / ranks;
    if (count < 0 || count > buf.count - sum)
      return dw_invalid(error, "counts of ranks do not fit");
    const int64_t begin = buf.displs != nullptr ? buf.displs[r] : sum;
    if (buf.displs != nullptr && !is_count(begin))
      return dw_invalid(error, "a place of a rank does not fit");
    sum += count;
    list[r] = {at(r, begin), static_cast<size_t>(count) * element};
  }
  if (sum != buf.count)
    return dw_invalid(error, "a count is not the sum of the ranks'");
  return DW_OK;
}

// A buffer with one piece for each of `ranks`.
inline int32_t read_pieces(const dw_buf& buf, uint32_t flags, size_t element,
                           int ranks, Pieces* pieces, dw_error* error) {
  // Refuses lists without a flag, because other backends look only at the flags
  // and would miss the lists.
  if ((buf.counts != nullptr && (flags & DW_FLAG_PER_RANK) == 0) ||
      (buf.parts != nullptr && (flags & DW_FLAG_PARTS) == 0))
    return dw_unsupported(error, "a flag has to tell of lists");
  if (buf.counts == nullptr && buf.count % ranks != 0)
    return dw_invalid(error, "without counts all parts have one size");
  if (buf.parts != nullptr)
    return read_list(
        buf, element, ranks,
        [&](int r, int64_t) { return static_cast<char*>(buf.parts[r]); },
        pieces, error);
  if (buf.counts != nullptr)
    return read_division(buf, element, ranks, pieces, error);
  pieces->set_equal(static_cast<char*>(buf.data),
                    static_cast<size_t>(buf.count / ranks) * element);
  return DW_OK;
}

}  // namespace internal

inline int32_t read_division(const dw_buf& buf, size_t element, int ranks,
                             Pieces* pieces, dw_error* error) {
  if (!internal::is_count(buf.count))
    return dw_invalid(error, "a count is not between 0 and the most");
  return internal::read_list(
      buf, element, ranks,
      [&](int, int64_t begin) {
        return static_cast<char*>(buf.data) +
               static_cast<size_t>(begin) * element;
      },
      pieces, error);
}

inline int32_t read_buffers(const dw_op& op, const Shape& shape, uint64_t types,
                            int rank, int size, Buffers* buffers,
                            dw_error* error) {
  using namespace internal;
  buffers->in = buffers->out = {};
  buffers->dtype = {};
  buffers->moves = true;
  if (op.kind == DW_OP_BARRIER) return DW_OK;

  const bool at_root = !shape.rooted || op.peer == rank;
  const bool has_in = shape.has_in && (at_root || !shape.root_brings);
  const bool has_out = shape.has_out && (at_root || !shape.root_takes);
  const dw_dtype dtype = has_out ? op.out.dtype : op.in.dtype;
  const int index = dw_dtype_index(dtype);
  if (index < 0) return dw_unsupported(error, "this dtype is not supported");
  if (shape.reduces && (types >> index & 1) == 0)
    return dw_unsupported(error, "this reduction is not supported");
  if (has_in && has_out && !dw_dtype_equal(op.in.dtype, op.out.dtype))
    return dw_invalid(error, "input and output have one dtype");
  if ((has_in && !is_count(op.in.count)) ||
      (has_out && !is_count(op.out.count)))
    return dw_invalid(error, "a count is not between 0 and the most");

  const size_t element = dtype.bits / 8u;
  buffers->dtype = dtype;
  buffers->dtype_index = index;
  buffers->element = element;
  const bool divides_in = shape.in_pieces && at_root;
  const bool divides_out = shape.out_pieces && at_root;
  if (has_in)
    if (int32_t code = divides_in
                           ? read_pieces(op.in, op.flags, element, size,
                                         &buffers->in_pieces, error)
                           : read_whole(op.in, element, &buffers->in, error))
      return code;
  if (has_out)
    if (int32_t code = divides_out
                           ? read_pieces(op.out, op.flags, element, size,
                                         &buffers->out_pieces, error)
                           : read_whole(op.out, element, &buffers->out, error))
      return code;
  if (has_in && has_out) {
    const Piece own_in = divides_in ? buffers->in_pieces[rank] : buffers->in;
    const Piece own_out =
        divides_out ? buffers->out_pieces[rank] : buffers->out;
    if (own_in.bytes != own_out.bytes)
      return dw_invalid(error, "input and output do not fit");
  }
  buffers->moves = shape.message || (has_in && op.in.count != 0) ||
                   (has_out && op.out.count != 0);
  return DW_OK;
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_BUFFERS_H_
