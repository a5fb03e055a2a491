#include "run.h"

#include "reached.h"
#include "sdk/fail.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace shm_backend {
namespace {

// Bytes that a rank which is not late processes before it publishes, at 8 GB/s;
// some chunks at most.
constexpr size_t kMostBusy = 512 << 10;
int64_t busy_ns(const EngineOp& call) {
  return static_cast<int64_t>(
      std::min(std::max(call.in.bytes, call.out.bytes), kMostBusy) / 8);
}

// Polls of an acknowledgement that frees a resource before it is needed.
constexpr int kMoreLooks = 32;
// From this size on two ranks use only a part of the staging.
constexpr size_t kShortRingFrom = 1 << 20;
// From this size on, ranks that share processors and caches do so too.
constexpr size_t kSharedRingFrom = 512 << 10;

}  // namespace

Run::Run(Comm* given_comm, const EngineOp& given_call, dw_error* error)
    : comm(given_comm),
      call(given_call),
      rank(given_comm->rank),
      size(given_comm->size),
      print_(given_call.print),
      stage_(given_comm->stage),
      ring_(given_comm->stage.limit),
      ticket_(given_comm->ticket),
      limit_(given_call.deadline_ns, given_call.timeout_ns),
      error_(error) {}

void Run::expect(size_t result, size_t input, size_t ring) {
  past_caches_ = outgrow_caches(result + input, size);
  // The caller's buffers should stay in the second-level cache beside this
  // rank's staging and the peer's data.
  if (size == 2 && result >= kShortRingFrom) use_ring(ring);
}

// At least four of the blocks that have a ticket of their own.
void Run::use_ring(size_t bytes) {
  ring_ = std::clamp(bytes, stage_.limit / 4, stage_.limit);
}

// The more of a shared cache the callers' buffers should use, the less is left
// for the staging.
void Run::share_caches(size_t bytes) {
  if (!comm->oversubscribed || past_caches_ || bytes < kSharedRingFrom) return;
  use_ring(bytes < 2 * kSharedRingFrom ? kShortRing : kShortRing / 2);
}

inline bool Run::wait_for(const std::atomic<uint64_t>& word, uint64_t ticket,
                          int peer, const Room* all) {
  for (int i = comm->looks; i > 0; --i) {
    if (reached(word.load(std::memory_order_acquire), ticket)) [[likely]]
      return true;
    pause();
    if (i == comm->looks - kSoonLooks) comm->waits(call);
  }
  return wait_long(word, ticket, peer, all);
}

bool Run::wait_long(const std::atomic<uint64_t>& word, uint64_t ticket,
                    int peer, const Room* all) {
  comm->waits(call);
  Reached condition(word, ticket, peer, busy_ns(call), all);
  code_ = wait_slow(comm, condition, limit_, error_);
  return !failed();
}

bool Run::wait(Condition& condition) {
  for (int i = comm->looks; i > 0; --i) {
    if (condition.holds()) return true;
    pause();
  }
  comm->waits(call);
  // The condition may have failed the call itself.
  const int32_t code = wait_slow(comm, condition, limit_, error_);
  if (!failed()) code_ = code;
  return !failed();
}

// Updates `consumed` to the lowest acknowledgement of the others.
void Run::see_consumed() {
  uint64_t least = ticket_ + kLastRound;
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    const uint64_t done =
        comm->room.area(other).done.load(std::memory_order_acquire);
    if (!reached(done, least)) least = done;
  }
  if (reached(least, comm->consumed)) comm->consumed = least;
}

bool Run::wait_consumed(uint64_t ticket) {
  see_consumed();
  if (reached(comm->consumed, ticket)) return true;
  for (int other = 0; other < size; ++other)
    if (other != rank &&
        !wait_for(comm->room.area(other).done, ticket, other, nullptr))
      return false;
  comm->consumed = ticket;
  return true;
}

// This rank is ahead of another by all its slots. To poll `done` for each next
// slot while the other writes it would delay both.
bool Run::wait_for_line(uint64_t ticket) {
  see_consumed();
  if (reached(comm->consumed, ticket)) return true;
  if (!wait_consumed(ticket)) return false;
  const uint64_t some = ticket + (uint64_t{kPosts / 4} << kRoundBits);
  const int looks = std::min(kMoreLooks, comm->looks);
  for (int i = 0; i < looks && !reached(comm->consumed, some); ++i) {
    pause();
    see_consumed();
  }
  return true;
}

bool Run::take_stage() {
  code_ = comm->room.take(stage_.limit, &stage_.at, error_);
  if (failed()) return false;
  stage_.data = comm->room.own(stage_.at);
  return true;
}

char* Run::prepare(uint32_t round, size_t bytes, bool staged) {
  if (failed()) return nullptr;
  inside_bytes_ = 0;
  if (bytes <= kInside && !staged) {
    inside_bytes_ = bytes;
    return inside_;
  }
  if (stage_.data == nullptr && !take_stage()) [[unlikely]]
    return nullptr;
  size_t at;
  for (uint64_t in_use = 0;
       (at = stage_.take(bytes, ring_, ticket_of(round), comm->consumed,
                         &in_use)) == Stage::kNone;)
    if (!wait_consumed(in_use)) return nullptr;
  prepared_ = stage_.at + at;
  return stage_.data + at;
}

void Run::show_prepared(uint32_t round) {
  post(round, print_, prepared_, inside_, inside_bytes_);
}

void Run::show(uint32_t round, const void* from, size_t bytes, uint32_t print) {
  if (has_shown(round)) return;
  if (bytes <= kInside) return post(round, print, 0, from, bytes);
  char* const to = prepare(round, bytes);
  if (to == nullptr) return;
  comm->stage_copy(to, from, bytes);
  post(round, print, prepared_, nullptr, 0);
}

void Run::post(uint32_t round, uint32_t print, size_t offset,
               const void* inside, size_t bytes) {
  if (failed()) return;
  const uint64_t ticket = ticket_of(round);
  const uint32_t line = line_of(ticket);
  if (has_shown(round)) return;
  if (!reached(comm->consumed, comm->posted[line]) &&
      !wait_for_line(comm->posted[line]))
    return;
  comm->posted[line] = ticket;
  Post& post = comm->room.mine().posts[line];
  if (bytes == 8)
    std::memcpy(post.inside, inside, 8);
  else if (bytes != 0)
    std::memcpy(post.inside, inside, bytes);
  post.what.store(static_cast<uint64_t>(offset / kLine) << 32 | print,
                  std::memory_order_relaxed);
  post.ticket.store(ticket, std::memory_order_release);
  take_ahead(&comm->room.mine().posts[(line + 1) % kPosts]);
  comm->room.wake_others();
}

const Post* Run::wait_for_post(int other, uint32_t round, uint32_t print) {
  if (failed()) return nullptr;
  const Post& post = post_of(other, round);
  const Room* const all = kShapes[call.kind].rooted ? nullptr : &comm->room;
  if (!wait_for(post.ticket, ticket_of(round), other, all)) return nullptr;
  if (static_cast<uint32_t>(post.what.load(std::memory_order_relaxed)) != print)
      [[unlikely]] {
    fail_mismatch(other);
    return nullptr;
  }
  return &post;
}

const char* Run::find(int other, size_t at, size_t bytes) {
  if (at >= comm->room.arena()->plot_bytes()) borrow();
  const char* const found = comm->room.find(other, at, bytes);
  if (found == nullptr) [[unlikely]]
    fail_missing(other, at);
  return found;
}

char* Run::find_lent(int other, size_t place, size_t bytes) {
  borrow();
  if (place < comm->room.arena()->plot_bytes()) {
    fail_nonsense(other);
    return nullptr;
  }
  char* const found = comm->room.find(other, place, bytes);
  if (found == nullptr) [[unlikely]]
    fail_missing(other, place);
  return found;
}

const char* Run::look(int other, uint32_t round, size_t total, size_t offset,
                      size_t bytes, uint32_t print) {
  const Post* const post = wait_for_post(other, round, print);
  if (post == nullptr) return nullptr;
  if (total <= kInside)
    return reinterpret_cast<const char*>(post->inside) + offset;
  return find(other, post->place() + offset, bytes);
}

const char* Run::look_at_either(int other, uint32_t round, size_t staged,
                                size_t lent, size_t bytes) {
  const Post* const post = wait_for_post(other, round, print_);
  if (post == nullptr) return nullptr;
  const size_t place = post->place();
  const bool is_lent = place >= comm->room.arena()->plot_bytes();
  return find(other, place + (is_lent ? lent : staged), bytes);
}

void Run::done_ticket(uint64_t ticket) {
  if (failed()) return;
  comm->room.mine().done.store(ticket, std::memory_order_release);
  comm->room.mine().pulse.store(ticket, std::memory_order_relaxed);
  comm->room.wake_others();
  comm->distances.look();
}

void Run::check_lenders() {
  order_loads();
  for (int other = 0; other < size && !failed(); ++other) {
    const State state = comm->room.state(other);
    if (state == State::kAborted || state == State::kMismatch) fail_left(other);
  }
}

int32_t Run::finish(bool symmetric) {
  if (borrows_) check_lenders();
  if (failed()) return code_;
  done_ticket(ticket_ + kLastRound);
  if (symmetric && !reached(comm->consumed, ticket_ - 1))
    comm->consumed = ticket_ - 1;
  comm->ticket = ticket_ + kLastRound + 1;
  return DW_OK;
}

int32_t Run::finish_together() {
  if (borrows_) check_lenders();
  if (failed()) return code_;
  done_ticket(ticket_ + kLastRound);
  if (wait_consumed(ticket_ + kLastRound))
    comm->ticket = ticket_ + kLastRound + 1;
  return code_;
}

void Run::fail_mismatch(int other) {
  char text[200];
  std::snprintf(text, sizeof text,
                "shm: rank %d made another call than rank %d here: operation, "
                "count, dtype, reduction or root differ",
                other, rank);
  code_ = dw_fail(error_, DW_FAILED_PRECONDITION, DW_REASON_CALL_MISMATCH,
                  other, 0, text);
  comm->room.leave(State::kMismatch);
}

void Run::fail_no_memory() {
  code_ = dw_fail(error_, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                  "shm: no memory for the rows that come");
}

void Run::fail_nonsense(int other) {
  code_ = dw_fail(error_, DW_INTERNAL, DW_REASON_BACKEND_FAILED, other, 0,
                  "shm: a rank wrote invalid data to shared memory");
}

void Run::fail_missing(int other, size_t place) {
  if (comm->room.state(other) != State::kOpen) return fail_left(other);
  if (place < comm->room.arena()->plot_bytes()) return fail_nonsense(other);
  code_ = dw_fail(error_, DW_FAILED_PRECONDITION, DW_REASON_BACKEND_FAILED,
                  other, 0,
                  "shm: the memory that a rank gave the operation is not "
                  "there: it was released before the end");
}

void Run::fail_left(int other) {
  code_ = shm_backend::fail_left(other, comm->room.state(other), error_);
}

}  // namespace shm_backend
