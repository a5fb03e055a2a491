#include "store/control_channel.h"

#include "store/wire.h"

#include <absl/strings/str_cat.h>

#include <optional>

namespace distwrap::store {

absl::StatusOr<std::unique_ptr<ControlChannel>> ControlChannel::make(
    Role role, const TlsPsk& psk) {
  absl::StatusOr<std::unique_ptr<TlsChannel>> channel =
      TlsChannel::make(role == Role::kServer ? TlsChannel::Role::kServer
                                             : TlsChannel::Role::kClient,
                       psk);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<ControlChannel>(
      new ControlChannel(role, psk.identity, *std::move(channel)));
}

ControlChannel::State ControlChannel::fail(std::string why) {
  failure_ = std::move(why);
  return state_ = State::kFailed;
}

// Reads the peer's greeting from the first bytes, once it is complete.
ControlChannel::State ControlChannel::hear() {
  if (first_.size() < kHeaderBytes) return state_;
  const std::optional<size_t> size =
      decode_header(absl::string_view(first_).substr(0, kHeaderBytes));
  if (!size.has_value() || *size > kMaxGreetingBytes)
    return fail("its greeting is too long");
  if (first_.size() < kHeaderBytes + *size) return state_;
  const std::optional<Greeting> theirs =
      decode_greeting(absl::string_view(first_).substr(kHeaderBytes, *size));
  first_.erase(0, kHeaderBytes + *size);
  if (!theirs.has_value()) return fail("its greeting cannot be read");
  if ((theirs->role == Role::kServer) == (role_ == Role::kServer))
    return fail("it has the role of this side");
  if (theirs->version != Greeting::kVersion)
    return fail(absl::StrCat("it speaks version ", theirs->version,
                             " of the protocol, this side version ",
                             Greeting::kVersion));
  if (theirs->job != job_) return fail("it belongs to another job");
  peer_ = theirs->role;
  return state_ = State::kOpen;
}

ControlChannel::State ControlChannel::receive(absl::string_view bytes,
                                              std::string* plain) {
  if (state_ == State::kFailed || state_ == State::kEnded) return state_;
  const bool was_open = state_ == State::kOpen;
  const State below = tls_->receive(bytes, was_open ? plain : &first_);
  if (below == State::kFailed || (below == State::kEnded && was_open))
    return state_ = below;
  if (below == State::kOpen && !greeted_) {
    greeted_ = true;
    tls_->send(encode(Greeting{.role = role_, .job = job_}));
  }
  if (!was_open && hear() == State::kOpen) {
    plain->append(first_);
    first_ = std::string();
  }
  if (below == State::kEnded) state_ = State::kEnded;
  return state_;
}

bool ControlChannel::send(absl::string_view plain) {
  return state_ == State::kOpen && tls_->send(plain);
}

}  // namespace distwrap::store
