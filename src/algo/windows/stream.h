// What is on its way between this rank and another one.
#ifndef DISTWRAP_SRC_ALGO_WINDOWS_STREAM_H_
#define DISTWRAP_SRC_ALGO_WINDOWS_STREAM_H_

#include "algo/compose/cell.h"
#include "algo/windows/frame.h"
#include "algo/windows/part.h"
#include "distwrap/abi/plugin.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

namespace distwrap::algo::windows {

class Courier;

// An operation that is not over when it has been posted.
struct Pending {
  dw_work* work = nullptr;  // to complete; NULL: somebody waits
  int sends = 0;            // letters that read the caller's memory
  int replies = 0;
  int32_t code = DW_OK;
  dw_error error = {};

  bool over() const { return sends == 0 && replies == 0; }
  // The first one counts.
  void note(const dw_error& why) {
    if (code != DW_OK) return;
    code = why.code;
    error = why;
  }
};

// What waits for a reply.
struct Request {
  std::shared_ptr<Pending> pending;
  int peer = -1;
  char* out = nullptr;  // for the result
  uint64_t bytes = 0;
  // Of a flush: raised to `flushes` once that many are there.
  std::atomic<uint64_t>* flushed = nullptr;
  uint64_t flushes = 0;
};

// A frame with what is behind it.
struct Letter {
  Frame frame = {};
  // What does not fit: the caller's memory, or a result ...
  const char* data = nullptr;
  std::unique_ptr<char[]> result;
  // ... or what stands in a part at the frame's offset by then.
  std::shared_ptr<Part> part;
  std::shared_ptr<Pending> pending;  // one of its sends
  std::shared_ptr<Letter> tells_of;  // whose code the frame will have

  // The courier's:
  bool has_begun = false, has_all_begun = false;
  uint64_t begun = 0;  // bytes of data
  int flying = 0;
  int32_t code = DW_OK;
};

// A message below, of which the courier's thread is told.
struct Landed : compose::Cell {
  explicit Landed(Courier& whose) : courier(whose) {}
  void end(int32_t ended, const dw_error* why) final;
  virtual void handle() = 0;

  Courier& courier;
  Landed* next = nullptr;
  int32_t code = DW_OK;
  dw_error error = {};
};

// Owns itself until it was handled.
struct Sent final : Landed {
  explicit Sent(Courier& whose) : Landed(whose) {}
  ~Sent() override = default;
  void handle() override;

  int peer = -1;
  std::shared_ptr<Letter> letter;
  std::unique_ptr<char[]> held;  // what is sent, unless it is the letter's
};

struct Inbound;

struct Received final : Landed {
  Received(Courier& whose, Inbound& stream) : Landed(whose), from(stream) {}
  ~Received() override = default;
  void handle() override;

  Inbound& from;
  void* to = nullptr;
  uint64_t bytes = 0, tag = 0;
  bool is_there = false;
};

// What comes from one rank; of the courier's thread.
struct Inbound {
  // Receives that are posted before it is known what comes: as many frames go
  // without asking. And segments that are asked for.
  static constexpr size_t kFrames = 8, kAhead = 4;

  Inbound(Courier& courier, int rank)
      : peer(rank),
        frames{{{courier, *this},
                {courier, *this},
                {courier, *this},
                {courier, *this},
                {courier, *this},
                {courier, *this},
                {courier, *this},
                {courier, *this}}},
        segments{{{courier, *this},
                  {courier, *this},
                  {courier, *this},
                  {courier, *this}}} {}

  const int peer;
  std::array<Received, kFrames> frames;
  std::array<Frame, kFrames> spaces;
  size_t next_frame = 0;
  // Of the message that is being taken:
  Head head = {};
  std::shared_ptr<Part> part;
  std::unique_ptr<char[]> result;
  int32_t code = DW_OK;
  bool takes_segments = false;
  uint64_t asked = 0, taken = 0;  // bytes
  size_t ask_with = 0, take_from = 0;
  std::array<Received, kAhead> segments;
  std::array<std::unique_ptr<char[]>, kAhead> staging;  // made on first use
};

struct Outbound {
  std::deque<std::shared_ptr<Letter>> letters;
  int flying = 0;
};

}  // namespace distwrap::algo::windows

#endif  // DISTWRAP_SRC_ALGO_WINDOWS_STREAM_H_
