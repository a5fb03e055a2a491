// A message and the receive that takes it differ in element type or count: the
// same named error on all ranks, whoever came first and whoever has returned.
#include "distwrap/distwrap.h"
#include "host_backends.h"
#include "ranks/rank_threads.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <sched.h>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace distwrap {
namespace {

using ::distwrap::testing::host_backends;
using ::distwrap::testing::run_ranks;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Long before the deadline of 120 s.
constexpr absl::Duration kSoon = absl::Seconds(30);
constexpr int64_t kTag = 5;
constexpr char kUntouched = 0x5a;

InitOptions on(const char* backend) {
  return {.backend = backend, .timeout = absl::Seconds(120)};
}

// Elements of a type, in memory of their own.
class Elements {
 public:
  Elements(DType dtype, int64_t count, char fill = kUntouched)
      : bytes_(static_cast<size_t>(count * dtype_size(dtype)), fill),
        dtype_(dtype),
        count_(count) {}
  TensorView view() { return {bytes_.data(), count_, dtype_}; }
  bool is_all(char byte) const {
    return std::all_of(bytes_.begin(), bytes_.end(),
                       [&](char one) { return one == byte; });
  }

 private:
  std::vector<char> bytes_;
  DType dtype_;
  int64_t count_;
};

struct Difference {
  const char* name;
  DType sent;
  int64_t sent_count;
  DType received;
  int64_t received_count;

  std::string expected() const {
    return absl::StrCat("recv ", dtype_name(received), " x ", received_count,
                        " from rank 0, tag 5 (rank 1)");
  }
  std::string actual() const {
    return absl::StrCat("send ", dtype_name(sent), " x ", sent_count,
                        " to rank 1, tag 5 (rank 0)");
  }
};

constexpr Difference kDifferences[] = {
    {"Longer", DType::kF32, 9, DType::kF32, 8},
    {"Shorter", DType::kF32, 4, DType::kF32, 8},
    {"OtherType", DType::kF32, 8, DType::kI32, 8},
    {"OtherTypeAndCount", DType::kF64, 4, DType::kU8, 32},
    {"NothingOfAnotherType", DType::kF32, 0, DType::kI32, 0},
    {"NothingForSome", DType::kF32, 0, DType::kF32, 3},
    {"SomeForNothing", DType::kF32, 3, DType::kF32, 0},
    {"LongerByChunks", DType::kF32, 30'000, DType::kF32, 20'000},
    {"ShorterByChunks", DType::kF32, 20'000, DType::kF32, 30'000},
    {"OtherTypeByChunks", DType::kF32, 20'000, DType::kI32, 20'000},
    {"LongerAndLarge", DType::kF32, 1'000'001, DType::kF32, 1'000'000},
    {"OtherTypeAndLarge", DType::kF32, 1'000'000, DType::kI32, 1'000'000},
    {"LargeForSmall", DType::kU8, 4'000'000, DType::kU8, 4},
    {"SmallForLarge", DType::kU8, 4, DType::kU8, 4'000'000},
};

enum class Style { kWaits, kAsync, kBatch, kReceiveFirst, kSendFirst };
constexpr const char* kStyleNames[] = {"Waits", "Async", "Batch",
                                       "ReceiveFirst", "SendFirst"};

absl::Status ended(const absl::StatusOr<Work>& work) {
  return work.ok() ? work->wait() : work.status();
}

absl::StatusOr<Work> begin(int rank, TensorView view, Style style,
                           const OpOptions& o) {
  if (style == Style::kBatch) {
    Batch batch;
    if (rank == 0)
      batch.send(view, Peer::group(1), kTag, o);
    else
      batch.recv(view, Peer::group(0), kTag, o);
    return batch.submit();
  }
  return rank == 0 ? isend(view, Peer::group(1), kTag, o)
                   : irecv(view, Peer::group(0), kTag, o);
}

// Rank 0 sends and rank 1 receives.
absl::Status exchange(int rank, TensorView view, Style style,
                      const OpOptions& o) {
  if (style == Style::kWaits)
    return rank == 0 ? send(view, Peer::group(1), kTag, o)
                     : recv(view, Peer::group(0), kTag, o).status();
  const int first = style == Style::kReceiveFirst ? 1 : 0;
  if (style != Style::kReceiveFirst && style != Style::kSendFirst)
    return ended(begin(rank, view, style, o));
  absl::StatusOr<Work> work;
  if (rank == first) work = begin(rank, view, style, o);
  if (absl::Status met = barrier(o).status(); !met.ok()) return met;
  if (rank != first) work = begin(rank, view, style, o);
  return ended(work);
}

class MessageMismatch : public ::testing::TestWithParam<
                            std::tuple<const char*, Style, Difference>> {};

TEST_P(MessageMismatch, IsTheSameErrorOnAllRanks) {
  const auto& [backend, style, differ] = GetParam();
  std::mutex mutex;
  std::vector<std::string> texts;
  run_ranks(
      3, on(backend), [&, style = style, differ = differ](Session& session) {
        const OpOptions o{.group = session.world()};
        const int rank = session.rank();
        const int64_t started_ns = Deadline::now_ns();
        Elements data(rank == 0 ? differ.sent : differ.received,
                      rank == 0 ? differ.sent_count : differ.received_count,
                      rank == 0 ? 1 : kUntouched);
        absl::Status status = rank == 2 ? barrier(o).status()
                                        : exchange(rank, data.view(), style, o);
        EXPECT_TRUE(rank != 1 || !status.ok()) << "the receive has to fail";
        // A sender may have returned before its message was received.
        while (status.ok()) status = barrier(o).status();
        EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - started_ns), kSoon);
        const std::optional<ErrorInfo> info = error_info(status);
        ASSERT_TRUE(info.has_value()) << status;
        EXPECT_EQ(info->reason, Reason::kCallMismatch) << status;
        EXPECT_EQ(info->expected, differ.expected()) << status;
        EXPECT_EQ(info->actual, differ.actual()) << status;
        EXPECT_THAT(info->ranks, ElementsAre(0, 1));
        EXPECT_TRUE(data.is_all(rank == 0 ? 1 : kUntouched));
        const absl::Status again = barrier(o).status();
        EXPECT_EQ(error_reason(again), Reason::kGroupBroken) << again;
        EXPECT_THAT(
            std::string(again.message()),
            AllOf(HasSubstr(differ.expected()), HasSubstr(differ.actual())));
        std::lock_guard<std::mutex> lock(mutex);
        texts.push_back(info->expected + info->actual);
      });
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_THAT(texts, Each(texts[0]));
}

INSTANTIATE_TEST_SUITE_P(
    Differences, MessageMismatch,
    ::testing::Combine(::testing::ValuesIn(host_backends()),
                       ::testing::Values(Style::kWaits, Style::kAsync,
                                         Style::kBatch, Style::kReceiveFirst,
                                         Style::kSendFirst),
                       ::testing::ValuesIn(kDifferences)),
    [](const auto& test) {
      return absl::StrCat(
          std::get<0>(test.param),
          kStyleNames[static_cast<size_t>(std::get<1>(test.param))],
          std::get<2>(test.param).name);
    });

class MessageOrder : public ::testing::TestWithParam<const char*> {};

// A younger message that would fit is not taken.
TEST_P(MessageOrder, TheOldestOfATagIsTaken) {
  run_ranks(2, on(GetParam()), [&](Session& session) {
    const OpOptions o{.group = session.world()};
    Elements one(DType::kF32, 4), two(DType::kI32, 8);
    if (session.rank() == 0) {
      const auto first = isend(one.view(), Peer::group(1), kTag, o);
      const auto second = isend(two.view(), Peer::group(1), kTag, o);
      absl::Status status = barrier(o).status();
      for (const auto* work : {&first, &second}) status.Update(ended(*work));
      while (status.ok()) status = barrier(o).status();
      EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
      return;
    }
    ASSERT_TRUE(barrier(o).ok());
    const absl::Status status =
        recv(two.view(), Peer::group(0), kTag, o).status();
    EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("send f32 x 4"));
  });
}

// Messages of several tags, types and sizes, received in another order than
// sent; those of one tag in their order.
TEST_P(MessageOrder, TagsDoNotWaitForEachOther) {
  for (const bool receives_first : {false, true})
    for (const int64_t large : {5, 400, 20'000, 300'000})
      run_ranks(2, on(GetParam()), [&](Session& session) {
        const OpOptions o{.group = session.world()};
        const bool sends = session.rank() == 0;
        const Peer peer = Peer::group(1 - session.rank());
        struct One {
          int64_t tag;
          Elements data;
        };
        const auto fill = [&](char byte) { return sends ? byte : kUntouched; };
        One all[] = {{1, {DType::kF32, 4, fill(1)}},
                     {2, {DType::kI32, large, fill(2)}},
                     {1, {DType::kF32, large, fill(3)}},
                     {2, {DType::kI64, 0, fill(4)}},
                     {1, {DType::kU8, 4, fill(5)}},
                     {2, {DType::kI32, large, fill(6)}}};
        const std::vector<size_t> order =
            sends ? std::vector<size_t>{0, 1, 2, 3, 4, 5}
                  : std::vector<size_t>{1, 3, 0, 5, 2, 4};
        if (sends == receives_first) {
          ASSERT_TRUE(barrier(o).ok());
        }
        std::vector<absl::StatusOr<Work>> works;
        for (const size_t i : order)
          works.push_back(sends
                              ? isend(all[i].data.view(), peer, all[i].tag, o)
                              : irecv(all[i].data.view(), peer, all[i].tag, o));
        if (sends != receives_first) {
          ASSERT_TRUE(barrier(o).ok());
        }
        for (const auto& work : works) ASSERT_TRUE(ended(work).ok());
        for (size_t i = 0; i < 6; ++i)
          EXPECT_TRUE(all[i].data.is_all(static_cast<char>(i + 1)));
        ASSERT_TRUE(barrier(o).ok());
      });
}

// A sender that has returned, and makes no call any more: it ends after the
// receive, or at any moment.
TEST_P(MessageOrder, AMismatchIsToldByTheEnd) {
  for (const bool ends_later : {true, false}) {
    std::atomic<bool> found = false;
    run_ranks(2, on(GetParam()), [&](Session& session) {
      const OpOptions o{.group = session.world()};
      Elements sent(DType::kF32, 4), expected(DType::kI32, 8);
      if (session.rank() == 1) {
        const absl::Status status =
            recv(expected.view(), Peer::group(0), kTag, o).status();
        EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
        found = true;
        return;
      }
      absl::Status told = send(sent.view(), Peer::group(1), kTag, o);
      while (ends_later && !found) sched_yield();
      if (told.ok()) told = session.close();
      EXPECT_EQ(error_reason(told), Reason::kCallMismatch) << told;
      EXPECT_THAT(std::string(told.message()),
                  AllOf(HasSubstr("recv i32 x 8"), HasSubstr("send f32 x 4")));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MessageOrder,
                         ::testing::ValuesIn(host_backends()),
                         [](const auto& test) { return test.param; });

class OwnMessageMismatch : public ::testing::TestWithParam<const char*> {};

TEST_P(OwnMessageMismatch, FailsBothCalls) {
  for (const bool sends_first : {false, true})
    for (const Difference& differ : {kDifferences[0], kDifferences[2],
                                     kDifferences[4], kDifferences[10]}) {
      const int size = std::string(GetParam()) == "loopback" ? 1 : 2;
      run_ranks(size, on(GetParam()), [&](Session& session) {
        const OpOptions o{.group = session.world()};
        const int rank = session.rank();
        const Peer self = Peer::group(rank);
        // Told by its end, too.
        if (rank != 0) return session.close().IgnoreError();
        Elements sent(differ.sent, differ.sent_count, 1),
            taken(differ.received, differ.received_count);
        absl::StatusOr<Work> sending, receiving;
        if (sends_first) sending = isend(sent.view(), self, kTag, o);
        receiving = irecv(taken.view(), self, kTag, o);
        if (!sends_first) sending = isend(sent.view(), self, kTag, o);
        for (const auto* work : {&sending, &receiving}) {
          const absl::Status status = ended(*work);
          EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
          EXPECT_THAT(
              std::string(status.message()),
              AllOf(HasSubstr(absl::StrCat("recv ", dtype_name(differ.received),
                                           " x ", differ.received_count)),
                    HasSubstr(absl::StrCat("send ", dtype_name(differ.sent),
                                           " x ", differ.sent_count))));
        }
        EXPECT_TRUE(taken.is_all(kUntouched));
        EXPECT_EQ(error_reason(barrier(o).status()), Reason::kGroupBroken);
      });
    }
}

INSTANTIATE_TEST_SUITE_P(Backends, OwnMessageMismatch,
                         ::testing::ValuesIn(host_backends({"loopback"})),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace distwrap
