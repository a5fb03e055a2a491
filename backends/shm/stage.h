// What a rank keeps of its own posts and staging: which tickets stand where.
//
// Staging is a ring. Using all of it in turn instead of the same few lines
// again and again is faster: lines that a peer has just read have to be taken
// back from its cache first.
#ifndef DISTWRAP_BACKENDS_SHM_STAGE_H_
#define DISTWRAP_BACKENDS_SHM_STAGE_H_

#include "layout.h"

#include <algorithm>

namespace shm_backend {

struct Stage {
  static constexpr size_t kBlocks = 16;

  // Where it is, also in this rank's plot; NULL before it is first used.
  char* data = nullptr;
  size_t at = 0;
  // Of the staging in use. Every block has the ticket of the last round that
  // has data in it.
  size_t limit = 0;
  size_t block_bytes = 0;
  size_t next = 0;
  size_t block = kBlocks;  // the one that `next` is in, kBlocks for none
  uint64_t tickets[kBlocks] = {};

  // Staging of that size, which is to be taken when it is first used.
  void use(size_t bytes, uint64_t last_ticket) {
    data = nullptr;
    limit = bytes;
    block_bytes = bytes / kBlocks;
    next = 0;
    block = kBlocks;
    for (uint64_t& ticket : tickets) ticket = last_ticket;
  }
  // Room for so many bytes in turn, within the first `ring`, which from now on
  // belong to `ticket`; kNone when somebody may still read what stands there:
  // `in_use` is the ticket of that.
  static constexpr size_t kNone = SIZE_MAX;
  size_t take(size_t bytes, size_t ring, uint64_t ticket, uint64_t consumed,
              uint64_t* in_use) {
    size_t begin = next;
    if (begin + bytes > ring) {
      begin = 0;
      block = kBlocks;
    }
    if (block != kBlocks && begin + bytes <= (block + 1) * block_bytes) {
      tickets[block] = ticket;
    } else {
      const size_t first = begin / block_bytes;
      const size_t last = (begin + bytes - 1) / block_bytes;
      for (size_t b = first; b <= last; ++b) {
        if (b == block || reached(consumed, tickets[b])) continue;
        *in_use = tickets[b];
        return kNone;
      }
      std::fill(tickets + first, tickets + last + 1, ticket);
      block = last;
    }
    next = whole_lines(begin + bytes);
    return begin;
  }
  // Leaves the rest of a page out: a processor that reads fetches on to the end
  // of it, and would take lines from who is writing there. After a page that is
  // `read_to_end` it fetches on as well, so the next one is left out.
  void turn_page(bool read_to_end) {
    next = (next + (read_to_end ? kPage : kPage - 1)) / kPage * kPage;
  }
  // The largest part that may be asked for at once: several fit.
  size_t most() const { return limit / 4; }
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_STAGE_H_
