// Parsers that read what other hosts send, or people write, about a store. The
// first byte chooses the parser.
#include "store/carried.h"
#include "store/control_channel.h"
#include "store/network_address.h"
#include "store/several_hosts.h"
#include "store/store_place.h"
#include "store/wire.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace distwrap::store {
namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

// A frame that can be read has one form.
void read_frames(absl::string_view bytes) {
  if (const std::optional<Request> request = decode_request(bytes))
    expect(encode(*request).substr(kHeaderBytes) == bytes);
  if (const std::optional<Reply> reply = decode_reply(bytes))
    expect(encode(*reply).substr(kHeaderBytes) == bytes);
  if (const std::optional<Greeting> greeting = decode_greeting(bytes))
    expect(encode(*greeting).substr(kHeaderBytes) == bytes);
  if (bytes.size() >= kHeaderBytes)
    (void)decode_header(bytes.substr(0, kHeaderBytes));
}

void read_places(absl::string_view text) {
  if (const std::optional<HostPort> place = HostPort::parse(text))
    expect(HostPort::parse(place->text()).has_value());
  (void)parse_places(text);
  (void)first_node(text);
}

// Pieces of any size say the same on each stream.
void read_carried(absl::string_view bytes) {
  std::map<uint32_t, std::string> heard[2];
  bool whole[2] = {};
  for (const size_t way : {size_t{0}, size_t{1}}) {
    CarriedReader reader;
    const size_t piece = way == 0 ? bytes.size() : 1;
    whole[way] = true;
    for (size_t at = 0; at < bytes.size() && whole[way]; at += piece)
      whole[way] =
          reader.pass(bytes.substr(at, piece),
                      [&](Carried what, uint32_t stream, absl::string_view of) {
                        heard[way][stream] += what == Carried::kBytes
                                                  ? std::string(of)
                                                  : carried(what, stream);
                      });
  }
  expect(whole[0] == whole[1] && heard[0] == heard[1]);
}

// A stranger without the key never opens a channel.
void join(absl::string_view bytes) {
  TlsPsk psk{.identity = "dw1:job"};
  psk.secret.fill(7);
  const auto server = ControlChannel::make(Greeting::kServer, psk);
  expect(server.ok());
  std::string plain;
  for (size_t at = 0; at < bytes.size(); at += 64)
    (*server)->receive(bytes.substr(at, 64), &plain);
  expect((*server)->state() != ControlChannel::State::kOpen);
  expect(plain.empty());
}

}  // namespace
}  // namespace distwrap::store

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view rest(reinterpret_cast<const char*>(data) + 1,
                               size - 1);
  switch (data[0] % 4) {
    case 0:
      distwrap::store::read_frames(rest);
      break;
    case 1:
      distwrap::store::read_places(rest);
      break;
    case 2:
      distwrap::store::join(rest);
      break;
    default:
      distwrap::store::read_carried(rest);
  }
  return 0;
}
