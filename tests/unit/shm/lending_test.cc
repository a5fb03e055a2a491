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
  // Those that another one takes.
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
  pair.send(100, 64 * kKib, 100, 200);
  const int n = pair.send(620, 64 * kKib, 100, 200);
  EXPECT_EQ(n, 10) << "one in 62 is a try";
}

TEST(Lending, EachSizeByItself) {
  Pair pair;
  pair.send(200, 9 * kKib, 100, 200);
  pair.send(200, 1024 * kKib, 200, 100);
  EXPECT_EQ(pair.send(62, 9 * kKib, 100, 200), 1);
  EXPECT_EQ(pair.send(62, 1024 * kKib, 200, 100), 61);
}

TEST(Lending, LearnsThatItHasBecomeFaster) {
  Pair pair;
  pair.send(200, 64 * kKib, 100, 200);
  pair.send(310, 64 * kKib, 100, 50);
  EXPECT_EQ(pair.send(62, 64 * kKib, 100, 50), 61);
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
    for (int i = 0; i < 124; ++i) {
      n += pair.send(1, 64 * kKib, 100, 200);
      pair.pass(others);
    }
    EXPECT_LT(n, 5) << others;
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
