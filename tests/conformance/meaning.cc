#include "call.h"
#include "checks.h"
#include "promises.h"
#include "sample.h"

namespace distwrap::conformance {
namespace {

// Floats of 8 bits are reduced by the backend's own rules, where a reduction is
// for integers and floats alike.
bool has_own_rules(Case c) {
  if (c.dtype != DW_DTYPE_F8E4M3FN && c.dtype != DW_DTYPE_F8E5M2) return false;
  c.dtype = DW_DTYPE_I8;
  const bool of_integers = is_sensible(c);
  c.dtype = DW_DTYPE_F32;
  return of_integers && is_sensible(c);
}

// Finds rows that promise operations which do not exist.
void find_nonsense(const Member& member, const Promises& promises) {
  for (uint16_t kind = DW_OP_BROADCAST; kind <= DW_OP_SCAN; ++kind)
    for (int dtype = 0; dtype < kDtypes; ++dtype)
      for (uint16_t reduce = 0; reduce < kReductions; ++reduce) {
        Case c = {.kind = kind, .dtype = dtype, .reduce = reduce};
        if (promises.has(kind, dtype, reduce, 0) && !is_sensible(c) &&
            !has_own_rules(c))
          member.find("promises what does not exist: " + c.name() + " " +
                      reduction_text(reduce));
      }
}

// A complete backend promises every operation in every way.
void find_missing(const Member& member, const Promises& promises) {
  for_all_sensible([&](const Case& c) {
    // No program needs a prefix of scaled sums.
    if (c.kind == DW_OP_SCAN && c.reduce == DW_REDUCE_PREMUL_SUM) return;
    if (!promises.has(c)) member.find("does not promise " + c.name());
  });
  for (const bool waits : {true, false})
    if (message_dtype(promises, waits) != 0) member.find("has no messages");
}

}  // namespace

void check_promises(const dw_backend_api& api, int size, const Limits& limits,
                    Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    if (member.rank != 0) return;
    const Promises promises = promises_of(member);
    if (promises.n == 0) member.find("nothing is promised");
    find_nonsense(member, promises);
    if (member.limits.complete) find_missing(member, promises);
  });
}

void check_calls(const dw_backend_api& api, int size, const Limits& limits,
                 Findings& findings) {
  std::vector<Case> cases;
  run_team(api, size, limits, findings, [&](Member& member) {
    if (member.rank == 0)
      cases = sampled_cases(promises_of(member), limits, size);
    member.meeting.meet();
    for (const Case& c : cases) make_call(member, c);
  });
}

}  // namespace distwrap::conformance
