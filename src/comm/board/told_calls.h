// The calls on a group that the ranks of one host tell those of other hosts:
// one text, sent when it helps somebody (far_calls.cc).
//
// Threads: values.
//
//   listener->board_tells(told.text());
//   std::optional<ToldCalls> heard = ToldCalls::read(text);
#ifndef DISTWRAP_SRC_COMM_BOARD_TOLD_CALLS_H_
#define DISTWRAP_SRC_COMM_BOARD_TOLD_CALLS_H_

#include <absl/strings/string_view.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::comm {

struct ToldCalls {
  struct Rank {
    int rank = -1;  // in the group
    int64_t process = 0;
    uint64_t last = 0;  // number of the newest call that the speaker knows
  };
  // As Entry of page.h; balances are of one rank each, so they are not told.
  struct Call {
    uint64_t number = 0, history = 0, what = 0;
    int64_t count = 0;
    std::array<uint64_t, 3> label = {};
  };
  struct Checkpoint {
    uint64_t number = 0, history = 0;
  };

  std::string host;         // as people read it
  std::vector<Rank> ranks;  // the speaker, then who called the same
  uint64_t inside = 0;      // the call in which the speaker waits; 0: none
  int64_t since_ns = 0;     // the time since the speaker came to it, or out
  std::vector<Call> calls;  // the newest ones, oldest first
  // History at some earlier calls, for members that are far behind or ahead.
  std::vector<Checkpoint> checkpoints;
  // ShownCounts of the speaker, without the zeros at its end; only where it is
  // the only one of `ranks`.
  std::vector<uint32_t> counts;

  std::string text() const;
  // Null unless the text was made by `text`.
  static std::optional<ToldCalls> read(absl::string_view text);
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_TOLD_CALLS_H_
