// TLS 1.3 with a pre-shared key, without a socket: bytes from the network go
// in, bytes for the network come out.
//
// Both sides know the secret, so a finished handshake proves to each that the
// other one belongs to the job (RFC 8446, section 2.2, psk_dhe_ke over X25519).
// There are no certificates, tickets, resumption or early data.
//
// Threads: one at a time. Ownership: a value that cannot be copied.
//
//   auto channel = TlsChannel::make(TlsChannel::Role::kClient, psk);
//   socket.send(channel->take_output());
//   channel->receive(bytes, &plain);
#ifndef DISTWRAP_SRC_STORE_TLS_CHANNEL_H_
#define DISTWRAP_SRC_STORE_TLS_CHANNEL_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

struct ssl_st;

namespace distwrap::store {

// The secret of a connection, and the public name under which the client asks
// for it.
struct TlsPsk {
  std::string identity = {};
  std::array<uint8_t, 32> secret = {};
};

class TlsChannel {
 public:
  enum class Role { kServer, kClient };
  enum class State {
    kHandshake,
    kOpen,
    kEnded,   // the peer has closed
    kFailed,  // no such key, another protocol, or damaged bytes
  };

  // A client has output at once. Errors: kOutOfMemory.
  static absl::StatusOr<std::unique_ptr<TlsChannel>> make(Role role,
                                                          const TlsPsk& psk);
  ~TlsChannel();
  TlsChannel(const TlsChannel&) = delete;
  TlsChannel& operator=(const TlsChannel&) = delete;

  // Takes bytes from the network and appends what they say to `plain`.
  State receive(absl::string_view bytes, std::string* plain);
  // Encrypts bytes; false unless the channel is open.
  bool send(absl::string_view plain);
  // The bytes for the network that have not been taken yet. There may be some
  // in every state: a failed side says why.
  std::string take_output();

  State state() const { return state_; }
  // Why the channel failed, as OpenSSL says it.
  const std::string& failure() const { return failure_; }
  // Whether a server has said that it knows the client's key by name and has
  // another secret for it.
  bool key_differs() const { return key_differs_; }

 private:
  explicit TlsChannel(const TlsPsk& psk) : psk_(psk) {}
  void fail();
  State shake_hands();

  TlsPsk psk_;
  ssl_st* ssl_ = nullptr;
  State state_ = State::kHandshake;
  std::string failure_;
  bool key_differs_ = false;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_TLS_CHANNEL_H_
