// The last operations of a session, always written down.
//
// One cache line for each operation, in a ring; a second one when the call has
// a label. Nothing is allocated, locked or asked of the kernel. A reader copies
// a line and then looks whether its number is still the same (a sequence lock),
// so writers never wait; it may run in a signal handler. After PyTorch's flight
// recorder, which keeps more, under a lock, and is off unless asked for; and
// the ring of the Linux function tracer.
//
// Threads: any. Ownership: of its session; a number outlives its entry.
//
//   Recorder::Numbers numbers;  // of one writer
//   const uint64_t number = recorder.begin(numbers, group, op.kind, op, flags,
//   label);
//   ...
//   recorder.end(number, Recorder::kDone);
#ifndef DISTWRAP_SRC_COMM_RECORDER_RECORDER_H_
#define DISTWRAP_SRC_COMM_RECORDER_RECORDER_H_

#include "base/mutex.h"
#include "base/ticks.h"
#include "distwrap/abi/plugin.h"
#include "distwrap/status.h"

#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace distwrap::comm {

// The facts of one recorded operation.
struct Record {
  uint64_t number = 0;                             // 1 is the session's first
  uint64_t submitted = 0, started = 0, ended = 0;  // ticks; 0: has not
  int64_t in_count = 0, out_count = 0;             // elements
  uint64_t seq = 0;                                // for a collective
  uint64_t tag = 0;                                // for a message
  uint16_t kind = 0, reduce = 0;
  dw_dtype dtype = {};
  int32_t peer = -1;
  uint16_t group = 0;
  uint16_t outcome = 0;
  bool async = false, in_place = false, in_batch = false;
  std::array<char, 64> label = {};  // ends with a zero
};

// A group as recordings know it.
struct RecordedGroup {
  static constexpr size_t kMostRanks = 64;
  std::array<char, 64> name = {}, backend = {};  // end with a zero
  uint64_t uid = 0;
  int32_t rank = 0, size = 0;
  // World ranks of the first members, by rank in the group.
  std::array<int32_t, kMostRanks> ranks = {};
  uint64_t since = 0;  // number of the next operation when it was made
};

// Cut between characters, ended with a zero.
std::array<char, 64> recorded_text(absl::string_view text);

class Recorder {
 public:
  // At least 2,000 operations: some numbers are set aside and never taken.
  static constexpr size_t kEntries = 4096, kMostGroups = 512;
  // Outcomes; a failure is kFailed plus its Reason.
  static constexpr uint16_t kRunning = 0, kDone = 1, kFailed = 2;
  static constexpr uint16_t failed(Reason reason) {
    return static_cast<uint16_t>(kFailed + static_cast<uint16_t>(reason));
  }
  // Flags of `begin`; the low bits are the reduction's.
  static constexpr uint32_t kAsync = 0x10, kInPlace = 0x20, kInBatch = 0x40,
                            kLabelled = 0x80;

  // Numbers set aside for one writer at a time, so that to take one costs no
  // locked instruction, which alone takes as long as all that is written.
  class Numbers {
    friend class Recorder;
    static constexpr uint64_t kMost = 16;
    uint64_t next_ = 0, end_ = 0, count_ = 1;
  };

  // Null when there is no memory for it: work goes on unrecorded.
  static std::unique_ptr<Recorder> make();
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Numbers of the calling thread, for records that several threads write at
  // once.
  Numbers& numbers_of_thread() {
    if (thread_numbers_.of != id_) [[unlikely]]
      thread_numbers_ = {id_, {}};
    return thread_numbers_.numbers;
  }

  // The number under which operations of this group are recorded. Numbers of
  // groups that ended long ago are reused.
  uint16_t add_group(const RecordedGroup& group);

  // Records an operation that is about to be given to its backend. `kind` is
  // its kind; where it is a constant, most of the entry is known when
  // compiling. Numbers rise within one writer; between writers the times tell
  // the order.
  uint64_t begin(Numbers& numbers, uint16_t group, uint16_t kind,
                 const dw_op& op, uint32_t flags, absl::string_view label) {
    const uint64_t number = take(numbers);
    Entry& entry = entries_[number % kEntries];
    const dw_dtype dtype = op.in.data != nullptr || op.in.parts != nullptr
                               ? op.in.dtype
                               : op.out.dtype;
    constexpr auto kOrder = std::memory_order_release;
    entry.number.store(0, std::memory_order_relaxed);
    entry.submitted.store(base::ticks(), kOrder);
    entry.ended.store(0, kOrder);
    entry.in_count.store(op.in.count, kOrder);
    entry.out_count.store(op.out.count, kOrder);
    entry.order.store(op.seq != 0 ? op.seq : op.tag, kOrder);
    entry.what.store(
        uint64_t{kind & 0xffu} | uint64_t{(op.reduce & 0xfu) | flags} << 8 |
            uint64_t{dtype.code} << 16 | uint64_t{dtype.bits} << 24 |
            uint64_t{static_cast<uint32_t>(op.peer)} << 32,
        kOrder);
    entry.state.store(uint64_t{group} << 16, kOrder);
    if (!label.empty()) [[unlikely]]
      keep_label(number, label);
    entry.number.store(number, kOrder);
    return number;
  }

  // The backend has accepted this asynchronous operation.
  void started(uint64_t number);

  void end(uint64_t number, uint16_t outcome) {
    Entry& entry = entries_[number % kEntries];
    // The line may belong to a later operation by now.
    if (entry.number.load(std::memory_order_relaxed) != number) return;
    // The operation timed out, and the abort that followed completed it again.
    if (entry.ended.load(std::memory_order_relaxed) != 0) return;
    if (outcome != kDone) [[unlikely]]
      entry.state.fetch_or(outcome, std::memory_order_release);
    entry.ended.store(base::ticks(), std::memory_order_release);
  }

  // Ends an operation that was done inside its call, in less than it takes to
  // read the clock again.
  void end_at_once(uint64_t number) {
    Entry& entry = entries_[number % kEntries];
    if (entry.number.load(std::memory_order_relaxed) != number) return;
    entry.ended.store(entry.submitted.load(std::memory_order_relaxed),
                      std::memory_order_release);
  }

  // For readers: the number after all that were set aside.
  uint64_t next() const { return next_.load(std::memory_order_acquire); }
  // False when the entry was overwritten, or is being written.
  bool read(uint64_t number, Record* record) const;
  // False for a number that no group has.
  bool read_group(uint16_t number, RecordedGroup* group) const;
  const base::Moment& made() const { return made_; }

 private:
  struct alignas(64) Entry {
    std::atomic<uint64_t> number;  // 0: empty, or being written
    std::atomic<uint64_t> submitted, ended;
    std::atomic<int64_t> in_count, out_count;
    std::atomic<uint64_t> order;  // number of a collective, tag of a message
    // kind 8, flags and reduction 8, dtype's code 8 and bits 8, peer 32
    std::atomic<uint64_t> what;
    // outcome 16, group 16, start after submission in 256 ticks 32
    std::atomic<uint64_t> state;
  };
  struct alignas(64) Label {
    std::array<std::atomic<uint64_t>, 8> words;
  };
  struct GroupLine {
    std::atomic<uint64_t> version;  // odd: being written
    std::array<std::atomic<uint64_t>, (sizeof(RecordedGroup) + 7) / 8> words;
  };

  struct Memory;

  struct ThreadNumbers {
    uint64_t of = 0;  // a recorder's id
    Numbers numbers;
  };
  [[gnu::tls_model("initial-exec")]] static constinit thread_local ThreadNumbers
      thread_numbers_;

  explicit Recorder(Memory& memory);
  uint64_t take(Numbers& numbers) {
    // Numbers of a writer that slept would take the places of newer records.
    if (numbers.next_ == numbers.end_ ||
        next_.load(std::memory_order_relaxed) - numbers.next_ > kEntries / 2)
        [[unlikely]]
      set_aside(numbers);
    return numbers.next_++;
  }
  void set_aside(Numbers& numbers);
  void keep_label(uint64_t number, absl::string_view label);

  const uint64_t id_;  // unique in the process
  const base::Moment made_ = base::Moment::now();
  std::atomic<uint64_t> next_{1};
  Memory& memory_;
  std::array<Entry, kEntries>& entries_;
  base::Mutex mutex_;
  uint64_t group_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_RECORDER_RECORDER_H_
