// A control connection between hosts: of one process, whose bytes go over it as
// they are, or of a host's agent, which carries one stream for each connection
// of the host's processes (carried.h). So the store has one TLS connection to a
// host, whatever the number of ranks there.
//
// A stream's user is served as if it had a connection alone: it hears the end
// when the carrier ends, and its own end leaves the others as they are. Equal
// answers that a server gives to several streams in one turn of its loop cross
// the network once: those to ranks that wait for the same words, and news.
//
// Threads: the loop's thread. Ownership: a carrier deletes itself after
// `close`, when its socket is closed, and then calls `on_closed`. Its streams
// belong to their users.
#ifndef DISTWRAP_SRC_STORE_CARRIER_H_
#define DISTWRAP_SRC_STORE_CARRIER_H_

#include "store/carried.h"
#include "store/loop_stream.h"
#include "store/network_address.h"
#include "store/tls_stream.h"

#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::store {

class Carrier final : private LoopStream::Owner {
 public:
  struct Events {
    // The peer has proved that it may join.
    std::function<void(Carrier*)> on_trusted = [](Carrier*) {};
    // The peer has begun a stream: `take` or `refuse` it.
    std::function<void(Carrier*, uint32_t)> on_offer = {};
    std::function<void(Carrier*)> on_closed = {};
  };
  // `psk` and `arrivals` outlive the carrier. `handshake`: the time for it.
  Carrier(uv_loop_t* loop, const TlsPsk* psk, std::vector<char>* arrivals,
          Events events, absl::Duration handshake = absl::Seconds(5));

  // A server's: takes the client that `listener` announces.
  void accept(uv_stream_t* listener) { tls_.accept(listener); }
  std::unique_ptr<LoopStream> take(uint32_t number, LoopStream::Owner* user);
  void refuse(uint32_t number) { end(number); }

  // An agent's: connects to the store.
  void dial(const NetworkAddress& store) { tls_.dial(store); }
  // A further stream, whose user hears when it may send.
  std::unique_ptr<LoopStream> open(LoopStream::Owner* user);

  void close();
  bool is_closing() const { return closing_; }

 private:
  class Stream;
  ~Carrier() = default;

  // LoopStream::Owner
  void on_trusted() override;
  void on_bytes(absl::string_view bytes) override;
  void on_end() override { close(); }
  void on_closed() override { on_handle_closed(); }

  void on_carried(Carried what, uint32_t number, absl::string_view bytes);
  bool send(uint32_t number, std::string bytes);
  bool send_held();
  void end(uint32_t number);
  void on_handle_closed();

  TlsStream tls_;
  const Events events_;
  int open_handles_ = 2;  // the connection, and the one below
  // Runs before the loop sleeps, and sends what is held.
  uv_prepare_t before_sleep_ = {};
  // The last answer, and the streams that get it.
  std::string held_;
  std::vector<uint32_t> held_for_;
  // Whether bytes go in frames: to and from an agent.
  bool carries_many_ = false;
  bool trusted_ = false, closing_ = false;
  uint32_t last_number_ = 0;  // the newest of `open`
  std::map<uint32_t, Stream*> streams_;
  CarriedReader reader_;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_CARRIER_H_
