#include "store/carrier.h"

#include <algorithm>
#include <new>
#include <utility>

namespace distwrap::store {
namespace {

// The stream of a client that is no agent.
constexpr uint32_t kOnly = 0;

}  // namespace

class Carrier::Stream final : public LoopStream {
 public:
  Stream(Carrier* carrier, uint32_t number, Owner* user)
      : carrier_(*carrier), number_(number), user_(*user) {}

  Owner& user() { return user_; }
  // Whether what the carrier holds is for this stream, too.
  bool is_held_for = false;
  bool send(std::string bytes) override {
    return carrier_.send(number_, std::move(bytes));
  }
  // An agent reads all streams alike, so nothing is known of one of them.
  size_t unsent() const override {
    return carrier_.carries_many_ ? 0 : carrier_.tls_.unsent();
  }
  bool shares_bytes() const override { return carrier_.carries_many_; }
  void close() override {
    if (carrier_.streams_.erase(number_) != 0) carrier_.end(number_);
    user_.on_closed();
  }

 private:
  Carrier& carrier_;
  const uint32_t number_;
  Owner& user_;
};

Carrier::Carrier(uv_loop_t* loop, const TlsPsk* psk,
                 std::vector<char>* arrivals, Events events,
                 absl::Duration handshake)
    : tls_(loop, psk, arrivals, this, handshake), events_(std::move(events)) {
  uv_prepare_init(loop, &before_sleep_);
  before_sleep_.data = this;
}

std::unique_ptr<LoopStream> Carrier::take(uint32_t number,
                                          LoopStream::Owner* user) {
  auto stream = std::make_unique<Stream>(this, number, user);
  streams_[number] = stream.get();
  return stream;
}

std::unique_ptr<LoopStream> Carrier::open(LoopStream::Owner* user) {
  std::unique_ptr<LoopStream> stream = take(++last_number_, user);
  carries_many_ = true;
  if (trusted_) {
    tls_.send(carried(Carried::kOpen, last_number_));
    user->on_trusted();
  }
  return stream;
}

void Carrier::close() {
  if (std::exchange(closing_, true)) return;
  send_held();
  while (!streams_.empty()) {
    Stream* const stream = streams_.begin()->second;
    streams_.erase(streams_.begin());
    if (carries_many_)
      stream->user().on_cut();
    else
      stream->user().on_end();
  }
  tls_.close();
  uv_close(reinterpret_cast<uv_handle_t*>(&before_sleep_),
           [](uv_handle_t* handle) {
             static_cast<Carrier*>(handle->data)->on_handle_closed();
           });
}

void Carrier::on_handle_closed() {
  if (--open_handles_ > 0) return;
  events_.on_closed(this);
  delete this;
}

void Carrier::on_trusted() {
  trusted_ = true;
  events_.on_trusted(this);
  if (tls_.is_server()) {
    carries_many_ = tls_.peer_is_agent();
    if (!carries_many_) events_.on_offer(this, kOnly);
    return;
  }
  for (const auto& [number, stream] : streams_)
    tls_.send(carried(Carried::kOpen, number));
  // A user may end its stream, or others.
  for (uint32_t number = 1; number <= last_number_; ++number)
    if (const auto one = streams_.find(number); one != streams_.end())
      one->second->user().on_trusted();
}

void Carrier::on_bytes(absl::string_view bytes) {
  if (!carries_many_) return on_carried(Carried::kBytes, kOnly, bytes);
  if (!reader_.pass(bytes, [this](Carried what, uint32_t number,
                                  absl::string_view piece) {
        on_carried(what, number, piece);
      }))
    close();
}

void Carrier::on_carried(Carried what, uint32_t number,
                         absl::string_view bytes) {
  if (closing_) return;
  const auto found = streams_.find(number);
  Stream* const stream = found == streams_.end() ? nullptr : found->second;
  switch (what) {
    case Carried::kOpen:
      if (stream != nullptr || !tls_.is_server()) return close();
      return events_.on_offer(this, number);
    case Carried::kBytes:
      if (stream != nullptr) stream->user().on_bytes(bytes);
      return;
    case Carried::kCopies:  // the reader gives these as kBytes
      return;
    case Carried::kEnd:
      if (stream == nullptr) return;
      streams_.erase(found);
      stream->user().on_end();
  }
}

bool Carrier::send(uint32_t number, std::string bytes) {
  const auto found = streams_.find(number);
  if (found == streams_.end()) return false;
  if (!carries_many_) return tls_.send(std::move(bytes));
  if (!tls_.is_server())
    return tls_.send(carried(Carried::kBytes, number, bytes));
  Stream& stream = *found->second;
  const bool is_copy = !held_for_.empty() && !stream.is_held_for &&
                       held_for_.size() < kMostCopies && bytes == held_;
  if (!is_copy) {
    if (!send_held() || closing_) return false;
    held_ = std::move(bytes);
    uv_prepare_start(&before_sleep_, [](uv_prepare_t* handle) {
      auto* const self = static_cast<Carrier*>(handle->data);
      if (!self->send_held()) self->close();
    });
  }
  held_for_.push_back(number);
  stream.is_held_for = true;
  return true;
}

bool Carrier::send_held() {
  uv_prepare_stop(&before_sleep_);
  if (held_for_.empty()) return true;
  for (const uint32_t number : held_for_)
    if (const auto found = streams_.find(number); found != streams_.end())
      found->second->is_held_for = false;
  std::vector<uint32_t> streams = std::exchange(held_for_, {});
  std::sort(streams.begin(), streams.end());
  const std::string bytes = std::exchange(held_, {});
  try {
    return tls_.send(streams.size() == 1
                         ? carried(Carried::kBytes, streams.front(), bytes)
                         : carried_to(streams, bytes));
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// The stream's user has ended it, or there is none.
void Carrier::end(uint32_t number) {
  if (closing_) return;
  if (!carries_many_) return close();
  // Before the handshake the peer has not heard of it.
  if (trusted_ && (!send_held() || !tls_.send(carried(Carried::kEnd, number))))
    close();
}

}  // namespace distwrap::store
