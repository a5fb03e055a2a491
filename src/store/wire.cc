#include "store/wire.h"

#include "base/bytes.h"
#include "distwrap/store.h"

#include <absl/strings/str_cat.h>

namespace distwrap::store {
namespace {

using base::ByteReader;
using base::ByteWriter;

// Fills in the header; the body was written behind room for it.
std::string with_header(ByteWriter* out) {
  std::string frame = out->take();
  ByteWriter header;
  header.u32(static_cast<uint32_t>(frame.size() - kHeaderBytes));
  frame.replace(0, kHeaderBytes, header.str());
  return frame;
}

void write_texts(ByteWriter& out, const std::vector<std::string>& texts) {
  out.u32(static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) out.text(text);
}

// Reads a count of items of at least `least` bytes each. A count that the input
// cannot hold is refused before memory is allocated.
std::optional<uint32_t> read_count(ByteReader& in, size_t least) {
  const uint32_t count = in.u32();
  if (!in.ok() || count > in.left() / least) return std::nullopt;
  return count;
}

bool read_texts(ByteReader& in, size_t limit, std::vector<std::string>* texts) {
  const std::optional<uint32_t> count = read_count(in, 4);
  if (!count.has_value()) return false;
  texts->reserve(*count);
  for (uint32_t i = 0; i < *count; ++i) texts->emplace_back(in.text(limit));
  return in.ok();
}

bool is_known(Op op) {
  switch (op) {
    case Op::kSet:
    case Op::kWait:
    case Op::kGetAll:
    case Op::kAdd:
    case Op::kCompareSet:
    case Op::kDelete:
    case Op::kAppend:
    case Op::kWill:
    case Op::kResume:
      return true;
  }
  return false;
}

bool has_many_keys(Op op) { return op == Op::kWait || op == Op::kGetAll; }

constexpr uint32_t kGreetingMagic = 0x31687764;  // "dwh1"

}  // namespace

std::string encode(const Greeting& greeting) {
  ByteWriter out;
  out.u32(0);
  out.u32(kGreetingMagic);
  out.u16(greeting.version);
  out.u8(greeting.role);
  out.text(greeting.job);
  return with_header(&out);
}

std::optional<Greeting> decode_greeting(absl::string_view body) {
  ByteReader in(body);
  Greeting greeting;
  const uint32_t magic = in.u32();
  greeting.version = in.u16();
  const uint8_t role = in.u8();
  greeting.job = std::string(in.text(kMaxGreetingBytes));
  if (!in.done() || magic != kGreetingMagic || role < Greeting::kClient ||
      role > Greeting::kAgent)
    return std::nullopt;
  greeting.role = static_cast<Greeting::Role>(role);
  return greeting;
}

std::string key_of_series(absl::string_view name, int64_t index) {
  return absl::StrCat(name, "/", index);
}

std::vector<std::string> keys_of(const Request& request) {
  if (!has_many_keys(request.op) || request.number == 0) return request.keys;
  std::vector<std::string> keys;
  keys.reserve(static_cast<size_t>(request.number));
  for (int64_t i = 0; i < request.number; ++i)
    keys.push_back(key_of_series(request.keys.front(), i));
  return keys;
}

std::string encode(const Request& request) {
  ByteWriter out;
  out.u32(0);
  out.u8(static_cast<uint8_t>(request.op));
  out.i64(request.timeout_ns);
  write_texts(out, request.keys);
  out.text(request.value);
  out.text(request.expected);
  out.i64(request.number);
  return with_header(&out);
}

std::string encode(const Reply& reply) {
  ByteWriter out;
  out.u32(0);
  out.u8(static_cast<uint8_t>(reply.answer));
  out.i64(reply.number);
  write_texts(out, reply.texts);
  out.u32(static_cast<uint32_t>(reply.indices.size()));
  for (const uint32_t index : reply.indices) out.u32(index);
  return with_header(&out);
}

std::optional<size_t> decode_header(absl::string_view header) {
  ByteReader in(header);
  const size_t size = in.u32();
  if (!in.done() || size == 0 || size > kMaxFrameBytes) return std::nullopt;
  return size;
}

std::optional<Request> decode_request(absl::string_view body) {
  ByteReader in(body);
  Request request;
  request.op = static_cast<Op>(in.u8());
  request.timeout_ns = in.i64();
  if (!read_texts(in, Store::kMaxKeyBytes, &request.keys)) return std::nullopt;
  request.value = std::string(in.text(Store::kMaxValueBytes));
  request.expected = std::string(in.text(Store::kMaxValueBytes));
  request.number = in.i64();
  if (!in.done() || !is_known(request.op)) return std::nullopt;
  if (!has_many_keys(request.op) && request.keys.size() != 1)
    return std::nullopt;
  if (has_many_keys(request.op) && request.number != 0 &&
      (request.keys.size() != 1 || request.number < 0 ||
       request.number > Request::kMostOfSeries))
    return std::nullopt;
  for (const std::string& key : request.keys)
    if (key.empty()) return std::nullopt;
  return request;
}

std::optional<Reply> decode_reply(absl::string_view body) {
  ByteReader in(body);
  Reply reply;
  reply.answer = static_cast<Answer>(in.u8());
  reply.number = in.i64();
  if (!read_texts(in, Store::kMaxValueBytes, &reply.texts)) return std::nullopt;
  const std::optional<uint32_t> count = read_count(in, 4);
  if (!count.has_value()) return std::nullopt;
  for (uint32_t i = 0; i < *count; ++i) reply.indices.push_back(in.u32());
  if (!in.done() || reply.answer < Answer::kDone ||
      reply.answer > Answer::kTooLong)
    return std::nullopt;
  return reply;
}

}  // namespace distwrap::store
