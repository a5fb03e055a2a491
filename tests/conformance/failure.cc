#include "call.h"
#include "checks.h"
#include "message.h"
#include "promises.h"
#include "sample.h"

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

namespace distwrap::conformance {
namespace {

using Clock = std::chrono::steady_clock;

// The rule is 50 ms, but test machines are busy.
constexpr std::chrono::milliseconds kAbortBound(2000);
// How long an operation is watched to prove that it blocks.
constexpr std::chrono::milliseconds kBlocked(20);

const dw_error kWhy = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, "a test"};

void abort_fails_later_calls(Member& member, const Case& c) {
  Call call(c, member);
  dw_op op = call.op();
  op.seq = member.next_seq++;
  op.flags |= DW_FLAG_CALLER_WAITS;
  dw_error error = {};
  const int32_t code = member.api.submit(member.comm, &op, nullptr, &error);
  if (code <= DW_OK)
    member.find(c.name() + " after an abort: " + error_text(code, error));
  else if (error.code != code || error.text[0] == '\0')
    member.find(c.name() + " after an abort: no detail");
}

// Rank 0 stays away, so that the others block; each aborts itself.
void abort_blocked(Member& member, const Case& c) {
  const bool caller_waits = c.caller_waits();
  const std::string name = c.name();
  Call call(c, member);
  dw_op op = call.op();
  op.seq = member.next_seq++;
  dw_work work;
  std::promise<void> ended;
  std::future<void> end = ended.get_future();
  int32_t code = DW_OK;
  dw_error error = {};
  std::thread caller([&] {
    code = member.api.submit(member.comm, &op, caller_waits ? nullptr : &work,
                             &error);
    if (code == DW_OK && wait_for(member, work, member.limits.body)) {
      code = work.code();
      error = work.error();
    }
    ended.set_value();
  });
  const bool blocked = end.wait_for(kBlocked) == std::future_status::timeout;
  member.meeting.meet();
  const Clock::time_point aborted = Clock::now();
  member.api.comm_abort(member.comm, &kWhy);
  if (Clock::now() - aborted > kAbortBound)
    member.find(name + ": comm_abort took long");
  end.wait();
  if (Clock::now() - aborted > kAbortBound)
    member.find(name + ": ended long after the abort");
  caller.join();
  if (!blocked)
    member.find(name + ": did not wait for rank 0: " + error_text(code, error));
  else if (code <= DW_OK)
    member.find(name + ": succeeded without rank 0");
  if (work.completions() > 1) member.find(name + ": completed twice");
}

// Cases that cannot finish without rank 0, the root of rooted operations.
std::vector<Case> blocking_cases(const Promises& promises) {
  std::vector<Case> cases;
  for (const Calling calling : {Calling::kWaits, Calling::kAsync})
    for (const Case& c : one_of_each(promises, 1024, calling))
      if (c.form == Form::kPlain && c.kind != DW_OP_REDUCE &&
          c.kind != DW_OP_GATHER)
        cases.push_back(c);
  return cases;
}

std::vector<Case> cases_on(const dw_backend_api& api, int size,
                           const Limits& limits, Findings& findings) {
  std::vector<Case> cases;
  run_team(api, size, limits, findings, [&](Member& member) {
    if (member.rank == 0) cases = blocking_cases(promises_of(member));
  });
  return cases;
}

// A receive without a send ends with the communicator.
void abort_receive(Member& member) {
  const int dtype = message_dtype(promises_of(member), false);
  if (dtype < 0 || member.size == 1) return;
  GuardedBytes memory(64);
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = DW_OP_RECV;
  op.peer = (member.rank + 1) % member.size;
  op.out.data = memory.data();
  op.out.count = 4;
  op.out.dtype = {1, 8, 1};
  dw_work work;
  dw_error error = {};
  const int32_t code = member.api.submit(member.comm, &op, &work, &error);
  if (code != DW_OK)
    return member.find("an open receive: " + error_text(code, error));
  member.meeting.meet();
  member.api.comm_abort(member.comm, &kWhy);
  if (!wait_for(member, work, kAbortBound))
    return member.find("an open receive did not end by the abort");
  if (work.code() <= DW_OK || work.completions() != 1)
    member.find("an open receive after the abort: " +
                error_text(work.code(), work.error()));
  if (const std::string wrong = memory.wrong("the memory", -1); !wrong.empty())
    member.find("an open receive after the abort: " + wrong);
}

}  // namespace

void check_abort(const dw_backend_api& api, int size, const Limits& limits,
                 Findings& findings) {
  for (const Case& c : cases_on(api, size, limits, findings))
    run_team(api, size, limits, findings, [&](Member& member) {
      if (member.rank != 0) {
        abort_blocked(member, c);
      } else {
        member.meeting.meet();  // all other ranks are blocked by now
        member.api.comm_abort(member.comm, &kWhy);
      }
      abort_fails_later_calls(member, c);
    });
  run_team(api, size, limits, findings, abort_receive);
}

// Each rank closes while others have not closed yet; no rank waits for another.
void check_close(const dw_backend_api& api, int size, const Limits& limits,
                 Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    for (const Case& c : one_of_each(promises_of(member), 100, Calling::kAsync))
      make_call(member, c);
    for (int rank = 0; rank < member.size; ++rank) {
      member.meeting.meet();
      if (rank != member.rank) continue;
      dw_comm* const comm = [&member] {
        std::lock_guard<std::mutex> lock(member.comms);
        return std::exchange(member.comm, nullptr);
      }();
      const Clock::time_point begun = Clock::now();
      dw_error error = {};
      const int32_t code =
          member.api.comm_destroy(comm, now_ns() + 200'000'000, &error);
      if (code != DW_OK)
        member.find("comm_destroy: " + error_text(code, error));
      if (Clock::now() - begun > kAbortBound)
        member.find("comm_destroy took long");
    }
  });
}

// Large operations one after the other, aborted by one rank at some moment: all
// ranks end, and none hangs in the middle of a message.
void check_abort_in_transfer(const dw_backend_api& api, int size,
                             const Limits& limits, Findings& findings) {
  constexpr size_t kCount = 1 << 18;
  constexpr int kMoments = 3;
  if (size == 1) return;
  for (Case c : cases_on(api, size, limits, findings)) {
    if (c.kind == DW_OP_BARRIER || !c.caller_waits()) continue;
    c.count = kCount;
    for (int moment = 0; moment < kMoments; ++moment)
      run_team(api, size, limits, findings, [&](Member& member) {
        Call call(c, member);
        member.meeting.meet();
        std::promise<void> over;
        std::thread aborting;
        if (member.rank == 0)
          aborting = std::thread([&, end = over.get_future()] {
            end.wait_for(std::chrono::microseconds(700 * moment * moment));
            member.api.comm_abort(member.comm, &kWhy);
          });
        int32_t code = DW_DONE;
        while (code == DW_DONE) {
          dw_op op = call.op();
          op.seq = member.next_seq++;
          code = member.api.submit(member.comm, &op, nullptr, nullptr);
        }
        if (aborting.joinable()) aborting.join();
        member.api.comm_abort(member.comm, &kWhy);
      });
  }
}

}  // namespace distwrap::conformance
