// The same 8-byte all_reduce through two communicators of two ranks over the
// loopback: of one the calls are shown on the board, of the other they are not.
// Their difference is what the board costs a call.
#ifndef DISTWRAP_TESTS_CROSSING_BOARD_CROSSING_H_
#define DISTWRAP_TESTS_CROSSING_BOARD_CROSSING_H_

#include "comm/communicator.h"

#include <array>
#include <memory>

namespace distwrap::testing {

class BoardCrossing {
 public:
  // Both ranks' boards are here, each with its thread; ends the process when
  // it cannot.
  BoardCrossing();
  ~BoardCrossing();
  BoardCrossing(const BoardCrossing&) = delete;
  BoardCrossing& operator=(const BoardCrossing&) = delete;

  // One synchronous call; whether it succeeded.
  bool shown() { return call(*shown_); }
  bool unshown() { return call(*unshown_); }

 private:
  struct Rank {
    std::shared_ptr<comm::Watchdog> watchdog =
        std::make_shared<comm::Watchdog>();
    std::shared_ptr<comm::Board> board;
  };

  bool call(comm::BackendCommunicator& communicator) {
    return communicator
        .all_reduce(TensorView(&out_, 1), TensorView(&in_, 1), ReduceOp::kSum,
                    {})
        .ok();
  }
  comm::BackendCommunicator::Ptr make(const char* group,
                                      std::shared_ptr<comm::Lane> lane);

  std::array<Rank, 2> ranks_;
  std::shared_ptr<comm::BackendInstance> backend_;
  std::shared_ptr<Store> store_;
  comm::BackendCommunicator::Ptr shown_, unshown_;
  int64_t in_ = 7, out_ = 0;
};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_CROSSING_BOARD_CROSSING_H_
