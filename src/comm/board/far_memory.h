// Keeps what ranks of other hosts have told of their groups, in memory that
// `distwrap info --live` of this host finds: laid out as a board (page.h), with
// an area for each rank of the world, which only this process writes.
//
// Threads: one at a time; the board locks. Ownership: shared by the board and
// its pages.
//
//   auto far = FarMemory::make(job, world_size);
//   FarPage page = far->take(rank, uid, facts);
#ifndef DISTWRAP_SRC_COMM_BOARD_FAR_MEMORY_H_
#define DISTWRAP_SRC_COMM_BOARD_FAR_MEMORY_H_

#include "comm/board/host_memory.h"
#include "comm/board/page.h"

#include <absl/strings/string_view.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace distwrap::comm {

class FarMemory;

// Gives a page back, or frees one that is private.
struct FarPageEnd {
  std::shared_ptr<FarMemory> memory = nullptr;  // null: the page is private
  std::atomic<uint64_t>* uid = nullptr;
  void operator()(GroupPage* page) const;
};
// A page for what one rank has told of one group.
using FarPage = std::unique_ptr<GroupPage, FarPageEnd>;

class FarMemory : public std::enable_shared_from_this<FarMemory> {
 public:
  // The name of the memory for other processes.
  static constexpr char kName[] = "distwrap board of other hosts";
  // Null when there is no such memory here, or the world is larger than what
  // `info --live` reads.
  static std::shared_ptr<FarMemory> make(uint64_t job, int world_size);

  // A page of zeros, with these facts. It is private when no memory is left.
  FarPage take(int rank, uint64_t uid, const GroupFacts& facts);
  static FarPage take_private();
  // Notes what a rank has told of itself.
  void know(int rank, absl::string_view host, int64_t process);
  // A rank has left, or is lost.
  void end(int rank, bool is_lost);

 private:
  FarMemory(uint64_t job, std::unique_ptr<HostMemory> memory)
      : job_(job), memory_(std::move(memory)) {}
  Area& area(int rank) const {
    return memory_->area(static_cast<size_t>(rank));
  }
  bool is_open(int rank) const { return opened_[static_cast<size_t>(rank)]; }

  const uint64_t job_;
  const std::unique_ptr<HostMemory> memory_;
  std::vector<bool> opened_ = std::vector<bool>(memory_->ranks());
};

// Makes a page as if nothing had been written to it.
void clear(GroupPage* page);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_FAR_MEMORY_H_
