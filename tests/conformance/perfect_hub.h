// The meeting place of the ranks of a group of the perfect backend.
#ifndef DISTWRAP_TESTS_CONFORMANCE_PERFECT_HUB_H_
#define DISTWRAP_TESTS_CONFORMANCE_PERFECT_HUB_H_

#include "distwrap/abi/blocks.h"
#include "distwrap/abi/plugin.h"
#include "sdk/moe_rows.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

namespace distwrap::conformance {

// A buffer with copies of its arrays, which are borrowed for the call only.
struct HeldBuffer {
  HeldBuffer(const dw_buf& buf, int size);

  struct Piece {
    char* data;
    size_t count;
  };
  Piece whole() const;
  Piece piece(int rank, int size) const;

  dw_buf buf;
  std::vector<int64_t> counts, displs;
  std::vector<void*> parts;
};

// A submitted operation of one rank.
struct Held {
  Held(const dw_op& op, int rank, int size, dw_work* work,
       const dw_moe_sum_api* sums);

  const dw_op op;
  const int rank;
  const HeldBuffer in, out;
  const dw_sdk::MoeRows* rows() const { return has_rows_ ? &rows_ : nullptr; }
  // By rank, of an exchange or a gather of strided pieces; else empty. The
  // input of a gather is one block.
  std::vector<dw_block> in_blocks, out_blocks;
  dw_work* const work;  // NULL: the caller waits
  int32_t code = DW_AGAIN;
  dw_error error = {};

 private:
  dw_sdk::MoeRows rows_;
  bool has_rows_ = false;
};

// Threads: any. Buffers stay the callers' until the operation's end.
class Hub {
 public:
  Hub(int size, const dw_host_api& host) : size_(size), host_(host) {}

  int size() const { return size_; }
  bool is_aborted();
  // Takes part in the operation, or ends with DW_ABORTED.
  std::shared_ptr<Held> enter(const dw_op& op, int rank, dw_work* work);
  int32_t wait(const Held& held);
  bool has_receive(const dw_op& send, int rank);
  void abort();

 private:
  // Sender, receiver, tag: what meets.
  using Address = std::tuple<int, int, uint64_t>;
  using Queue = std::deque<std::shared_ptr<Held>>;
  struct Lane {
    Queue sends, receives;
  };

  static Address address(const dw_op& op, int rank);
  void end(Held& held, int32_t code = DW_OK, const dw_error& error = {});
  void end_aborted(Held& held);
  void deliver(Held& send, Held& receive);

  const int size_;
  const dw_host_api& host_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool aborted_ = false;
  std::map<uint64_t, Queue> collectives_;  // by sequence number
  std::map<Address, Lane> lanes_;
};

// Performs a collective for all ranks, in rank order.
void perform(const std::vector<const Held*>& all);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_PERFECT_HUB_H_
