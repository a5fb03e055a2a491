#include "store/tls_socket.h"

#include "base/error.h"
#include "store/interrupt.h"
#include "store/tls_stream.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <errno.h>
#include <utility>

namespace distwrap::store {
namespace {

// A server that takes longer than this for a handshake is none of ours.
constexpr absl::Duration kHandshake = absl::Seconds(5);

absl::Status not_allowed(const NetworkAddress& address, bool key_differs,
                         std::string cause) {
  return base::make_error(
      {.reason = Reason::kAuthFailed,
       .what = absl::StrCat("the store at ", address.text(),
                            " and this process do not have the same job key",
                            key_differs ? "" : ", or belong to different jobs"),
       .op = "store connect",
       .cause = std::move(cause),
       .next_step = absl::StrCat("give all hosts the same DISTWRAP_JOB_KEY",
                                 key_differs ? "" : " and job id",
                                 ", and check what listens at that "
                                 "address")});
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsSocket>> TlsSocket::connect(
    const NetworkAddress& address, const TlsPsk& psk, Deadline deadline,
    int* error) {
  absl::StatusOr<Socket> socket = Socket::connect(address, deadline, error);
  if (!socket.ok()) return socket.status();
  watch_peer(socket->descriptor());
  auto channel = ControlChannel::make(Greeting::kClient, psk);
  if (!channel.ok()) return channel.status();
  std::unique_ptr<TlsSocket> made(
      new TlsSocket(*std::move(socket), *std::move(channel)));
  const absl::Status greeted = made->greet(
      address, Deadline::earlier(deadline, Deadline::after(kHandshake)));
  if (error_reason(greeted) == Reason::kStoreUnreachable) *error = ETIMEDOUT;
  if (made->channel_->key_differs()) *error = EKEYREJECTED;
  if (!greeted.ok()) return greeted;
  return made;
}

absl::Status TlsSocket::greet(const NetworkAddress& address,
                              Deadline deadline) {
  Io io = socket_.send(channel_->take_output(), deadline);
  while (io.kind == Io::kDone &&
         channel_->state() == ControlChannel::State::kHandshake)
    io = step(deadline);
  if (channel_->state() == ControlChannel::State::kOpen && io.kind == Io::kDone)
    return absl::OkStatus();
  if (io.kind == Io::kInterrupted) return Interrupt::error("store connect");
  if (io.kind == Io::kTimedOut)
    return base::make_error(
        {.reason = Reason::kStoreUnreachable,
         .what = absl::StrCat("what listens at ", address.text(),
                              " does not answer as a store does"),
         .op = "store connect",
         .next_step = "check what listens at that address"});
  if (channel_->state() == ControlChannel::State::kFailed)
    return not_allowed(address, channel_->key_differs(), channel_->failure());
  return not_allowed(
      address, false,
      io.error == 0 ? "it closed the connection" : base::errno_text(io.error));
}

// Takes what arrives next, and sends what the channel has to say about it.
Io TlsSocket::step(Deadline deadline) {
  std::array<char, 16 << 10> buffer;
  size_t size = buffer.size();
  if (const Io io = socket_.receive_some(buffer.data(), &size, deadline);
      io.kind != Io::kDone)
    return io;
  const ControlChannel::State state =
      channel_->receive({buffer.data(), size}, &plain_);
  const std::string output = channel_->take_output();
  const Io io = output.empty() ? Io{} : socket_.send(output, deadline);
  if (state == ControlChannel::State::kFailed) return {Io::kBroken, EPROTO};
  if (state == ControlChannel::State::kEnded && plain_.empty())
    return {Io::kBroken, 0};
  return io;
}

Io TlsSocket::send(absl::string_view bytes, Deadline deadline) {
  if (!channel_->send(bytes)) return {Io::kBroken, EPROTO};
  return socket_.send(channel_->take_output(), deadline);
}

Io TlsSocket::receive(char* bytes, size_t size, Deadline deadline) {
  while (plain_.size() < size)
    if (const Io io = step(deadline); io.kind != Io::kDone) return io;
  std::memcpy(bytes, plain_.data(), size);
  plain_.erase(0, size);
  return {};
}

}  // namespace distwrap::store
