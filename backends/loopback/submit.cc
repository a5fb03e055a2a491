// The collectives of one rank: each is a copy from `in` to `out`, or nothing.
// Only premul_sum computes: the host's kernel scales the input.
//
// A successful operation allocates nothing, takes no lock, makes no system call
// and reads no clock; `refuse`, out of line, finds the reason of a failure.
#include "loopback.h"
#include "promises.h"
#include "sdk/dtype.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"

#include <cstring>

namespace loopback {
namespace {

// The kernel of premul_sum, which scales the only input.
dw_reduce_fn kernel_of(const dw_comm* comm, const dw_op* op) {
  return comm->host->reduce_kernel(comm->host->self, op->out.dtype, op->reduce);
}

// Zero means the host's order of calls, in which this backend works.
bool on_host(const dw_stream& stream) {
  return stream.device_type == 0 || stream.device_type == DW_DEVICE_CPU;
}

// The kind as a set; empty for an unknown kind.
uint64_t kind_bit(const dw_op* op) {
  return op->kind < 64 ? kKinds & DW_BIT(op->kind) : 0;
}

bool reduction_fits(const dw_op* op, uint64_t kind, int dtype) {
  if ((kind & dw_sdk::kReductions) == 0) return op->reduce == DW_REDUCE_NONE;
  return dtype >= 0 &&
         (dw_sdk::types_of(op->kind, op->reduce) >> dtype & 1) != 0;
}

// Whether a buffer has neither a list nor counts, as in most operations.
bool whole(const dw_buf& buf) {
  return buf.parts == nullptr && buf.counts == nullptr && buf.displs == nullptr;
}

// Whether a buffer has only forms that the operation allows.
bool form_fits(const dw_buf& buf, uint32_t forms) {
  return (buf.parts == nullptr || (forms & DW_FLAG_PARTS) != 0) &&
         (buf.counts == nullptr || (forms & DW_FLAG_PER_RANK) != 0) &&
         (buf.displs == nullptr || buf.counts != nullptr);
}

__attribute__((noinline)) bool forms_fit(const dw_op* op, uint64_t kind) {
  return form_fits(op->in, (kind & dw_sdk::kInPieces) != 0 ? op->flags : 0) &&
         form_fits(op->out, (kind & dw_sdk::kOutPieces) != 0 ? op->flags : 0);
}

// Whether the only piece is the whole buffer.
bool piece_fits(const dw_buf& buf) {
  return (buf.counts == nullptr || buf.counts[0] == buf.count) &&
         (buf.displs == nullptr ||
          (buf.displs[0] >= 0 && buf.parts == nullptr));
}

char* start_of(const dw_buf& buf) {
  char* const data =
      static_cast<char*>(buf.parts == nullptr ? buf.data : buf.parts[0]);
  return buf.displs == nullptr ? data
                               : data + buf.displs[0] * (buf.dtype.bits / 8);
}

// Whether everything holds on which `submit` relies.
bool acceptable(const dw_comm* comm, const dw_op* op) {
  const uint64_t kind = kind_bit(op);
  if (kind == 0 ||
      dw_unknown_flags(op->flags, dw_sdk::flags_of(op->kind)) != 0 ||
      dw_check_extensions(op->next) != DW_OK || !on_host(op->stream) ||
      comm->aborted.load(std::memory_order_relaxed))
    return false;
  if (op->kind == DW_OP_BARRIER) return op->reduce == DW_REDUCE_NONE;
  const int dtype = dw_dtype_index(op->out.dtype);
  return dtype >= 0 && reduction_fits(op, kind, dtype) && op->out.count >= 0 &&
         op->in.count == op->out.count &&
         dw_dtype_equal(op->in.dtype, op->out.dtype) &&
         ((kind & dw_sdk::kRooted) == 0 || op->peer == 0) &&
         ((whole(op->in) && whole(op->out)) ||
          (forms_fit(op, kind) && piece_fits(op->in) && piece_fits(op->out))) &&
         (op->reduce != DW_REDUCE_PREMUL_SUM ||
          (op->scale != nullptr && kernel_of(comm, op) != nullptr));
}

// The reason why an operation is not acceptable.
__attribute__((cold, noinline)) int32_t refuse(const dw_comm* comm,
                                               const dw_op* op,
                                               dw_error* error) {
  const uint64_t kind = kind_bit(op);
  const int dtype = dw_dtype_index(op->out.dtype);
  if (kind == 0)
    return dw_unsupported(error, "this operation is not supported");
  if (dw_unknown_flags(op->flags, dw_sdk::flags_of(op->kind)) != 0)
    return dw_unsupported(error, "a flag is not supported");
  if (dw_check_extensions(op->next) != DW_OK)
    return dw_unsupported(error, "no extension is supported");
  if (!on_host(op->stream))
    return dw_unsupported(error, "only host memory is supported");
  if (!reduction_fits(op, kind, dtype))
    return dw_unsupported(error,
                          "this reduction is not supported for this "
                          "operation and dtype");
  if (op->kind != DW_OP_BARRIER) {
    if (dtype < 0) return dw_unsupported(error, "this dtype is not supported");
    if (!forms_fit(op, kind))
      return dw_unsupported(error,
                            "a list or counts per rank, where the "
                            "operation has none or no flag announces them");
  }
  if (comm->aborted.load(std::memory_order_relaxed))
    return dw_fail(error, DW_ABORTED, DW_REASON_ABORTED, -1, 0,
                   "the group was aborted");
  if (op->reduce == DW_REDUCE_PREMUL_SUM && op->scale == nullptr)
    return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1,
                   0, "premul_sum needs a factor");
  if (op->reduce == DW_REDUCE_PREMUL_SUM && kernel_of(comm, op) == nullptr)
    return dw_unsupported(error, "the host has no kernel for this");
  return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1, 0,
                 "input and output have one dtype and count, which "
                 "is that of the one rank, and the root is rank 0");
}

__attribute__((noinline)) void scale(const dw_comm* comm, const dw_op* op) {
  const void* const in = start_of(op->in);
  kernel_of(comm, op)(start_of(op->out), &in, 1,
                      static_cast<uint64_t>(op->out.count), op->scale);
}

int32_t unreadable(int32_t code, dw_error* error) {
  return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                 "the operation has a size or a field that is not "
                 "known");
}

}  // namespace

int32_t query(dw_comm* comm, const dw_op* given, dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given))
    return unreadable(code, error);
  return acceptable(comm, op) ? DW_OK : refuse(comm, op, error);
}

int32_t submit(dw_comm* comm, const dw_op* given, dw_work* /*work*/,
               dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given))
    return unreadable(code, error);
  if (!acceptable(comm, op)) return refuse(comm, op, error);
  // No rank precedes rank 0, so an exclusive scan writes nothing.
  if ((op->flags & DW_FLAG_EXCLUSIVE) != 0) return DW_DONE;
  if (op->reduce == DW_REDUCE_PREMUL_SUM) {
    scale(comm, op);
    return DW_DONE;
  }
  char* const out = start_of(op->out);
  const char* const in = start_of(op->in);
  const uint64_t bytes =
      static_cast<uint64_t>(op->out.count) * (op->out.dtype.bits / 8);
  if (bytes != 0 && in != out) std::memcpy(out, in, bytes);
  return DW_DONE;
}

}  // namespace loopback
