// A group on the board: shows this rank's collectives and compares them with
// those of the members on the same host.
//
// Threads: `publish` and `retract` from one at a time, in the order of the
// numbers; the listener is told on the session's thread.
// Ownership: of its communicator, which closes it before it dies.
#ifndef DISTWRAP_SRC_COMM_BOARD_LANE_H_
#define DISTWRAP_SRC_COMM_BOARD_LANE_H_

#include "comm/board/board.h"
#include "comm/board/seen_call.h"
#include "distwrap/abi/types.h"
#include "distwrap/status.h"

#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::comm {

class Lane {
 public:
  // Hears once, at most, what is wrong with the group: kCallMismatch with both
  // calls, or kPeerLost. Does not block.
  class Listener {
   public:
    virtual void board_found(ErrorInfo found) = 0;

   protected:
    ~Listener() = default;
  };
  struct Place {
    std::string group;
    uint64_t uid = 0;  // the same on all members, of no other group
    int rank = 0;      // of the group
    std::vector<int> global_ranks;
  };

  // Null when no other member is on this host, or the board is full.
  static std::unique_ptr<Lane> open(std::shared_ptr<Board> board, Place place,
                                    Listener& listener);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // A collective about to be handed to its backend.
  void publish(const dw_op& op, absl::string_view label);
  // Its backend has refused it: the number is free again.
  void retract(uint64_t number);
  // What is wrong as far as can be seen now, for a call that has failed.
  std::optional<ErrorInfo> ask();

 private:
  friend class Board;

  struct Member {
    int rank;  // of the group
    const Board::Neighbour* who;
    int place = -1;  // of its lane in its area
    // What is known to be the same.
    uint64_t agreed = 0, agreed_history = 0;
    // The number at which its history differed when last looked at.
    uint64_t suspect = 0;
  };
  // An entry, read whole.
  struct Seen {
    uint64_t history = 0;
    SeenCall call;
    std::string label;
  };

  Lane(std::shared_ptr<Board> board, Place place, Listener& listener)
      : board_(std::move(board)),
        place_(std::move(place)),
        listener_(listener) {}
  // What has to be told, once.
  std::optional<ErrorInfo> look();
  std::optional<ErrorInfo> look_at(Member& member);
  LanePage* page_of(Member& member) const;
  static std::optional<Seen> read(const LanePage& page, uint64_t number);
  ErrorInfo located(ErrorInfo info) const;
  ErrorInfo lost(const Member& member) const;
  ErrorInfo mismatch(uint64_t number);

  const std::shared_ptr<Board> board_;
  const Place place_;
  Listener& listener_;
  LanePage* page_ = nullptr;
  int own_place_ = -1;
  std::vector<Member> members_;  // the others, on this host
  bool told_ = false;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_LANE_H_
