// The trace of a call: notes for the other ranks (the group's page of the
// board) and for people (the recorder).
//
// Threads: one call, on its own thread.
//
//   CallTrace trace(to, op, label);
//   trace.begin(kind, numbers);
//   ... submit ...
//   trace.end(kDone);
#ifndef DISTWRAP_SRC_COMM_CALL_TRACE_H_
#define DISTWRAP_SRC_COMM_CALL_TRACE_H_

#include "comm/board/group_board.h"
#include "comm/recorder/recorder.h"
#include "distwrap/abi/plugin.h"

#include <absl/strings/string_view.h>

#include <cstdint>

namespace distwrap::comm {

// Where the calls of a communicator are written down.
struct TraceTarget {
  GroupBoard* board = nullptr;   // null: no other member is watched
  Recorder* recorder = nullptr;  // null: nothing is recorded
  uint16_t group = 0;            // as the recorder knows it

  bool any() const { return board != nullptr || recorder != nullptr; }
};

class CallTrace {
 public:
  CallTrace(const TraceTarget& to, const dw_op& op, absl::string_view label)
      : to_(to), op_(op), label_(label) {}

  // Writes the entries, before the backend has the operation or while its data
  // are on their way to other ranks. `kind` is the operation's; where it is a
  // constant, most of the entry is known when compiling. Only numbered
  // operations have an entry on the page.
  [[gnu::always_inline]] void begin(uint16_t kind, Recorder::Numbers& numbers,
                                    uint32_t flags = 0) {
    if (is_watched()) to_.board->publish(kind, op_, label_);
    if (to_.recorder == nullptr) return;
    flags |= (op_.flags & DW_FLAG_IN_PLACE) != 0 ? Recorder::kInPlace : 0u;
    flags |= label_.empty() ? 0u : Recorder::kLabelled;
    record_ = to_.recorder->begin(numbers, to_.group, kind, op_, flags, label_);
  }
  // The caller has stopped waiting. `at_once`: the call took less time than
  // reading the clock takes.
  [[gnu::always_inline]] void returned(uint16_t outcome, bool at_once) {
    if (is_watched()) to_.board->returned();
    if (record_ == 0) return;
    if (at_once) [[likely]]
      to_.recorder->end_at_once(record_);
    else
      to_.recorder->end(record_, outcome);
  }

  // The number of its record; 0: there is none.
  uint64_t record() const { return record_; }

 protected:
  bool is_watched() const { return to_.board != nullptr && op_.seq != 0; }

  const TraceTarget& to_;
  const dw_op& op_;
  const absl::string_view label_;
  uint64_t record_ = 0;
};

// A trace that is written when the backend says that the call is under way
// (DW_BACKEND_SAYS_UNDER_WAY): this rank's part is on the way to the others by
// then, which takes longer than writing the trace.
class DeferredTrace {
 public:
  dw_trace* abi() { return reinterpret_cast<dw_trace*>(this); }
  // Functions of the host table.
  static void under_way(dw_trace* trace) {
    auto* const self = reinterpret_cast<DeferredTrace*>(trace);
    if (!self->begun_) self->begin();
  }
  static void waits(dw_trace* trace) {
    reinterpret_cast<DeferredTrace*>(trace)->waited_ = true;
  }

  bool waited() const { return waited_; }

 protected:
  ~DeferredTrace() = default;
  virtual void write() = 0;
  [[gnu::always_inline]] void begin() {
    begun_ = true;
    write();
  }
  bool begun_ = false, waited_ = false;
};

// Hears from the backend whether a call waited, when its trace is written.
class WaitsMark final : public DeferredTrace {
 public:
  WaitsMark() { begun_ = true; }

 private:
  void write() override {}
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_CALL_TRACE_H_
