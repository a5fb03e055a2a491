#include "store/relay.h"

#include "base/child_closes.h"
#include "base/error.h"
#include "store/carrier.h"
#include "store/frame_follower.h"
#include "store/socket.h"
#include "store/unix_stream.h"
#include "store/wire.h"

#include <absl/strings/str_cat.h>
#include <uv.h>

#include <algorithm>
#include <functional>
#include <new>
#include <set>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace distwrap::store {
namespace {

constexpr int kBacklog = 1024;
// Beats within the time that a client may be silent.
constexpr int kBeats = 5;

// One connection of this host and the stream that carries it on. They end
// together.
class Pair {
 public:
  Pair(uv_loop_t* loop, Carrier* carrier, std::vector<char>* arrivals,
       std::function<void(Pair*)> on_closed)
      : near_(this), far_(this), on_closed_(std::move(on_closed)) {
    near_.stream = std::make_unique<UnixStream>(loop, arrivals, &near_);
    far_.stream = carrier->open(&far_);
    near_.other = &far_;
    far_.other = &near_;
    uv_timer_init(loop, &beats_);
    beats_.data = this;
  }

  void accept(uv_stream_t* listener) {
    static_cast<UnixStream&>(*near_.stream).accept(listener);
  }

  void close() {
    if (std::exchange(closing_, true)) return;
    near_.stream->close();
    far_.stream->close();
    uv_close(reinterpret_cast<uv_handle_t*>(&beats_), [](uv_handle_t* handle) {
      static_cast<Pair*>(handle->data)->on_end_closed();
    });
  }

 private:
  struct End final : LoopStream::Owner {
    explicit End(Pair* owner) : pair(owner) {}
    void on_trusted() override {
      is_open = true;
      // Bytes that the other end has said meanwhile.
      if (!waiting.empty() && !stream->send(std::exchange(waiting, {})))
        pair->close();
    }
    void on_bytes(absl::string_view bytes) override {
      if (other == &pair->far_) pair->follow(bytes);
      other->pass(bytes);
    }
    void pass(absl::string_view bytes) {
      if (!is_open)
        waiting.append(bytes.data(), bytes.size());
      else if (!stream->send(std::string(bytes)))
        pair->close();
    }
    void on_end() override { pair->close(); }
    void on_closed() override { pair->on_end_closed(); }

    Pair* const pair;
    End* other = nullptr;
    std::unique_ptr<LoopStream> stream;
    bool is_open = false;
    std::string waiting;
  };

  // The server hears how long a client may be silent, and cannot see whether a
  // debugger holds it.
  void follow(absl::string_view bytes) {
    const bool had_will = requests_.silence_ns() > 0;
    requests_.pass(bytes);
    if (had_will || requests_.silence_ns() <= 0) return;
    const auto period = static_cast<uint64_t>(
        std::max<int64_t>(requests_.silence_ns() / kBeats / 1'000'000, 1));
    uv_timer_start(
        &beats_,
        [](uv_timer_t* timer) { static_cast<Pair*>(timer->data)->beat(); },
        period, period);
  }
  void beat() {
    if (closing_ || !far_.is_open || !requests_.is_between_frames()) return;
    try {
      if (near_.stream->peer_is_traced() &&
          !far_.stream->send(std::string(kBeat)))
        close();
    } catch (const std::bad_alloc&) {  // the next one may have memory
    }
  }

  void on_end_closed() {
    if (--open_ > 0) return;
    on_closed_(this);
    delete this;
  }

  End near_, far_;
  const std::function<void(Pair*)> on_closed_;
  FrameFollower requests_;
  uv_timer_t beats_ = {};
  int open_ = 3;  // the two ends and the timer
  bool closing_ = false;
};

}  // namespace

class Relay::Impl {
 public:
  Impl(uv_loop_t* loop, const NetworkAddress& root, TlsPsk psk)
      : loop_(loop), root_(root), psk_(std::move(psk)) {
    uv_pipe_init(loop, &listener_, 0);
    listener_.data = this;
  }

  absl::Status listen(const std::string& path) {
    int error = fits_socket_address(path)
                    ? uv_pipe_bind(&listener_, path.c_str())
                    : UV_ENAMETOOLONG;
    if (error == 0 && chmod(path.c_str(), 0600) != 0) error = -errno;
    if (error == 0)
      error = uv_listen(stream(), kBacklog, [](uv_stream_t* from, int status) {
        if (status == 0) static_cast<Impl*>(from->data)->accept();
      });
    if (error != 0)
      return base::make_error(
          {.reason = Reason::kRunDirectory,
           .what = absl::StrCat("no relay can be served at unix:", path),
           .op = "store listen",
           .cause = base::errno_text(-error),
           .next_step = "set DISTWRAP_RUN_DIR to a short path of a folder of "
                        "yours"});
    base::ChildCloses::add(descriptor_of(*stream()));
    return absl::OkStatus();
  }

  void abandon() {
    abandoned_ = true;
    // The listener ends first, so that a client whose connection has ended
    // finds nobody here.
    if (const int fd = descriptor_of(*stream()); fd >= 0)
      base::ChildCloses::remove(fd);
    uv_close(reinterpret_cast<uv_handle_t*>(&listener_),
             [](uv_handle_t* handle) {
               auto* const impl = static_cast<Impl*>(handle->data);
               impl->listens_ = false;
               impl->free_when_closed();
             });
    // Then the carrier: the streams are cut, and their users may go on.
    if (carrier_ != nullptr) carrier_->close();
    const std::vector<Pair*> open(pairs_.begin(), pairs_.end());
    for (Pair* const one : open) one->close();
  }

 private:
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&listener_); }

  // The connection to the store is made for the first client, and anew after
  // one that has ended.
  void accept() {
    const bool dials = carrier_ == nullptr || carrier_->is_closing();
    if (dials) make_carrier();
    auto* const one = new Pair(loop_, carrier_, &arrivals_, [this](Pair* gone) {
      pairs_.erase(gone);
      free_when_closed();
    });
    pairs_.insert(one);
    one->accept(stream());
    // This may fail at once, and then ends the client.
    if (dials) carrier_->dial(root_);
  }

  void make_carrier() {
    carrier_ = new Carrier(loop_, &psk_, &arrivals_,
                           {.on_closed = [this](Carrier* closed) {
                             if (carrier_ == closed) carrier_ = nullptr;
                             --carriers_;
                             free_when_closed();
                           }});
    ++carriers_;
  }

  void free_when_closed() {
    if (abandoned_ && !listens_ && pairs_.empty() && carriers_ == 0)
      delete this;
  }

  uv_loop_t* const loop_;
  const NetworkAddress root_;
  const TlsPsk psk_;
  uv_pipe_t listener_ = {};
  std::vector<char> arrivals_ = std::vector<char>(64 << 10);
  std::set<Pair*> pairs_;
  Carrier* carrier_ = nullptr;
  int carriers_ = 0;  // with those that are closing
  bool listens_ = true, abandoned_ = false;
};

absl::StatusOr<std::unique_ptr<Relay>> Relay::listen(uv_loop_s* loop,
                                                     const std::string& path,
                                                     const NetworkAddress& root,
                                                     TlsPsk psk) {
  std::unique_ptr<Relay> relay(new Relay(new Impl(loop, root, std::move(psk))));
  if (absl::Status status = relay->impl_->listen(path); !status.ok())
    return status;
  return relay;
}

Relay::~Relay() { impl_->abandon(); }

}  // namespace distwrap::store
