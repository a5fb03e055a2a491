// A backend that reports operations in flight does so before it waits for
// others.
#include "call.h"
#include "checks.h"
#include "promises.h"
#include "sample.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace distwrap::conformance {
namespace {

// The reports during the calls of one rank.
struct Progress {
  dw_trace trace;
  std::atomic<uint64_t> ended = 0;
};

// The last rank comes when each other one has reported something since
// `before`, or its call has ended without the last rank.
bool come_late(const Member& member, const std::vector<Progress>& all,
               const std::vector<uint64_t>& before, uint64_t call) {
  const int64_t end =
      now_ns() + std::chrono::nanoseconds(member.limits.operation / 2).count();
  for (size_t r = 0; r + 1 < all.size(); ++r)
    while (all[r].trace.under_way.load() == before[r] &&
           all[r].ended.load() < call) {
      if (now_ns() > end) return false;
      std::this_thread::yield();
    }
  return true;
}

}  // namespace

void check_under_way(const dw_backend_api& api, int size, const Limits& limits,
                     Findings& findings) {
  constexpr int kTimes = 3;  // the first calls, and those like the last one
  if (size == 1 || (api.flags & DW_BACKEND_SAYS_UNDER_WAY) == 0) return;
  std::vector<Progress> all(static_cast<size_t>(size));
  run_team(api, size, limits, findings, [&all](Member& member) {
    Progress& own = all[static_cast<size_t>(member.rank)];
    member.trace = &own.trace;
    uint64_t call = 0;
    bool found = false;
    for (const Case& c :
         one_of_each(promises_of(member), 1023, Calling::kWaits))
      for (int time = 0; time < kTimes; ++time) {
        std::vector<uint64_t> before;
        for (const Progress& one : all)
          before.push_back(one.trace.under_way.load());
        member.meeting.meet();
        ++call;
        if (member.rank == member.size - 1 && !found &&
            !come_late(member, all, before, call)) {
          member.find(c.name() +
                      ": another rank waits and has not said before that it "
                      "is under way");
          found = true;
        }
        make_call(member, c);
        own.ended.store(call);
        member.meeting.meet();
      }
    member.trace = nullptr;
  });
}

}  // namespace distwrap::conformance
