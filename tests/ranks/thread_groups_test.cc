// Groups that several threads of each rank make, use for objects, and end.
#include "ranks/several_threads.h"

#include <absl/time/clock.h>
#include <absl/types/span.h>

#include <atomic>
#include <memory>

namespace distwrap {
namespace {

using testing::hub_session;
using testing::in_threads;
using testing::Ints;
using testing::run_hub_ranks;
using testing::send_one;
using testing::sum;

class ThreadsOfGroups : public testing::SeveralThreads {};

// Three threads wait for messages that no rank sends.
TEST_P(ThreadsOfGroups, AnAbortEndsTheCallsOfAllThreads) {
  run([](Session& session, int me, int other) {
    const std::vector<Group> made = groups(1);
    std::atomic<int> ended{0};
    std::thread aborter;
    if (me == 0)
      aborter = std::thread([&] {
        absl::SleepFor(absl::Milliseconds(50));
        EXPECT_TRUE(abort(made[0]).ok());
      });
    const absl::Time began = absl::Now();
    in_threads(session, 3, [&](int t) {
      Ints x = {0};
      EXPECT_FALSE(
          recv(TensorView(x), Peer::group(other), t, {.group = made[0]}).ok());
      ++ended;
    });
    EXPECT_EQ(ended, 3);
    EXPECT_LT(absl::Now() - began, absl::Seconds(60)) << "not at the deadline";
    if (me == 0) aborter.join();
    EXPECT_EQ(sum(1), 2) << "the others are whole";
  });
}

// Lesson N6: rank 1 takes part in the new group only after rank 0 has aborted
// another one, so an abort that waited for the new group would wait for ever.
TEST_P(ThreadsOfGroups, AnAbortWaitsForNoGroupThatIsBeingMade) {
  std::atomic<bool> aborted{false};
  run([&](Session& session, int me, int) {
    const std::vector<Group> made = groups(1);
    const auto make_another = [&] {
      const absl::StatusOr<Group> another = new_group();
      EXPECT_TRUE(another.ok()) << another.status();
    };
    if (me == 1) {
      while (!aborted) std::this_thread::yield();
      make_another();
    } else {
      std::thread maker([&] {
        bind_session(session);
        make_another();
        bind_session({});
      });
      absl::SleepFor(absl::Milliseconds(50));
      EXPECT_TRUE(abort(made[0]).ok());
      aborted = true;
      maker.join();
    }
    EXPECT_EQ(sum(1), 2) << "the others are whole";
  });
}

// A session is closed during the calls of its threads.
TEST_P(ThreadsOfGroups, ACloseEndsTheCallsOfAllThreads) {
  const std::shared_ptr<Store> store = Store::in_memory();
  const auto rank_body = [&](int rank) {
    absl::StatusOr<Session> session =
        hub_session(rank, kRanks, options(), store);
    ASSERT_TRUE(session.ok()) << session.status();
    std::thread closer([&] {
      absl::SleepFor(absl::Milliseconds(50));
      session->close(absl::Milliseconds(100)).IgnoreError();
    });
    const absl::Time began = absl::Now();
    in_threads(*session, 3, [&](int t) {
      Ints x = {0};
      EXPECT_FALSE(recv(TensorView(x), Peer::group(1 - rank), t).ok());
    });
    EXPECT_LT(absl::Now() - began, absl::Seconds(60)) << "not at the deadline";
    closer.join();
  };
  std::thread other(rank_body, 1);
  rank_body(0);
  other.join();
}

// Collective calls of all ranks, each thread in a group of its own: all calls
// with objects, and groups that are made and ended meanwhile.
TEST_P(ThreadsOfGroups, GroupsAndObjectsOfEightThreads) {
  run([](Session& session, int me, int) {
    const std::vector<Group> made = groups(8);
    in_threads(session, 8, [&](int t) {
      for (int64_t i = 0; i < 5; ++i) {
        const absl::StatusOr<Group> child = split_group(
            {.parent = made[static_cast<size_t>(t)], .split_ranks = {{1, 0}}});
        ASSERT_TRUE(child.ok()) << child.status();
        const OpOptions in{.group = *child};
        EXPECT_EQ(sum(me + 10 * t, *child), 1 + 20 * t);
        const std::string mine =
            std::string(static_cast<size_t>(700 * me), 'x') +
            std::to_string(100 * t + 10 * i + me);
        const auto all = all_gather_object(Object(mine), in);
        ASSERT_TRUE(all.ok()) << all.status();
        EXPECT_EQ((*all)[static_cast<size_t>(1 - me)], Object(mine));
        // Rank 1 of the world is the first rank there.
        const auto gathered = gather_object(Object(mine), Peer::group(0), in);
        ASSERT_TRUE(gathered.ok()) << gathered.status();
        EXPECT_EQ(gathered->size(), me == 1 ? 2 : 0);
        std::vector<Object> list(1, Object(mine));
        ASSERT_TRUE(
            broadcast_object_list(absl::MakeSpan(list), Peer::group(0), in)
                .ok());
        EXPECT_EQ(list[0], (*all)[0]);
        const auto part = scatter_object_list(
            me == 1 ? *all : std::vector<Object>(), Peer::group(0), in);
        ASSERT_TRUE(part.ok()) << part.status();
        EXPECT_EQ(*part, Object(mine));
        EXPECT_TRUE(destroy_process_group(*child).ok());
      }
    });
    EXPECT_EQ(sum(1), 2);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, ThreadsOfGroups, testing::kThreadBackends,
                         testing::name_of_backend);

// One rank, with as many threads.
TEST(ThreadsOfOneRank, OnOneGroupAndOnEight) {
  run_hub_ranks(1, {.backend = "loopback"}, [](Session& session) {
    std::vector<Group> made;
    for (int i = 0; i < 8; ++i) {
      const absl::StatusOr<Group> group = split_group({.split_ranks = {{0}}});
      ASSERT_TRUE(group.ok()) << group.status();
      made.push_back(*group);
    }
    for (const size_t on : {size_t{1}, size_t{8}})
      in_threads(session, 32, [&](int t) {
        const Group& group = made[static_cast<size_t>(t) % on];
        for (int64_t i = 0; i < 50; ++i) {
          EXPECT_EQ(sum(1000 * t + i, group), 1000 * t + i);
          Ints in = {-1}, out = {1000 * t + i};
          const absl::StatusOr<Work> received =
              irecv(TensorView(in), Peer::group(0), t, {.group = group});
          ASSERT_TRUE(received.ok()) << received.status();
          send_one(out[0], 0, t, group);
          EXPECT_TRUE(received->wait().ok());
          EXPECT_EQ(in, out);
        }
      });
  });
}

}  // namespace
}  // namespace distwrap
