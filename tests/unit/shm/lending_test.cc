#include "lending.h"

#include <gtest/gtest.h>

#include <vector>

namespace shm_backend {
namespace {

constexpr size_t kKib = 1024;

// A sender and a receiver of messages, which take as long as it is said.
class Pair {
 public:
  // How many of the next messages are lent.
  int send(int messages, size_t bytes, int64_t chunks_ns, int64_t lent_ns) {
    int n = 0;
    for (int i = 0; i < messages; ++i) {
      const uint32_t id = ++id_;
      const bool lent = sender_.lends(bytes, id);
      if (receiver_.is_try(bytes, id))
        receiver_.took(bytes, lent, lent ? lent_ns : chunks_ns);
      if (lent) sender_.heard(receiver_.preferred());
      n += lent;
    }
    return n;
  }
  // Skips the messages that another one takes.
  void pass(uint32_t messages) { id_ += messages; }

 private:
  Lending sender_, receiver_;
  uint32_t id_ = 0;
};

TEST(Lending, OnlyOfMiddlingSizes) {
  const Lending lending;
  for (uint32_t id = 1; id < 200; ++id) {
    EXPECT_FALSE(lending.lends(8 * kKib, id));
    EXPECT_FALSE(lending.lends(1024 * kKib + 1, id));
    EXPECT_FALSE(lending.is_try(8 * kKib, id));
  }
}

TEST(Lending, UntilItIsKnownToBeSlower) {
  Pair pair;
  EXPECT_GT(pair.send(16, 64 * kKib, 100, 200), 4);
  pair.send(400, 64 * kKib, 100, 200);
  const int n = pair.send(2540, 64 * kKib, 100, 200);
  EXPECT_EQ(n, 80) << "8 in 254 are a try";
}

TEST(Lending, EachSizeByItself) {
  Pair pair;
  pair.send(600, 9 * kKib, 100, 200);
  pair.send(600, 1024 * kKib, 200, 100);
  EXPECT_EQ(pair.send(254, 9 * kKib, 100, 200), 8);
  EXPECT_EQ(pair.send(254, 1024 * kKib, 200, 100), 246);
}

TEST(Lending, LearnsThatItHasBecomeFaster) {
  Pair pair;
  pair.send(600, 64 * kKib, 100, 200);
  pair.send(600, 64 * kKib, 100, 50);
  EXPECT_EQ(pair.send(254, 64 * kKib, 100, 50), 246);
}

// Chunks that nobody has used for a while have left the caches.
TEST(Lending, AWayIsJudgedAtItsOwnPace) {
  Pair pair;
  pair.send(600, 64 * kKib, 100, 50);
  int last = 1, lent = 0;
  for (int i = 0; i < 2540; ++i) {
    const int64_t chunks_ns = last == 1 ? 60 : 20;
    last = pair.send(1, 64 * kKib, chunks_ns, 50);
    lent += last;
  }
  EXPECT_LT(lent, 700);
}

// Every second message, every fourth: ids that are tried are among them.
TEST(Lending, BothWaysAreTriedWithOtherMessagesBetween) {
  for (const uint32_t others : {1u, 3u, 7u}) {
    Pair pair;
    for (int i = 0; i < 600; ++i) {
      pair.send(1, 64 * kKib, 100, 200);
      pair.pass(others);
    }
    int n = 0;
    for (int i = 0; i < 254; ++i) {
      n += pair.send(1, 64 * kKib, 100, 200);
      pair.pass(others);
    }
    EXPECT_LE(n, 9) << others;
  }
}

TEST(Lending, AnyAnswerWillDo) {
  for (const uint64_t answer : {uint64_t{0}, ~uint64_t{0}, uint64_t{0x1234}}) {
    Lending lending;
    lending.heard(answer);
    for (size_t bytes = 1; bytes < 4096 * kKib; bytes = 2 * bytes + 1)
      for (uint32_t id = 1; id < 64; ++id) lending.lends(bytes, id);
  }
}

}  // namespace
}  // namespace shm_backend
