#include "cases.h"
#include "checks.h"

#include <memory>
#include <thread>

namespace distwrap::conformance {
namespace {

constexpr uint64_t kSeed = 20240229;

void make_all_calls(Member& member, bool caller_waits) {
  const Promises promises = promises_of(member);
  if (promises.n == 0) return member.find("nothing is promised");
  // Another sample of large sizes than the other way of calling has.
  for (const Case& c :
       promised_cases(promises, member.size, kSeed + (caller_waits ? 0 : 3)))
    make_call(member, c, caller_waits);
}

// Many at once: an operation of each kind is pending before any is waited for.
void make_calls_together(Member& member) {
  struct Pending {
    Pending(const Case& c, int rank, int size) : call(c, rank, size) {}
    Call call;
    dw_work work;
    bool runs = false;
  };
  const Promises promises = promises_of(member);
  std::vector<std::unique_ptr<Pending>> all;
  for (const Case& c : promised_cases(promises, member.size, kSeed)) {
    if (c.count > 1024) continue;
    all.push_back(std::make_unique<Pending>(c, member.rank, member.size));
    dw_op op = all.back()->call.op();
    op.seq = member.next_seq++;
    dw_error error = {};
    const int32_t code =
        member.api.submit(member.comm, &op, &all.back()->work, &error);
    all.back()->runs = code == DW_OK;
    if (code != DW_OK && code != DW_DONE)
      member.find(c.name() + ": submit: " + error_text(code, error));
  }
  for (const auto& pending : all) {
    if (pending->runs && !pending->work.wait(member.limits.operation)) {
      const dw_error why = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, ""};
      member.api.comm_abort(member.comm, &why);
      member.find("an operation among others did not complete");
    } else if (pending->runs && pending->work.code() != DW_OK) {
      member.find("an operation among others failed: " +
                  error_text(pending->work.code(), pending->work.error()));
    } else if (const std::string wrong = pending->call.wrong_result();
               !wrong.empty()) {
      member.find("an operation among others: " + wrong);
    }
  }
}

}  // namespace

void check_waiting_calls(const dw_backend_api& api, int size,
                         const Limits& limits, Findings& findings) {
  run_team(api, size, limits, findings,
           [](Member& member) { make_all_calls(member, true); });
}

void check_async_calls(const dw_backend_api& api, int size,
                       const Limits& limits, Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    make_all_calls(member, false);
    make_calls_together(member);
  });
}

void check_many_communicators(const dw_backend_api& api, int size,
                              const Limits& limits, Findings& findings) {
  constexpr int kTeams = 4;
  std::vector<std::thread> teams;
  for (int team = 0; team < kTeams; ++team)
    teams.emplace_back([&, team] {
      run_team(api, size, limits, findings, [&](Member& member) {
        for (const Case& c : promised_cases(promises_of(member), member.size,
                                            static_cast<uint64_t>(team)))
          if (c.count > 1 && c.count < 2000)
            make_call(member, c, team % 2 == 0);
      });
    });
  for (std::thread& team : teams) team.join();
}

}  // namespace distwrap::conformance
