#include "board_fixture.h"

#include "base/host_identity.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <utility>

namespace distwrap::comm {

dw_op op_of(uint16_t kind, int64_t count, uint64_t seq) {
  dw_op op = {};
  op.kind = kind;
  op.peer = -1;
  op.seq = seq;
  op.in.dtype = op.out.dtype = kF32;
  op.in.count = op.out.count = count;
  if (kind == DW_OP_ALL_REDUCE) op.reduce = DW_REDUCE_SUM;
  return op;
}

dw_op waiting(uint16_t kind, int64_t count, uint64_t seq) {
  dw_op op = op_of(kind, count, seq);
  op.flags |= DW_FLAG_CALLER_WAITS;
  return op;
}

std::vector<std::unique_ptr<Rank>> meet(int n, absl::Duration straggler,
                                        const std::vector<std::string>& hosts) {
  std::vector<DescriptorHandover> doors;
  std::vector<BoardOffer> offers;
  for (int rank = 0; rank < n; ++rank) {
    doors.push_back(*DescriptorHandover::open());
    const std::string host = hosts.empty() ? base::host_identity()
                                           : hosts[static_cast<size_t>(rank)];
    offers.push_back(
        {host, doors.back().name(), 1000 + static_cast<uint64_t>(rank)});
  }
  std::vector<std::unique_ptr<Rank>> ranks(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  std::vector<int> all(ranks.size());
  std::iota(all.begin(), all.end(), 0);
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      const auto at = static_cast<size_t>(r);
      ranks[at] = std::make_unique<Rank>();
      Rank& rank = *ranks[at];
      auto board =
          Board::meet({.rank = r,
                       .heartbeat = absl::Seconds(60),
                       .watchdog = rank.watchdog,
                       .straggler = straggler,
                       .job = 1000,
                       .world_size = n,
                       .host = hosts.empty() ? "here" : hosts[at],
                       .hears_hosts = !hosts.empty()},
                      std::move(doors[at]), offers, Deadline::after(kLong));
      ASSERT_TRUE(board.ok()) << board.status();
      rank.board = *std::move(board);
      rank.group_board = GroupBoard::open(rank.board, {"g", 77, r, all});
      ASSERT_NE(rank.group_board, nullptr);
      rank.group_board->tell(&rank.ear);
    });
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

}  // namespace distwrap::comm
