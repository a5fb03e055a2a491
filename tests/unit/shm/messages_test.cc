// Sends and receives whose callers wait: of every size at which they go another
// way, with partners that are late, and in another order than they were sent.
#include "copy.h"
#include "far_ranks.h"
#include "layout.h"
#include "thread_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <iterator>
#include <random>
#include <thread>
#include <vector>

namespace distwrap::shm_test {
namespace {

using shm_backend::kChunkBytes;
using shm_backend::kChunks;

constexpr uint8_t kUntouched = 0xee;

uint8_t value(uint64_t tag, size_t i) {
  return static_cast<uint8_t>(tag * 29 + i * 3 + i / 64);
}

// One message of u8; its tag is in its data. What was wrong, or nothing.
const char* move(conformance::Member& member, bool sends, int peer,
                 uint64_t tag, size_t bytes, size_t shift = 0) {
  constexpr size_t kGuard = 64;
  std::vector<uint8_t> data(bytes + shift + kGuard, kUntouched);
  for (size_t i = 0; i < bytes && sends; ++i) data[shift + i] = value(tag, i);
  const std::vector<uint8_t> before = data;
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = sends ? DW_OP_SEND : DW_OP_RECV;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.peer = peer;
  op.tag = tag;
  op.timeout_ns = 60'000'000'000;
  dw_buf& buf = sends ? op.in : op.out;
  buf.data = data.data() + shift;
  buf.count = static_cast<int64_t>(bytes);
  buf.dtype = {1, 8, 1};
  dw_error error = {};
  if (member.api.submit(member.comm, &op, nullptr, &error) != DW_DONE)
    return "refused";
  if (sends) return data == before ? nullptr : "input changed";
  for (size_t i = 0; i < data.size(); ++i) {
    const bool inside = i >= shift && i - shift < bytes;
    if (data[i] != (inside ? value(tag, i - shift) : kUntouched))
      return inside ? "wrong" : "written beside";
  }
  return nullptr;
}

void nap(int us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

// Makes a group whose ranks consider each other distant, until all have
// noticed. Each message finds that the last one has been read, so every look
// counts.
void see_distances(conformance::Member& member, int size) {
  move_apart(member);
  constexpr int kEnough = 300;  // a rest of 127, and the looks behind it
  for (int first = 0; first < size; ++first)
    for (int second = first + 1; second < size; ++second) {
      if (member.rank != first && member.rank != second) continue;
      const bool begins = member.rank == first;
      const int other = begins ? second : first;
      for (uint64_t i = 0; i < kEnough; ++i)
        for (const bool sends : {begins, !begins})
          ASSERT_EQ(move(member, sends, other, i, 4096), nullptr) << i;
    }
  shm_backend::Comm& comm = *shm_backend::of(member.comm);
  for (int other = 0; other < size; ++other)
    if (other != member.rank) {
      EXPECT_TRUE(comm.messages.distances().is_far(other)) << other;
    }
}

class Messages : public testing::TestWithParam<int> {};

// Each several times in a row, since messages like the last go the shortest
// way.
void exercise(int size, bool apart) {
  run_threads(size, [size, apart](conformance::Member& member) {
    if (apart) see_distances(member, size);
    std::vector<size_t> sizes = {0, 100'000};
    for (const size_t around :
         {size_t{24}, size_t{1024 + 24}, size_t{2048}, size_t{4096},
          size_t{8192}, size_t{16384}, kChunkBytes, 2 * kChunkBytes})
      for (const size_t bytes : {around - 1, around, around + 1})
        sizes.push_back(bytes);
    std::mt19937 random(11);  // equal on all ranks
    const auto one_of = [&random](size_t n) { return random() % n; };
    for (uint64_t tag = 1; tag < 1500; ++tag) {
      const size_t bytes = sizes[one_of(sizes.size())];
      const auto from = static_cast<int>(one_of(static_cast<size_t>(size)));
      const auto step = static_cast<int>(one_of(static_cast<size_t>(size - 1)));
      const int to = (from + 1 + step) % size;
      const auto late = static_cast<int>(one_of(40));
      const size_t shift = one_of(3);
      for (int again = 0; again < 4; ++again) {
        if (late == member.rank) nap(100);
        const char* wrong = nullptr;
        if (member.rank == from)
          wrong = move(member, true, to, tag, bytes, shift);
        if (member.rank == to) wrong = move(member, false, from, tag, bytes);
        ASSERT_EQ(wrong, nullptr)
            << bytes << " bytes from " << from << " to " << to << ", " << again;
      }
    }
  });
}

TEST_P(Messages, ArriveWhole) { exercise(GetParam(), false); }

TEST(FarMessages, ArriveWhole) { exercise(3, true); }

INSTANTIATE_TEST_SUITE_P(Sizes, Messages, testing::Values(2, 3, 5));

// Chunk by chunk, to places that begin no line.
void exercise_large(bool apart) {
  run_threads(4, [apart](conformance::Member& member) {
    constexpr size_t kLarge = (8 << 20) + 13;
    ASSERT_TRUE(shm_backend::outgrow_caches(kLarge, 4));
    if (apart) see_distances(member, 4);
    if (member.rank > 1) return;
    const bool sends = member.rank == 0;
    for (uint64_t tag = 0; tag < 3; ++tag)
      ASSERT_EQ(move(member, sends, 1 - member.rank, tag, kLarge, tag), nullptr)
          << tag;
  });
}

TEST(Message, TooLargeForTheCachesArrivesWhole) { exercise_large(false); }

TEST(FarMessages, TooLargeForTheCachesArriveWhole) { exercise_large(true); }

// As many as end before anybody receives them.
TEST(Message, IsFoundByItsTagAmongOthers) {
  run_threads(2, [](conformance::Member& member) {
    constexpr uint64_t kSet = 12;
    constexpr size_t kSizes[] = {8, 600, 3000, 8192};
    const bool sends = member.rank == 0;
    const int other = 1 - member.rank;
    for (uint64_t set = 0; set < 60; ++set) {
      if (!sends && set % 3 == 0) nap(300);
      for (uint64_t i = 0; i < kSet; ++i) {
        const uint64_t n = sends ? i : kSet - 1 - i;  // the last comes first
        ASSERT_EQ(move(member, sends, other, n, kSizes[n % std::size(kSizes)]),
                  nullptr)
            << "set " << set << ", message " << n;
      }
      ASSERT_EQ(move(member, !sends, other, set, 0), nullptr);
    }
  });
}

// Chunks of those that nobody receives stay theirs.
TEST(Message, ThatIsNotReceivedForLongHoldsUpNoOther) {
  run_threads(2, [](conformance::Member& member) {
    constexpr uint64_t kHeld = kChunks / 2 - 2;
    const bool sends = member.rank == 0;
    const auto pass = [&](uint64_t begin, uint64_t end) {
      for (uint64_t tag = begin; tag < end; ++tag)
        ASSERT_EQ(move(member, sends, 1 - member.rank, tag, 3000 + tag),
                  nullptr)
            << "message " << tag;
    };
    if (sends) pass(0, kHeld);
    pass(kHeld, 20 * kChunks);
    if (!sends) pass(0, kHeld);
  });
}

}  // namespace
}  // namespace distwrap::shm_test
