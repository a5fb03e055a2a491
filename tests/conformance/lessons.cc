#include "lessons.h"

#include "call.h"
#include "promises.h"
#include "sample.h"

namespace distwrap::conformance {
namespace {

// Reductions for which `wanted` holds, with every root.
template <typename Wanted>
void make_reductions(Member& member, Wanted wanted) {
  const Promises promises = promises_of(member);
  for (uint16_t kind = DW_OP_REDUCE; kind <= DW_OP_SCAN; ++kind)
    for (int dtype = 0; dtype < kDtypes; ++dtype)
      for (uint16_t reduce = 1; reduce < kReductions; ++reduce)
        for (const bool in_place : {false, true}) {
          Case c = {.kind = kind, .dtype = dtype, .reduce = reduce};
          c.in_place = in_place;
          c.count = 300;
          if (!c.reduces() || !is_sensible(c) || !promises.has(c)) continue;
          if (!wanted(c)) continue;
          for (c.root = 0; c.root < (c.peer(1) < 0 ? 1 : member.size); ++c.root)
            make_call(member, c);
        }
}

// Meets before and after counting, so that no rank sends meanwhile and all get
// the same number.
uint64_t sent_so_far(Member& member) {
  member.meeting.meet();
  const uint64_t bytes = member.limits.bytes_sent();
  member.meeting.meet();
  return bytes;
}

}  // namespace

void check_inputs(const dw_backend_api& api, int size, const Limits& limits,
                  Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    make_reductions(member, [](const Case& c) {
      return !c.in_place &&
             (c.reduce == DW_REDUCE_SUM || c.reduce == DW_REDUCE_MAX);
    });
  });
}

void check_share_moved(const dw_backend_api& api, int size,
                       const Limits& limits, Findings& findings) {
  if (limits.bytes_sent == nullptr || size == 1) return;
  run_team(api, size, limits, findings, [](Member& member) {
    constexpr uint64_t kSlack = 1 << 14;  // bytes of message heads for each
                                          // rank
    Case c = {.kind = DW_OP_REDUCE_SCATTER, .reduce = DW_REDUCE_SUM};
    c.count = size_t{1} << 16;
    for (const Form form : {Form::kPlain, Form::kCounts}) {
      c.form = form;
      if (!promises_of(member).has(c)) continue;
      const uint64_t before = sent_so_far(member);
      make_call(member, c);
      const uint64_t sent = sent_so_far(member) - before;
      uint64_t share = 0;
      for (int to = 0; to < member.size; ++to)
        share += c.piece(0, to, member.size) * element_size(c.dtype) *
                 static_cast<uint64_t>(member.size - 1);
      const uint64_t slack = kSlack * static_cast<uint64_t>(member.size);
      if (sent > share + slack || sent < share)
        member.find(c.name() + ": sent " + std::to_string(sent) +
                    " bytes, its share is " + std::to_string(share));
    }
  });
}

void check_averages(const dw_backend_api& api, int size, const Limits& limits,
                    Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    make_reductions(member, [](const Case& c) {
      return c.reduce == DW_REDUCE_AVG && !is_float(c.dtype);
    });
  });
}

void check_scaling(const dw_backend_api& api, int size, const Limits& limits,
                   Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    make_reductions(
        member, [](const Case& c) { return c.reduce == DW_REDUCE_PREMUL_SUM; });
  });
}

// Counts for each rank and lists either work completely or are refused by
// `query`.
void check_forms(const dw_backend_api& api, int size, const Limits& limits,
                 Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    const Promises promises = promises_of(member);
    for (uint16_t kind = DW_OP_GATHER; kind <= DW_OP_ALL_TO_ALL; ++kind)
      for (int form = 0; form < kForms; ++form)
        for (int empty = 0; empty < member.size; ++empty) {
          Case c = {.kind = kind};
          c.form = static_cast<Form>(form);
          c.empty = empty;
          c.root = empty;
          c.count = 40;
          if (c.reduces()) c.reduce = DW_REDUCE_SUM;
          if (promises.has(c)) {
            make_call(member, c);
            continue;
          }
          const dw_op op = Call(c, member).op();
          const bool shown = (op.flags & c.flags()) == c.flags();
          const int32_t asked = member.api.query(member.comm, &op, nullptr);
          if (shown && asked != DW_UNIMPLEMENTED)
            member.find(c.name() + ": neither promised nor refused: code " +
                        std::to_string(asked));
        }
  });
}

}  // namespace distwrap::conformance
