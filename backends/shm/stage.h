// A rank's staging ring, and the tickets of the data in it.
//
// Using the whole ring in turn is faster than using a few lines again and
// again: lines that a peer has just read have to be taken back from its cache
// first.
#ifndef DISTWRAP_BACKENDS_SHM_STAGE_H_
#define DISTWRAP_BACKENDS_SHM_STAGE_H_

#include "layout.h"

#include <algorithm>

namespace shm_backend {

struct Stage {
  static constexpr size_t kBlocks = 16;

  // Address of the staging, and its offset `at` in this rank's region; NULL
  // before the first use.
  char* data = nullptr;
  size_t at = 0;
  // The staging in use, in blocks. `tickets` holds for each block the last
  // round that has data in it.
  size_t limit = 0;
  size_t block_bytes = 0;
  size_t next = 0;
  size_t block = kBlocks;  // block of `next`, kBlocks for none
  uint64_t tickets[kBlocks] = {};

  // Starts with `bytes` of staging, which the caller takes at the first use.
  void use(size_t bytes, uint64_t last_ticket) {
    data = nullptr;
    limit = bytes;
    block_bytes = bytes / kBlocks;
    next = 0;
    block = kBlocks;
    for (uint64_t& ticket : tickets) ticket = last_ticket;
  }
  // The offset of the next `bytes` within the first `ring` bytes, which from
  // now on belong to `ticket`. kNone when a peer may still read the old data
  // there; `in_use` is then their ticket.
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
  // Skips the rest of a page: a reader's prefetcher runs on to the end of the
  // page and would take lines from the writer. After a page that is
  // `read_to_end` it runs on into the next page, which is skipped too.
  void turn_page(bool read_to_end) {
    next = (next + (read_to_end ? kPage : kPage - 1)) / kPage * kPage;
  }
  // The largest part for one `take`: several fit.
  size_t most() const { return limit / 4; }
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_STAGE_H_
