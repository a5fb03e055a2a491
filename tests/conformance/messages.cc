#include "cases.h"
#include "checks.h"
#include "sdk/dtype.h"

#include <memory>

namespace distwrap::conformance {
namespace {

int dtype_of_messages(const Promises& promises) {
  for (int dtype = 0; dtype <= DW_DTYPE_BOOL; ++dtype)
    if (promises.has(DW_OP_SEND, dtype, DW_REDUCE_NONE) &&
        promises.has(DW_OP_RECV, dtype, DW_REDUCE_NONE))
      return dtype;
  return -1;
}

// What a message from one rank to another with a tag contains.
std::string content(int dtype, int from, int to, uint64_t tag, size_t count) {
  return values(dtype, from, static_cast<size_t>(to) * 1000 + tag * 17, count);
}

class Message {
 public:
  Message(Member& member, bool sends, int peer, uint64_t tag, int dtype,
          size_t count)
      : member_(member),
        sends_(sends),
        peer_(peer),
        tag_(tag),
        count_(count),
        dtype_(dw_dtype_of(dtype)),
        content_(sends ? content(dtype, member.rank, peer, tag, count)
                       : content(dtype, peer, member.rank, tag, count)),
        memory_(count * dw_dtype_bytes(dtype_)) {
    if (sends) memory_.put(0, content_);
  }

  // "" or what went wrong.
  std::string begin(bool caller_waits) {
    dw_op op = {};
    op.struct_size = sizeof op;
    op.kind = sends_ ? DW_OP_SEND : DW_OP_RECV;
    op.flags = caller_waits ? DW_FLAG_CALLER_WAITS : 0;
    op.peer = peer_;
    op.tag = tag_;
    dw_buf& buf = sends_ ? op.in : op.out;
    buf.data = memory_.data();
    buf.count = static_cast<int64_t>(count_);
    buf.dtype = dtype_;
    dw_error error = {};
    const int32_t code = member_.api.submit(
        member_.comm, &op, caller_waits ? nullptr : &work_, &error);
    pending_ = code == DW_OK;
    if (code > DW_OK || (pending_ && caller_waits))
      return name() + ": submit: " + error_text(code, error);
    return "";
  }

  std::string end() {
    if (pending_ && !work_.wait(member_.limits.operation)) {
      const dw_error why = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, ""};
      member_.api.comm_abort(member_.comm, &why);
      work_.wait(member_.limits.operation);
      return name() + ": did not complete";
    }
    if (pending_ && work_.code() != DW_OK)
      return name() + ": " + error_text(work_.code(), work_.error());
    if (!memory_.guards_intact()) return name() + ": wrote outside";
    if (memory_.get(0, memory_.size()) != content_)
      return name() + ": other content";
    return "";
  }

 private:
  std::string name() const {
    return std::string(sends_ ? "send to " : "receive from ") +
           std::to_string(peer_) + " tag " + std::to_string(tag_) + " count " +
           std::to_string(count_);
  }

  Member& member_;
  const bool sends_;
  const int peer_;
  const uint64_t tag_;
  const size_t count_;
  const dw_dtype dtype_;
  const std::string content_;
  GuardedBytes memory_;
  dw_work work_;
  bool pending_ = false;
};

void note(Member& member, const std::string& wrong) {
  if (!wrong.empty()) member.find(wrong);
}

// Around the ring, even ranks send first.
void ring(Member& member, int dtype) {
  const int next = (member.rank + 1) % member.size;
  const int before = (member.rank + member.size - 1) % member.size;
  for (const size_t count :
       {size_t{0}, size_t{1}, size_t{1023}, size_t{1} << 18}) {
    Message out(member, true, next, count, dtype, count);
    Message in(member, false, before, count, dtype, count);
    if (member.rank % 2 == 0) {
      // With an odd size the last and the first both are even: one of them has
      // to begin without waiting.
      note(member, out.begin(false));
      note(member, in.begin(true));
    } else {
      note(member, in.begin(true));
      note(member, out.begin(true));
    }
    note(member, in.end());
    note(member, out.end());
  }
}

// To and from everybody, with many tags, received in another order than sent.
void everybody(Member& member, int dtype) {
  constexpr uint64_t kTags = 8;
  std::vector<std::unique_ptr<Message>> all;
  for (int peer = 0; peer < member.size; ++peer)
    for (uint64_t tag = 0; tag < kTags && peer != member.rank; ++tag) {
      all.push_back(
          std::make_unique<Message>(member, true, peer, tag, dtype, tag * 100));
      all.push_back(std::make_unique<Message>(member, false, peer,
                                              kTags - 1 - tag, dtype,
                                              (kTags - 1 - tag) * 100));
    }
  for (const auto& message : all) note(member, message->begin(false));
  for (const auto& message : all) note(member, message->end());
}

}  // namespace

void check_messages(const dw_backend_api& api, int size, const Limits& limits,
                    Findings& findings) {
  if (size == 1) return;
  run_team(api, size, limits, findings, [](Member& member) {
    const int dtype = dtype_of_messages(promises_of(member));
    if (dtype < 0) return;
    ring(member, dtype);
    everybody(member, dtype);
  });
}

// A receive that is open for long holds up nothing: neither collectives nor
// other messages, on which its own arrival may depend.
void check_open_receives(const dw_backend_api& api, int size,
                         const Limits& limits, Findings& findings) {
  if (size == 1) return;
  run_team(api, size, limits, findings, [](Member& member) {
    const Promises promises = promises_of(member);
    const int dtype = dtype_of_messages(promises);
    if (dtype < 0 || member.rank > 1) return;
    const int other = 1 - member.rank;
    Message open(member, member.rank == 1, other, 1, dtype, 5);
    Message out(member, true, other, 2, dtype, 300);
    Message in(member, false, other, 2, dtype, 300);
    if (member.rank == 0) {
      note(member, open.begin(false));
      note(member, in.begin(false));
      note(member, out.begin(false));
      note(member, in.end());
      note(member, out.end());
      note(member, open.end());
    } else {
      note(member, out.begin(false));
      note(member, out.end());
      note(member, in.begin(true));
      note(member, in.end());
      note(member, open.begin(true));
      note(member, open.end());
    }
  });
  run_team(api, size, limits, findings, [](Member& member) {
    const Promises promises = promises_of(member);
    const int dtype = dtype_of_messages(promises);
    if (dtype < 0 || !promises.has_kind(DW_OP_BARRIER)) return;
    Message open(member, member.rank == 1, member.rank == 1 ? 0 : 1, 1, dtype,
                 5);
    if (member.rank == 0) note(member, open.begin(false));
    make_call(member, {.kind = DW_OP_BARRIER}, member.rank == 1);
    if (member.rank == 1) note(member, open.begin(true));
    if (member.rank < 2) note(member, open.end());
  });
}

}  // namespace distwrap::conformance
