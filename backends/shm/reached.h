// Wait condition: a peer has published at least this ticket.
#ifndef DISTWRAP_BACKENDS_SHM_REACHED_H_
#define DISTWRAP_BACKENDS_SHM_REACHED_H_

#include "room.h"
#include "wait.h"

namespace shm_backend {

class Reached final : public Condition {
 public:
  // `word`: the peer's slot or another word that holds tickets. `all`: the
  // group, where every rank has to publish that round; NULL where data go one
  // way, so that it is better to come late and find much.
  Reached(const std::atomic<uint64_t>& word, uint64_t ticket, int rank,
          int64_t busy_ns, const Room* all)
      : word_(word),
        ticket_(ticket),
        rank_(rank),
        busy_ns_(busy_ns),
        all_(all) {}
  bool holds() override {
    return reached(word_.load(std::memory_order_acquire), ticket_);
  }
  bool awaits(int rank) override { return rank == rank_; }
  bool will_await(int rank) override {
    return all_ == nullptr ||
           !reached(all_->area(rank).posts[line_of(ticket_)].ticket.load(
                        std::memory_order_relaxed),
                    ticket_);
  }
  int64_t busy_ns() override { return busy_ns_; }

 private:
  const std::atomic<uint64_t>& word_;
  const uint64_t ticket_;
  const int rank_;
  const int64_t busy_ns_;
  const Room* const all_;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_REACHED_H_
