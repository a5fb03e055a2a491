// A control connection between hosts, without its socket: TLS by the job's key,
// then a greeting of each side, then frames of the store's protocol.
//
// Threads: one at a time. Ownership: a value that cannot be copied.
//
//   auto channel = ControlChannel::make(Greeting::kClient, psk);
//   for (;;) { socket.send(channel->take_output()); ... }
#ifndef DISTWRAP_SRC_STORE_CONTROL_CHANNEL_H_
#define DISTWRAP_SRC_STORE_CONTROL_CHANNEL_H_

#include "store/tls_channel.h"
#include "store/wire.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <memory>
#include <string>
#include <utility>

namespace distwrap::store {

class ControlChannel {
 public:
  using Role = Greeting::Role;
  using State = TlsChannel::State;

  static absl::StatusOr<std::unique_ptr<ControlChannel>> make(
      Role role, const TlsPsk& psk);

  // Takes bytes from the network and appends what follows the greeting to
  // `plain`. The channel is open when the peer's greeting was right.
  State receive(absl::string_view bytes, std::string* plain);
  bool send(absl::string_view plain);
  std::string take_output() { return tls_->take_output(); }

  State state() const { return state_; }
  // The role that the peer claims, once the channel is open.
  Role peer() const { return peer_; }
  bool key_differs() const { return tls_->key_differs(); }
  const std::string& failure() const {
    return failure_.empty() ? tls_->failure() : failure_;
  }

 private:
  ControlChannel(Role role, std::string job,
                 std::unique_ptr<TlsChannel> channel)
      : role_(role), job_(std::move(job)), tls_(std::move(channel)) {}
  State fail(std::string why);
  State hear();

  const Role role_;
  Role peer_ = Role::kClient;
  const std::string job_;
  std::unique_ptr<TlsChannel> tls_;
  State state_ = State::kHandshake;
  bool greeted_ = false;
  std::string first_;  // bytes that came before the greeting was complete
  std::string failure_;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_CONTROL_CHANNEL_H_
