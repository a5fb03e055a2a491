// Messages with works: moved by whoever waits, and by the thread where nobody
// does.
#include "checks.h"
#include "distwrap/abi/plugin.h"
#include "host.h"
#include "thread_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace distwrap::conformance {
namespace {

constexpr std::chrono::seconds kLong{30};

void run_two(const std::function<void(Member&)>& body) {
  shm_test::run_threads(2, body);
}

// With the other rank, without waiting. DW_OK or DW_DONE.
int32_t start(Member& member, uint16_t kind, std::vector<float>& data,
              dw_work* work) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.peer = 1 - member.rank;
  op.tag = 5;
  dw_buf& buf = kind == DW_OP_SEND ? op.in : op.out;
  buf.data = data.data();
  buf.count = static_cast<int64_t>(data.size());
  buf.dtype = {2, 32, 1};
  dw_error error = {};
  const int32_t code = member.api.submit(member.comm, &op, work, &error);
  EXPECT_LE(code, DW_OK) << error_text(code, error);
  return code;
}

// Every way that a message can go by its size.
constexpr size_t kCounts[] = {1, 1000, 100000, 1000000};

TEST(ShmMoving, WhatNobodyWaitsForEndsAllTheSame) {
  run_two([](Member& member) {
    for (const size_t count : kCounts) {
      std::vector<float> in(count, -1), out(count, 1.5f);
      dw_work received, sent;
      const int32_t receiving = start(member, DW_OP_RECV, in, &received);
      const int32_t sending = start(member, DW_OP_SEND, out, &sent);
      if (receiving == DW_OK) {
        EXPECT_TRUE(received.wait(kLong)) << count;
      }
      if (sending == DW_OK) {
        EXPECT_TRUE(sent.wait(kLong)) << count;
      }
      EXPECT_EQ(in, out);
    }
  });
}

// Longer than the thread looks for new ones.
TEST(ShmMoving, ALateMessageIsStillReceived) {
  run_two([](Member& member) {
    std::vector<float> data(10, 2);
    dw_work work;
    if (member.rank == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    const int32_t code =
        start(member, member.rank == 0 ? DW_OP_RECV : DW_OP_SEND, data, &work);
    if (code == DW_OK) {
      EXPECT_TRUE(work.wait(kLong));
    }
  });
}

TEST(ShmMoving, WhoWaitsMovesThem) {
  run_two([](Member& member) {
    for (int round = 0; round < 200; ++round)
      for (const size_t count : kCounts) {
        if (count > 1000 && round % 20 != 0) continue;
        std::vector<float> in(count, -1), out(count, 1.5f);
        dw_work received, sent;
        const bool receiving =
            start(member, DW_OP_RECV, in, &received) == DW_OK;
        const bool sending = start(member, DW_OP_SEND, out, &sent) == DW_OK;
        const auto last = std::chrono::steady_clock::now() + kLong;
        while (((receiving && received.completions() == 0) ||
                (sending && sent.completions() == 0)) &&
               std::chrono::steady_clock::now() < last) {
          member.api.progress(member.backend);
          std::this_thread::yield();
        }
        ASSERT_EQ(received.completions(), receiving ? 1 : 0);
        ASSERT_EQ(sent.completions(), sending ? 1 : 0);
        ASSERT_EQ(in, out);
      }
  });
}

}  // namespace
}  // namespace distwrap::conformance
