// One run of a composed operation: rounds of messages and operations of the
// backend below, with local work between them.
//
// All ranks go through the same steps, even where one of them has nothing to
// do. Step n of an operation with the sequence number s has the number 16 s + n
// below. (If no collective is composed, s stays s.)
//
// Threads: one at a time. Ownership: its memory is kept for the next operation.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_EXECUTION_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_EXECUTION_H_

#include "algo/below/cell.h"
#include "algo/compose/parts.h"
#include "algo/compose/recipes.h"
#include "algo/compose/scratch.h"
#include "distwrap/abi/plugin.h"
#include "sdk/moe_rows.h"

#include <cstdint>
#include <vector>

namespace distwrap::algo::compose {

class Comm;

inline constexpr uint64_t kSteps = 16;

class Execution {
 public:
  // `may_block`: this thread is the only one that submits below, so it may wait
  // inside.
  Execution(Comm& comm, bool may_block);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Runs a checked operation to its end. Returns DW_OK or an error; after an
  // error, nothing below touches the operation's buffers any more.
  int32_t run(const dw_op& op, dw_error* error);
  // Runs one operation of the backend below to its end.
  int32_t run_below(const dw_op& op);
  Gate& gate() { return gate_; }

 private:
  // execution.cc: runs an operation by its recipe; it may be a step of another
  // one.
  int32_t perform(const dw_op& op);
  int32_t perform_native(const dw_op& op);
  int32_t carried(const dw_op& op);
  int32_t without_alias(const dw_op& op);
  int32_t without_parts(const dw_op& op);
  dw_op part_of(const dw_op& op, uint16_t kind) const;

  // exchange.cc
  void send(int peer, const void* data, uint64_t bytes);
  void receive(int peer, void* data, uint64_t bytes);
  // Transfers all given messages; none of them waits for another one.
  int32_t exchange();
  int32_t exchange_together();
  int32_t exchange_apart();
  void next_step() { ++step_; }
  uint64_t step_number() const { return seq_ * kSteps + step_; }
  int32_t wait_gate();
  int32_t failed(int32_t code);

  // moves.cc
  int32_t barrier_by_messages();
  int32_t barrier_by_all_reduce(const dw_op& op);
  int32_t broadcast(const dw_op& op);
  int32_t gather(const dw_op& op);
  int32_t scatter(const dw_op& op);
  int32_t all_gather(const dw_op& op);
  int32_t all_to_all(const dw_op& op);
  int32_t gather_by_all_gather(const dw_op& op);
  int32_t scatter_by_broadcast(const dw_op& op);
  int32_t all_gather_padded(const dw_op& op);
  int32_t all_to_all_by_all_gather(const dw_op& op);

  // moe_rows.cc
  int32_t move_rows(const dw_op& op);

  // reductions.cc
  int32_t sum_then_divide(const dw_op& op);
  int32_t scale_then_sum(const dw_op& op);
  int32_t reduce(const dw_op& op);
  int32_t all_reduce(const dw_op& op);
  int32_t reduce_scatter(const dw_op& op);
  int32_t scan(const dw_op& op);
  int32_t reduce_by_all_reduce(const dw_op& op);
  int32_t all_reduce_by_reduce_scatter(const dw_op& op);
  int32_t all_reduce_by_reduce(const dw_op& op);
  int32_t reduce_scatter_by_all_to_all(const dw_op& op);
  int32_t reduce_scatter_by_all_reduce(const dw_op& op);
  int32_t kernel_by_all_gather(const dw_op& op);
  int32_t scan_by_blocks(const dw_op& op, dw_reduce_fn kernel);
  int32_t reduce_whole(const dw_op& op, int to, dw_reduce_fn kernel);
  int32_t reduce_blocks(const dw_op& op, void* out, dw_reduce_fn kernel);
  dw_reduce_fn kernel_of(const dw_op& op, uint16_t reduce) const;
  const void* operand_of(const dw_op& op) const;
  // The first element of a rank's block in a buffer of equal blocks.
  int64_t block_begin(int rank, int64_t count) const {
    const int64_t n = size_;
    return count / n * rank + (count % n < rank ? count % n : rank);
  }

  int32_t no_memory();
  int32_t no_kernel();

  struct Message {
    void* data;
    uint64_t bytes;
    int peer;
    bool sends;
  };

  Comm& comm_;
  const bool may_block_;
  const int rank_, size_;
  const int64_t ranks_;  // divisor of averages
  // The fields of the running operation.
  uint64_t seq_ = 0, fingerprint_ = 0, step_ = 0;
  int64_t deadline_ns_ = 0;
  int carrier_ = 0;  // element type of its messages
  bool started_ = false;
  bool broken_ = false;
  dw_error error_ = {};

  ScratchMemory scratch_;
  std::vector<Message> messages_;
  std::vector<dw_op> ops_;
  std::vector<dw_group_item> items_;
  std::vector<const void*> inputs_;
  Parts in_parts_, out_parts_;
  dw_sdk::MoeRows rows_;
  std::vector<int64_t> counts_;  // counts and places of an exchange below
  Gate gate_;
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_EXECUTION_H_
