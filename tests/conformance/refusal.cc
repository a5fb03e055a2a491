#include "cases.h"
#include "checks.h"

namespace distwrap::conformance {
namespace {

constexpr uint16_t kUnknownKind = 999;
constexpr uint16_t kUnknownReduction = 77;
constexpr uint32_t kUnknownFlag = 1u << 30;

bool is_error(int32_t code) { return code > DW_OK; }

// `query` and `submit` both answer `want`, and nothing has changed.
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
    // The detail is optional.
    const int32_t code = member.api.submit(
        member.comm, &op, caller_waits ? nullptr : &work, nullptr);
    if (code != want)
      member.find(what + ": submit: want code " + std::to_string(want) +
                  ", got " + std::to_string(code));
  }
  if (work.completions() != 0) member.find(what + ": completed though refused");
  if (const std::string wrong = call.wrong_refusal(); !wrong.empty())
    member.find(what + ": " + wrong);
}

void refuse_what_is_not_promised(Member& member) {
  const Promises promises = promises_of(member);
  // One rank asks: a refusal needs no peer.
  if (member.rank != 0) return;
  for (uint16_t kind = DW_OP_BARRIER; kind <= DW_OP_FENCE; ++kind)
    for (int dtype = 0; dtype <= DW_DTYPE_BOOL; ++dtype)
      for (uint16_t reduce = 0; reduce <= DW_REDUCE_PREMUL_SUM; ++reduce) {
        const Case c = {kind, dtype, reduce, 3, 0, false};
        if (promises.has(kind, dtype, reduce)) continue;
        if (kind == DW_OP_BARRIER && promises.has_kind(kind)) continue;
        Call call(c, member.rank, member.size);
        dw_op op = call.op();
        refused(member, call, op, DW_UNIMPLEMENTED,
                "not promised: " + c.name());
      }
}

// A case of each promised kind with something to move.
std::vector<Case> one_of_each(const Promises& promises, int size) {
  std::vector<Case> cases;
  for (const Case& c : promised_cases(promises, size, 1))
    if ((cases.empty() || cases.back().kind != c.kind) &&
        (c.count == 3 || c.kind == DW_OP_BARRIER) && !c.in_place)
      cases.push_back(c);
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
    refuse_what_is_not_promised(member);
    if (member.rank != 0) return;
    for (const Case& c : one_of_each(promises_of(member), member.size)) {
      const auto with = [&](const std::string& what, int32_t want,
                            const std::function<void(dw_op&)>& change) {
        Call call(c, member.rank, member.size);
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
      const std::vector<int64_t> counts(static_cast<size_t>(member.size), 1);
      with("counts per rank", DW_UNIMPLEMENTED, [&](dw_op& op) {
        op.in.counts = counts.data();
        op.out.counts = counts.data();
      });
    }
  });
}

void check_growth(const dw_backend_api& api, int size, const Limits& limits,
                  Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    const dw_ext optional = {sizeof(dw_ext), 0, {"x-nobody", 8}, nullptr};
    for (const Case& c : one_of_each(promises_of(member), member.size)) {
      Call call(c, member.rank, member.size);
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
      // All ranks together: the zero tail and the extension change nothing.
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
