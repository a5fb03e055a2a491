#include "call.h"

#include "backend.h"
#include "sdk/blocks.h"
#include "sdk/dtype.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"

#include <cstddef>
#include <cstring>

namespace shm_backend {

using call_reader::mix;
using call_reader::print_of;

namespace {

uint64_t digest_of(const Pieces& pieces, int ranks) {
  if (pieces.equal()) return pieces[0].bytes;
  uint64_t digest = 0;
  for (int r = 0; r < ranks; ++r) digest = mix(digest + pieces[r].bytes);
  return digest;
}

// Sizes that all ranks know; those of pairs are compared by the pair.
uint64_t agreed_sizes(const Comm* comm, const EngineOp& call) {
  switch (call.kind) {
    case DW_OP_ALL_GATHER:
      return call.per_rank() ? digest_of(call.out_pieces, comm->size)
                             : call.in.bytes;
    case DW_OP_REDUCE_SCATTER:
      return call.per_rank() ? digest_of(call.in_pieces, comm->size)
                             : call.out.bytes;
    case DW_OP_ALL_TO_ALL:
      if (call.has_rows) return call.rows.row_bytes();
      return call.per_rank() ? 0 : call.in_pieces[0].bytes;
    case DW_OP_GATHER:
      return call.per_rank() ? 0 : call.in.bytes;
    case DW_OP_SCATTER:
      return call.per_rank() ? 0 : call.out.bytes;
    case DW_OP_BROADCAST:
      return call.out.bytes;
    default:
      return call.in.bytes;
  }
}

uint64_t print_base_of(const Comm* comm, const EngineOp& call) {
  const uint64_t what =
      static_cast<uint64_t>(call.dtype.code) << 56 |
      static_cast<uint64_t>(call.dtype.bits) << 48 |
      static_cast<uint64_t>(call.reduce) << 40 |
      static_cast<uint64_t>(call.has_rows) << 39 |
      static_cast<uint64_t>(call.kind) << 32 |
      static_cast<uint64_t>(call.flags & (DW_FLAG_PER_RANK | DW_FLAG_EXCLUSIVE))
          << 20 |
      static_cast<uint32_t>(kShapes[call.kind].rooted ? call.peer : 0);
  const uint64_t sizes =
      call.kind == DW_OP_BARRIER ? 0 : agreed_sizes(comm, call);
  return mix(what) + mix(sizes * 0xff51afd7ed558ccdu);
}

// Reads an exchange of rows, which has passed check_form.
int32_t read_rows(const Comm* comm, const dw_op& op, EngineOp* call,
                  dw_error* error) {
  call->rows.use(comm->sums);
  if (int32_t code = call->rows.read(op, comm->rank, comm->size, error))
    return code;
  call->dtype = op.in.dtype;
  call->element = 1;
  call->in = call->out = {};
  const auto fill = [&](const dw_buf& buf, Pieces* pieces) {
    Piece* const list = pieces->set_list(static_cast<size_t>(comm->size));
    for (int r = 0; r < comm->size; ++r)
      list[r] = {nullptr, static_cast<size_t>(buf.counts[r])};
  };
  fill(op.in, &call->in_pieces);
  fill(op.out, &call->out_pieces);
  return DW_OK;
}

// The fields beside the buffers, for an operation whose extensions this engine
// knows.
int32_t check_known_form(const Comm* comm, const dw_op& op,
                         const dw_sdk::Shape& shape, dw_error* error) {
  // The last one only if the host adds rows.
  static constexpr dw_str kKnown[] = {dw_sdk::kMoeId, dw_sdk::kBlocksId,
                                      dw_sdk::kMoeSumId};
  if (op.next == nullptr ||
      dw_check_known_extensions(op.next, kKnown,
                                comm->sums == nullptr ? 2 : 3) != DW_OK)
    return dw_sdk::check_form(op, shape, comm->rank, comm->size, error);
  dw_op plain = op;
  plain.next = nullptr;
  return dw_sdk::check_form(plain, shape, comm->rank, comm->size, error);
}

// The blocks of an operation that may have some.
int32_t find_blocks(const dw_op& op, const dw_ext_blocks** blocks,
                    dw_error* error) {
  *blocks = nullptr;
  const dw_ext* const found = dw_find_extension(op.next, dw_sdk::kBlocksId);
  if (found == nullptr) return DW_OK;
  dw_ext_blocks known;
  if (int32_t code =
          dw_read_struct(&known, sizeof known, found, DW_EXT_BLOCKS_SIZE_1_2))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the blocks have a size or a field that is not known");
  constexpr dw_dtype kBytes = {1, 8, 1};
  if ((op.kind != DW_OP_ALL_TO_ALL && op.kind != DW_OP_ALL_GATHER) ||
      (op.flags & (DW_FLAG_PER_RANK | DW_FLAG_PARTS)) != DW_FLAG_PER_RANK ||
      op.in.displs != nullptr || op.out.displs != nullptr ||
      !dw_dtype_equal(op.in.dtype, kBytes))
    return dw_unsupported(
        error, "blocks are bytes of an all_to_all or all_gather by counts");
  *blocks = reinterpret_cast<const dw_ext_blocks*>(found);
  return DW_OK;
}

// Every block has as many bytes as its rank's count.
int32_t check_blocks(const Comm& comm, const EngineOp* call, dw_error* error) {
  const auto fits = [](const dw_block& block, size_t count) {
    uint64_t bytes = 0, end = 0;
    return count == 0 ||
           (dw_sdk::measure(block, &bytes, &end) && bytes == count);
  };
  const bool gathers = call->kind == DW_OP_ALL_GATHER;
  bool fit = !gathers || fits(call->blocks->in[0], call->in.bytes);
  for (int r = 0; r < comm.size; ++r)
    fit = fit &&
          (gathers || fits(call->blocks->in[r], call->in_pieces[r].bytes)) &&
          fits(call->blocks->out[r], call->out_pieces[r].bytes);
  return fit ? DW_OK
             : dw_invalid(error, "a block has other bytes than its count says");
}

bool is_divided(const dw_op& op) {
  return op.kind == DW_OP_ALL_TO_ALL && op.in.counts != nullptr &&
         op.out.counts != nullptr;
}

// Whether each buffer is one piece of memory, or both are divided.
bool is_plain(const dw_op& op) {
  const auto is_whole = [](const dw_buf& buf) {
    return buf.counts == nullptr && buf.displs == nullptr;
  };
  return op.next == nullptr && op.in.parts == nullptr &&
         op.out.parts == nullptr &&
         (is_divided(op) || (is_whole(op.in) && is_whole(op.out))) &&
         op.reduce != DW_REDUCE_PREMUL_SUM;
}

}  // namespace

int32_t read_call(const Comm* comm, const dw_op* given, EngineOp* call,
                  dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given)) {
    dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
            "the operation has a size or a field that is not known");
    return code;
  }
  const dw_sdk::Shape& shape = dw_sdk::shape_in(kShapes, op->kind);
  if (int32_t code = check_known_form(comm, *op, shape, error)) return code;
  call->has_rows = dw_sdk::moe_extension_of(*op) != nullptr;
  if (int32_t code = find_blocks(*op, &call->blocks, error)) return code;
  if (!call->has_rows && dw_sdk::moe_sum_extension_of(*op) != nullptr)
    return dw_unsupported(error, "only rows are added up");
  if (call->has_rows && call->blocks != nullptr)
    return dw_unsupported(error, "rows and blocks do not go together");
  const uint64_t types = dw_sdk::types_of(op->kind, op->reduce);
  if (int32_t code = call->has_rows
                         ? read_rows(comm, *op, call, error)
                         : dw_sdk::read_buffers(*op, shape, types, comm->rank,
                                                comm->size, call, error))
    return code;
  call->kind = op->kind;
  if (call->blocks != nullptr) {
    if (int32_t code = check_blocks(*comm, call, error)) return code;
    call->in.at = static_cast<char*>(op->in.data);
    call->out.at = static_cast<char*>(op->out.data);
  }
  call->reduce = op->reduce;
  call->flags = op->flags;
  call->peer = op->peer;
  call->tag = op->tag;
  call->deadline_ns = op->deadline_ns;
  call->timeout_ns = op->timeout_ns;
  call->trace = op->trace;
  // The print has to tell the other ranks.
  call->moves |= shape.pairwise && call->per_rank();
  call->scale = op->reduce == DW_REDUCE_PREMUL_SUM ? op->scale : nullptr;
  if (op->reduce == DW_REDUCE_PREMUL_SUM && op->scale == nullptr)
    return dw_invalid(error, "premul_sum needs a factor");
  if (shape.message) {
    call->type = static_cast<uint16_t>(dw_dtype_index(call->dtype));
    return DW_OK;
  }
  call->print_base = print_base_of(comm, *call);
  if (call->blocks != nullptr) call->print_base = mix(call->print_base + 1);
  if (call->has_rows && call->rows.has_sums())
    call->print_base = mix(call->print_base + 2);
  call->print = print_of(*op, *call);
  return DW_OK;
}

bool CallReader::divide_again(const Comm& comm, const dw_op& op) {
  if (!is_like_last<true>(op) ||
      dw_sdk::read_division(op.in, call.element, comm.size, &call.in_pieces,
                            nullptr) != DW_OK ||
      dw_sdk::read_division(op.out, call.element, comm.size, &call.out_pieces,
                            nullptr) != DW_OK ||
      call.in_pieces[comm.rank].bytes != call.out_pieces[comm.rank].bytes)
    return false;
  take_numbers(op);
  return true;
}

int32_t CallReader::read_anew(const Comm* comm, const dw_op* op,
                              dw_error* error) {
  last_.struct_size = 0;
  as_short = {};
  if (int32_t code = read_call(comm, op, &call, error)) return code;
  divided_ = is_divided(*op);
  if (op->struct_size != sizeof(dw_op) || !is_plain(*op)) return DW_OK;
  last_ = *op;
  as_short = short_form(*comm, *op, call);
  return DW_OK;
}

ShortCall short_form(const Comm& comm, const dw_op& op, const EngineOp& call) {
  return is_plain(op) ? ShortCall::of(comm, call) : ShortCall();
}

}  // namespace shm_backend
