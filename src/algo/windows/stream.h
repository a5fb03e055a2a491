// The messages in flight between this rank and another one.
#ifndef DISTWRAP_SRC_ALGO_WINDOWS_STREAM_H_
#define DISTWRAP_SRC_ALGO_WINDOWS_STREAM_H_

#include "algo/below/cell.h"
#include "algo/windows/frame.h"
#include "algo/windows/part.h"
#include "distwrap/abi/plugin.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

namespace distwrap::algo::windows {

class MessageService;

// An operation that has not ended when it has been posted.
struct Pending {
  dw_work* work = nullptr;  // cell to complete; NULL: the caller waits
  int sends = 0;            // messages that read the caller's memory
  int replies = 0;
  int32_t code = DW_OK;
  dw_error error = {};

  bool over() const { return sends == 0 && replies == 0; }
  // Stores an error; the first one counts.
  void note(const dw_error& why) {
    if (code != DW_OK) return;
    code = why.code;
    error = why;
  }
};

// A request that waits for its reply.
struct Request {
  std::shared_ptr<Pending> pending;
  int peer = -1;
  char* out = nullptr;  // destination of the result
  uint64_t bytes = 0;
  // For a flush: set to `flushes` when that many operations are done.
  std::atomic<uint64_t>* flushed = nullptr;
  uint64_t flushes = 0;
};

// A frame with the data behind it.
struct OutgoingMessage {
  Frame frame = {};
  // The data behind the frame: the caller's memory or a result,
  const char* data = nullptr;
  std::unique_ptr<char[]> result;
  // Alternatively, the content of a part at the frame's offset when it is sent.
  std::shared_ptr<Part> part;
  std::shared_ptr<Pending> pending;  // the operation that waits for this send
  std::shared_ptr<OutgoingMessage> tells_of;  // the message whose code the
                                              // frame will carry

  // Used by the service:
  bool has_begun = false, has_all_begun = false;
  uint64_t begun = 0;  // bytes of data whose sends have started
  int flying = 0;
  int32_t code = DW_OK;
};

// A completed message of the backend below, for the service's thread.
struct Landed : Cell {
  explicit Landed(MessageService& whose) : service(whose) {}
  void end(int32_t ended, const dw_error* why) final;
  virtual void handle() = 0;

  MessageService& service;
  Landed* next = nullptr;
  int32_t code = DW_OK;
  dw_error error = {};
};

// Owns itself until it is handled.
struct Sent final : Landed {
  explicit Sent(MessageService& whose) : Landed(whose) {}
  ~Sent() override = default;
  void handle() override;

  int peer = -1;
  std::shared_ptr<OutgoingMessage> message;
  std::unique_ptr<char[]> held;  // the sent bytes, unless the outgoing message
                                 // owns them
};

struct Inbound;

struct Received final : Landed {
  Received(MessageService& whose, Inbound& stream)
      : Landed(whose), from(stream) {}
  ~Received() override = default;
  void handle() override;

  Inbound& from;
  void* to = nullptr;
  uint64_t bytes = 0, tag = 0;
  bool is_there = false;
};

// The stream from one rank; used by the service's thread.
struct Inbound {
  // The frames for which receives are posted in advance, so that as many frames
  // arrive without a request; and the segments that are requested at a time.
  static constexpr size_t kFrames = 8, kAhead = 4;

  Inbound(MessageService& service, int rank)
      : peer(rank),
        frames{{{service, *this},
                {service, *this},
                {service, *this},
                {service, *this},
                {service, *this},
                {service, *this},
                {service, *this},
                {service, *this}}},
        segments{{{service, *this},
                  {service, *this},
                  {service, *this},
                  {service, *this}}} {}

  const int peer;
  std::array<Received, kFrames> frames;
  std::array<Frame, kFrames> spaces;
  size_t next_frame = 0;
  // The message that is being received:
  FrameHeader head = {};
  std::shared_ptr<Part> part;
  std::unique_ptr<char[]> result;
  int32_t code = DW_OK;
  bool takes_segments = false;
  uint64_t asked = 0, taken = 0;  // bytes requested and received
  size_t ask_with = 0, take_from = 0;
  std::array<Received, kAhead> segments;
  std::array<std::unique_ptr<char[]>, kAhead> staging;  // allocated on first
                                                        // use
};

struct Outbound {
  std::deque<std::shared_ptr<OutgoingMessage>> outgoing;
  int flying = 0;
};

}  // namespace distwrap::algo::windows

#endif  // DISTWRAP_SRC_ALGO_WINDOWS_STREAM_H_
