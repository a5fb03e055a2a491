// What a client and the server of a store say to each other.
//
// A frame is a u32 length and that many bytes, little-endian. A client sends
// one request and then reads one reply; a frame too many, too long or not
// readable ends the connection.
//
//   request: u8 op, i64 timeout_ns, u32 n, n keys, value, expected, i64 number
//   reply:   u8 answer, i64 number, u32 n, n texts, u32 m, m u32 indices
//
// keys, values and texts are a u32 length and the bytes.
//
// Threads: pure functions.
//
//   std::string frame = encode(Request{.op = Op::kSet, .keys = {"k"}});
//   std::optional<Request> request =
//   decode_request(frame.substr(kHeaderBytes));
#ifndef DISTWRAP_SRC_STORE_WIRE_H_
#define DISTWRAP_SRC_STORE_WIRE_H_

#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::store {

constexpr size_t kHeaderBytes = 4;
// The longest value (or list of keys) with all that stands around it.
constexpr size_t kMaxFrameBytes = (size_t{64} << 20) + (size_t{64} << 10);

enum class Op : uint8_t {
  kSet = 1,
  kWait,
  kGetAll,
  kAdd,
  kCompareSet,
  kDelete
};

struct Request {
  Op op = Op::kSet;
  // How long the server waits; negative: until the connection ends.
  int64_t timeout_ns = -1;
  std::vector<std::string> keys = {};  // one, but for kWait and kGetAll
  std::string value = {};              // of kSet and kCompareSet
  std::string expected = {};           // of kCompareSet
  int64_t number = 0;                  // of kAdd
};

enum class Answer : uint8_t {
  kDone = 1,
  kTimedOut,  // `indices` of the keys that are missing
  kRefused,   // texts[0] says why
  kTooLong,   // the values do not fit in one reply: fetch them singly
};

struct Reply {
  Answer answer = Answer::kDone;
  int64_t number = 0;  // sum of kAdd, 1 or 0 of kDelete
  std::vector<std::string> texts = {};
  std::vector<uint32_t> indices = {};
};

// With the header.
std::string encode(const Request& request);
std::string encode(const Reply& reply);

// Length of the body that follows a header of kHeaderBytes; nothing when it is
// zero or too long.
std::optional<size_t> decode_header(absl::string_view header);
// A body, without the header. Keys are within their limits, their number fits
// the op, nothing follows.
std::optional<Request> decode_request(absl::string_view body);
std::optional<Reply> decode_reply(absl::string_view body);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_WIRE_H_
