// A control connection on an event loop, of a server or of an agent.
//
// A stranger costs little: a server's stream takes at most kMostBytes in the
// time for a handshake before it trusts its peer, and makes no TLS object until
// a first record of at most kMostHello bytes is whole and names the job.
#ifndef DISTWRAP_SRC_STORE_TLS_STREAM_H_
#define DISTWRAP_SRC_STORE_TLS_STREAM_H_

#include "store/control_channel.h"
#include "store/loop_stream.h"
#include "store/network_address.h"

#include <absl/time/time.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

namespace distwrap::store {

class TlsStream final : public LoopStream {
 public:
  static constexpr size_t kMostBytes = 4 << 10, kMostHello = 1 << 10;

  // `psk` outlives the stream. `handshake`: the time for it.
  TlsStream(uv_loop_t* loop, const TlsPsk* psk, std::vector<char>* arrivals,
            Owner* owner, absl::Duration handshake = absl::Seconds(5));

  // Takes the client that `listener` announces. May call `on_end`.
  void accept(uv_stream_t* listener);
  // Connects as an agent instead.
  void dial(const NetworkAddress& address);
  bool send(std::string bytes) override;
  size_t unsent() const override;
  void close() override;
  bool is_server() const { return is_server_; }
  // Once the peer is trusted.
  bool peer_is_agent() const { return channel_->peer() == Greeting::kAgent; }

 private:
  void start();
  void on_arrival(absl::string_view bytes);
  // Runs a callback of the loop, through which nothing may be thrown.
  template <class Callback>
  void or_end(const Callback& callback) {
    try {
      callback();
    } catch (const std::bad_alloc&) {
      if (!closing_) owner_.on_end();
    }
  }
  bool collect(absl::string_view bytes);
  bool flush();
  void on_handle_closed();
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&tcp_); }
  template <class Handle>
  static TlsStream* of(Handle* handle) {
    return static_cast<TlsStream*>(handle->data);
  }

  const TlsPsk& psk_;
  std::vector<char>& arrivals_;
  Owner& owner_;
  const absl::Duration handshake_;
  uv_tcp_t tcp_ = {};
  uv_timer_t timer_ = {};
  uv_connect_t connect_ = {};
  int open_handles_ = 2;
  bool is_server_ = true, trusted_ = false, closing_ = false;
  size_t before_trust_ = 0;  // bytes that came before the peer was trusted
  std::string hello_;        // the incomplete first record
  std::unique_ptr<ControlChannel> channel_;
};

// Makes the system notice a peer that has vanished: keepalive, and a limit for
// data that are not acknowledged.
void watch_peer(int fd);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_TLS_STREAM_H_
