#include "algo/compose/check.h"

#include "algo/below/dtypes.h"
#include "algo/compose/recipes.h"
#include "algo/decorator.h"
#include "distwrap/abi/read.h"

namespace distwrap::algo::compose {
namespace {

enum class Peer { NO, ROOT, PEER, TARGET };
enum class Extent { NONE, ALL, ALL_R, ROOT, ROOT_R };
struct Shape {
  Peer peer;
  Extent in, out;
};

// The shapes by kind, in the order of ops.def.
constexpr Shape kShapes[] = {
    {Peer::NO, Extent::NONE, Extent::NONE},
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  {Peer::peer, Extent::in, Extent::out},
#include "distwrap/abi/ops.def"
};

bool present(Extent extent, bool root) {
  return extent == Extent::ALL || extent == Extent::ALL_R ||
         (root && extent != Extent::NONE);
}

bool split(Extent extent) {
  return extent == Extent::ALL_R || extent == Extent::ROOT_R;
}

const char* wrong_buffer(const dw_buf& buf, bool is_split, int size) {
  if (buf.count < 0) return "a count is negative";
  if (buf.count > INT64_MAX / 8) return "a count is beyond all memory";
  if (!is_split) {
    if (buf.counts != nullptr || buf.parts != nullptr)
      return "a buffer of one rank has counts or parts";
    if (buf.count > 0 && buf.data == nullptr)
      return "a buffer has elements but no memory";
    return nullptr;
  }
  int64_t sum = 0;
  for (int r = 0; r < size && buf.counts != nullptr; ++r) {
    if (buf.counts[r] < 0) return "a count of a rank is negative";
    if (__builtin_add_overflow(sum, buf.counts[r], &sum))
      return "the counts per rank overflow";
  }
  if (buf.counts != nullptr ? sum != buf.count : buf.count % size != 0)
    return "the counts per rank do not make up the count";
  if (buf.parts == nullptr)
    return buf.count > 0 && buf.data == nullptr
               ? "a buffer has elements but no memory"
               : nullptr;
  for (int r = 0; r < size; ++r) {
    const int64_t count =
        buf.counts != nullptr ? buf.counts[r] : buf.count / size;
    if (count > 0 && buf.parts[r] == nullptr)
      return "a part has elements but no memory";
  }
  return nullptr;
}

int64_t own_count(const dw_buf& buf, bool is_split, int rank, int size) {
  if (!is_split) return buf.count;
  return buf.counts != nullptr ? buf.counts[rank] : buf.count / size;
}

}  // namespace

uint64_t part_bytes(const dw_op& op, int size) {
  const Shape& shape = kShapes[op.kind];
  const bool by_in = shape.in == Extent::ALL ||
                     (shape.out != Extent::ALL && shape.in != Extent::NONE);
  const dw_buf& buffer = by_in ? op.in : op.out;
  const int64_t count =
      split(by_in ? shape.in : shape.out) ? buffer.count / size : buffer.count;
  return count < 0 ? 0
                   : static_cast<uint64_t>(count) * (buffer.dtype.bits / 8u);
}

int32_t read_op(dw_op* space, const dw_op** op, const dw_op* given,
                dw_error* error) {
  if (given != nullptr && given->struct_size == sizeof(dw_op)) {
    *op = given;
    return DW_OK;
  }
  *op = space;
  const int32_t code =
      dw_read_struct(space, sizeof(dw_op), given, DW_OP_SIZE_1_0);
  if (code == DW_OK) return DW_OK;
  return fail(error, code, DW_REASON_INVALID_ARGUMENT,
              "the operation has a size or a field that is not known");
}

int op_dtype(const dw_op& op) {
  switch (op.kind) {
    case DW_OP_BARRIER:
      return 0;
    case DW_OP_SEND:
    case DW_OP_REDUCE:
    case DW_OP_GATHER:
      return dtype_index(op.in.dtype);
    default:
      return dtype_index(op.out.dtype);
  }
}

int32_t check_op(const dw_op& op, int rank, int size, dw_error* error) {
  const Shape& shape = kShapes[op.kind];
  if (shape.peer != Peer::NO && (op.peer < 0 || op.peer >= size))
    return fail(error, DW_INVALID_ARGUMENT, DW_REASON_RANK_NOT_MEMBER,
                "the root or peer is not a rank of the group");
  const bool root = op.peer == rank;
  const bool in = present(shape.in, root);
  const bool out = present(shape.out, root);
  const bool per_rank = (op.flags & DW_FLAG_PER_RANK) != 0;
  for (const dw_buf* buf : {in ? &op.in : nullptr, out ? &op.out : nullptr}) {
    if (buf == nullptr) continue;
    if (buf->counts != nullptr && !per_rank)
      return unsupported(error, "counts per rank without their flag");
    if (buf->parts != nullptr && (op.flags & DW_FLAG_PARTS) == 0)
      return unsupported(error, "parts without their flag");
    const bool is_split = split(buf == &op.in ? shape.in : shape.out);
    if (is_split && per_rank && buf->counts == nullptr)
      return invalid(error, "a v form without counts");
    if (const char* wrong = wrong_buffer(*buf, is_split, size))
      return invalid(error, wrong);
  }
  if (in && out) {
    if (dtype_index(op.in.dtype) != dtype_index(op.out.dtype))
      return invalid(error, "input and output have different dtypes");
    if (own_count(op.in, split(shape.in), rank, size) !=
        own_count(op.out, split(shape.out), rank, size))
      return invalid(error, "the counts of input and output do not match");
  }
  if (op.reduce == DW_REDUCE_PREMUL_SUM) {
    if ((op.flags & DW_FLAG_SCALE_ON_DEVICE) != 0)
      return unsupported(error, "the factor lies in device memory");
    if (op.scale == nullptr)
      return invalid(error, "premul_sum without a factor");
  }
  return DW_OK;
}

}  // namespace distwrap::algo::compose
