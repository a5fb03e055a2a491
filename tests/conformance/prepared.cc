// Prepared operations: a start is what `submit` of the operation would be.
#include "call.h"
#include "checks.h"
#include "operation.h"
#include "promises.h"
#include "sample.h"

#include <memory>
#include <string>
#include <vector>

namespace distwrap::conformance {
namespace {

bool has_plans(const dw_backend_api& api) {
  return api.plan_create != nullptr && api.plan_run != nullptr &&
         api.plan_destroy != nullptr;
}

// An operation in which all arrays are copies, to be spoilt after they were
// lent.
class LentOp {
 public:
  LentOp(const dw_op& op, int size) : op_(op) {
    for (dw_buf* buf : {&op_.in, &op_.out}) {
      for (const int64_t** list : {&buf->counts, &buf->displs}) {
        if (*list == nullptr) continue;
        numbers_.emplace_back(*list, *list + size);
        *list = numbers_.back().data();
      }
      if (buf->parts == nullptr) continue;
      parts_.emplace_back(buf->parts, buf->parts + size);
      buf->parts = parts_.back().data();
    }
    op_.flags &= ~DW_FLAG_CALLER_WAITS;
  }
  LentOp(const LentOp&) = delete;
  LentOp& operator=(const LentOp&) = delete;

  const dw_op& get() const { return op_; }
  void spoil() {
    for (std::vector<int64_t>& list : numbers_)
      for (int64_t& number : list) number = -7;
    for (std::vector<void*>& list : parts_)
      for (void*& part : list) part = nullptr;
    op_ = {};
  }

 private:
  dw_op op_;
  std::vector<std::vector<int64_t>> numbers_;
  std::vector<std::vector<void*>> parts_;
};

class Prepared {
 public:
  Prepared(Member& member, const dw_op& op)
      : member_(member), lent_(op, member.size) {
    dw_error error = {};
    const int32_t code =
        member.api.plan_create(member.comm, &lent_.get(), 1, &plan_, &error);
    if (code != DW_OK) {
      plan_ = nullptr;
      member.find("plan_create: " + error_text(code, error));
    }
    lent_.spoil();
  }
  ~Prepared() {
    if (plan_ != nullptr) member_.api.plan_destroy(plan_, nullptr);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  dw_plan* get() const { return plan_; }

 private:
  Member& member_;
  LentOp lent_;  // stays, so that a backend that looks at it finds nonsense
  dw_plan* plan_ = nullptr;
};

dw_start start_of(const Member& member, bool waits) {
  dw_start start = {};
  start.struct_size = sizeof start;
  start.flags = waits ? DW_FLAG_CALLER_WAITS : 0;
  start.seq = member.next_seq;
  start.trace = waits ? member.trace : nullptr;
  return start;
}

// A start on the buffers of `call`; "" or the mistake.
std::string run(Member& member, dw_plan* plan, const dw_start& start,
                Call& call) {
  const bool waits = (start.flags & DW_FLAG_CALLER_WAITS) != 0;
  ++member.next_seq;
  dw_work work;
  dw_error error = {};
  int32_t code;
  do {
    code = member.api.plan_run(plan, &start, waits ? nullptr : &work, &error);
    if (code == DW_AGAIN && member.api.progress != nullptr)
      member.api.progress(member.backend);
  } while (code == DW_AGAIN);
  if (code == DW_OK && waits) return "pending, but the caller waits";
  if (code != DW_OK && code != DW_DONE)
    return "plan_run: " + error_text(code, error);
  if (code == DW_OK) {
    if (!wait_for(member, work, member.limits.operation)) {
      member.aborts();
      wait_for(member, work, member.limits.operation);
      return "did not complete";
    }
    if (work.code() != DW_OK)
      return "completed with " + error_text(work.code(), work.error());
  }
  return call.wrong_result();
}

void start_often(Member& member, const Case& c) {
  Call own(c, member);
  const dw_op op = own.op();
  const Prepared prepared(member, op);
  if (prepared.get() == nullptr) return;
  const auto note = [&](const std::string& when, const std::string& wrong) {
    if (!wrong.empty())
      member.find(c.name() + ", prepared, " + when + ": " + wrong);
  };
  const bool waits = c.caller_waits();
  // A rank that has found a mistake goes on: the others make the next call.
  note("on its own buffers",
       run(member, prepared.get(), start_of(member, waits), own));
  // A list keeps its addresses.
  if (c.form == Form::kParts || c.form == Form::kPartCounts) return;
  for (const bool other_waits : {waits, !waits}) {
    Case other = c;
    other.salt += 50;
    // All ranks of the team go the same way.
    if (!promises_of(member).has(c.kind, c.dtype, c.reduce,
                                 (c.flags() & ~DW_FLAG_CALLER_WAITS) |
                                     (other_waits ? DW_FLAG_CALLER_WAITS : 0)))
      continue;
    Call elsewhere(other, member);
    const dw_op at = elsewhere.op();
    dw_start start = start_of(member, other_waits);
    start.in = at.in.data;
    start.out = at.out.data;
    note("on other buffers", run(member, prepared.get(), start, elsewhere));
  }
  // Ranks may mix a start and the operation itself.
  Case mixed = c;
  mixed.salt += 90;
  Call beside(mixed, member);
  dw_op at = beside.op();
  if (member.rank == 0) {
    at.seq = member.next_seq++;
    Operation operation(at);
    std::string wrong = operation.begin(member);
    if (wrong.empty()) wrong = operation.end(member);
    if (wrong.empty()) wrong = beside.wrong_result();
    note("while others start it", wrong);
    return;
  }
  dw_start start = start_of(member, waits);
  start.in = at.in.data;
  start.out = at.out.data;
  note("while another submits it", run(member, prepared.get(), start, beside));
}

struct LongStart {
  dw_start start;
  uint64_t tail;
};

void expect_code(Member& member, const std::string& what, int32_t code,
                 int32_t want) {
  if (code == want) return;
  if (code == DW_OK) member.aborts();
  member.find(what + ": want code " + std::to_string(want) + ", got " +
              std::to_string(code));
}

// Refusals need no peer; the barrier serves.
void refuse_starts(Member& member) {
  const dw_backend_api& api = member.api;
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = DW_OP_BARRIER;
  op.peer = -1;
  const auto not_prepared = [&](const std::string& what, const dw_op* ops,
                                uint64_t n) {
    dw_plan* made = nullptr;
    const int32_t code = api.plan_create(member.comm, ops, n, &made, nullptr);
    expect_code(member, "plan_create " + what, code, DW_UNIMPLEMENTED);
    if (made == nullptr) return;
    if (code != DW_OK) member.find("a refused plan_create has a result");
    api.plan_destroy(made, nullptr);
  };
  const dw_op two[] = {op, op};
  not_prepared("of two operations", two, 2);
  dw_op bad = op;
  bad.flags = 1u << 14;
  not_prepared("with an unknown flag", &bad, 1);
  const Prepared prepared(member, op);
  if (prepared.get() == nullptr) return;
  const auto refused = [&](const std::string& what, const dw_start& start,
                           int32_t want) {
    dw_work work;
    expect_code(member, "plan_run with " + what,
                api.plan_run(prepared.get(), &start, &work, nullptr), want);
    if (work.completions() != 0)
      member.find("plan_run with " + what + ": completed though refused");
  };
  dw_start start = {};
  start.struct_size = sizeof start;
  start.flags = DW_FLAG_PER_RANK;
  refused("a flag of the operation", start, DW_UNIMPLEMENTED);
  LongStart longer = {start_of(member, false), UINT64_C(1) << 63};
  longer.start.struct_size = sizeof longer;
  refused("an unknown tail", longer.start, DW_INCOMPATIBLE);
  start = {};
  start.struct_size = sizeof start - 8;
  refused("a size below that of 1.2", start, DW_INVALID_ARGUMENT);
}

}  // namespace

void check_prepared(const dw_backend_api& api, int size, const Limits& limits,
                    Findings& findings) {
  if (!has_plans(api)) return;
  run_team(api, size, limits, findings, [](Member& member) {
    const Promises promises = promises_of(member);
    for (const Calling calling : {Calling::kWaits, Calling::kAsync})
      for (const Case& c : one_of_each(promises, 37, calling))
        start_often(member, c);
    if (promises.has(DW_OP_BARRIER, 0, 0, 0)) refuse_starts(member);
  });
}

// A prepared operation of an aborted communicator starts nothing.
void check_prepared_abort(const dw_backend_api& api, int size,
                          const Limits& limits, Findings& findings) {
  if (!has_plans(api)) return;
  run_team(api, size, limits, findings, [](Member& member) {
    if (!promises_of(member).has(DW_OP_BARRIER, 0, 0, DW_FLAG_CALLER_WAITS))
      return;
    dw_op op = {};
    op.struct_size = sizeof op;
    op.kind = DW_OP_BARRIER;
    op.peer = -1;
    const Prepared prepared(member, op);
    member.meeting.meet();
    member.api.comm_abort(member.comm, nullptr);
    if (prepared.get() == nullptr) return;
    const dw_start start = start_of(member, true);
    const int32_t code =
        member.api.plan_run(prepared.get(), &start, nullptr, nullptr);
    if (code <= DW_OK && member.size > 1)
      member.find("a start after an abort did not fail");
  });
}

}  // namespace distwrap::conformance
