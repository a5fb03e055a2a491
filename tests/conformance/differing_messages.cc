// Messages that are not what their receives expect. A receive takes the oldest
// message of its tag; where element type or count differ it fails, and nothing
// has been written.
#include "checks.h"
#include "data.h"
#include "operation.h"
#include "promises.h"
#include "sdk/dtype.h"

#include <memory>
#include <string>
#include <vector>

namespace distwrap::conformance {
namespace {

const dw_error kWhy = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, "a test"};

struct Side {
  int dtype;
  size_t count;
};

// How rank 0 sends and rank 1 receives.
struct Order {
  const char* name;
  bool receives_first, waits;
};
constexpr Order kOrders[] = {{"the receive first", true, false},
                             {"the message first", false, false},
                             {"a receive that waits", false, true}};

class Half {
 public:
  Half(Member& member, const Side& side)
      : member_(member), memory_(side.count * element_size(side.dtype)) {
    op_.struct_size = sizeof op_;
    op_.kind = member.rank == 0 ? DW_OP_SEND : DW_OP_RECV;
    op_.peer = 1 - member.rank;
    op_.tag = 3;
    dw_buf& buf = member.rank == 0 ? op_.in : op_.out;
    buf.data = memory_.data();
    buf.count = static_cast<int64_t>(side.count);
    buf.dtype = dw_dtype_of(side.dtype);
  }

  void begin(bool waits) {
    if (waits) op_.flags = DW_FLAG_CALLER_WAITS;
    code_ = member_.api.submit(member_.comm, &op_, waits ? nullptr : &work_,
                               &error_);
  }
  // False when it did not end.
  bool end() {
    if (code_ != DW_OK) return true;
    if (!wait_for(member_, work_, member_.limits.operation)) return false;
    code_ = work_.code();
    error_ = work_.error();
    return true;
  }
  int32_t code() const { return code_; }
  const dw_error& error() const { return error_; }
  std::string written() const { return memory_.wrong("the memory", -1); }

 private:
  Member& member_;
  GuardedBytes memory_;
  dw_op op_ = {};
  dw_work work_;
  int32_t code_ = DW_OK;
  dw_error error_ = {};
};

void judge(Member& member, const std::string& name, Half& receive) {
  if (!receive.end()) return member.find(name + ": the receive did not end");
  if (receive.code() <= DW_OK)
    member.find(name + ": the receive succeeded");
  else if (receive.code() != DW_FAILED_PRECONDITION ||
           receive.error().reason != DW_REASON_CALL_MISMATCH)
    member.find(name + ": the receive ended otherwise: " +
                error_text(receive.code(), receive.error()));
  else if (std::string(receive.error().text).find('\n') == std::string::npos)
    member.find(name + ": the error does not tell both calls: " +
                error_text(receive.code(), receive.error()));
  if (member.limits.delivers_first) return;
  if (const std::string wrong = receive.written(); !wrong.empty())
    member.find(name + ": " + wrong);
}

void differ(Member& member, const std::string& name, const Order& how,
            const std::vector<Side>& sent, const Side& received) {
  const bool sends = member.rank == 0;
  std::vector<std::unique_ptr<Half>> mine;
  if (sends)
    for (const Side& side : sent)
      mine.push_back(std::make_unique<Half>(member, side));
  else if (member.rank == 1)
    mine.push_back(std::make_unique<Half>(member, received));
  if (sends == how.receives_first) member.meeting.meet();
  for (const auto& half : mine) half->begin(!sends && how.waits);
  if (sends != how.receives_first) member.meeting.meet();
  if (member.rank == 1) judge(member, name, *mine.front());
  // As the host does after every failure: then the sends end as well.
  member.meeting.meet();
  member.api.comm_abort(member.comm, &kWhy);
  if (sends)
    for (const auto& half : mine)
      if (!half->end()) member.find(name + ": a send did not end");
}

// Another type with elements as large; -1: none is promised.
int like(const Promises& promises, int dtype) {
  for (int other = 0; other < kDtypes; ++other)
    if (other != dtype && element_size(other) == element_size(dtype) &&
        promises.has(DW_OP_SEND, other, 0, 0) &&
        promises.has(DW_OP_RECV, other, 0, 0))
      return other;
  return -1;
}

}  // namespace

void check_differing_messages(const dw_backend_api& api, int size,
                              const Limits& limits, Findings& findings) {
  if (size == 1) return;
  struct Pair {
    const char* name;
    std::vector<size_t> sent;
    size_t received;
    bool other_type;
  };
  const size_t large = limits.largest;
  const Pair pairs[] = {{"a longer message", {9}, 8, false},
                        {"a shorter message", {7}, 8, false},
                        {"nothing for some", {0}, 8, false},
                        {"some for nothing", {8}, 0, false},
                        {"a long message for a short", {large}, 8, false},
                        {"a short message for a long", {8}, large, false},
                        {"a longer large message", {large}, large - 1, false},
                        {"another type", {8}, 8, true},
                        {"nothing of another type", {0}, 0, true},
                        {"another type of much", {large}, large, true},
                        {"a younger message fits", {7, 8}, 8, false}};
  for (const Order& how : kOrders)
    for (const Pair& pair : pairs)
      run_team(api, size, limits, findings, [&](Member& member) {
        const Promises promises = promises_of(member);
        const int dtype = message_dtype(promises, how.waits);
        if (dtype < 0) return;
        const int other = pair.other_type ? like(promises, dtype) : dtype;
        if (other < 0) return;
        std::vector<Side> sent;
        for (const size_t count : pair.sent) sent.push_back({dtype, count});
        differ(member, std::string(pair.name) + ", " + how.name, how, sent,
               {other, pair.received});
      });
}

}  // namespace distwrap::conformance
