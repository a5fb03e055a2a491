// Several threads of one rank, on one group and on several.
#include "distwrap/distwrap.h"
#include "ranks/several_threads.h"

#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <dirent.h>
#include <thread>
#include <vector>

namespace distwrap {
namespace {

using testing::in_threads;
using testing::Ints;
using testing::receive_one;
using testing::send_one;
using testing::sum;

class Threads : public testing::SeveralThreads {};

int threads_now() {
  DIR* const folder = opendir("/proc/self/task");
  int n = 0;
  while (const dirent* entry = readdir(folder))
    if (entry->d_name[0] != '.') ++n;
  closedir(folder);
  return n;
}

// A started operation goes on, and another thread waits for it.
TEST_P(Threads, AThreadMayEndBeforeWhatItHasStarted) {
  run([](Session& session, int me, int other) {
    for (int64_t i = 0; i < 20; ++i) {
      Ints in = {-1};
      absl::StatusOr<Work> receiving;
      std::thread starts([&] {
        bind_session(session);
        receiving = irecv(TensorView(in), Peer::group(other), 7);
        bind_session({});
      });
      starts.join();
      ASSERT_TRUE(receiving.ok()) << receiving.status();
      send_one(200 * i + me, other, 7);
      EXPECT_TRUE(receiving->wait().ok());
      EXPECT_EQ(in, Ints{200 * i + other});
      EXPECT_EQ(sum(1), 2);
    }
  });
}

// On the two ranks the receive is posted before any send.
TEST_P(Threads, AReceiveThatWaitsBlocksNoSend) {
  run([](Session& session, int me, int other) {
    for (int64_t i = 0; i < 20; ++i) {
      std::atomic<bool> receiving{false};
      in_threads(session, 2, [&](int t) {
        if (t == 0) {
          receiving = true;
          EXPECT_EQ(receive_one(other, 7), 100 * i + other);
        } else {
          while (!receiving) std::this_thread::yield();
          absl::SleepFor(absl::Milliseconds(2));
          send_one(100 * i + me, other, 7);
        }
      });
    }
  });
}

// A large send waits for its receive; the receiving thread comes second.
TEST_P(Threads, ASendThatWaitsBlocksNoReceive) {
  run([](Session& session, int me, int other) {
    constexpr size_t kCount = 1 << 20;
    std::atomic<bool> sending{false};
    in_threads(session, 2, [&](int t) {
      Ints x(kCount, t == 0 ? me : -1);
      if (t == 0) {
        sending = true;
        EXPECT_TRUE(send(TensorView(x), Peer::group(other), 7).ok());
      } else {
        while (!sending) std::this_thread::yield();
        absl::SleepFor(absl::Milliseconds(2));
        EXPECT_TRUE(recv(TensorView(x), Peer::group(other), 7).ok());
        EXPECT_EQ(x, Ints(kCount, other));
      }
    });
  });
}

// Messages of one thread beside a collective of another thread that needs them:
// rank 1 comes to the barrier when all messages have gone back and forth.
TEST_P(Threads, ACollectiveThatWaitsBlocksNoMessages) {
  run([](Session& session, int me, int other) {
    for (int round = 0; round < 5; ++round) {
      std::atomic<int> inside{0};
      in_threads(session, me == 0 ? 3 : 1, [&](int t) {
        if (t == 2) {
          ++inside;
          EXPECT_TRUE(barrier().ok());
        } else if (me == 0) {
          // A second thread beside: its messages do not need the barrier
          // either.
          while (inside == 0) std::this_thread::yield();
          absl::SleepFor(absl::Milliseconds(2));
          for (int64_t i = 0; i < 10; ++i) {
            EXPECT_EQ(receive_one(other, t), i);
            send_one(i + 1, other, t);
          }
        } else {
          for (int64_t i = 0; i < 10; ++i)
            for (int64_t tag = 0; tag < 2; ++tag) {
              send_one(i, other, tag);
              EXPECT_EQ(receive_one(other, tag), i + 1);
            }
          EXPECT_TRUE(barrier().ok());
        }
      });
    }
  });
}

// A collective beside a receive, from a thread that is not the first, delays no
// message of other threads.
TEST_P(Threads, ACollectiveBesideBlocksNoMessages) {
  run([](Session& session, int me, int other) {
    if (me == 1) {
      send_one(1, other, 1);
      EXPECT_EQ(receive_one(other, 1), 2);
      EXPECT_TRUE(barrier().ok());
      send_one(3, other, 0);
      return;
    }
    std::atomic<int> inside{0};
    in_threads(session, 3, [&](int t) {
      while (inside != t) std::this_thread::yield();
      absl::SleepFor(absl::Milliseconds(5));
      ++inside;
      if (t == 0) {
        EXPECT_EQ(receive_one(other, 0), 3);
      } else if (t == 1) {
        EXPECT_TRUE(barrier().ok());
      } else {
        EXPECT_EQ(receive_one(other, 1), 1);
        send_one(2, other, 1);
      }
    });
  });
}

// The threads of a rank take turns, so the order is equal on all ranks.
TEST_P(Threads, CollectivesOfThreadsThatTakeTurns) {
  run([](Session& session, int me, int) {
    std::atomic<int64_t> turn{0};
    in_threads(session, 2, [&](int t) {
      for (int64_t i = t; i < 200; i += 2) {
        while (turn != i) std::this_thread::yield();
        EXPECT_EQ(sum(i + me), 2 * i + 1);
        ++turn;
      }
    });
  });
}

TEST_P(Threads, EightGroupsAtATime) {
  run([](Session& session, int me, int other) {
    const std::vector<Group> made = groups(8);
    in_threads(session, 8, [&](int t) {
      const Group& group = made[static_cast<size_t>(t)];
      for (int64_t i = 0; i < 50; ++i) {
        EXPECT_EQ(sum(100 * t + i + me, group), 2 * (100 * t + i) + 1);
        if (me == 0) send_one(i, other, 0, group);
        if (me == 1) {
          EXPECT_EQ(receive_one(other, 0, group), i);
        }
      }
    });
  });
}

// Equal collectives may be in any order; messages match by their tags.
TEST_P(Threads, ThirtyTwoOnOneGroupAndOnEight) {
  run([](Session& session, int me, int other) {
    std::vector<Group> made = groups(8);
    for (const size_t on : {size_t{1}, size_t{8}})
      in_threads(session, 32, [&](int t) {
        const Group& group = made[static_cast<size_t>(t) % on];
        for (int64_t i = 0; i < 10; ++i) {
          EXPECT_EQ(sum(me + 1, group), 3);
          if (me == 0) {
            send_one(1000 * t + i, other, t, group);
            EXPECT_EQ(receive_one(other, t, group), i);
          } else {
            EXPECT_EQ(receive_one(other, t, group), 1000 * t + i);
            send_one(i, other, t, group);
          }
          EXPECT_EQ(sum(me + 1, group), 3);
        }
      });
  });
}

// Each thread uses two groups that all threads share, in either order.
TEST_P(Threads, BatchesOfSeveralThreads) {
  run([](Session& session, int me, int other) {
    const std::vector<Group> made = groups(2);
    in_threads(session, 4, [&](int t) {
      for (int64_t i = 0; i < 20; ++i) {
        Ints out = {1000 * t + i + me}, in = {-1}, in_again = {-1};
        const size_t first = static_cast<size_t>(t) % 2;
        const OpOptions a{.group = made[first]}, b{.group = made[1 - first]};
        Batch batch;
        batch.recv(TensorView(in), Peer::group(other), t, a);
        batch.recv(TensorView(in_again), Peer::group(other), t, b);
        batch.send(TensorView(out), Peer::group(other), t, b);
        batch.send(TensorView(out), Peer::group(other), t, a);
        const absl::StatusOr<Work> work = batch.submit();
        ASSERT_TRUE(work.ok()) << work.status();
        const absl::Status ended = work->wait();
        ASSERT_TRUE(ended.ok()) << ended;
        EXPECT_EQ(in[0], 1000 * t + i + other);
        EXPECT_EQ(in_again[0], 1000 * t + i + other);
      }
    });
  });
}

// Two threads start the operations and wait for none; no further threads are
// needed.
TEST_P(Threads, AThousandOutstanding) {
  run([](Session& session, int me, int other) {
    EXPECT_EQ(sum(1), 2);
    constexpr int kEach = 250;
    std::atomic<int> before{0}, most{0};
    std::vector<Work> works[2];
    std::vector<Ints> in(2 * kEach, Ints(1)), out(2 * kEach, Ints(1));
    in_threads(session, 2, [&](int t) {
      if (t == 0) before = threads_now();
      for (int i = 0; i < kEach; ++i) {
        const auto at = static_cast<size_t>(t * kEach + i);
        out[at][0] = 10 * static_cast<int64_t>(at) + me;
        auto received =
            irecv(TensorView(in[at]), Peer::group(other), t * kEach + i);
        ASSERT_TRUE(received.ok()) << received.status();
        works[t].push_back(*std::move(received));
      }
      for (int i = 0; i < kEach; ++i) {
        const auto at = static_cast<size_t>(t * kEach + i);
        auto sent =
            isend(TensorView(out[at]), Peer::group(other), t * kEach + i);
        ASSERT_TRUE(sent.ok()) << sent.status();
        works[t].push_back(*std::move(sent));
      }
      if (t == 0) most = threads_now();
    });
    // For the two ranks together: one thread for asynchronous operations, one
    // for deadlines, and the second thread of the test.
    EXPECT_LE(most, before + 6);
    for (const std::vector<Work>& some : works)
      for (const Work& work : some) {
        const absl::Status ended = work.wait();
        ASSERT_TRUE(ended.ok()) << ended;
      }
    for (size_t at = 0; at < in.size(); ++at)
      EXPECT_EQ(in[at][0], 10 * static_cast<int64_t>(at) + other);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, Threads, testing::kThreadBackends,
                         testing::name_of_backend);

}  // namespace
}  // namespace distwrap
