// Hooks: the calls that they see, their order, and the calls that they may
// make.
#include "distwrap/hooks.h"

#include "base/log.h"
#include "ranks/facade_ranks.h"
#include "ranks/hook_diary.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace distwrap::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string views_text(absl::Span<const TensorView> views) {
  std::string text;
  for (const TensorView& view : views)
    absl::StrAppend(&text, text.empty() ? "" : "+", view.count());
  return text.empty() ? "-" : text;
}

// H1: hooks run in the order in which they were added, in `pre` and in `post`.
TEST(Hooks, RunInTheOrderOfTheirAdding) {
  run_bound(1, [](int) {
    Diary diary;
    std::vector<Hook> hooks;
    for (int i = 0; i < 20; ++i)
      hooks.push_back(*add_hook({}, writing(diary, absl::StrCat(i, " "))));
    ASSERT_TRUE(barrier().ok());
    std::vector<std::string> expected;
    for (const char* const what : {" pre barrier", " post barrier ok"})
      for (int i = 0; i < 20; ++i) expected.push_back(absl::StrCat(i, what));
    EXPECT_EQ(diary.take(), expected);
    hooks.clear();
    ASSERT_TRUE(barrier().ok());
    EXPECT_THAT(diary.take(), IsEmpty());
  });
}

TEST(Hooks, AreShownEveryOptionOfACall) {
  run_bound(2, [](int rank) {
    Diary diary;
    const int other = 1 - rank;
    uint64_t id = 0;
    const Hook hook = *add_hook(
        {}, {.pre =
                 [&](const HookedCall& call) {
                   EXPECT_GT(call.id, id);
                   id = call.id;
                   EXPECT_EQ(call.group, "world");
                   EXPECT_EQ(call.group_size, 2);
                   EXPECT_EQ(call.rank, rank);
                   EXPECT_EQ(call.seq, 0u);
                   diary.write(absl::StrCat(
                       call.op, " in ", views_text(call.inputs), " out ",
                       views_text(call.outputs), " peer ", call.peer, " tag ",
                       call.tag,
                       call.reduces
                           ? absl::StrCat(" ",
                                          reduce_op_name(call.reduction.kind()))
                           : "",
                       call.async ? " async" : "", call.in_place ? " here" : "",
                       call.exclusive ? " before" : "",
                       call.in_counts.empty() && call.out_counts.empty()
                           ? ""
                           : absl::StrCat(" counts ", call.in_counts.size(),
                                          "/", call.out_counts.size()),
                       call.label.empty() ? "" : " ", call.label, " ",
                       absl::FormatDuration(call.timeout)));
                   return absl::OkStatus();
                 },
             .post =
                 [&](const HookedCall& call, const absl::Status& status) {
                   EXPECT_EQ(call.id, id);
                   diary.write(absl::StrCat("#", call.seq,
                                            status.ok() ? "" : " failed"));
                 }});
    std::vector<float> x(8, 1), y(8), z(8);
    const TensorView a(x), b(y), c(z);
    const auto part = [](std::vector<float>& of, int64_t n) {
      return TensorView(of.data(), n);
    };
    finish(all_reduce(a, ReduceOp::kMax,
                      {.timeout = absl::Seconds(5), .label = "grad"}));
    finish(all_reduce(b, a, ReduceOp::premul_sum(0.5), {.async = true}));
    finish(broadcast(a, Peer::global(1)));
    finish(reduce_scatter_v(part(y, rank + 1), part(x, 3), {1, 2},
                            ReduceOp::kSum));
    finish(all_gather(std::vector<TensorView>{part(y, 1), part(z, 2)},
                      part(x, rank + 1)));
    finish(exscan(b, a, ReduceOp::kSum));
    const auto sent = isend(a, Peer::group(other), 7);
    ASSERT_TRUE(sent.ok());
    ASSERT_EQ(*recv(b, Peer::group(other), 7), other);
    ASSERT_TRUE(sent->wait().ok());
    // A call directly on the communicator.
    finish((*world_of_thread().communicator())
               ->all_gather(part(y, 8), part(x, 4)));
    EXPECT_THAT(
        diary.take(),
        ElementsAre(
            "all_reduce in 8 out 8 peer -1 tag 0 max here grad 5s", "#1",
            "all_reduce in 8 out 8 peer -1 tag 0 premul_sum async 1m", "#2",
            absl::StrCat("broadcast in ", rank == 1 ? "8" : "-",
                         " out 8 peer 1 tag 0", rank == 1 ? " here" : "",
                         " 1m"),
            "#3",
            absl::StrCat("reduce_scatter in 3 out ", rank + 1,
                         " peer -1 tag 0 sum counts 2/0 1m"),
            "#4",
            absl::StrCat("all_gather in ", rank + 1,
                         " out 1+2 peer -1 tag 0 "
                         "1m"),
            "#5", "scan in 8 out 8 peer -1 tag 0 sum before 1m", "#6",
            absl::StrCat("send in 8 out - peer ", other, " tag 7 async 1m"),
            "#0", absl::StrCat("recv in - out 8 peer ", other, " tag 7 1m"),
            "#0", "all_gather in 4 out 8 peer -1 tag 0 1m", "#7"));
  });
}

// H5: hooks also see batches, objects, groups, aborts and ends.
TEST(Hooks, AreShownWhatIsNoOperation) {
  run_bound(2, [](int rank) {
    Diary diary;
    const Hook hook = *add_hook({}, writing(diary));
    ASSERT_TRUE(all_gather_object(Object(1)).ok());
    std::vector<Object> list = {Object(2)};
    ASSERT_TRUE(broadcast_object_list(absl::MakeSpan(list)).ok());
    ASSERT_TRUE(gather_object(Object(3)).ok());
    ASSERT_TRUE(monitored_barrier().ok());
    const auto half = split_group_by_color(rank, 0);
    ASSERT_TRUE(half.ok()) << half.status();
    const auto both = new_group();
    ASSERT_TRUE(both.ok()) << both.status();
    EXPECT_THAT(
        diary.take(),
        ElementsAre("pre all_gather_object", "post all_gather_object ok",
                    "pre broadcast_object_list",
                    "post broadcast_object_list ok", "pre gather_object",
                    "post gather_object ok", "pre monitored_barrier",
                    "post monitored_barrier ok", "pre split_group_by_color",
                    "post split_group_by_color ok", "pre new_group",
                    "post new_group ok"));

    uint64_t batch = 0;
    Hook ids = *add_hook({}, {.pre = [&](const HookedCall& call) {
                           if (call.op == "batch") {
                             EXPECT_EQ(call.items, 3u);
                             batch = call.id;
                           } else {
                             EXPECT_EQ(call.batch, batch);
                           }
                           return absl::OkStatus();
                         }});
    std::vector<float> x(4, 1), y(4);
    float sum = 1;
    Batch items;
    items.send(TensorView(x), Peer::group(1 - rank));
    items.recv(TensorView(y), Peer::group(1 - rank));
    items.all_reduce(TensorView(&sum, 1));
    EXPECT_THAT(diary.take(), IsEmpty());  // nothing has happened yet
    finish(items.submit());
    ids.remove();
    diary.wait_for(12);
    auto lines = diary.take();
    EXPECT_THAT(std::vector(lines.begin(), lines.begin() + 8),
                ElementsAre("pre batch", "pre send", "pre recv",
                            "pre all_reduce", "post send ok", "post recv ok",
                            "post all_reduce ok", "post batch ok"));
    EXPECT_THAT(
        std::vector(lines.begin() + 8, lines.end()),
        ::testing::UnorderedElementsAre("end batch ok", "end send ok",
                                        "end recv ok", "end all_reduce ok"));

    // A group's own hooks see its end; the world's hooks do not.
    Diary own;
    const Hook below = *add_hook(*both, writing(own));
    ASSERT_TRUE(barrier().ok());
    ASSERT_TRUE(barrier({.group = *both}).ok());
    ASSERT_TRUE(destroy_process_group(*both).ok());
    EXPECT_THAT(own.take(), ElementsAre("pre barrier", "post barrier ok",
                                        "pre destroy_process_group",
                                        "post destroy_process_group ok"));
    const Hook solo = *add_hook(*half, writing(own));
    ASSERT_TRUE(abort(*half).ok());
    own.wait_for(3);
    EXPECT_THAT(own.take(),
                ::testing::UnorderedElementsAre(
                    "pre abort", "post abort ok",
                    absl::StrCat("abort ", half->name(), " kAborted")));
  });
}

// H3: one post for each pre, with the status, also after an error; and only
// once.
TEST(Hooks, PostFollowsEveryPre) {
  run_bound(2, [](int rank) {
    Diary diary;
    const Hook hook = *add_hook({}, writing(diary));
    float x = 1;
    // A call with impossible arguments is not shown.
    EXPECT_FALSE(all_reduce(TensorView(&x, -1)).ok());
    ASSERT_TRUE(barrier().ok());
    if (rank == 1) {
      // Waits until the first rank has given up.
      EXPECT_FALSE(irecv(TensorView(&x, 1), Peer::group(0))->wait().ok());
      return;
    }
    const auto late = all_reduce(TensorView(&x, 1), ReduceOp::kSum,
                                 {.timeout = absl::Milliseconds(100)});
    EXPECT_EQ(error_reason(late.status()), Reason::kTimedOut);
    EXPECT_EQ(error_reason(barrier().status()), Reason::kGroupBroken);
    diary.wait_for(5);
    EXPECT_THAT(diary.take(),
                ::testing::UnorderedElementsAre(
                    "pre barrier", "post barrier ok", "pre all_reduce",
                    "post all_reduce kTimedOut", "abort world kTimedOut"));
  });
}

TEST(Hooks, CompletionTellsOfWhatFailsLater) {
  run_bound(2, [](int rank) {
    Diary diary;
    float x = 1;
    ASSERT_TRUE(barrier().ok());
    if (rank == 1) {
      EXPECT_FALSE(irecv(TensorView(&x, 1), Peer::group(0))->wait().ok());
      return;
    }
    const Hook hook = *add_hook({}, writing(diary));
    const auto work =
        all_reduce(TensorView(&x, 1), ReduceOp::kSum,
                   {.async = true, .timeout = absl::Milliseconds(100)});
    ASSERT_TRUE(work.ok());
    EXPECT_FALSE(work->wait().ok());
    diary.wait_for(4);
    EXPECT_THAT(diary.take(),
                ::testing::UnorderedElementsAre(
                    "pre all_reduce", "post all_reduce ok",
                    "end all_reduce kTimedOut", "abort world kTimedOut"));
  });
}

// H4: a hook may start operations, which the others see and it does not.
TEST(Hooks, AHookMayCallWhatItWatches) {
  run_bound(2, [](int) {
    Diary diary;
    float sum = 0;
    int inner = 0;
    const Hook adding =
        *add_hook({}, {.pre = [&](const HookedCall&) {
                    ++inner;
                    sum = 1;
                    return all_reduce(TensorView(&sum, 1)).status();
                  }});
    const Hook watching = *add_hook({}, writing(diary));
    std::vector<float> x(4, 1);
    finish(all_reduce(TensorView(x)));
    EXPECT_EQ(x, std::vector<float>(4, 2));
    EXPECT_EQ(sum, 2);
    EXPECT_EQ(inner, 1);
    EXPECT_THAT(diary.take(),
                ElementsAre("pre all_reduce", "post all_reduce ok",
                            "pre all_reduce", "post all_reduce ok"));
  });
}

TEST(Hooks, AHookMayAddAndRemoveHooks) {
  run_bound(1, [](int) {
    Diary diary;
    Hook added, self;
    self = *add_hook({}, {.pre =
                              [&](const HookedCall&) {
                                added = *add_hook({}, writing(diary));
                                self.remove();
                                diary.write("added");
                                return absl::OkStatus();
                              },
                          .post =
                              [&](const HookedCall&, const absl::Status&) {
                                diary.write("never: it was removed");
                              }});
    ASSERT_TRUE(barrier().ok());
    EXPECT_THAT(diary.take(), ElementsAre("added"));
    ASSERT_TRUE(barrier().ok());
    EXPECT_THAT(diary.take(), ElementsAre("pre barrier", "post barrier ok"));
  });
}

TEST(Hooks, AHookMayEndTheGroup) {
  run_bound(1, [](int) {
    absl::StatusOr<Group> group = new_group();
    ASSERT_TRUE(group.ok());
    Diary diary;
    Hook ending = *add_hook(*group, {.pre = [&](const HookedCall& call) {
      if (call.op != "barrier") return absl::OkStatus();
      const Group gone = std::exchange(*group, Group());
      return destroy_process_group(gone);
    }});
    const Hook watching = *add_hook(*group, writing(diary));
    Communicator* const communicator = *group->communicator();
    EXPECT_EQ(error_reason(communicator->barrier().status()),
              Reason::kGroupClosed);
    EXPECT_THAT(diary.take(),
                ElementsAre("pre destroy_process_group",
                            "post destroy_process_group ok", "pre barrier",
                            "post barrier kGroupClosed"));
  });
}

TEST(Hooks, AHookOfTheEndMayEndAgain) {
  run_bound(1, [](int) {
    const auto group = new_group();
    ASSERT_TRUE(group.ok());
    int seen = 0;
    const Hook below = *add_hook(*group, {.pre = [&](const HookedCall&) {
      ++seen;
      return destroy_process_group(*group);
    }});
    EXPECT_TRUE(destroy_process_group(*group).ok());
    EXPECT_EQ(seen, 1);
    const Session session = facade::session_of_thread();
    const Hook world = *add_hook({}, {.pre = [&](const HookedCall&) {
                                   ++seen;
                                   return session.close();
                                 }});
    EXPECT_TRUE(session.close().ok());
    EXPECT_EQ(seen, 2);
  });
}

TEST(Hooks, WhatTheyThrowStaysInside) {
  std::string logged;
  std::mutex mutex;
  base::set_log_sink([&](base::LogLevel, absl::string_view text) {
    std::lock_guard lock(mutex);
    absl::StrAppend(&logged, text, "\n");
  });
  run_bound(1, [](int) {
    const Hook post =
        *add_hook({}, {.post = [](const HookedCall&, const absl::Status&) {
                    throw std::runtime_error("too late");
                  }});
    EXPECT_TRUE(barrier().ok());
    const Hook pre = *add_hook({}, {.pre = [](const HookedCall&) {
                                 throw std::runtime_error("not this one");
                                 return absl::OkStatus();
                               }});
    const absl::Status refused = barrier().status();
    expect_reason(refused, Reason::kAborted, "not this one");
  });
  base::set_log_sink({});
  EXPECT_THAT(logged, HasSubstr("too late"));
}

// H6: the handle's end removes the hook, and no thread is in it afterwards.
TEST(Hooks, RemovalWaitsForOtherThreads) {
  run_bound(1, [](int) {
    std::atomic<bool> inside{false}, leave{false}, out{false};
    Hook hook = *add_hook({}, {.pre = [&](const HookedCall&) {
                            inside = true;
                            while (!leave) std::this_thread::yield();
                            out = true;
                            return absl::OkStatus();
                          }});
    const Group world = world_of_thread();
    std::thread caller([&] { EXPECT_TRUE(barrier({.group = world}).ok()); });
    while (!inside) std::this_thread::yield();
    std::thread remover([&] {
      hook.remove();
      EXPECT_TRUE(out);
    });
    leave = true;
    remover.join();
    caller.join();
    ASSERT_TRUE(barrier().ok());
  });
}

TEST(Hooks, ComeAndGoUnderLoad) {
  run_bound(2, [](int rank) {
    const Group world = world_of_thread();
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&] {
        while (!stop) {
          // Freed with the hook.
          auto seen = std::make_unique<int>(0);
          int* const count = seen.get();
          std::mutex mutex;
          const Hook hook = *add_hook(
              world,
              {.pre =
                   [count, &mutex](const HookedCall&) {
                     std::lock_guard lock(mutex);
                     ++*count;
                     return absl::OkStatus();
                   },
               .completion =
                   [count, &mutex](const HookedCall&, const absl::Status&) {
                     std::lock_guard lock(mutex);
                     ++*count;
                   }});
          std::this_thread::yield();
        }
      });
    float x = 0, y = 0;
    for (int i = 0; i < 300; ++i) {
      x = 1;
      finish(all_reduce(TensorView(&x, 1), ReduceOp::kSum,
                        {.group = world, .async = i % 3 == 0}));
      ASSERT_EQ(x, 2);
      Batch batch;
      batch.send(TensorView(&x, 1), Peer::group(1 - rank), 0, {.group = world});
      batch.recv(TensorView(&y, 1), Peer::group(1 - rank), 0, {.group = world});
      finish(batch.submit());
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(Hooks, NeedASession) {
  expect_reason(add_hook({}, {}).status(), Reason::kNotInitialized);
}

}  // namespace
}  // namespace distwrap::testing
