// An operation as the engine runs it: checked, with sizes in bytes.
#ifndef DISTWRAP_BACKENDS_SHM_CALL_H_
#define DISTWRAP_BACKENDS_SHM_CALL_H_

#include "distwrap/abi/blocks.h"
#include "distwrap/abi/plugin.h"
#include "promise.h"
#include "sdk/buffers.h"
#include "sdk/moe_rows.h"
#include "short_call.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace shm_backend {

struct Comm;

using dw_sdk::Piece;
using dw_sdk::Pieces;

// Borrows nothing from the descriptor but the buffers, lists of rows, blocks
// and the factor.
struct EngineOp : dw_sdk::Buffers {
  uint16_t kind = 0;
  uint16_t reduce = 0;
  uint32_t flags = 0;
  int32_t peer = -1;
  uint64_t tag = 0;   // tag of a message
  uint16_t type = 0;  // element type of a message, DW_DTYPE_<NAME>
  // `print` is a hash of everything on which all ranks have to agree.
  // `print_base` is the part of it that is equal in calls that differ only in
  // buffers and numbers.
  uint32_t print = 0;
  uint64_t print_base = 0;
  const void* scale = nullptr;
  int64_t deadline_ns = 0, timeout_ns = 0;
  // The strided pieces of an exchange or a gather; NULL: they are packed.
  const dw_ext_blocks* blocks = nullptr;
  dw_trace* trace = nullptr;  // only on the thread of a caller that waits
  // The pieces of an all_to_all are rows that lie apart: streams of bytes
  // without an address.
  bool has_rows = false;
  dw_sdk::MoeRows rows;

  bool is_message() const { return kShapes[kind].message; }
  bool caller_waits() const { return (flags & DW_FLAG_CALLER_WAITS) != 0; }
  bool per_rank() const { return (flags & DW_FLAG_PER_RANK) != 0; }
};

// Checks `op` and writes it to `call`. DW_OK, or why the operation is refused;
// nothing has happened then.
int32_t read_call(const Comm* comm, const dw_op* op, EngineOp* call,
                  dw_error* error);

// How a call that was read runs, if one slot of each rank may be enough for it.
ShortCall short_form(const Comm& comm, const dw_op& op, const EngineOp& call);

// Reads descriptors. Consecutive calls mostly differ only in buffers, numbers
// and the counts of pairs; then nothing else is checked again.
class CallReader {
 public:
  int32_t read(const Comm* comm, const dw_op* op, dw_error* error) {
    if (op != nullptr && op->struct_size == last_.struct_size &&
        (divided_ ? divide_again(*comm, *op) : move_again(*op))) [[likely]]
      return DW_OK;
    return read_anew(comm, op, error);
  }
  EngineOp call;
  ShortCall as_short;

 private:
  template <bool kDivided>
  bool is_like_last(const dw_op& op) const;
  void take_numbers(const dw_op& op);
  // Updates `call` if the descriptor is like the last one, else false.
  bool move_again(const dw_op& op);
  bool divide_again(const Comm& comm, const dw_op& op);
  int32_t read_anew(const Comm* comm, const dw_op* op, dw_error* error);

  dw_op last_ = {};  // struct_size 0: there was no last one
  // The last one had counts for both buffers, which only pairs of ranks know.
  bool divided_ = false;
};

// One reader each for collectives, sends and receives, which often alternate.
class CallReaders {
 public:
  // Whether an operation given to `submit` may run to its end there.
  static bool caller_waits(const dw_op* op) {
    return op != nullptr && (op->flags & DW_FLAG_CALLER_WAITS) != 0;
  }
  CallReader& of(const dw_op* op) {
    if (op == nullptr) return collectives_;
    return op->kind == DW_OP_SEND   ? sends_
           : op->kind == DW_OP_RECV ? receives_
                                    : collectives_;
  }

 private:
  CallReader collectives_, sends_, receives_;
};

// ---- on the way of every call ----

namespace call_reader {

inline uint64_t mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0x9e3779b97f4a7c15u;
  return value ^ value >> 29;
}

// The call's print: its equal part mixed with fingerprint and sequence number.
inline uint32_t print_of(uint64_t fingerprint, uint64_t seq,
                         const EngineOp& call) {
  return static_cast<uint32_t>(mix((call.print_base ^ fingerprint) + seq));
}
inline uint32_t print_of(const dw_op& op, const EngineOp& call) {
  return print_of(op.fingerprint, op.seq, call);
}

// Loads one field by itself. A processor forwards a recent store to a load that
// lies within it; one load that covers two recent stores waits until both are
// in the cache, behind all earlier stores. The host has just stored the fields
// of the descriptor.
template <class T>
T as_stored(const T& field) {
  return *static_cast<const volatile T*>(&field);
}

}  // namespace call_reader

// Whether `op` equals the last descriptor in everything but buffers, times and
// numbers, and its counts if `kDivided`. Both have the same size.
template <bool kDivided>
[[gnu::always_inline]] inline bool CallReader::is_like_last(
    const dw_op& op) const {
  using call_reader::as_stored;
  const dw_op& last = last_;
  const auto differ = [](const dw_buf& a, const dw_buf& b) {
    uint32_t x, y;
    std::memcpy(&x, &a.dtype, sizeof x);
    std::memcpy(&y, &b.dtype, sizeof y);
    const uint64_t plain =
        (x ^ y) | as_stored(a.reserved) | reinterpret_cast<uintptr_t>(a.parts);
    if (kDivided) return plain | (a.counts == nullptr ? 1u : 0u);
    return plain | static_cast<uint64_t>(a.count ^ b.count) |
           reinterpret_cast<uintptr_t>(a.counts) |
           reinterpret_cast<uintptr_t>(a.displs);
  };
  const uint64_t difference =
      static_cast<uint64_t>(as_stored(op.kind) ^ last.kind) |
      static_cast<uint64_t>(as_stored(op.reduce) ^ last.reduce) |
      (as_stored(op.flags) ^ last.flags) |
      static_cast<uint32_t>(as_stored(op.peer) ^ last.peer) |
      (op.tag ^ last.tag) | differ(op.in, last.in) | differ(op.out, last.out) |
      static_cast<uint32_t>(op.stream.device_type ^ last.stream.device_type) |
      reinterpret_cast<uintptr_t>(op.next);
  return difference == 0;
}

[[gnu::always_inline]] inline bool CallReader::move_again(const dw_op& op) {
  if (!is_like_last<false>(op)) return false;
  call.in.at = static_cast<char*>(op.in.data);
  call.out.at = static_cast<char*>(op.out.data);
  call.in_pieces.move_to(call.in.at);
  call.out_pieces.move_to(call.out.at);
  take_numbers(op);
  return true;
}

[[gnu::always_inline]] inline void CallReader::take_numbers(const dw_op& op) {
  call.deadline_ns = call_reader::as_stored(op.deadline_ns);
  call.timeout_ns = call_reader::as_stored(op.timeout_ns);
  call.trace = call_reader::as_stored(op.trace);
  call.print = call_reader::print_of(op, call);
}

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_CALL_H_
