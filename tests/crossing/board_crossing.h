// An 8-byte all_reduce through two communicators of two ranks over the
// loopback: the calls of one are shown on the board, those of the other are
// not. The difference is the board's cost in a call.
#ifndef DISTWRAP_TESTS_CROSSING_BOARD_CROSSING_H_
#define DISTWRAP_TESTS_CROSSING_BOARD_CROSSING_H_

#include "comm/communicator.h"

#include <array>
#include <memory>

namespace distwrap::testing {

class BoardCrossing {
 public:
  // Makes the boards of the two ranks, each with its thread. Ends the process
  // when it cannot.
  BoardCrossing();
  ~BoardCrossing();
  BoardCrossing(const BoardCrossing&) = delete;
  BoardCrossing& operator=(const BoardCrossing&) = delete;

  // Make one synchronous call; return whether it succeeded.
  bool shown() { return call(*shown_); }
  bool unshown() { return call(*unshown_); }

 private:
  struct Rank {
    std::shared_ptr<comm::Watchdog> watchdog = *comm::Watchdog::make();
    std::shared_ptr<comm::Board> board;
  };

  bool call(comm::BackendCommunicator& communicator) {
    return communicator
        .all_reduce(TensorView(&out_, 1), TensorView(&in_, 1), ReduceOp::kSum,
                    {})
        .ok();
  }
  comm::BackendCommunicator::Ptr make(
      const char* group, std::shared_ptr<comm::GroupBoard> group_board);

  std::array<Rank, 2> ranks_;
  std::shared_ptr<comm::BackendInstance> backend_;
  std::shared_ptr<Store> store_;
  comm::BackendCommunicator::Ptr shown_, unshown_;
  int64_t in_ = 7, out_ = 0;
};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_CROSSING_BOARD_CROSSING_H_
