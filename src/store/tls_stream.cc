#include "store/tls_stream.h"

#include "base/child_closes.h"

#include <absl/strings/match.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>

namespace distwrap::store {
namespace {

constexpr size_t kRecordHead = 5;
constexpr char kHandshakeRecord = 22;

// After this time without an acknowledgement the system ends a connection.
constexpr int kUserTimeoutMs = 10'000;
constexpr int kIdleSeconds = 2, kProbeSeconds = 2, kProbes = 4;

}  // namespace

void watch_peer(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof(int));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeSeconds, sizeof(int));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(int));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof(int));
}

TlsStream::TlsStream(uv_loop_t* loop, const TlsPsk* psk,
                     std::vector<char>* arrivals, Owner* owner,
                     absl::Duration handshake)
    : psk_(*psk), arrivals_(*arrivals), owner_(*owner), handshake_(handshake) {
  uv_tcp_init(loop, &tcp_);
  uv_timer_init(loop, &timer_);
  tcp_.data = timer_.data = connect_.data = this;
}

void TlsStream::accept(uv_stream_t* listener) {
  if (uv_accept(listener, stream()) != 0) return owner_.on_end();
  start();
}

void TlsStream::dial(const NetworkAddress& address) {
  is_server_ = false;
  const auto connected = [](uv_connect_t* request, int status) {
    TlsStream* const self = of(request);
    if (self->closing_) return;
    if (status != 0) return self->owner_.on_end();
    self->or_end([self] {
      auto channel = ControlChannel::make(Greeting::kAgent, self->psk_);
      if (!channel.ok()) return self->owner_.on_end();
      self->channel_ = *std::move(channel);
      self->start();
      if (!self->closing_ && !self->flush()) self->owner_.on_end();
    });
  };
  if (uv_tcp_connect(&connect_, &tcp_, address.get(), connected) != 0)
    owner_.on_end();
}

void TlsStream::start() {
  const int fd = descriptor_of(*stream());
  base::ChildCloses::add(fd);
  watch_peer(fd);
  uv_timer_start(
      &timer_, [](uv_timer_t* timer) { of(timer)->owner_.on_end(); },
      static_cast<uint64_t>(absl::ToInt64Milliseconds(handshake_)), 0);
  const auto give_buffer = [](uv_handle_t* to, size_t, uv_buf_t* buffer) {
    std::vector<char>& arrivals = of(to)->arrivals_;
    *buffer =
        uv_buf_init(arrivals.data(), static_cast<unsigned>(arrivals.size()));
  };
  const auto take_bytes = [](uv_stream_t* from, ssize_t n,
                             const uv_buf_t* buffer) {
    if (n < 0) return of(from)->owner_.on_end();
    of(from)->or_end([&] {
      of(from)->on_arrival(
          absl::string_view(buffer->base, static_cast<size_t>(n)));
    });
  };
  if (uv_read_start(stream(), give_buffer, take_bytes) != 0) owner_.on_end();
}

// Collects the client's first record. False: it breaks a rule.
bool TlsStream::collect(absl::string_view bytes) {
  hello_.append(bytes.data(), bytes.size());
  if (hello_[0] != kHandshakeRecord) return false;
  if (hello_.size() < kRecordHead) return true;
  const auto byte = [this](size_t at) {
    return static_cast<size_t>(static_cast<unsigned char>(hello_[at]));
  };
  const size_t size = byte(3) << 8 | byte(4);
  if (size > kMostHello) return false;
  if (hello_.size() < kRecordHead + size) return true;
  if (!absl::StrContains(absl::string_view(hello_).substr(kRecordHead, size),
                         psk_.identity))
    return false;
  auto channel = ControlChannel::make(Greeting::kServer, psk_);
  if (!channel.ok()) return false;
  channel_ = *std::move(channel);
  return true;
}

void TlsStream::on_arrival(absl::string_view bytes) {
  if (bytes.empty()) return;
  if (!trusted_) {
    before_trust_ += bytes.size();
    if (is_server_ && before_trust_ > kMostBytes) return owner_.on_end();
  }
  std::string first;
  if (channel_ == nullptr) {
    if (!collect(bytes)) return owner_.on_end();
    if (channel_ == nullptr) return;
    first = std::exchange(hello_, std::string());
    bytes = first;
  }
  std::string plain;
  const ControlChannel::State state = channel_->receive(bytes, &plain);
  // A failed side still says why.
  const bool sent = flush();
  if (!trusted_ && state == ControlChannel::State::kOpen) {
    trusted_ = true;
    uv_timer_stop(&timer_);
    owner_.on_trusted();
  }
  if (!plain.empty() && trusted_ && !closing_) owner_.on_bytes(plain);
  const bool goes_on = state == ControlChannel::State::kOpen ||
                       state == ControlChannel::State::kHandshake;
  if (!closing_ && (!sent || !goes_on)) owner_.on_end();
}

bool TlsStream::flush() {
  std::string bytes = channel_->take_output();
  return bytes.empty() ||
         write_to(stream(), std::move(bytes),
                  [](uv_stream_t* to) { of(to)->owner_.on_end(); });
}

bool TlsStream::send(std::string bytes) {
  return channel_ != nullptr && channel_->send(bytes) && flush();
}

size_t TlsStream::unsent() const {
  return uv_stream_get_write_queue_size(
      reinterpret_cast<const uv_stream_t*>(&tcp_));
}

void TlsStream::close() {
  closing_ = true;
  if (const int fd = descriptor_of(*stream()); fd >= 0)
    base::ChildCloses::remove(fd);
  const auto closed = [](uv_handle_t* handle) {
    of(handle)->on_handle_closed();
  };
  uv_close(reinterpret_cast<uv_handle_t*>(&tcp_), closed);
  uv_close(reinterpret_cast<uv_handle_t*>(&timer_), closed);
}

void TlsStream::on_handle_closed() {
  if (--open_handles_ == 0) owner_.on_closed();
}

}  // namespace distwrap::store
