// The head of what a rank says in every round of a setup, of a communicator or
// of a window.
#ifndef DISTWRAP_BACKENDS_SHM_HEADS_H_
#define DISTWRAP_BACKENDS_SHM_HEADS_H_

#include "distwrap/abi/plugin.h"
#include "meet.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace shm_backend {

struct Head {
  uint32_t magic, version;
  int32_t rank, size;
  uint64_t uid, epoch;
  uint64_t round;
  uint64_t token;   // random, this rank's
  uint64_t nonce;   // of the memory: rank 0's; all have one that is there
  uint64_t area;    // where this rank's is in its plot; 0: nowhere yet
  SocketName name;  // rank 0's
};

// `magic` tells what is being built.
inline constexpr uint32_t kCommunicatorMagic = 0x6d687364;
inline constexpr uint32_t kWindowMagic = 0x77687364;

// Of this rank, before the first round.
Head head_of(uint32_t magic, const dw_setup_info& info);

// Whether a blob is the word of rank `peer` in this round; `bytes` long.
int32_t check_head(const Head& own, int peer, const dw_blob& blob, size_t bytes,
                   dw_error* error);

// All ranks' words of a round. A `Word` begins with its `head`.
template <class Word>
int32_t read_words(const Word& own, const dw_blob* in, uint64_t n,
                   std::vector<Word>* words, dw_error* error) {
  int32_t code = n == static_cast<uint64_t>(own.head.size)
                     ? DW_OK
                     : check_head(own.head, -1, {}, sizeof(Word), error);
  if (code == DW_OK) words->resize(n);
  for (int peer = 0; peer < own.head.size && code == DW_OK; ++peer) {
    code = check_head(own.head, peer, in[peer], sizeof(Word), error);
    if (code == DW_OK)
      std::memcpy(&(*words)[static_cast<size_t>(peer)], in[peer].data,
                  sizeof(Word));
  }
  return code;
}

// Something that is built in rounds.
class Building {
 public:
  virtual ~Building() = default;
  // What this rank says in the round to come.
  virtual dw_blob word() const = 0;
  // DW_OK when there is another round, DW_DONE after the last.
  virtual int32_t step(const dw_blob* in, uint64_t n, dw_error* error) = 0;
  // What was built; given away.
  virtual dw_setup_result take() = 0;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_HEADS_H_
