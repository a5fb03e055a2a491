// Operations in flight together never take each other's data.
#include "exercise.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

namespace distwrap::gloo_test {
namespace {

struct Started {
  Started(Member& member, const Exercise::Plan& plan) : exercise(member, plan) {
    const dw_op op = exercise.op(member.next_seq++);
    dw_error error = {};
    code = gloo().submit(member.comm, &op, &work, &error);
  }
  // "" or what went wrong.
  std::string end() {
    if (code != DW_DONE &&
        (code != DW_OK || !work.wait(std::chrono::seconds(20)) ||
         work.code() != DW_OK))
      return "did not end well";
    return exercise.wrong();
  }

  Exercise exercise;
  dw_work work;
  int32_t code;
};

Exercise::Plan plan_of(uint16_t kind, int32_t salt) {
  return {kind, has_lists(kind) ? Lists::kPacked : Lists::kEqual, salt % 3,
          salt, false};
}

// Without a barrier between the pairs, a fast rank is ahead of a slow one.
TEST(GlooSideBySideTest, PairsOfCollectives) {
  on_ranks(3, [](Member& member) {
    int32_t salt = 0;
    for (int round = 0; round < 3; ++round)
      for (const uint16_t a : collectives())
        for (const uint16_t b : collectives()) {
          Started first(member, plan_of(a, ++salt));
          Started second(member, plan_of(b, ++salt));
          const std::string wrong = second.end() + first.end();
          if (!wrong.empty())
            member.find(std::to_string(a) + " beside " + std::to_string(b) +
                        ": " + wrong);
        }
  });
}

// Waiting calls in this thread while others run in the worker.
TEST(GlooSideBySideTest, WaitingBesideAsynchronousCollectives) {
  on_ranks(3, [](Member& member) {
    for (int32_t round = 0; round < 100; ++round) {
      Started first(member, plan_of(DW_OP_ALL_GATHER, 2 * round));
      const Exercise::Plan plan = plan_of(DW_OP_ALL_GATHER, 2 * round + 1);
      Exercise second(member, plan);
      const std::string failed =
          run(member, second.op(member.next_seq++), true);
      const std::string wrong = failed + second.wrong() + first.end();
      if (!wrong.empty()) member.find(wrong);
    }
  });
}

struct Message {
  Message(Member& member, bool sends, int peer, uint64_t tag, int32_t content)
      : data(4, sends ? content : -1), want(content) {
    dw_op op = op_of(sends ? DW_OP_SEND : DW_OP_RECV, 0);
    op.peer = peer;
    op.tag = tag;
    (sends ? op.in : op.out) = buffer_of(data);
    code = gloo().submit(member.comm, &op, &work, nullptr);
  }
  std::string end() {
    if (code != DW_OK || !work.wait(std::chrono::seconds(20)) ||
        work.code() != DW_OK)
      return "did not end well";
    return data == std::vector<int32_t>(4, want) ? "" : "other content";
  }

  std::vector<int32_t> data;
  const int32_t want;
  dw_work work;
  int32_t code;
};

// Equal numbers and sizes in every class, received in the opposite order.
TEST(GlooSideBySideTest, ClassesOfTagsAreApart) {
  on_ranks(2, [](Member& member) {
    constexpr uint32_t kNumbers[] = {0, 1, 0x7fffffff, 0xffffffff};
    std::vector<std::unique_ptr<Message>> messages;
    for (int i = 0; i < 16; ++i) {
      const int n = member.rank == 0 ? i : 15 - i;
      const uint64_t tag = DW_TAG(n / 4, kNumbers[n % 4]);
      messages.push_back(std::make_unique<Message>(
          member, member.rank == 0, 1 - member.rank, tag, 100 + n));
    }
    for (const auto& message : messages)
      if (const std::string wrong = message->end(); !wrong.empty())
        member.find(wrong);
    dw_op op = op_of(DW_OP_SEND, 0);
    std::vector<int32_t> data(1);
    op.peer = 1 - member.rank;
    op.in = buffer_of(data);
    op.tag = UINT64_C(1) << DW_TAG_BITS;
    EXPECT_EQ(gloo().query(member.comm, &op, nullptr), DW_INVALID_ARGUMENT);
  });
}

// Two of four ranks exchange any number of messages, and the next collective of
// all succeeds.
TEST(GlooSideBySideTest, MessagesOfSomeThenACollectiveOfAll) {
  on_ranks(4, [](Member& member) {
    for (int32_t round = 0; round < 20; ++round) {
      if (member.rank == 1 || member.rank == 2) {
        const int peer = 3 - member.rank;
        Message out(member, true, peer, 7, round * 10 + member.rank);
        Message in(member, false, peer, 7, round * 10 + peer);
        const std::string wrong = out.end() + in.end();
        if (!wrong.empty()) member.find(wrong);
      }
      Exercise all(member, plan_of(DW_OP_ALL_REDUCE, round));
      const std::string wrong =
          run(member, all.op(member.next_seq++), round % 2 == 0);
      if (!wrong.empty()) member.find("all_reduce: " + wrong);
    }
  });
}

}  // namespace
}  // namespace distwrap::gloo_test
