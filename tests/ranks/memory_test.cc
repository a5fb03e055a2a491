// Memory of a group's backend, as programs use it.
#include "distwrap/memory.h"

#include "ranks/window_ranks.h"

#include <limits>

namespace distwrap::testing {
namespace {

TEST(MemoryOfABackend, IsReducedAndGivenBack) {
  run_hub_ranks(
      2, {.backend = "shm", .timeout = absl::Seconds(60)},
      [](Session& session) {
        const auto allocator = get_mem_allocator();
        ASSERT_TRUE(allocator.ok()) << allocator.status();
        for (const int64_t count : {3, 1000, 50'000, 400'000}) {
          absl::StatusOr<Memory> memory = allocator->allocate(4 * count);
          ASSERT_TRUE(memory.ok()) << memory.status();
          EXPECT_EQ(memory->bytes(), 4 * count);
          const TensorView view = memory->view(DType::kF32);
          ASSERT_EQ(view.count(), count);
          auto* const data = static_cast<float*>(view.data());
          EXPECT_EQ(data[count - 1], 0);
          std::fill_n(data, count, static_cast<float>(session.rank() + 1));
          expect_ok(all_reduce(view, ReduceOp::kSum));
          for (int64_t i = 0; i < count; ++i) ASSERT_EQ(data[i], 3) << i;
          expect_ok(barrier());
          const Memory other = *memory;
          EXPECT_TRUE(memory->release().ok());
          EXPECT_TRUE(memory->release().ok());
          EXPECT_EQ(other.data(), nullptr);
          EXPECT_EQ(other.bytes(), 0);
        }
      });
}

TEST(MemoryOfABackend, ThatCannotBeIsRefused) {
  run_hub_ranks(
      2, {.backend = "shm", .timeout = absl::Seconds(60)}, [](Session&) {
        const auto allocator = get_mem_allocator();
        ASSERT_TRUE(allocator.ok()) << allocator.status();
        expect_reason(allocator->allocate(-1).status(),
                      Reason::kInvalidArgument);
        expect_reason(
            allocator->allocate(std::numeric_limits<int64_t>::max()).status(),
            Reason::kOutOfMemory);
      });
}

TEST(MemoryOfABackend, OutlivesTheSession) {
  Memory kept;
  run_hub_ranks(1, {.backend = "shm", .timeout = absl::Seconds(60)},
                [&](Session&) {
                  const auto allocator = get_mem_allocator();
                  ASSERT_TRUE(allocator.ok()) << allocator.status();
                  absl::StatusOr<Memory> memory = allocator->allocate(100);
                  ASSERT_TRUE(memory.ok()) << memory.status();
                  kept = *std::move(memory);
                });
  ASSERT_NE(kept.data(), nullptr);
  static_cast<char*>(kept.data())[99] = 1;
}

// Loads, stores and atomics, as on memory that a window allocates.
TEST(MemoryOfABackend, IsAWindowThatIsMapped) {
  run_hub_ranks(
      2, {.backend = "shm", .timeout = absl::Seconds(60)},
      [](Session& session) {
        const int me = session.rank();
        const Peer other = Peer::group(1 - me);
        const auto allocator = get_mem_allocator();
        ASSERT_TRUE(allocator.ok()) << allocator.status();
        absl::StatusOr<Memory> memory = allocator->allocate(1 << 20);
        ASSERT_TRUE(memory.ok()) << memory.status();
        // Not at the beginning of the memory.
        auto* const mine = static_cast<int64_t*>(memory->data()) + 3;
        const Window window =
            make_window({.memory = TensorView(mine, 1000, DType::kI64)});
        EXPECT_EQ(window.memory().data(), mine);
        expect_reason(memory->release(), Reason::kInvalidArgument);
        const auto attr = window.get_attr(other);
        ASSERT_TRUE(attr.ok()) << attr.status();
        EXPECT_EQ(attr->access, WindowAccess::kUnified);
        mine[999] = 10 + me;
        expect_ok(barrier());
        const auto theirs = window.map_remote(other);
        ASSERT_TRUE(theirs.ok()) << theirs.status();
        EXPECT_EQ(static_cast<const int64_t*>(theirs->data())[999], 11 - me);
        for (int64_t i = 0; i < 100; ++i)
          ASSERT_TRUE(window.fetch_add(int64_t{1}, Peer::group(0), 0).ok());
        std::vector<int64_t> x = {7, 8}, got(2);
        expect_ok(
            window.put_signal(TensorView(x), other, 1, 0, 1, SignalHow::kSet));
        expect_ok(window.wait_signal(0, Compare::kEq, 1));
        EXPECT_EQ(mine[2], 8);
        expect_ok(window.get(TensorView(got), other, 1));
        expect_ok(barrier());
        EXPECT_EQ(got, x);
        EXPECT_EQ(mine[0], me == 0 ? 200 : 0);
        expect_ok(window.destroy());
        expect_ok(memory->release());
      });
}

// Each rank brings its own memory, and the possible operations depend only on
// that.
TEST(MemoryOfABackend, AndOtherMemoryMeetInAWindow) {
  run_hub_ranks(
      2, {.backend = "shm", .timeout = absl::Seconds(60)},
      [](Session& session) {
        const int me = session.rank();
        const auto allocator = get_mem_allocator();
        ASSERT_TRUE(allocator.ok()) << allocator.status();
        absl::StatusOr<Memory> memory = allocator->allocate(64);
        ASSERT_TRUE(memory.ok()) << memory.status();
        std::vector<int64_t> own(8);
        const Window window = make_window(
            {.memory = me == 0 ? memory->view(DType::kI64) : TensorView(own)});
        EXPECT_TRUE(window.fetch_add(int64_t{1}, Peer::group(0), 0).ok());
        expect_reason(window.fetch_add(int64_t{1}, Peer::group(1), 0).status(),
                      Reason::kUnsupported);
        EXPECT_TRUE(window.map_remote(Peer::group(0)).ok());
        EXPECT_EQ(window.map_remote(Peer::group(1)).ok(), me == 1);
        expect_ok(window.destroy());
        if (me == 0) {
          EXPECT_EQ(*static_cast<int64_t*>(memory->data()), 2);
        }
      });
}

TEST(MemoryOfABackend, IsAWindowOfOneRank) {
  run_hub_ranks(
      1, {.backend = "shm", .timeout = absl::Seconds(60)}, [](Session&) {
        const auto allocator = get_mem_allocator();
        ASSERT_TRUE(allocator.ok()) << allocator.status();
        absl::StatusOr<Memory> memory = allocator->allocate(64);
        ASSERT_TRUE(memory.ok()) << memory.status();
        const Window window =
            make_window({.memory = memory->view(DType::kI64)});
        for (int64_t i = 0; i < 3; ++i) {
          const auto old = window.fetch_add(int64_t{1}, Peer::group(0), 0);
          ASSERT_TRUE(old.ok()) << old.status();
          EXPECT_EQ(*old, i);
        }
        expect_ok(window.destroy());
      });
}

TEST(MemoryOfABackend, OneWithoutSaysSo) {
  run_hub_ranks(
      2, {.backend = "gloo", .timeout = absl::Seconds(60)}, [](Session&) {
        expect_reason(get_mem_allocator().status(), Reason::kUnsupported);
        int64_t pool[8];
        expect_reason(register_mem_pool({}, kCpu, pool, sizeof pool).status(),
                      Reason::kUnsupported);
        expect_reason(register_mem_pool({}, kCpu, nullptr, 1).status(),
                      Reason::kInvalidArgument);
      });
}

}  // namespace
}  // namespace distwrap::testing
