#include "call.h"
#include "checks.h"
#include "promises.h"
#include "sample.h"

namespace distwrap::conformance {
namespace {

constexpr uint16_t kUnknownKind = 999;
constexpr uint16_t kUnknownReduction = 77;
constexpr uint32_t kUnknownFlag = 1u << 14;

bool is_error(int32_t code) { return code > DW_OK; }

// `query` and `submit` both return `want`, and nothing has changed.
void refused(Member& member, Call& call, dw_op& op, int32_t want,
             const std::string& what) {
  dw_error error = {};
  const int32_t asked = member.api.query(member.comm, &op, &error);
  if (asked != want)
    member.find(what + ": query: want code " + std::to_string(want) + ", got " +
                error_text(asked, error));
  else if (error.code != asked || error.text[0] == '\0')
    member.find(what + ": query: no detail: " + error_text(asked, error));
  dw_work work;
  for (const bool caller_waits : {true, false}) {
    op.flags = caller_waits ? op.flags | DW_FLAG_CALLER_WAITS
                            : op.flags & ~DW_FLAG_CALLER_WAITS;
    // The error may be NULL.
    const int32_t code = member.api.submit(
        member.comm, &op, caller_waits ? nullptr : &work, nullptr);
    if (code != want)
      member.find(what + ": submit: want code " + std::to_string(want) +
                  ", got " + std::to_string(code));
    // An operation that has started nevertheless must not outlive its buffers.
    if (code == DW_OK) member.aborts();
  }
  if (work.completions() != 0) member.find(what + ": completed though refused");
  if (const std::string wrong = call.wrong_refusal(); !wrong.empty())
    member.find(what + ": " + wrong);
}

// All kinds, types, reductions and forms that no row covers.
void refuse_what_is_not_promised(Member& member) {
  const Promises promises = promises_of(member);
  const auto refuse = [&](const Case& c) {
    if (promises.has(c.kind, c.dtype, c.reduce, c.flags())) return;
    Call call(c, member);
    dw_op op = call.op();
    const uint32_t shown =
        op.flags | (c.flags() & (DW_FLAG_IN_PLACE | DW_FLAG_EXCLUSIVE));
    // A rank without the buffer makes a plain call.
    if (shown != c.flags()) return;
    op.flags = shown;
    if (op.peer < 0 && c.kind > DW_OP_SCAN) op.peer = 1 % member.size;
    // An operation that does not exist at all may also be called invalid.
    int32_t want = DW_UNIMPLEMENTED;
    if (!is_sensible(c) &&
        member.api.query(member.comm, &op, nullptr) == DW_INVALID_ARGUMENT)
      want = DW_INVALID_ARGUMENT;
    refused(member, call, op, want, "not promised: " + c.name());
  };
  for (uint16_t kind = DW_OP_BARRIER; kind <= DW_OP_FENCE; ++kind)
    for (int dtype = 0; dtype < kDtypes; ++dtype)
      for (uint16_t reduce = 0; reduce < kReductions; ++reduce)
        for (int way = 0; way < kForms + 2; ++way) {
          Case c = {.kind = kind, .dtype = dtype, .reduce = reduce};
          c.calling = Calling::kAsync;
          c.count = 3;
          c.root = member.rank;
          if (way < kForms) c.form = static_cast<Form>(way);
          c.in_place = way == kForms;
          c.exclusive = way == kForms + 1;
          if (c.form != Form::kPlain && !c.has_pieces()) continue;
          if (kind == DW_OP_BARRIER && (way != 0 || dtype != 0)) continue;
          refuse(c);
        }
}

// A set with one item that is refused starts nothing.
void refuse_groups(Member& member) {
  const Promises promises = promises_of(member);
  if (!promises.groups || !promises.has(DW_OP_BARRIER, 0, 0, 0)) return;
  dw_op good = {};
  good.struct_size = sizeof good;
  good.kind = DW_OP_BARRIER;
  good.peer = -1;
  good.seq = member.next_seq;
  dw_op bad = good;
  bad.seq = good.seq + 1;
  bad.flags = kUnknownFlag;
  for (const bool good_first : {true, false}) {
    dw_work works[2];
    const dw_group_item items[2] = {
        {member.comm, good_first ? &good : &bad, &works[0]},
        {member.comm, good_first ? &bad : &good, &works[1]}};
    dw_error error = {};
    const int32_t code =
        member.api.submit_group(member.backend, items, 2, &error);
    if (code != DW_UNIMPLEMENTED)
      member.find("a group with an unknown flag: " + error_text(code, error));
    else if (error.code != code || error.text[0] == '\0')
      member.find("a group with an unknown flag: no detail");
    if (works[0].completions() + works[1].completions() != 0)
      member.find("a group with an unknown flag: an item completed");
  }
}

std::vector<Case> plain_cases(const Promises& promises) {
  std::vector<Case> cases;
  for (const Case& c : one_of_each(promises, 3, Calling::kAsync))
    if (c.form == Form::kPlain) cases.push_back(c);
  return cases;
}

struct LongOp {
  dw_op op;
  uint64_t tail;
};

}  // namespace

void check_refusals(const dw_backend_api& api, int size, const Limits& limits,
                    Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    // Only one rank calls, because a refusal needs no peer.
    if (member.rank != member.size / 2) return;
    refuse_what_is_not_promised(member);
    refuse_groups(member);
    for (const Case& c : plain_cases(promises_of(member))) {
      const auto with = [&](const std::string& what, int32_t want,
                            const std::function<void(dw_op&)>& change) {
        Call call(c, member);
        dw_op op = call.op();
        change(op);
        refused(member, call, op, want, c.name() + " with " + what);
      };
      with("an unknown kind", DW_UNIMPLEMENTED,
           [](dw_op& op) { op.kind = kUnknownKind; });
      with("kind 0", DW_UNIMPLEMENTED, [](dw_op& op) { op.kind = 0; });
      with("an unknown flag", DW_UNIMPLEMENTED,
           [](dw_op& op) { op.flags |= kUnknownFlag; });
      with("an unknown reduction", DW_UNIMPLEMENTED,
           [](dw_op& op) { op.reduce = kUnknownReduction; });
      with("a device's stream", DW_UNIMPLEMENTED,
           [](dw_op& op) { op.stream.device_type = DW_DEVICE_CUDA; });
      const dw_ext needed = {
          sizeof(dw_ext), DW_EXT_REQUIRED, {"x-nobody", 8}, nullptr};
      with("a required extension", DW_UNIMPLEMENTED,
           [&](dw_op& op) { op.next = &needed; });
      if (c.kind == DW_OP_BARRIER) continue;
      with("lanes", DW_UNIMPLEMENTED, [](dw_op& op) {
        op.in.dtype.lanes = 2;
        op.out.dtype.lanes = 2;
      });
      with("an unknown dtype", DW_UNIMPLEMENTED, [](dw_op& op) {
        op.in.dtype.code = 200;
        op.out.dtype.code = 200;
      });
    }
  });
}

void check_growth(const dw_backend_api& api, int size, const Limits& limits,
                  Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    const dw_ext optional = {sizeof(dw_ext), 0, {"x-nobody", 8}, nullptr};
    for (const Case& c : plain_cases(promises_of(member))) {
      Call call(c, member);
      LongOp longer = {call.op(), 0};
      longer.op.struct_size = sizeof longer;
      longer.op.seq = member.next_seq++;
      longer.op.next = &optional;
      const int32_t asked = member.api.query(member.comm, &longer.op, nullptr);
      if (asked != DW_OK && asked != DW_DONE)
        member.find(c.name() + ": an op with a zero tail is refused");
      longer.tail = UINT64_C(1) << 63;
      refused(member, call, longer.op, DW_INCOMPATIBLE,
              c.name() + " with an unknown tail");
      dw_op shorter = call.op();
      shorter.struct_size = sizeof shorter - 8;
      refused(member, call, shorter, DW_INVALID_ARGUMENT,
              c.name() + " shorter than 1.0");
      // All ranks call together: the zero tail and the extension change
      // nothing.
      longer.tail = 0;
      longer.op.flags |= DW_FLAG_CALLER_WAITS;
      dw_error error = {};
      const int32_t code =
          member.api.submit(member.comm, &longer.op, nullptr, &error);
      if (is_error(code))
        member.find(c.name() + " with a zero tail: " + error_text(code, error));
      else if (const std::string wrong = call.wrong_result(); !wrong.empty())
        member.find(c.name() + " with a zero tail: " + wrong);
    }
  });
}

}  // namespace distwrap::conformance
