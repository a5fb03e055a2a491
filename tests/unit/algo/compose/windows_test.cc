// Windows made of messages, through the table, over backends that complete
// messages at once, later, or only when polled (and then sometimes lack
// resources).
#include "calls.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace distwrap::conformance {
namespace {

class ComposedWindows
    : public testing::TestWithParam<const dw_backend_api& (*)()> {};
INSTANTIATE_TEST_SUITE_P(Styles, ComposedWindows,
                         testing::Values(kMessages, kAsync, kPolled));

constexpr uint64_t kSignals = 4;

// One rank's part of a window being built.
class Building {
 public:
  Building(Member& member, uint64_t uid, std::vector<int64_t>& part)
      : member_(member) {
    dw_setup_info info = setup_info(member, uid);
    info.flags = DW_SETUP_WINDOW;
    info.parent = member.comm;
    info.memory = buffer(part);
    info.signals = kSignals;
    dw_error error = {};
    code_ =
        member.api.window_create(member.comm, &info, &setup_, &out_, &error);
    if (code_ != DW_OK) member.find("create: " + error_text(code_, error));
  }

  static dw_buf buffer(std::vector<int64_t>& elements) {
    dw_buf buf = {};
    buf.data = elements.data();
    buf.count = static_cast<int64_t>(elements.size());
    buf.dtype = {0, 64, 1};
    return buf;
  }

  // Runs to the end, or for so many rounds.
  dw_window* run(int rounds = 1000) {
    for (int round = 0; round < rounds && code_ == DW_OK; ++round) {
      const std::vector<std::string> texts = member_.meeting.swap(
          member_.rank,
          std::string(static_cast<const char*>(out_.data), out_.size));
      std::vector<dw_blob> blobs;
      for (const std::string& text : texts)
        blobs.push_back({text.data(), text.size(), nullptr, 0});
      out_ = {};
      dw_error error = {};
      code_ = member_.api.setup_step(setup_, blobs.data(), blobs.size(), &out_,
                                     &result_, &error);
      if (code_ != DW_OK && code_ != DW_DONE)
        member_.find("step: " + error_text(code_, error));
    }
    // As in the host, the window is used once all ranks have it.
    member_.meeting.meet();
    return result_.window;
  }
  void cancel() {
    if (code_ == DW_OK) member_.api.setup_cancel(setup_);
  }

 private:
  Member& member_;
  int32_t code_ = DW_OK;
  dw_setup* setup_ = nullptr;
  dw_blob out_ = {};
  dw_setup_result result_ = {};
};

dw_op on(dw_window* window, uint16_t kind, int peer) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.peer = peer;
  op.window = window;
  op.timeout_ns = 20'000'000'000;
  return op;
}

void does(Member& member, const dw_op& op, const char* what) {
  dw_error error = {};
  const int32_t code = member.api.submit(member.comm, &op, nullptr, &error);
  if (code != DW_DONE)
    member.find(std::string(what) + ": " + error_text(code, error));
}

void wait_for(Member& member, dw_window* window, uint32_t slot,
              uint64_t value) {
  dw_op op = on(window, DW_OP_WAIT_SIGNAL, -1);
  op.signal_index = slot;
  op.compare = DW_COMPARE_GE;
  op.value = value;
  does(member, op, "wait_signal");
}

// All operations, small ones and others with many segments, round after round.
void exercise(Member& member, dw_window* window, std::vector<int64_t>& part,
              uint64_t rounds) {
  const int size = member.size;
  const int next = (member.rank + 1) % size;
  const int before = (member.rank + size - 1) % size;
  // 8 words of counters, then the data of the previous rank.
  const size_t n = part.size() - 8;
  for (uint64_t round = 1; round <= rounds; ++round) {
    const size_t count = round % 2 == 0 ? 5 : n;
    std::vector<int64_t> x(count), y(count);
    std::iota(x.begin(), x.end(), int64_t{1000} * member.rank);
    dw_op put = on(window, DW_OP_PUT, next);
    put.in = Building::buffer(x);
    put.window_offset = 64;
    put.flags |= DW_FLAG_WITH_SIGNAL;
    put.signal_how = DW_SIGNAL_ADD;
    put.value = 1;
    does(member, put, "put");
    wait_for(member, window, 0, round);
    for (size_t i = 0; i < count; ++i)
      if (part[8 + i] != 1000 * before + static_cast<int64_t>(i))
        return member.find("a wrong element was put");
    dw_op get = on(window, DW_OP_GET, next);
    get.out = Building::buffer(y);
    get.window_offset = 64;
    does(member, get, "get");
    if (x != y) return member.find("a wrong element was got");
    // All ranks add to the counters of rank 0.
    std::vector<int64_t> ones(8, 1), old(8);
    dw_op add =
        on(window, round % 2 == 0 ? DW_OP_ACCUMULATE : DW_OP_FETCH_OP, 0);
    add.reduce = DW_REDUCE_SUM;
    add.in = Building::buffer(ones);
    if (add.kind == DW_OP_FETCH_OP) add.out = Building::buffer(old);
    does(member, add, "an atomic");
    does(member, on(window, DW_OP_FLUSH, -1), "flush");
    member.meeting.meet();
    dw_op look = on(window, DW_OP_GET, 0);
    look.out = Building::buffer(old);
    does(member, look, "get");
    if (old != std::vector<int64_t>(8, size * static_cast<int64_t>(round)))
      return member.find("something added was lost");
    member.meeting.meet();
  }
}

TEST_P(ComposedWindows, EveryOperation) {
  on_ranks(GetParam()(), 3, [](Member& member) {
    std::vector<int64_t> a(8 + 200'000), b(8 + 100);
    dw_window* const first = Building(member, 21, a).run();
    dw_window* const second = Building(member, 22, b).run();
    if (first == nullptr || second == nullptr) return;
    exercise(member, first, a, 4);
    exercise(member, second, b, 6);
    for (dw_window* const window : {second, first}) {
      member.meeting.meet();
      member.api.window_destroy(window, 0, nullptr);
    }
  });
}

// A window that could not be built on all ranks leaves nothing that affects the
// next one, in whichever round it was given up.
TEST_P(ComposedWindows, AfterOneThatWasNotBuilt) {
  on_ranks(GetParam()(), 3, [](Member& member) {
    std::vector<int64_t> part(8 + 100);
    for (int rounds = 0; rounds < 4; ++rounds) {
      // Rank 1 may have completed the last round; the others give up.
      Building given_up(member, 30 + static_cast<uint64_t>(rounds), part);
      dw_window* const built = given_up.run(rounds);
      if (built != nullptr)
        member.api.window_destroy(built, 0, nullptr);
      else
        given_up.cancel();
      member.meeting.meet();
    }
    dw_window* const window = Building(member, 40, part).run();
    if (window == nullptr) return;
    exercise(member, window, part, 2);
    member.api.window_destroy(window, 0, nullptr);
  });
}

TEST_P(ComposedWindows, AnAbortEndsWhatWaits) {
  on_ranks(GetParam()(), 2, [](Member& member) {
    std::vector<int64_t> part(8);
    dw_window* const window = Building(member, 50, part).run();
    if (window == nullptr) return;
    member.meeting.meet();
    if (member.rank == 1) {
      const dw_error why = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, "a test"};
      member.api.comm_abort(member.comm, &why);
    } else {
      dw_op op = on(window, DW_OP_WAIT_SIGNAL, -1);
      op.compare = DW_COMPARE_EQ;
      op.value = 1;
      op.timeout_ns = 0;
      dw_error error = {};
      if (member.api.submit(member.comm, &op, nullptr, &error) <= DW_OK)
        member.find("a wait went well");
    }
    member.api.window_destroy(window, 0, nullptr);
  });
}

TEST_P(ComposedWindows, WhatTheTargetHasEndedIsRefused) {
  on_ranks(GetParam()(), 2, [](Member& member) {
    std::vector<int64_t> part(8, 7), x(8, 1);
    dw_window* const window = Building(member, 60, part).run();
    if (window == nullptr) return;
    if (member.rank == 1) member.api.window_destroy(window, 0, nullptr);
    member.meeting.meet();
    if (member.rank == 0) {
      dw_op put = on(window, DW_OP_PUT, 1);
      put.in = Building::buffer(x);
      dw_error error = {};
      const int32_t code =
          member.api.submit(member.comm, &put, nullptr, &error);
      if (code != DW_FAILED_PRECONDITION || error.peer != 1 ||
          error.reason != DW_REASON_STALE_EPOCH)
        member.find("a put to who has left: " + error_text(code, error));
      member.api.window_destroy(window, 0, nullptr);
    }
    if (part != std::vector<int64_t>(8, 7)) member.find("it was written to");
  });
}

}  // namespace
}  // namespace distwrap::conformance
