#include "call.h"
#include "checks.h"
#include "message.h"
#include "promises.h"

#include <algorithm>
#include <memory>

namespace distwrap::conformance {
namespace {

using Messages = std::vector<std::unique_ptr<Message>>;

void run_all(const Messages& messages) {
  for (const auto& message : messages) message->begin();
  for (const auto& message : messages) message->end();
}

// Runs messages at the same time: without tags as a set.
void run_together(Member& member, const Messages& messages) {
  if (member.limits.tags) return run_all(messages);
  std::vector<Operation*> all;
  for (const auto& message : messages) all.push_back(&message->operation());
  if (const std::string wrong = begin_group(member, all); !wrong.empty())
    return member.find("a set of messages: " + wrong);
  for (const auto& message : messages) message->end();
}

// Messages around a ring; even ranks send first.
void ring(Member& member, int dtype) {
  const int next = (member.rank + 1) % member.size;
  const int before = (member.rank + member.size - 1) % member.size;
  for (const size_t count :
       {size_t{0}, size_t{1}, size_t{1023}, size_t{1} << 18}) {
    // With an odd size the last and the first rank are both even, so one of
    // them has to begin without waiting.
    const bool even = member.rank % 2 == 0;
    Message out(member, true, {member.rank, next, count, dtype, count}, !even);
    Message in(member, false, {before, member.rank, count, dtype, count}, true);
    Message& first = even ? out : in;
    Message& second = even ? in : out;
    first.begin();
    second.begin();
    in.end();
    out.end();
  }
}

// Messages between all ranks with many tags, received in another order than
// sent where tags tell them apart.
void everybody(Member& member, int dtype) {
  constexpr uint64_t kTags = 40;
  Messages all;
  for (int peer = 0; peer < member.size; ++peer)
    for (uint64_t tag = 0; tag < kTags && peer != member.rank; ++tag) {
      const uint64_t other = member.limits.tags ? kTags - 1 - tag : tag;
      all.push_back(std::make_unique<Message>(
          member, true, MessageSpec{member.rank, peer, tag, dtype, tag * 100},
          false));
      all.push_back(std::make_unique<Message>(
          member, false,
          MessageSpec{peer, member.rank, other, dtype, other * 100}, false));
    }
  run_together(member, all);
}

// Messages that differ only in their order.
void equal_ones(Member& member, int dtype) {
  const int next = (member.rank + 1) % member.size;
  const int before = (member.rank + member.size - 1) % member.size;
  Messages all;
  for (size_t order = 0; order < 20; ++order) {
    all.push_back(std::make_unique<Message>(
        member, true, MessageSpec{member.rank, next, 7, dtype, 50, order},
        false));
    all.push_back(std::make_unique<Message>(
        member, false, MessageSpec{before, member.rank, 7, dtype, 50, order},
        false));
  }
  run_together(member, all);
}

void with_messages(const dw_backend_api& api, int size, const Limits& limits,
                   Findings& findings, bool caller_waits,
                   const std::function<void(Member&, int)>& body) {
  run_team(api, size, limits, findings, [&](Member& member) {
    const Promises promises = promises_of(member);
    const int dtype = message_dtype(promises, false);
    if (dtype >= 0 && (!caller_waits || message_dtype(promises, true) >= 0))
      body(member, dtype);
  });
}

}  // namespace

void check_messages(const dw_backend_api& api, int size, const Limits& limits,
                    Findings& findings) {
  if (size == 1) return;
  with_messages(api, size, limits, findings, true, ring);
  with_messages(api, size, limits, findings, false, everybody);
  with_messages(api, size, limits, findings, false, equal_ones);
}

// Equal numbers of all classes, and numbers at the ends of their range. The
// receives are posted first, in another order than the sends.
void check_tags(const dw_backend_api& api, int size, const Limits& limits,
                Findings& findings) {
  if (size == 1) return;
  with_messages(
      api, size, limits, findings, false, [](Member& member, int dtype) {
        std::vector<uint64_t> tags;
        for (const uint64_t number : {0u, 1u, 2u, 4096u, 0x7fffffffu})
          for (const unsigned tag_class :
               {DW_TAG_CLASS_USER, DW_TAG_CLASS_BATCH, DW_TAG_CLASS_COMPOSED,
                DW_TAG_CLASS_HOST})
            // A decorator runs over a complete backend and uses its own class.
            if (tag_class != DW_TAG_CLASS_COMPOSED || !member.limits.complete)
              tags.push_back(DW_TAG(tag_class, number));
        Messages all;
        for (const bool sends : {false, true}) {
          for (int peer = 0; peer < member.size; ++peer)
            for (const uint64_t tag : tags) {
              if (peer == member.rank) continue;
              const MessageSpec spec = {sends ? member.rank : peer,
                                        sends ? peer : member.rank, tag, dtype,
                                        60};
              all.push_back(
                  std::make_unique<Message>(member, sends, spec, false));
            }
          std::reverse(tags.begin(), tags.end());
        }
        run_all(all);
      });
}

// Messages of a rank to itself, in order; one that would wait for itself is
// refused.
void check_own_messages(const dw_backend_api& api, int size,
                        const Limits& limits, Findings& findings) {
  if (!limits.complete) return;
  with_messages(
      api, size, limits, findings, true, [](Member& member, int dtype) {
        const int me = member.rank;
        Messages all;
        for (const bool sends : {true, false})
          for (size_t i = 0; i < 30; ++i) {
            // Every third tag is used three times.
            const uint64_t number = i / 3;
            const unsigned tag_class =
                i % 2 == 0 ? DW_TAG_CLASS_USER : DW_TAG_CLASS_BATCH;
            const MessageSpec spec = {me,    me, DW_TAG(tag_class, number),
                                      dtype, 50, i % 3 / 2};
            all.push_back(
                std::make_unique<Message>(member, sends, spec, false));
          }
        run_all(all);
        // A waiting send finds its receive.
        Message in(member, false, {me, me, 5, dtype, 9}, false);
        Message out(member, true, {me, me, 5, dtype, 9}, true);
        in.begin();
        out.begin();
        in.end();
        out.end();
        // The second possibility is a refusal.
        char byte = 0;
        dw_op op = {};
        op.struct_size = sizeof op;
        op.kind = DW_OP_SEND;
        op.flags = DW_FLAG_CALLER_WAITS;
        op.peer = me;
        op.in.data = &byte;
        op.in.count = 1;
        op.in.dtype = {1, 8, 1};
        dw_error error = {};
        const int32_t code =
            member.api.submit(member.comm, &op, nullptr, &error);
        if (code != DW_INVALID_ARGUMENT)
          member.find("a send to itself without a receive: " +
                      error_text(code, error));
      });
}

// A receive that is open for long delays neither collectives nor other
// messages, on which its own arrival may depend.
void check_open_receives(const dw_backend_api& api, int size,
                         const Limits& limits, Findings& findings) {
  if (size == 1) return;
  with_messages(
      api, size, limits, findings, true, [](Member& member, int dtype) {
        if (member.rank > 1) return;
        const int me = member.rank, other = 1 - member.rank;
        Message open(member, me == 1, {1, 0, 1, dtype, 5}, me == 1);
        Message out(member, true, {me, other, 2, dtype, 300}, false);
        Message in(member, false, {other, me, 2, dtype, 300}, me == 1);
        if (me == 0) {
          open.begin();
          in.begin();
          out.begin();
          in.end();
          out.end();
        } else {
          out.begin();
          out.end();
          in.begin();
          in.end();
          open.begin();
        }
        open.end();
      });
  with_messages(
      api, size, limits, findings, true, [](Member& member, int dtype) {
        const int me = member.rank;
        const bool async_barrier = me != 1;
        Case barrier = {.kind = DW_OP_BARRIER};
        barrier.calling = async_barrier ? Calling::kAsync : Calling::kWaits;
        const Promises promises = promises_of(member);
        if (!promises.has(DW_OP_BARRIER, 0, 0, DW_FLAG_CALLER_WAITS)) return;
        Message open(member, me == 1, {1, 0, 1, dtype, 5}, me == 1);
        if (me == 0) open.begin();
        make_call(member, barrier);
        if (me == 1) open.begin();
        if (me < 2) open.end();
      });
}

// Messages between two ranks do not affect the others.
void check_subsets(const dw_backend_api& api, int size, const Limits& limits,
                   Findings& findings) {
  if (size == 1) return;
  with_messages(
      api, size, limits, findings, false, [](Member& member, int dtype) {
        const Promises promises = promises_of(member);
        for (int first = 0; first < member.size - 1; ++first) {
          const int me = member.rank, other = me == first ? first + 1 : first;
          if (me == first || me == first + 1) {
            const uint64_t tag = DW_TAG(DW_TAG_CLASS_BATCH, 0);
            Message out(member, true, {me, other, tag, dtype, 33}, false);
            Message in(member, false, {other, me, tag, dtype, 33}, false);
            if (promises.groups) {
              const std::string wrong =
                  begin_group(member, {&out.operation(), &in.operation()});
              if (!wrong.empty()) member.find("two messages: " + wrong);
            } else {
              out.begin();
              in.begin();
            }
            in.end();
            out.end();
          }
          for (const Calling calling : {Calling::kWaits, Calling::kAsync})
            for (const uint16_t kind : {DW_OP_BARRIER, DW_OP_ALL_GATHER}) {
              Case c = {.kind = kind};
              c.calling = calling;
              c.count = 100;
              c.salt = static_cast<size_t>(first);
              if (promises.has(c)) make_call(member, c);
            }
        }
      });
}

}  // namespace distwrap::conformance
