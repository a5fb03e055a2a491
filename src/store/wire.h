// The messages between a client and the server of a store.
//
// A frame is a u32 length and that many bytes, little-endian. A client sends
// one request and then reads one reply. A frame that is unexpected, too long or
// malformed ends the connection.
//
//   request: u8 op, i64 timeout_ns, u32 n, n keys, value, expected, i64 number
//   reply:   u8 answer, i64 number, u32 n, n texts, u32 m, m u32 indices
//
// Keys, values and texts are a u32 length and the bytes.
//
// A beat is a frame of one zero byte that may come at any time, also behind a
// request that has no reply yet, and gets no reply: the client is not silent.
// Relays send it for clients that a debugger holds.
//
// Between hosts each side begins with a greeting, a frame of at most
// kMaxGreetingBytes: u32 magic, u16 version, u8 role, text job. A Unix socket
// needs none, since the kernel tells whose it is.
//
// Threads: pure functions.
//
//   std::string frame = encode(Request{.op = Op::kSet, .keys = {"k"}});
//   std::optional<Request> request =
//       decode_request(frame.substr(kHeaderBytes));
#ifndef DISTWRAP_SRC_STORE_WIRE_H_
#define DISTWRAP_SRC_STORE_WIRE_H_

#include <absl/strings/string_view.h>
#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::store {

constexpr size_t kHeaderBytes = 4;
// The longest value (or list of keys) with the fields around it.
constexpr size_t kMaxFrameBytes = (size_t{64} << 20) + (size_t{64} << 10);

enum class Op : uint8_t {
  kSet = 1,
  kWait,
  kGetAll,
  kAdd,
  kCompareSet,
  kDelete,
  kAppend,  // adds the value to the log `key`: it becomes "key/<number>"
  // As kAppend, but when this connection ends, or when it has not sent a
  // request for `timeout_ns`: the last will of MQTT (3.1.2.5).
  kWill,
  // Names the conversation of the requests that follow on this connection, and
  // has no reply. The key is its name so far. The value is the name under which
  // it can go on over another connection when an agent's ends; "": under none.
  // `number` is that of the next request, counted from 1: a client sends
  // a request again when it has had no answer, and a change is made once.
  // `timeout_ns`: as of the will that the conversation has left; 0: none.
  kResume,
};

struct Request {
  Op op = Op::kSet;
  // The time for which the server waits; negative: until the connection ends.
  int64_t timeout_ns = -1;
  std::vector<std::string> keys = {};  // one key, except for kWait and kGetAll
  std::string value = {};              // for kSet, kCompareSet, kAppend, kWill
  std::string expected = {};           // for kCompareSet
  // For kAdd and kResume. Of kWait and kGetAll: the keys of the series that
  // begins with "<keys[0]>/0"; 0: the keys are those listed.
  int64_t number = 0;
  static constexpr int64_t kMostOfSeries = int64_t{1} << 20;
};

// The name of a key in a series, and the keys that a request means.
std::string key_of_series(absl::string_view name, int64_t index);
std::vector<std::string> keys_of(const Request& request);

enum class Answer : uint8_t {
  kDone = 1,
  kTimedOut,  // `indices` are those of the missing keys
  kRefused,   // texts[0] is the reason
  kTooLong,   // the values do not fit into one reply: fetch them one by one
};

struct Reply {
  Answer answer = Answer::kDone;
  int64_t number = 0;  // sum of kAdd; 1 or 0 for kDelete; of kAppend
  std::vector<std::string> texts = {};
  std::vector<uint32_t> indices = {};
};

// The first frame of each side between hosts. A side that hears its own role
// talks to a mirror of itself and closes (RFC 9257, section 4.1). Behind the
// greeting of an agent the frames lie in those of carried.h.
struct Greeting {
  static constexpr uint16_t kVersion = 3;
  enum Role : uint8_t { kClient = 1, kServer, kAgent } role = kClient;
  uint16_t version = kVersion;
  std::string job = {};
};
constexpr size_t kMaxGreetingBytes = 256;

// The frame, with its header.
std::string encode(const Greeting& greeting);
std::string encode(const Request& request);
std::string encode(const Reply& reply);

// For this time after the end of an agent a client looks for the next one, and
// the store keeps the conversation, so that it is never begun anew.
constexpr absl::Duration kLookForAgent = absl::Seconds(1);
constexpr absl::Duration kKeepConversation = absl::Seconds(2);

// A beat, with its header.
constexpr absl::string_view kBeat("\1\0\0\0\0", kHeaderBytes + 1);

// The length of the body behind a header of kHeaderBytes; nullopt when it is
// zero or too long.
std::optional<size_t> decode_header(absl::string_view header);
// Decodes a body without its header; nullopt unless the keys are within their
// limits, their number fits the op and nothing follows.
std::optional<Greeting> decode_greeting(absl::string_view body);
std::optional<Request> decode_request(absl::string_view body);
std::optional<Reply> decode_reply(absl::string_view body);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_WIRE_H_
