// Arbitrary content in the memory of a board, for a rank beside a faulty
// neighbour and for a reader outside of the job.
//
// The input is a list of words with their places in the neighbour's area. The
// neighbour starts with the same calls, so that code behind the comparisons is
// reached, too.
#include "base/error.h"
#include "comm/board/board.h"
#include "comm/board/group_board.h"
#include "comm/board/live.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace {

using namespace distwrap;        // NOLINT(build/namespaces)
using namespace distwrap::comm;  // NOLINT(build/namespaces)

constexpr uint64_t kUid = 77;
// The neighbour's front page and its first group pages.
constexpr size_t kPages = 3;
constexpr size_t kWords = kPages * kPageBytes / sizeof(uint64_t);
using Words = std::array<uint64_t, kWords>;

void require(bool holds) {
  if (!holds) std::abort();
}

// Checks that a text is one line, whatever was read.
void prove_text(const std::string& text) {
  require(std::none_of(text.begin(), text.end(),
                       [](unsigned char c) { return c < ' '; }));
}

void prove(const ErrorInfo& info) {
  require(info.reason == Reason::kCallMismatch ||
          info.reason == Reason::kPeerLost);
  require(info.group == "g");
  for (const int rank : info.ranks) require(rank == 0 || rank == 1);
  prove_text(std::string(base::make_error(info).message()));
}

class Ear final : public GroupBoard::Listener {
  void board_found(ErrorInfo found) override { prove(found); }
  void board_waits(GroupBoard::Stuck stuck) override { prove_text(stuck.text); }
  void board_tells(std::string) override {}
  void board_hears(absl::string_view) override {}
};

// A rank, and the memory as its neighbour sees it.
class World {
 public:
  World() {
    absl::StatusOr<DescriptorHandover> door = DescriptorHandover::open();
    require(door.ok());
    const std::string name = door->name();
    auto board =
        Board::meet({.rank = 0,
                     .heartbeat = absl::Hours(1),
                     .watchdog = watchdog_,
                     .straggler = absl::Milliseconds(1),
                     .job = 5,
                     .world_size = 2,
                     .host = "here"},
                    *std::move(door), {{"here", name, 1}, {"here", "x", 2}},
                    Deadline::after(absl::Seconds(10)));
    require(board.ok() && *board != nullptr);
    board_ = *std::move(board);
    auto taken = ask_at(name, 0, {1, 2}, Deadline::after(absl::Seconds(10)));
    require(taken.ok());
    auto memory = HostMemory::adopt(*std::move(taken), 2);
    require(memory.ok());
    memory_ = *std::move(memory);
    Area& theirs = memory_->area(1);
    require(memory_->reserve(&theirs.front).ok());
    for (size_t group_board = 0; group_board + 1 < kPages; ++group_board)
      require(memory_->reserve(&theirs.groups[group_board]).ok());
    // The state that a neighbour with the same calls publishes.
    call();
    theirs.front.state = AreaState::kOpen;
    theirs.front.facts = {kBoardLayout, 5, 1, 2, {"here"}, 0, 0};
    theirs.front.groups[0] = kUid;
    std::memcpy(static_cast<void*>(&theirs.groups[0]),
                static_cast<const void*>(&memory_->area(0).groups[0]),
                sizeof(GroupPage));
    for (size_t i = 0; i < kWords; ++i) well_[i] = words()[i].load();
  }

  void show(const uint8_t* data, size_t size) {
    Words shown = well_;
    struct Patch {
      uint16_t place;
      uint64_t word;
    } patch;
    constexpr size_t kBytes = sizeof patch.place + sizeof patch.word;
    for (; size >= kBytes; data += kBytes, size -= kBytes) {
      std::memcpy(&patch.place, data, sizeof patch.place);
      std::memcpy(&patch.word, data + sizeof patch.place, sizeof patch.word);
      shown[patch.place % kWords] = patch.word;
    }
    for (size_t i = 0; i < kWords; ++i)
      words()[i].store(shown[i], std::memory_order_relaxed);
  }

  void ask() {
    call();
    if (const auto found = group_->ask(); found.has_value()) prove(*found);
    for (const uint64_t number : {uint64_t{1}, uint64_t{3}, uint64_t{9}})
      for (const RankSeen& seen : group_->missing(number)) {
        require(seen.rank == 1 && seen.since >= absl::ZeroDuration());
        prove_text(seen.call + seen.label + seen.group);
      }
    const absl::StatusOr<LiveBoard> live =
        LiveBoard::read(memory_->descriptor());
    if (!live.ok()) {
      require(error_reason(live.status()) == Reason::kRefused);
      return;
    }
    require(live->ranks.size() == 2);
    for (const LiveRank& rank : live->ranks) {
      prove_text(rank.host);
      for (const LiveGroup& group : rank.groups) {
        require(group.since_ns >= 0);
        prove_text(group.name + group.call + group.label);
      }
    }
  }

 private:
  std::atomic<uint64_t>* words() {
    return reinterpret_cast<std::atomic<uint64_t>*>(&memory_->area(1));
  }
  // Makes a new group and calls of each kind.
  void call() {
    static const int64_t counts[] = {3, 4};
    group_.reset();
    group_ = GroupBoard::open(board_, {"g", kUid, 0, {0, 1}});
    require(group_ != nullptr);
    group_->tell(&ear_);
    for (uint64_t seq = 1; seq <= 3; ++seq) {
      dw_op op = {};
      op.seq = seq;
      op.peer = -1;
      op.kind = seq == 1   ? DW_OP_BARRIER
                : seq == 2 ? DW_OP_ALL_REDUCE
                           : DW_OP_ALL_TO_ALL;
      op.in.dtype = op.out.dtype = {2, 32, 1};
      op.in.count = op.out.count = 8;
      op.flags = DW_FLAG_CALLER_WAITS;
      if (seq == 3) {
        op.flags |= DW_FLAG_PER_RANK;
        op.in.counts = op.out.counts = counts;
      }
      group_->publish(op.kind, op, "step");
    }
  }

  std::shared_ptr<Watchdog> watchdog_ = *Watchdog::make();
  std::shared_ptr<Board> board_;
  std::unique_ptr<HostMemory> memory_;
  Ear ear_;
  std::unique_ptr<GroupBoard> group_;
  Words well_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World* const world = new World;
  world->show(data, size);
  world->ask();
  return 0;
}
