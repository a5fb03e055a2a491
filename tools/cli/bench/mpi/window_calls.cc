// One-sided MPI operations on windows that MPI allocates, in one passive epoch
// for all ranks; each operation is flushed.
#include "bench/mpi/calls.h"

#include <algorithm>
#include <atomic>

namespace distwrap::bench::mpi {
namespace {

MPI_Aint up_to_word(size_t bytes) {
  constexpr size_t kLine = 64;
  return static_cast<MPI_Aint>((bytes + kLine - 1) / kLine * kLine);
}

}  // namespace

SharedMemory::SharedMemory(size_t bytes) : word_at_(up_to_word(bytes)) {
  MPI_Win_allocate(word_at_ + 64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base_,
                   &window_);
  std::memset(base_, 0, static_cast<size_t>(word_at_) + 64);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
}

SharedMemory::~SharedMemory() {
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

int64_t SharedMemory::word() const {
  MPI_Win_sync(window_);
  return std::atomic_ref<int64_t>(*reinterpret_cast<int64_t*>(base_ + word_at_))
      .load(std::memory_order_acquire);
}

std::function<int()> bind_window(const Request& request, Prepared& p, int rank,
                                 int ranks) {
  const std::string op = request.op;
  const MPI_Datatype type = type_named(request.dtype);
#ifdef MPICH_VERSION
  // MPICH 4.0 completes an operation only while its target calls MPI, but the
  // targets here wait for their next request at a socket.
  return nullptr;
#endif
  if (ranks < 2) return nullptr;
  const int count = static_cast<int>(request.in_count);
  char* const in = p.in.data();
  char* const out = p.out.data();
  const bool lands =
      op == "win_put" || op == "win_put_rate" || op == "win_signal";
  auto shared =
      std::make_unique<SharedMemory>(std::max(p.in.bytes(), p.out.bytes()));
  SharedMemory* const memory = shared.get();
  const MPI_Win window = memory->window();
  if (lands)
    std::memcpy(memory->base(), p.unwritten.data(), p.unwritten.bytes());
  else
    std::memcpy(memory->base(), in, p.in.bytes());
  MPI_Barrier(MPI_COMM_WORLD);
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  if (lands) {
    p.window = std::move(shared);
    p.result = memory->base();
  }
  if (op == "win_put" || op == "win_put_rate") {
    const int times = op == "win_put" ? 1 : request.depth;
    return [=] {
      for (int i = 0; i < times; ++i) {
        const int code =
            MPI_Put(in, count, type, right, 0, count, type, window);
        if (code != MPI_SUCCESS) return code;
      }
      return MPI_Win_flush(right, window);
    };
  }
  // The call keeps the memory that is not spoiled.
  const std::shared_ptr<SharedMemory> kept = std::move(shared);
  if (op == "win_get") {
    return [=] {
      static_cast<void>(kept);
      MPI_Get(out, count, type, left, 0, count, type, window);
      return MPI_Win_flush(left, window);
    };
  }
  if (op == "win_fetch_add") {
    const auto zeros = std::make_shared<std::vector<char>>(p.in.bytes());
    return [=] {
      static_cast<void>(kept);
      if (count == 1)
        MPI_Fetch_and_op(zeros->data(), out, type, left, 0, MPI_SUM, window);
      else
        MPI_Get_accumulate(zeros->data(), count, type, out, count, type, left,
                           0, count, type, MPI_SUM, window);
      return MPI_Win_flush(left, window);
    };
  }
  if (op != "win_signal") return nullptr;
  const int other = rank ^ 1;
  const bool first = rank % 2 == 0;
  return [=, round = int64_t{0}]() mutable {
    ++round;
    for (int half = 0; half < 2; ++half) {
      if (first == (half == 0)) {
        MPI_Put(in, count, type, other, 0, count, type, window);
        MPI_Win_flush(other, window);
        MPI_Accumulate(&round, 1, MPI_INT64_T, other, memory->word_at(), 1,
                       MPI_INT64_T, MPI_REPLACE, window);
        const int code = MPI_Win_flush(other, window);
        if (code != MPI_SUCCESS) return code;
        continue;
      }
      for (int looks = 0; memory->word() < round; ++looks) {
        if (looks % 1024 != 1023) continue;
        int found = 0;  // some engines make progress only in calls
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found,
                   MPI_STATUS_IGNORE);
      }
    }
    return MPI_SUCCESS;
  };
}

}  // namespace distwrap::bench::mpi
