// The MPI calls that the benchmark times, on buffers of their own.
//
// Threads: used by one. Ownership: a Prepared owns its buffers. Its call
// borrows them, so a Prepared must not move.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MPI_CALLS_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MPI_CALLS_H_

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "bench/mpi/wire.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mpi.h>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::bench::mpi {

// The MPI type of "f32", "i64" and so on; MPI_DATATYPE_NULL for a type that MPI
// lacks.
MPI_Datatype type_named(const std::string& name);

// Memory with the alignment of the other contestants' buffers.
class Memory {
 public:
  explicit Memory(size_t bytes)
      : data_(static_cast<char*>(
            std::aligned_alloc(kPage, (bytes + kPage) / kPage * kPage))),
        bytes_(bytes) {}
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { std::free(data_); }
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kPage = 4096;
  char* data_;
  size_t bytes_;
};

// Memory that other ranks write and read, with a word behind it. Construction
// and destruction are collective.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  char* base() const { return base_; }
  MPI_Win window() const { return window_; }
  MPI_Aint word_at() const { return word_at_; }
  int64_t word() const;

 private:
  MPI_Aint word_at_;
  char* base_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
};

// One operation at one size.
struct Prepared {
  Prepared(size_t in_bytes, size_t out_bytes)
      : in(in_bytes), out(out_bytes), unwritten(out_bytes) {}
  void spoil() {
    std::memcpy(window == nullptr ? out.data() : window->base(),
                unwritten.data(), out.bytes());
  }

  Memory in, out, unwritten;
  std::vector<int> in_counts, in_starts, out_counts, out_starts;
  std::unique_ptr<SharedMemory> window = nullptr;
  char* result = nullptr;  // the output; for a call in place, the input
  std::function<int()> call = nullptr;
};

// The start of each piece.
std::vector<int> starts_of(const std::vector<int>& counts);

// The call of an operation on windows; in window_calls.cc.
std::function<int()> bind_window(const Request& request, Prepared& p, int rank,
                                 int ranks);
// The call that carries out the request on `p`; null when there is none.
std::function<int()> bind(const Request& request, Prepared& p, int rank,
                          int ranks);

}  // namespace distwrap::bench::mpi

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MPI_CALLS_H_
