// Objects between ranks: the data that arrive, and the error on every rank when
// one of them makes a mistake.
#include "algo/objects/limit.h"
#include "distwrap/distwrap.h"
#include "ranks/rank_threads.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace distwrap {
namespace {

using ::distwrap::testing::run_over_each;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Unregistered {};

OpOptions in(const Session& session) { return {.group = session.world()}; }

InitOptions usual() { return {.timeout = absl::Seconds(60)}; }

// A deadline that no test should reach, because errors are sent, not waited
// for.
InitOptions patient() { return {.timeout = absl::Seconds(600)}; }

Object large(int rank, size_t bytes) {
  return Object::bytes(std::string(bytes, static_cast<char>('a' + rank)));
}

void expect_error(const absl::Status& status, Reason reason,
                  const std::string& text) {
  EXPECT_EQ(error_reason(status), reason) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

// After an error on which all agreed, the group continues to work.
void expect_alive(const Session& session) {
  const auto all = all_gather_object(session.rank(), in(session));
  ASSERT_TRUE(all.ok()) << all.status();
  for (int r = 0; r < session.world_size(); ++r)
    EXPECT_EQ((*all)[static_cast<size_t>(r)].to_int64(), r);
}

class ObjectCalls : public ::testing::TestWithParam<int> {
 protected:
  int n() const { return GetParam(); }
};

TEST_P(ObjectCalls, AllGather) {
  run_over_each(n(), usual(), [](Session& session) {
    const int me = session.rank();
    const auto mine = [](int rank) {
      return std::vector<Object>{
          Object::map(
              {{"rank", rank}, {"nested", Object::map({{1, nullptr}})}}),
          Object::array({rank, "text", 0.5}), nullptr, large(rank, 1024),
          large(rank, 100000),
          // Some objects travel with the records, some after them.
          rank % 2 == 0 ? large(rank, 5000) : Object(rank)};
    };
    for (size_t k = 0; k < mine(me).size(); ++k) {
      const auto all = all_gather_object(mine(me)[k], in(session));
      ASSERT_TRUE(all.ok()) << all.status();
      ASSERT_EQ(all->size(), static_cast<size_t>(session.world_size()));
      for (int r = 0; r < session.world_size(); ++r)
        EXPECT_EQ((*all)[static_cast<size_t>(r)], mine(r)[k]);
    }
  });
}

TEST_P(ObjectCalls, GatherToFirstAndLast) {
  run_over_each(n(), usual(), [](Session& session) {
    const int last = session.world_size() - 1;
    for (const Peer dst : {Peer(), Peer::group(last), Peer::global(last)})
      for (const size_t bytes : std::initializer_list<size_t>{10, 10000}) {
        const int root = dst.is_set() ? last : 0;
        const auto all =
            gather_object(large(session.rank(), bytes), dst, in(session));
        ASSERT_TRUE(all.ok()) << all.status();
        if (session.rank() != root) {
          EXPECT_TRUE(all->empty());
          continue;
        }
        ASSERT_EQ(all->size(), static_cast<size_t>(last + 1));
        for (int r = 0; r <= last; ++r)
          EXPECT_EQ((*all)[static_cast<size_t>(r)], large(r, bytes));
      }
  });
}

TEST_P(ObjectCalls, BroadcastFromFirstAndLast) {
  run_over_each(n(), usual(), [](Session& session) {
    const int last = session.world_size() - 1;
    for (const Peer src : {Peer(), Peer::group(last), Peer::global(last)})
      for (const size_t bytes : std::initializer_list<size_t>{10, 10000}) {
        const int root = src.is_set() ? last : 0;
        const std::vector<Object> sent = {
            "text", 42,
            Object::map(
                {{"none", nullptr}, {"list", Object::array({nullptr})}}),
            large(root, bytes)};
        std::vector<Object> list(4);
        if (session.rank() == root) list = sent;
        const absl::Status status =
            broadcast_object_list(absl::MakeSpan(list), src, in(session));
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_EQ(list, sent);
      }
    std::vector<Object> none;
    EXPECT_TRUE(
        broadcast_object_list(absl::MakeSpan(none), {}, in(session)).ok());
  });
}

TEST_P(ObjectCalls, ScatterFromFirstAndLast) {
  run_over_each(n(), usual(), [](Session& session) {
    const int last = session.world_size() - 1;
    for (const Peer src : {Peer(), Peer::group(last)})
      for (const bool small : {true, false}) {
        const int root = src.is_set() ? last : 0;
        std::vector<Object> list;
        for (int r = 0; r <= last; ++r)
          list.push_back(small ? Object(absl::StrCat("for ", r))
                               : large(r, 4000 + static_cast<size_t>(r)));
        const auto mine = scatter_object_list(
            session.rank() == root ? list : std::vector<Object>(), src,
            in(session));
        ASSERT_TRUE(mine.ok()) << mine.status();
        EXPECT_EQ(*mine, list[static_cast<size_t>(session.rank())]);
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ObjectCalls, ::testing::Values(1, 2, 3, 4));

TEST(ObjectMessages, GoBothWaysBesideOthers) {
  run_over_each(2, usual(), [](Session& session) {
    const int me = session.rank();
    const OpOptions o = in(session);
    // The caller's messages with the same numbers are in flight.
    std::vector<uint8_t> mine(2048, static_cast<uint8_t>(me)), theirs(2048);
    std::vector<Work> works;
    Communicator& c = **session.world().communicator();
    for (int tag = 0; tag < 3; ++tag) {
      const auto work =
          c.recv(TensorView(theirs), 1 - me, tag, {.async = true});
      ASSERT_TRUE(work.ok()) << work.status();
      works.push_back(*work);
    }
    for (const size_t bytes : std::initializer_list<size_t>{10, 100000}) {
      const std::vector<Object> sent = {large(0, bytes), nullptr, "text"};
      std::vector<Object> list(3);
      for (int from = 0; from < 2; ++from) {
        const absl::Status status =
            me == from
                ? send_object_list(sent, Peer::group(1 - me), o)
                : recv_object_list(absl::MakeSpan(list), Peer::global(from), o);
        ASSERT_TRUE(status.ok()) << status;
        if (me != from) {
          EXPECT_EQ(list, sent);
        }
      }
    }
    for (int tag = 0; tag < 3; ++tag)
      EXPECT_TRUE(c.send(TensorView(mine), 1 - me, tag).ok());
    for (Work& work : works) EXPECT_TRUE(work.wait().ok());
  });
}

TEST(ObjectMessages, BothSidesLearnWhatIsWrong) {
  run_over_each(2, patient(), [](Session& session) {
    const int me = session.rank();
    const OpOptions o = in(session);
    std::vector<Object> list(2, "before");
    // Lists of different length.
    absl::Status status =
        me == 0 ? send_object_list(std::vector<Object>(3), Peer::group(1), o)
                : recv_object_list(absl::MakeSpan(list), Peer::group(0), o);
    expect_error(status, Reason::kCallMismatch, "a list of 3");
    EXPECT_THAT(std::string(status.message()), HasSubstr("a list of 2"));
    EXPECT_EQ(list[0], Object("before"));
    // An object that cannot be written.
    status = me == 0
                 ? send_object_list(
                       std::vector<Object>{1, Object::of(Unregistered{})},
                       Peer::group(1), o)
                 : recv_object_list(absl::MakeSpan(list), Peer::group(0), o);
    expect_error(status, me == 0 ? Reason::kObjectType : Reason::kAborted,
                 "cannot encode [1]");
    // Refused before anything is sent.
    expect_error(send_object_list(list, {}, o), Reason::kRootMissing,
                 "Either dst or group_dst must be specified");
    expect_error(recv_object_list(absl::MakeSpan(list), {}, o),
                 Reason::kWildcard, "src=None");
    expect_error(send_object_list(list, Peer::group(me), o),
                 Reason::kInvalidArgument, "are the same rank");
    expect_error(send_object_list(list, Peer::group(2), o),
                 Reason::kInvalidArgument, "not a rank of the group");
    expect_error(send_object_list(list, Peer::global(-1), o),
                 Reason::kRankNotMember,
                 "Global rank -1 is not in process group");
    expect_alive(session);
  });
}

TEST(ObjectFaults, ABadRootFailsEveryRank) {
  run_over_each(3, patient(), [](Session& session) {
    const bool bad = session.rank() == 1;
    std::vector<Object> list(2, "before");
    struct Case {
      Peer peer;
      Reason reason;
      const char* text;
    };
    for (const Case& c : {Case{Peer::group(3), Reason::kInvalidArgument,
                               "the root is not a rank of the group"},
                          Case{Peer::global(7), Reason::kRankNotMember,
                               "Global rank 7 is not in process group"}}) {
      const Peer root = bad ? c.peer : Peer::group(0);
      const Reason reason = bad ? c.reason : Reason::kAborted;
      for (const absl::Status& status :
           {gather_object(1, root, in(session)).status(),
            broadcast_object_list(absl::MakeSpan(list), root, in(session)),
            scatter_object_list(std::vector<Object>(3), root, in(session))
                .status()}) {
        expect_error(status, reason, c.text);
        if (!bad) {
          EXPECT_THAT(error_info(status)->ranks, ElementsAre(1));
        }
      }
    }
    EXPECT_EQ(list[1], Object("before"));
    expect_alive(session);
  });
}

TEST(ObjectFaults, WhatCannotBeWrittenFailsEveryRank) {
  run_over_each(3, patient(), [](Session& session) {
    const bool bad = session.rank() == 2;
    const Object wrong = Object::array(
        {0, Object::map(
                {{"model",
                  Object::map({{"weights", Object::of(Unregistered{})}})}})});
    Object deep(1);
    for (int i = 0; i < 65; ++i) deep = Object::array({deep});
    const Reason reason = bad ? Reason::kObjectType : Reason::kAborted;
    const OpOptions o = in(session);
    const Peer root = Peer::group(2);
    expect_error(all_gather_object(bad ? wrong : Object(), o).status(), reason,
                 "[1].model.weights");
    expect_error(all_gather_object(bad ? deep : Object(), o).status(), reason,
                 "64 deep");
    expect_error(gather_object(bad ? wrong : Object(), {}, o).status(), reason,
                 "[1].model.weights");
    std::vector<Object> list(3);
    if (bad) list[1] = wrong;
    expect_error(scatter_object_list(list, root, o).status(), reason,
                 "[1][1].model.weights");
    expect_error(broadcast_object_list(absl::MakeSpan(list), root, o), reason,
                 "[1][1].model.weights");
    expect_alive(session);
  });
}

TEST(ObjectFaults, ARootWithoutAsManyObjectsAsRanks) {
  run_over_each(2, patient(), [](Session& session) {
    for (const size_t entries : std::initializer_list<size_t>{0, 1, 3})
      expect_error(
          scatter_object_list(std::vector<Object>(entries), {}, in(session))
              .status(),
          session.rank() == 0 ? Reason::kInvalidArgument : Reason::kAborted,
          "one object for each rank");
    expect_alive(session);
  });
}

TEST(ObjectFaults, RanksThatDisagree) {
  run_over_each(3, patient(), [](Session& session) {
    const int me = session.rank();
    const OpOptions o = in(session);
    // Lists of different length.
    std::vector<Object> list(me == 1 ? 3 : 2, "before");
    absl::Status status =
        broadcast_object_list(absl::MakeSpan(list), Peer::group(2), o);
    expect_error(status, Reason::kCallMismatch, "a list of 2");
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("a list of 3 on rank 1"), HasSubstr("as on rank 0")));
    EXPECT_THAT(error_info(status)->ranks, ElementsAre(1));
    EXPECT_EQ(list[0], Object("before"));
    // Different roots, different calls.
    status = gather_object(1, Peer::group(me == 2 ? 1 : 0), o).status();
    expect_error(status, Reason::kCallMismatch, "root 1 on rank 2");
    status = me == 0 ? all_gather_object(1, o).status()
                     : gather_object(1, {}, o).status();
    expect_error(status, Reason::kCallMismatch,
                 "all_gather_object as on rank 0");
    EXPECT_THAT(error_info(status)->ranks, ElementsAre(1, 2));
    expect_alive(session);
  });
}

TEST(ObjectFaults, TooLargeFailsEveryRank) {
  const uint64_t before = objects::max_bytes();
  objects::set_max_bytes(4096);
  run_over_each(2, patient(), [](Session& session) {
    const bool bad = session.rank() == 1;
    expect_error(all_gather_object(bad ? large(1, 5000) : Object(), in(session))
                     .status(),
                 bad ? Reason::kObjectType : Reason::kAborted,
                 "more than the 4096");
    EXPECT_TRUE(
        all_gather_object(large(session.rank(), 4000), in(session)).ok());
  });
  objects::set_max_bytes(before);
}

TEST(ObjectFaults, AsyncAndBadTimeoutsAreRefused) {
  run_over_each(2, patient(), [](Session& session) {
    OpOptions o = in(session);
    o.async = true;
    expect_error(all_gather_object(1, o).status(), Reason::kInvalidArgument,
                 "async");
    o.async = false;
    o.timeout = absl::ZeroDuration();
    EXPECT_EQ(error_reason(all_gather_object(1, o).status()),
              Reason::kInvalidArgument);
    expect_alive(session);
  });
}

TEST(ObjectFaults, WithoutASession) {
  const absl::Status status = all_gather_object(1).status();
  expect_error(status, Reason::kNotInitialized,
               "all_gather_object called before init_process_group");
}

// One deadline for the call; the error names the missing rank.
TEST(ObjectFaults, AMissingRankEndsTheCallByItsDeadline) {
  run_over_each(2, patient(), [](Session& session) {
    if (session.rank() == 1) return;
    OpOptions o = in(session);
    o.timeout = absl::Milliseconds(200);
    const absl::Time before = absl::Now();
    const absl::Status status = all_gather_object(1, o).status();
    EXPECT_LT(absl::Now() - before, absl::Seconds(10));
    expect_error(status, Reason::kTimedOut, "all_gather_object");
  });
}

TEST(ObjectCallsFull, DISABLED_AnObjectOf64MiB) {
  run_over_each(2, usual(), [](Session& session) {
    constexpr size_t kBytes = size_t{64} << 20;
    const auto all =
        all_gather_object(large(session.rank(), kBytes), in(session));
    ASSERT_TRUE(all.ok()) << all.status();
    for (int r = 0; r < 2; ++r)
      EXPECT_TRUE((*all)[static_cast<size_t>(r)] == large(r, kBytes));
  });
}

}  // namespace
}  // namespace distwrap
