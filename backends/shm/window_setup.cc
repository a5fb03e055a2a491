// The rounds in which a window is made. In the first, each rank tells the size
// of its part, from which all compute where everything lies, and rank 0 where
// it listens. Then the others connect, rank 0 hands the segment over, and they
// map it: as for a communicator's memory (setup.cc), but without the processes,
// which are known. In the last round all tokens stand in their parts, and
// memory outside of the segment has been tried.
#include "backend.h"
#include "hostmem/window_ops.h"
#include "meet.h"
#include "sdk/fail.h"
#include "window.h"

#include <cstdio>
#include <memory>
#include <new>
#include <vector>

namespace shm_backend {
namespace {

using dw_hostmem::SetupExchange;

constexpr SetupExchange::Kind kWindow = {"shm", 0x77687364, 6};

// A rank's setup message in every round.
struct Word {
  uint64_t token;   // random, this rank's
  SocketName name;  // the socket of rank 0
  uint64_t bytes;
  uint64_t address;  // 0: in the segment
  uint64_t place;    // in the heap; 0: elsewhere
};

class WindowSetup final : public SetupExchange {
 public:
  WindowSetup(Comm* comm, const dw_setup_info& info);
  int32_t begin(dw_error* error);
  dw_setup_result take() override {
    return {nullptr, reinterpret_cast<dw_window*>(window_.release())};
  }

 private:
  int32_t hear(uint32_t round, const Words& words, dw_error* error) override;
  int32_t plan(const std::vector<Word>& words, dw_error* error);
  int32_t map(dw_error* error);
  int32_t meet(const std::vector<Word>& words, dw_error* error);
  void lend(const void* data);
  void place_parts();
  int32_t find_part(int rank, uint64_t place, dw_error* error);

  Comm* const comm_;
  Word word_ = {};
  std::unique_ptr<Window> window_;
  std::vector<uint64_t> at_;  // offset of each rank's part
  uint64_t segment_bytes_ = 0;
  std::vector<uint64_t> tokens_;
  Host host_;
  Guest guest_;
};

WindowSetup::WindowSetup(Comm* comm, const dw_setup_info& info)
    : SetupExchange(kWindow, info),
      comm_(comm),
      window_(std::make_unique<Window>(comm, info.signals)) {
  word_.bytes = dw_hostmem::data_bytes(info);
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
  if (!fill_random(&word_.token, sizeof word_.token))
    return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, 0,
                   "shm: the system gives no random numbers");
  int32_t code = DW_OK;
  if (comm_->rank == 0 && comm_->size > 1)
    code = host_.listen(comm_->size, &word_.name, error);
  say_object(word_);
  return code;
}

// Computes where all parts lie; equal on all ranks.
int32_t WindowSetup::plan(const std::vector<Word>& words, dw_error* error) {
  const uint64_t control =
      dw_hostmem::control_bytes(comm_->size, window_->signals);
  for (size_t rank = 0; rank < words.size(); ++rank) {
    WindowPart& part = window_->parts[rank];
    part.bytes = words[rank].bytes;
    part.address = words[rank].address;
    const uint64_t data =
        part.address == 0 ? dw_hostmem::whole_pages(part.bytes) : 0;
    at_.push_back(segment_bytes_);
    tokens_.push_back(words[rank].token);
    if (part.bytes > INT64_MAX - kPage ||
        __builtin_add_overflow(segment_bytes_, control + data,
                               &segment_bytes_) ||
        segment_bytes_ > INT64_MAX)
      return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1,
                     0, "shm: the window is larger than any memory");
  }
  if (comm_->rank == 0) return window_->segment.create(segment_bytes_, error);
  return guest_.call(words[0].name, comm_->rank, word_.token, error);
}

void WindowSetup::place_parts() {
  const auto size = static_cast<size_t>(comm_->size);
  for (size_t rank = 0; rank < size; ++rank) {
    WindowPart& part = window_->parts[rank];
    char* const begin = window_->segment.data() + at_[rank];
    part.lay_out(begin, comm_->size);
    part.is_lent = part.address != 0;
    if (!part.is_lent)
      part.data =
          begin + dw_hostmem::control_bytes(comm_->size, window_->signals);
  }
}

// Maps the segment, whose new memory is zero.
int32_t WindowSetup::map(dw_error* error) {
  if (comm_->rank != 0) {
    Descriptor memory;
    if (int32_t code =
            guest_.take(comm_->rank, comm_->size, &memory, nullptr, error))
      return code;
    if (int32_t code = window_->segment.adopt(std::move(memory), error))
      return code;
    if (window_->segment.bytes() != segment_bytes_)
      return dw_fail(
          error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, 0, 0,
          "shm: the memory that rank 0 handed over is not this window's");
  }
  const auto rank = static_cast<size_t>(comm_->rank);
  const uint64_t end = rank + 1 < at_.size() ? at_[rank + 1] : segment_bytes_;
  if (int32_t code =
          window_->segment.reserve(at_[rank], end - at_[rank], error))
    return code;
  place_parts();
  window_->parts[rank].head->token.store(word_.token,
                                         std::memory_order_release);
  return DW_OK;
}

// All ranks have mapped their memory.
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

// Finds the memory that a rank brought.
int32_t WindowSetup::find_part(int rank, uint64_t place, dw_error* error) {
  WindowPart& part = window_->parts[static_cast<size_t>(rank)];
  if (rank == comm_->rank) {
    // A single rank shares the memory with nobody.
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

int32_t WindowSetup::hear(uint32_t round, const Words& said, dw_error* error) {
  std::vector<Word> words;
  if (int32_t code = read(said, &words, error)) return code;
  const bool alone = comm_->size == 1;
  switch (round) {
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

Window::Window(Comm* by, uint64_t n_signals)
    : WindowWords("shm", by->size, n_signals),
      comm(by),
      parts(static_cast<size_t>(by->size)) {}

int32_t begin_window(Comm* comm, const dw_setup_info& info,
                     std::unique_ptr<SetupExchange>* exchange,
                     dw_error* error) {
  if (int32_t code =
          dw_hostmem::check_window(info, comm->rank, comm->size, error))
    return code;
  auto made = std::make_unique<WindowSetup>(comm, info);
  const int32_t code = made->begin(error);
  *exchange = std::move(made);
  return code;
}

int32_t window_map(dw_window* given, int32_t rank, void** address,
                   uint64_t* bytes, dw_error* error) {
  return dw_hostmem::map_window(
      *Window::of(given), rank, address, bytes,
      "the rank brought memory that others cannot map: let the window allocate "
      "it, or get_mem_allocator",
      error);
}

// Memory of the segment lives as long as a rank maps it, so late writes there
// do no harm. A rank that writes to memory that the caller brought announces
// the write first, and checks afterwards whether the window is closed.
int32_t window_destroy(dw_window* given, int64_t deadline_ns, dw_error* error) {
  const std::unique_ptr<Window> window(Window::of(given));
  const Comm& comm = *window->comm;
  const WindowPart& mine = window->parts[static_cast<size_t>(comm.rank)];
  mine.head->closed.store(dw_hostmem::kClosed, std::memory_order_seq_cst);
  if (!mine.is_lent) return DW_OK;
  return dw_hostmem::wait_for_writers(
      *window, deadline_ns, [&](int rank) { return comm.room.has_died(rank); },
      error);
}

}  // namespace shm_backend
