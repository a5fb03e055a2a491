// Reductions: rounding, averages, equal bits everywhere, and the bytes that
// they send.
#include "exercise.h"

#include <gtest/gtest.h>

#include <cstring>
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <random>
#include <set>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>

namespace distwrap::gloo_test {
namespace {

// One message, one segment of a block, many segments.
constexpr size_t kCounts[] = {3, 40000, 700001};

dw_buf halves(std::vector<uint16_t>& elements) {
  dw_buf buf = {};
  buf.data = elements.data();
  buf.count = static_cast<int64_t>(elements.size());
  buf.dtype = {2, 16, 1};
  return buf;
}

// 2048 + 1 is no f16, but 2048 + 1 + 1 is: rounding at each step would stay at
// 2048.
TEST(GlooReductionsTest, HalvesAreRoundedOnce) {
  static constexpr uint16_t k2048 = 0x6800, k1 = 0x3c00, k2050 = 0x6801;
  on_ranks(3, [](Member& member) {
    for (const size_t count : kCounts)
      for (const uint16_t kind :
           {DW_OP_ALL_REDUCE, DW_OP_REDUCE, DW_OP_REDUCE_SCATTER}) {
        const size_t ins = kind == DW_OP_REDUCE_SCATTER ? 3 * count : count;
        std::vector<uint16_t> in(ins, member.rank == 0 ? k2048 : k1);
        std::vector<uint16_t> out(count, 0);
        dw_op op = op_of(kind, member.next_seq++);
        op.peer = kind == DW_OP_REDUCE ? 1 : -1;
        op.in = halves(in);
        op.out = halves(out);
        const std::string wrong = run(member, op, true);
        if (!wrong.empty()) member.find(wrong);
        const bool takes = kind != DW_OP_REDUCE || member.rank == 1;
        EXPECT_EQ(out, std::vector<uint16_t>(count, takes ? k2050 : 0)) << kind;
      }
  });
}

TEST(GlooReductionsTest, AveragesOfIntegersTruncate) {
  on_ranks(3, [](Member& member) {
    for (const size_t count : kCounts) {
      std::vector<int32_t> in(count, member.rank == 0 ? -5 : -1);
      std::vector<int32_t> out(count);
      dw_op op = op_of(DW_OP_ALL_REDUCE, member.next_seq++);
      op.reduce = DW_REDUCE_AVG;
      op.in = buffer_of(in);
      op.out = buffer_of(out);
      const std::string wrong = run(member, op, false);
      if (!wrong.empty()) member.find(wrong);
      EXPECT_EQ(out, std::vector<int32_t>(count, -2));
    }
  });
}

TEST(GlooReductionsTest, EveryRankGetsTheSameBitsInPlaceOrNot) {
  on_ranks(4, [](Member& member) {
    for (const size_t count : kCounts) {
      std::mt19937 random(static_cast<uint32_t>(member.rank));
      std::uniform_real_distribution<float> numbers(-1e6f, 1e6f);
      std::vector<float> in(count), out(count);
      for (float& number : in) number = numbers(random);
      const std::vector<float> before = in;
      dw_op op = op_of(DW_OP_ALL_REDUCE, member.next_seq++);
      op.in = buffer_of(in);
      op.out = buffer_of(out);
      std::string wrong = run(member, op, true);
      EXPECT_EQ(in, before);
      op.seq = member.next_seq++;
      op.out = op.in;
      op.flags |= DW_FLAG_IN_PLACE;
      wrong += run(member, op, true);
      if (!wrong.empty()) member.find(wrong);
      EXPECT_EQ(in, out);
      const std::string bits(reinterpret_cast<const char*>(out.data()),
                             count * sizeof(float));
      for (const std::string& other : member.meeting.swap(member.rank, bits))
        EXPECT_TRUE(other == bits);
    }
  });
}

TEST(GlooReductionsTest, ReduceInPlaceLeavesTheOthersAlone) {
  on_ranks(3, [](Member& member) {
    for (const size_t count : kCounts)
      for (int root = 0; root < 3; ++root) {
        std::vector<int32_t> data(count, member.rank + 1);
        dw_op op = op_of(DW_OP_REDUCE, member.next_seq++);
        op.peer = root;
        op.in = buffer_of(data);
        if (member.rank == root) {
          op.out = op.in;
          op.flags |= DW_FLAG_IN_PLACE;
        }
        const std::string wrong = run(member, op, true);
        if (!wrong.empty()) member.find(wrong);
        EXPECT_EQ(data, std::vector<int32_t>(
                            count, member.rank == root ? 6 : member.rank + 1));
      }
  });
}

// The bytes that this process's TCP sockets have received; Gloo's count twice,
// because the backend keeps duplicates.
uint64_t bytes_received() {
  uint64_t sum = 0;
  std::set<ino_t> seen;
  DIR* const directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const int number = std::atoi(entry->d_name);
    struct stat state;
    tcp_info info = {};
    socklen_t size = sizeof info;
    // Opened by name, because Gloo may just be closing the descriptor.
    const std::string name = std::string("/proc/self/fd/") + entry->d_name;
    if (stat(name.c_str(), &state) != 0 || !seen.insert(state.st_ino).second ||
        getsockopt(number, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
      continue;
    sum += info.tcpi_bytes_received;
  }
  closedir(directory);
  return sum;
}

// The bytes that all ranks together send for one call.
uint64_t cost_of(Member& member, uint16_t kind, size_t in, size_t out) {
  std::vector<float> from(in), to(out);
  dw_op op = op_of(kind, member.next_seq++);
  op.in = buffer_of(from);
  op.out = buffer_of(to);
  member.meeting.meet();
  const uint64_t before = member.rank == 0 ? bytes_received() : 0;
  member.meeting.meet();
  const std::string wrong = run(member, op, true);
  if (!wrong.empty()) member.find(wrong);
  member.meeting.meet();
  const uint64_t after = member.rank == 0 ? bytes_received() : 0;
  member.meeting.meet();
  return after - before;
}

TEST(GlooReductionsTest, OnlyWhatOthersNeedIsSent) {
  constexpr size_t kBlock = size_t{1} << 20;  // elements
  constexpr uint64_t kBytes = kBlock * sizeof(float);
  for (const uint64_t size : {uint64_t{2}, uint64_t{3}, uint64_t{4}})
    on_ranks(static_cast<int>(size), [&](Member& member) {
      // Each rank sends (n-1)/n of the input.
      const uint64_t scattered =
          cost_of(member, DW_OP_REDUCE_SCATTER, size * kBlock, kBlock);
      const uint64_t all =
          cost_of(member, DW_OP_ALL_REDUCE, size * kBlock, size * kBlock);
      if (member.rank != 0) return;
      const uint64_t least = size * (size - 1) * kBytes;
      EXPECT_GE(scattered, least);
      EXPECT_LT(scattered, least + least / 50);
      EXPECT_GE(all, 2 * least);
      EXPECT_LT(all, 2 * least + least / 25);
    });
}

}  // namespace
}  // namespace distwrap::gloo_test
