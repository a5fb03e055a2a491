// Collectives that a waiting thread may run itself (run_queued): one that is
// said to have run has ended, with those before it, and each ends once.
#include "call.h"
#include "checks.h"
#include "operation.h"
#include "promises.h"
#include "sample.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace distwrap::conformance {
namespace {

// The time by which the last rank comes late.
constexpr std::chrono::milliseconds kLate(30);

// The number of waits that have returned, of all ranks.
struct Waits {
  std::atomic<int> returned = 0;
};

class Asynchronous {
 public:
  Asynchronous(Member& member, const Case& c)
      : call_(c, member), operation_(numbered(member, call_.op())) {}
  std::string begin(Member& member) { return operation_.begin(member); }
  std::string end(Member& member) {
    std::string wrong = operation_.end(member);
    return wrong.empty() ? call_.wrong_result() : wrong;
  }
  bool has_ended() const {
    return !operation_.is_pending() || operation_.has_completed();
  }

 private:
  static dw_op numbered(Member& member, dw_op op) {
    op.seq = member.next_seq++;
    return op;
  }

  Call call_;
  Operation operation_;
};

void come_late(const Member& member, const Waits& waits, int calls) {
  const auto until = std::chrono::steady_clock::now() + kLate;
  while (waits.returned.load() < calls * (member.size - 1) &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
}

// Two operations, for the second of which all ranks but the last one wait.
void wait_for_second(Member& member, const Case& c, Waits& waits, int calls) {
  const auto note = [&](const std::string& wrong) {
    if (!wrong.empty()) member.find(c.name() + ", queued: " + wrong);
  };
  Case other = c;
  other.salt += 40;
  const bool is_last = member.rank == member.size - 1;
  if (is_last) come_late(member, waits, calls);
  Asynchronous first(member, c), second(member, other);
  note(first.begin(member));
  note(second.begin(member));
  if (!is_last) {
    const bool has_run =
        member.api.run_queued(member.comm, member.next_seq - 1) == DW_DONE;
    if (has_run && !(first.has_ended() && second.has_ended()))
      note("is said to have run, and has not ended");
    ++waits.returned;
  }
  note(first.end(member));
  note(second.end(member));
  if (member.api.run_queued(member.comm, member.next_seq - 1) == DW_DONE)
    note("has run once more after its end");
}

}  // namespace

void check_queued(const dw_backend_api& api, int size, const Limits& limits,
                  Findings& findings) {
  if (api.run_queued == nullptr || size == 1) return;
  Waits waits;
  run_team(api, size, limits, findings, [&waits](Member& member) {
    int calls = 0;
    for (const Case& c :
         one_of_each(promises_of(member), 37, Calling::kAsync)) {
      if (++calls > 4) break;
      wait_for_second(member, c, waits, calls);
    }
    // A number that no operation has is not waited for.
    if (member.api.run_queued(member.comm, member.next_seq + 1000) == DW_DONE)
      member.find("queued: what was never submitted has run");
  });
}

}  // namespace distwrap::conformance
