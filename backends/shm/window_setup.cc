// A window's rounds. In the first the ranks tell the sizes of their parts, from
// which each knows where everything will be, and rank 0 where it listens. Then
// the others call it, it hands the segment over, and they map it: as for a
// communicator's memory (setup.cc), but without the processes, which are known.
// Last, everybody's tokens stand in their parts, and memory that is not in the
// segment was tried out.
#include "backend.h"
#include "heads.h"
#include "meet.h"
#include "sdk/fail.h"
#include "window.h"

#include <climits>

#include <cstdio>
#include <memory>
#include <new>
#include <sched.h>
#include <vector>

namespace shm_backend {
namespace {

constexpr uint64_t kMostSignals = 65536;

struct Word {
  Head head;
  uint64_t bytes;
  uint64_t address;  // 0: in the segment
  uint64_t place;    // in the heap; 0: elsewhere
};

uint64_t up(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Lines before the memory of a part, on whole pages.
uint64_t control_bytes(int size, uint64_t signals) {
  return up(sizeof(WindowHead) +
            (2 * static_cast<uint64_t>(size) + signals) * sizeof(Slot));
}

class WindowSetup final : public Building {
 public:
  WindowSetup(Comm* comm, const dw_setup_info& info);
  int32_t begin(dw_error* error);
  dw_blob word() const override { return {&word_, sizeof word_, nullptr, 0}; }
  int32_t step(const dw_blob* in, uint64_t n, dw_error* error) override;
  dw_setup_result take() override {
    return {nullptr, reinterpret_cast<dw_window*>(window_.release())};
  }

 private:
  int32_t plan(const std::vector<Word>& words, dw_error* error);
  int32_t map(dw_error* error);
  int32_t meet(const std::vector<Word>& words, dw_error* error);
  void lend(const void* data);
  void place_parts();
  int32_t find_part(int rank, uint64_t place, dw_error* error);

  Comm* const comm_;
  Word word_ = {};
  const uint64_t signals_;
  std::unique_ptr<Window> window_ = std::make_unique<Window>();
  std::vector<uint64_t> at_;  // where parts begin, by rank
  uint64_t segment_bytes_ = 0;
  std::vector<uint64_t> tokens_;
  Host host_;
  Guest guest_;
};

WindowSetup::WindowSetup(Comm* comm, const dw_setup_info& info)
    : comm_(comm), signals_(info.signals) {
  word_.head = head_of(kWindowMagic, info);
  word_.bytes = static_cast<uint64_t>(info.memory.count) *
                (static_cast<uint64_t>(info.memory.dtype.bits) *
                 info.memory.dtype.lanes / 8);
  word_.address = reinterpret_cast<uintptr_t>(info.memory.data);
  if (word_.address != 0 && comm->room.is_open()) lend(info.memory.data);
}

void WindowSetup::lend(const void* data) {
  const std::shared_ptr<Arena>& arena = comm_->room.arena();
  word_.place = arena->heap().place_of(data, word_.bytes);
  if (word_.place == 0) return;
  window_->lease.in.begin = word_.place;
  window_->lease.in.end = word_.place + word_.bytes;
  arena->heap().add(&window_->lease);
  window_->arena = arena;
}

int32_t WindowSetup::begin(dw_error* error) {
  if (!fill_random(&word_.head.token, sizeof word_.head.token))
    return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, 0,
                   "shm: there are no random numbers");
  if (comm_->rank != 0 || comm_->size == 1) return DW_OK;
  return host_.listen(comm_->size, &word_.head.name, error);
}

// Where all parts will be; the same on all ranks.
int32_t WindowSetup::plan(const std::vector<Word>& words, dw_error* error) {
  window_->comm = comm_;
  window_->signals = signals_;
  window_->parts.resize(words.size());
  window_->consumed = std::make_unique<std::atomic<uint64_t>[]>(words.size());
  const uint64_t control = control_bytes(comm_->size, signals_);
  for (size_t rank = 0; rank < words.size(); ++rank) {
    WindowPart& part = window_->parts[rank];
    part.bytes = words[rank].bytes;
    part.address = words[rank].address;
    const uint64_t data = part.address == 0 ? up(part.bytes) : 0;
    at_.push_back(segment_bytes_);
    tokens_.push_back(words[rank].head.token);
    if (part.bytes > INT64_MAX - kPage ||
        __builtin_add_overflow(segment_bytes_, control + data,
                               &segment_bytes_) ||
        segment_bytes_ > INT64_MAX)
      return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1,
                     0, "shm: the window is larger than any memory");
  }
  if (comm_->rank == 0) return window_->segment.create(segment_bytes_, error);
  return guest_.call(words[0].head.name, comm_->rank, word_.head.token, error);
}

void WindowSetup::place_parts() {
  const auto size = static_cast<size_t>(comm_->size);
  for (size_t rank = 0; rank < size; ++rank) {
    WindowPart& part = window_->parts[rank];
    char* const begin = window_->segment.data() + at_[rank];
    part.head = reinterpret_cast<WindowHead*>(begin);
    part.pairs = reinterpret_cast<Slot*>(begin + sizeof(WindowHead));
    part.writers = part.pairs + size;
    part.slots = part.writers + size;
    if (part.address == 0)
      part.data = begin + control_bytes(comm_->size, signals_);
  }
}

// What is new there is zero.
int32_t WindowSetup::map(dw_error* error) {
  if (comm_->rank != 0) {
    Descriptor memory;
    if (int32_t code =
            guest_.take(comm_->rank, comm_->size, &memory, nullptr, error))
      return code;
    if (int32_t code = window_->segment.adopt(std::move(memory), error))
      return code;
    if (window_->segment.bytes() != segment_bytes_)
      return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, 0, 0,
                     "shm: the memory that rank 0 gave is not this window's");
  }
  const auto rank = static_cast<size_t>(comm_->rank);
  const uint64_t end = rank + 1 < at_.size() ? at_[rank + 1] : segment_bytes_;
  if (int32_t code =
          window_->segment.reserve(at_[rank], end - at_[rank], error))
    return code;
  place_parts();
  window_->parts[rank].head->token.store(word_.head.token,
                                         std::memory_order_release);
  return DW_OK;
}

// Everybody's memory is there.
int32_t WindowSetup::meet(const std::vector<Word>& words, dw_error* error) {
  for (size_t rank = 0; rank < words.size(); ++rank) {
    WindowPart& part = window_->parts[rank];
    const auto peer = static_cast<int>(rank);
    if (window_->segment.there(at_[rank], at_[rank] + kPage) !=
            at_[rank] + kPage ||
        part.head->token.load(std::memory_order_acquire) != tokens_[rank])
      return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, peer, 0,
                     "shm: a rank does not see the window's memory");
    if (part.address == 0) continue;
    if (int32_t code = find_part(peer, words[rank].place, error)) return code;
  }
  return DW_DONE;
}

// What a rank brought.
int32_t WindowSetup::find_part(int rank, uint64_t place, dw_error* error) {
  WindowPart& part = window_->parts[static_cast<size_t>(rank)];
  if (rank == comm_->rank) {
    // Who is alone shares it with nobody.
    if (place != 0 || comm_->size == 1)
      // NOLINTNEXTLINE(performance-no-int-to-ptr): where the caller has it
      part.data = reinterpret_cast<char*>(static_cast<uintptr_t>(part.address));
    return DW_OK;
  }
  if (place != 0) {
    part.data = comm_->room.find(rank, place, part.bytes);
    if (part.data != nullptr) return DW_OK;
    return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, rank, 0,
                   "shm: the memory that a rank gave the window was released "
                   "before, or cannot be mapped here");
  }
  part.reach.attach(comm_->room, rank);
  if (part.reach.works()) return DW_OK;
  return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, rank, 0,
                 "shm: the kernel does not let ranks reach into each other's "
                 "memory here: give the window memory of get_mem_allocator, "
                 "or let it allocate its own");
}

int32_t WindowSetup::step(const dw_blob* in, uint64_t n, dw_error* error) {
  std::vector<Word> words;
  if (int32_t code = read_words(word_, in, n, &words, error)) return code;
  const bool alone = comm_->size == 1;
  switch (word_.head.round++) {
    case 0: {
      if (int32_t code = plan(words, error)) return code;
      if (!alone) return DW_OK;
      if (int32_t code = map(error)) return code;
      return meet(words, error);
    }
    case 1:
      return comm_->rank == 0
                 ? host_.serve(tokens_, window_->segment.fd(), nullptr, error)
                 : int32_t{DW_OK};
    case 2:
      return map(error);
    default:
      return meet(words, error);
  }
}

}  // namespace

int32_t begin_window(Comm* comm, const dw_setup_info& info,
                     std::unique_ptr<Building>* building, dw_error* error) {
  if (info.rank != comm->rank || info.size != comm->size)
    return dw_invalid(error, "shm: the window is of another communicator");
  if (info.signals > kMostSignals)
    return dw_unsupported(error, "shm: a window has 65536 signals at most");
  auto made = std::make_unique<WindowSetup>(comm, info);
  const int32_t code = made->begin(error);
  *building = std::move(made);
  return code;
}

int32_t window_map(dw_window* given, int32_t rank, void** address,
                   uint64_t* bytes, dw_error* error) {
  const Window& window = *Window::of(given);
  if (rank < 0 || rank >= window.comm->size)
    return dw_invalid(error, "shm: there is no such rank");
  const WindowPart& part = window.parts[static_cast<size_t>(rank)];
  if (part.data == nullptr && rank != window.comm->rank)
    return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, rank, 0,
                   "shm: the rank brought memory that others cannot map: let "
                   "the window allocate it, or get_mem_allocator");
  *address =
      part.data != nullptr
          ? part.data
          : reinterpret_cast<void*>(static_cast<uintptr_t>(part.address));
  *bytes = part.bytes;
  return DW_OK;
}

// Memory of the segment lives as long as somebody has it mapped, so late writes
// there hurt nobody. For what the caller brought, whoever writes says so first,
// and looks whether the window is closed afterwards.
int32_t window_destroy(dw_window* given, int64_t deadline_ns, dw_error* error) {
  const std::unique_ptr<Window> window(Window::of(given));
  const Comm& comm = *window->comm;
  const WindowPart& mine = window->parts[static_cast<size_t>(comm.rank)];
  mine.head->closed.store(1, std::memory_order_seq_cst);
  if (mine.address == 0) return DW_OK;
  for (int rank = 0; rank < comm.size; ++rank) {
    const auto inside = [&] {
      return mine.writers[rank].value.load(std::memory_order_seq_cst) != 0;
    };
    while (inside()) {
      if (comm.room.arena()->watch.lost(
              {comm.room.arena_ranks()[static_cast<size_t>(rank)]}) >= 0)
        break;
      if (deadline_ns != 0 && comm.host->now_ns(comm.host->self) > deadline_ns)
        return dw_fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, rank,
                       0, "shm: a rank is still writing to the window");
      sched_yield();
    }
  }
  return DW_OK;
}

}  // namespace shm_backend
