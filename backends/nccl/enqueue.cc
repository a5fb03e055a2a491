#include "enqueue.h"

#include "promises.h"

namespace nccl_backend {
namespace {

using dw_sdk::Piece;
using dw_sdk::Pieces;

// One operation under way to NCCL. Pieces are in bytes; NCCL counts elements.
class EnqueuedCall {
 public:
  EnqueuedCall(const Comm& comm, const dw_op& op,
               const dw_sdk::Buffers& buffers, int reduction,
               CUstream_st* stream, const char** what)
      : nccl_(comm.backend->nccl),
        comm_(comm),
        op_(op),
        buffers_(buffers),
        stream_(stream),
        what_(what) {
    const int dtype = buffers_.dtype_index;
    const NcclType type =
        op.reduce == DW_REDUCE_NONE ? moved_type(dtype) : reduced_type(dtype);
    type_ = type.type;
    shift_ = type.shift;
    reduction_ = reduction != kNoReduction ? reduction
                                           : nccl_reduction(dtype, op.reduce);
    at_root_ = op.peer == comm.rank;
  }

  int run() {
    switch (op_.kind) {
      case DW_OP_BARRIER:
        return barrier();
      case DW_OP_BROADCAST:
        return said(
            "ncclBroadcast",
            nccl_.ncclBroadcast(at_root_ ? buffers_.in.at : buffers_.out.at,
                                buffers_.out.at, units(buffers_.out), type_,
                                op_.peer, comm_.part->handle, stream_));
      case DW_OP_REDUCE:
        return reduce(buffers_.in, buffers_.out.at, op_.peer);
      case DW_OP_ALL_REDUCE:
        return said("ncclAllReduce",
                    nccl_.ncclAllReduce(buffers_.in.at, buffers_.out.at,
                                        units(buffers_.in), type_, reduction_,
                                        comm_.part->handle, stream_));
      case DW_OP_GATHER:
        return gather();
      case DW_OP_SCATTER:
        return scatter();
      case DW_OP_ALL_GATHER:
        return all_gather();
      case DW_OP_REDUCE_SCATTER:
        return reduce_scatter();
      case DW_OP_ALL_TO_ALL:
        return all_to_all();
      case DW_OP_SEND:
        return send(buffers_.in, op_.peer);
      case DW_OP_RECV:
        return recv(buffers_.out, op_.peer);
      default:
        return said("enqueue", ncclInvalidArgument);
    }
  }

 private:
  size_t units(const Piece& piece) const { return piece.bytes >> shift_; }
  int said(const char* call, int result) {
    if (result != ncclSuccess && result != ncclInProgress) *what_ = call;
    return result == ncclInProgress ? int{ncclSuccess} : result;
  }
  // The plain form has equal pieces on all ranks, and its flags tell every rank
  // so; only then may NCCL's own collectives be called.
  bool plain() const {
    return (op_.flags & (DW_FLAG_PER_RANK | DW_FLAG_PARTS)) == 0;
  }

  int barrier() {
    void* const scratch = reinterpret_cast<void*>(comm_.scratch);
    return said("ncclAllReduce",
                nccl_.ncclAllReduce(scratch, scratch, kScratchBytes, ncclUint8,
                                    ncclMax, comm_.part->handle, stream_));
  }
  int send(const Piece& piece, int peer) {
    return said("ncclSend", nccl_.ncclSend(piece.at, units(piece), type_, peer,
                                           comm_.part->handle, stream_));
  }
  int recv(const Piece& piece, int peer) {
    return said("ncclRecv", nccl_.ncclRecv(piece.at, units(piece), type_, peer,
                                           comm_.part->handle, stream_));
  }
  int reduce(const Piece& in, char* out, int root) {
    return said("ncclReduce",
                nccl_.ncclReduce(in.at, out, units(in), type_, reduction_, root,
                                 comm_.part->handle, stream_));
  }

  int gather() {
    if (plain() && nccl_.ncclGather != nullptr)
      return said(
          "ncclGather",
          nccl_.ncclGather(buffers_.in.at,
                           at_root_ ? buffers_.out_pieces[0].at : nullptr,
                           units(buffers_.in), type_, op_.peer,
                           comm_.part->handle, stream_));
    int result = send(buffers_.in, op_.peer);
    for (int r = 0; at_root_ && r < comm_.size && result == ncclSuccess; ++r)
      result = recv(buffers_.out_pieces[r], r);
    return result;
  }

  int scatter() {
    if (plain() && nccl_.ncclScatter != nullptr)
      return said(
          "ncclScatter",
          nccl_.ncclScatter(at_root_ ? buffers_.in_pieces[0].at : nullptr,
                            buffers_.out.at, units(buffers_.out), type_,
                            op_.peer, comm_.part->handle, stream_));
    int result = ncclSuccess;
    for (int r = 0; at_root_ && r < comm_.size && result == ncclSuccess; ++r)
      result = send(buffers_.in_pieces[r], r);
    return result == ncclSuccess ? recv(buffers_.out, op_.peer) : result;
  }

  int all_gather() {
    if (plain())
      return said("ncclAllGather",
                  nccl_.ncclAllGather(buffers_.in.at, buffers_.out_pieces[0].at,
                                      units(buffers_.in), type_,
                                      comm_.part->handle, stream_));
    int result = ncclSuccess;
    for (int r = 0; r < comm_.size && result == ncclSuccess; ++r) {
      const Piece piece = buffers_.out_pieces[r];
      result = said("ncclBroadcast",
                    nccl_.ncclBroadcast(
                        r == comm_.rank ? buffers_.in.at : piece.at, piece.at,
                        units(piece), type_, r, comm_.part->handle, stream_));
    }
    return result;
  }

  int reduce_scatter() {
    if (plain())
      return said(
          "ncclReduceScatter",
          nccl_.ncclReduceScatter(buffers_.in_pieces[0].at, buffers_.out.at,
                                  units(buffers_.out), type_, reduction_,
                                  comm_.part->handle, stream_));
    int result = ncclSuccess;
    for (int r = 0; r < comm_.size && result == ncclSuccess; ++r)
      result = reduce(buffers_.in_pieces[r],
                      r == comm_.rank ? buffers_.out.at : nullptr, r);
    return result;
  }

  int all_to_all() {
    if (plain() && nccl_.ncclAlltoAll != nullptr)
      return said("ncclAlltoAll",
                  nccl_.ncclAlltoAll(buffers_.in_pieces[0].at,
                                     buffers_.out_pieces[0].at,
                                     units(buffers_.out_pieces[0]), type_,
                                     comm_.part->handle, stream_));
    int result = ncclSuccess;
    for (int r = 0; r < comm_.size && result == ncclSuccess; ++r) {
      result = send(buffers_.in_pieces[r], r);
      if (result == ncclSuccess) result = recv(buffers_.out_pieces[r], r);
    }
    return result;
  }

  const Nccl& nccl_;
  const Comm& comm_;
  const dw_op& op_;
  const dw_sdk::Buffers& buffers_;
  CUstream_st* const stream_;
  const char** const what_;
  int type_ = ncclUint8;
  int shift_ = 0;
  int reduction_ = kNoReduction;
  bool at_root_ = false;
};

}  // namespace

int make_reduction(const Comm& comm, const dw_op& op,
                   const dw_sdk::Buffers& buffers, int* reduction) {
  const int residence = (op.flags & DW_FLAG_SCALE_ON_DEVICE) != 0
                            ? ncclScalarDevice
                            : ncclScalarHostImmediate;
  int made = kNoReduction;
  const int result = comm.backend->nccl.ncclRedOpCreatePreMulSum(
      &made, const_cast<void*>(op.scale), moved_type(buffers.dtype_index).type,
      residence, comm.part->handle);
  if (result == ncclSuccess) *reduction = made;
  return result;
}

int enqueue(const Comm& comm, const dw_op& op, const dw_sdk::Buffers& buffers,
            int reduction, CUstream_st* stream, const char** what) {
  return EnqueuedCall(comm, op, buffers, reduction, stream, what).run();
}

}  // namespace nccl_backend
