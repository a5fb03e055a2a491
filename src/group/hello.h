// The setup message that every rank of a session sends first: who it is, and
// where its host's other ranks find it. All ranks read all of them, so what has
// to be equal is in them as a hash.
#ifndef DISTWRAP_SRC_GROUP_HELLO_H_
#define DISTWRAP_SRC_GROUP_HELLO_H_

#include "comm/board/board.h"

#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::group {

struct Hello {
  uint64_t terms = 0;  // hash of `terms_of_session`
  int64_t pid = 0;
  uint64_t draw = 0;     // random; rank 0's becomes the uid of the world
  std::string host;      // empty: not known
  std::string handover;  // address of the board's hand-over; empty: no board
};

std::string encode(const Hello& hello);
// An empty Hello when the bytes are not one.
Hello decode(absl::string_view bytes);

// The parameters that must be equal on all ranks, for people.
std::string terms_of_session(int world_size, absl::string_view backend);

// By rank, the number of its host, counted in order of the first ranks. A host
// that is not known has one rank.
std::vector<int32_t> number_hosts(absl::Span<const comm::BoardOffer> offers);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_HELLO_H_
