// Sets of operations.
#include "exercise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace distwrap::gloo_test {
namespace {

// The items of one rank's set, with their memory.
class Set {
 public:
  Set(Member& member, bool caller_waits)
      : member_(member), caller_waits_(caller_waits) {}

  void message(bool sends, int peer, uint64_t tag, int32_t content,
               size_t count = 4) {
    Item& item = add();
    item.data.assign(count, sends ? content : -1);
    item.want.assign(count, content);
    item.op = op_of(sends ? DW_OP_SEND : DW_OP_RECV, 0);
    item.op.peer = peer;
    item.op.tag = tag;
    (sends ? item.op.in : item.op.out) = buffer_of(item.data);
  }
  void collective(const Exercise::Plan& plan) {
    Item& item = add();
    item.exercise = std::make_unique<Exercise>(member_, plan);
    item.op = item.exercise->op(member_.next_seq++);
  }
  // Exchanges items `i` and `j`.
  void swap(size_t i, size_t j) { std::swap(items_[i], items_[j]); }
  dw_op& op(size_t i) { return items_[i]->op; }

  int32_t submit(dw_error* error) {
    std::vector<dw_group_item> items;
    for (const auto& item : items_) {
      if (caller_waits_) item->op.flags |= DW_FLAG_CALLER_WAITS;
      items.push_back(
          {member_.comm, &item->op, caller_waits_ ? nullptr : &item->work});
    }
    return gloo().submit_group(member_.backend, items.data(), items.size(),
                               error);
  }

  // Submits, waits, and checks the results.
  void run() {
    dw_error error = {};
    const int32_t code = submit(&error);
    if (code != DW_DONE && (code != DW_OK || caller_waits_))
      return member_.find("submit_group: " + std::to_string(code) + ": " +
                          error.text);
    for (size_t i = 0; i < items_.size(); ++i) {
      Item& item = *items_[i];
      const std::string name = "item " + std::to_string(i) + ": ";
      if (code == DW_OK && (!item.work.wait(std::chrono::seconds(20)) ||
                            item.work.code() != DW_OK))
        member_.find(name + "did not end well");
      else if (item.work.completions() != (code == DW_OK ? 1 : 0))
        member_.find(name + "completed another number of times");
      else if (item.exercise != nullptr && !item.exercise->wrong().empty())
        member_.find(name + item.exercise->wrong());
      else if (item.data != item.want)
        member_.find(name + "other content");
    }
  }

  // Whether every work of a started set ends with an error.
  bool all_fail() {
    for (const auto& item : items_)
      if (!item->work.wait(std::chrono::seconds(20)) ||
          item->work.code() <= DW_OK)
        return false;
    return true;
  }

  bool untouched() const {
    for (const auto& item : items_)
      if (item->work.completions() != 0 ||
          (item->op.kind == DW_OP_RECV &&
           item->data != std::vector<int32_t>(item->data.size(), -1)))
        return false;
    return true;
  }

 private:
  struct Item {
    dw_op op = {};
    std::vector<int32_t> data, want;
    std::unique_ptr<Exercise> exercise;
    dw_work work;
  };
  Item& add() {
    items_.push_back(std::make_unique<Item>());
    return *items_.back();
  }

  Member& member_;
  const bool caller_waits_;
  std::vector<std::unique_ptr<Item>> items_;
};

class GlooGroupsTest : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(All, GlooGroupsTest, testing::Bool(),
                         [](const auto& tested) {
                           return tested.param ? "Waiting" : "Asynchronous";
                         });

// Large enough that no send ends before its receive has begun.
constexpr size_t kLarge = size_t{1} << 20;

int32_t content(int from, int to, uint64_t tag) {
  return from * 100 + to * 10 + static_cast<int32_t>(tag);
}

// Every rank has another order: receives first, sends first, tags ascending and
// descending, collectives at the beginning, in the middle and at the end.
TEST_P(GlooGroupsTest, NoOrderOfItemsBlocks) {
  on_ranks(3, [](Member& member) {
    for (const size_t count : {size_t{1}, kLarge})
      for (int round = 0; round < 3; ++round) {
        Set set(member, GetParam());
        const int style = (member.rank + round) % 3;
        const auto messages = [&](bool sends) {
          for (int peer = 0; peer < member.size; ++peer)
            for (uint64_t i = 0; i < 3 && peer != member.rank; ++i) {
              const uint64_t tag = style == 1 ? 2 - i : i;
              set.message(sends, peer, tag,
                          sends ? content(member.rank, peer, tag)
                                : content(peer, member.rank, tag),
                          count);
            }
        };
        const auto collectives = [&] {
          set.collective({DW_OP_ALL_GATHER, Lists::kPacked, 0, round});
          set.collective({DW_OP_BARRIER});
          set.collective({DW_OP_ALL_REDUCE, Lists::kEqual, 0, round});
        };
        if (style == 0) collectives();
        messages(style == 1);
        if (style == 1) collectives();
        messages(style != 1);
        if (style == 2) collectives();
        set.run();
      }
  });
}

TEST_P(GlooGroupsTest, RefusedItemStartsNothing) {
  on_ranks(2, [](Member& member) {
    const int peer = 1 - member.rank;
    Set refused(member, GetParam());
    refused.message(true, peer, 5, 1);
    refused.message(false, peer, 5, 1);
    refused.message(true, peer, 6, 1);
    refused.op(2).peer = 9;
    dw_error error = {};
    EXPECT_EQ(refused.submit(&error), DW_INVALID_ARGUMENT);
    EXPECT_NE(error.text[0], '\0');
    // If the first message had been sent, it would arrive here.
    Set good(member, GetParam());
    good.message(false, peer, 5, 2);
    good.message(true, peer, 5, 2);
    good.run();
    EXPECT_TRUE(refused.untouched());
  });
}

TEST_P(GlooGroupsTest, AnEmptySetIsDone) {
  on_ranks(2, [](Member& member) {
    Set set(member, GetParam());
    EXPECT_EQ(set.submit(nullptr), DW_DONE);
  });
}

TEST_P(GlooGroupsTest, WhatMovesNothingCompletes) {
  on_ranks(2, [](Member& member) {
    Set set(member, GetParam());
    const int peer = 1 - member.rank;
    set.message(member.rank == 0, peer, 1, 3, 0);
    set.collective({DW_OP_BARRIER});
    set.message(member.rank == 1, peer, 1, 3);
    set.run();
  });
}

TEST_P(GlooGroupsTest, AbortEndsASet) {
  on_ranks(2, [](Member& member) {
    Set set(member, GetParam());
    set.message(false, 1 - member.rank, 1, 1);
    set.message(false, 1 - member.rank, 2, 1);
    const dw_error why = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, "a test"};
    std::thread aborting([&] {
      member.meeting.meet();
      gloo().comm_abort(member.comm, &why);
    });
    dw_error error = {};
    const auto begin = std::chrono::steady_clock::now();
    const int32_t code = set.submit(&error);
    aborting.join();
    if (GetParam()) {
      EXPECT_GT(code, DW_OK);
      EXPECT_NE(error.text[0], '\0');
      EXPECT_TRUE(set.untouched());
    } else {
      // Aborted before it was started, by this rank or by the other.
      EXPECT_TRUE(code == DW_OK ? set.all_fail()
                                : code == DW_ABORTED || code == DW_UNAVAILABLE)
          << error.text;
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              std::chrono::seconds(10));
  });
}

TEST(GlooGroupTest, AsynchronousItemsNeedWorks) {
  on_ranks(2, [](Member& member) {
    std::vector<int32_t> data(1);
    dw_op op = op_of(DW_OP_SEND, 0);
    op.peer = 1 - member.rank;
    op.in = buffer_of(data);
    const dw_group_item item = {member.comm, &op, nullptr};
    EXPECT_EQ(gloo().submit_group(member.backend, &item, 1, nullptr),
              DW_INVALID_ARGUMENT);
  });
}

}  // namespace
}  // namespace distwrap::gloo_test
