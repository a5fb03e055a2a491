#include "store/relay.h"

#include "base/child_closes.h"
#include "base/error.h"
#include "store/socket.h"
#include "store/tls_stream.h"
#include "store/unix_stream.h"

#include <absl/strings/str_cat.h>
#include <uv.h>

#include <functional>
#include <set>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace distwrap::store {
namespace {

constexpr int kBacklog = 1024;

// One connection of this host and the one that carries it on. They end
// together.
class Pair {
 public:
  Pair(uv_loop_t* loop, const TlsPsk* psk, std::vector<char>* arrivals,
       std::function<void(Pair*)> on_closed)
      : near_(this), far_(this), on_closed_(std::move(on_closed)) {
    near_.stream = std::make_unique<UnixStream>(loop, arrivals, &near_);
    far_.stream = std::make_unique<TlsStream>(loop, psk, arrivals, &far_);
    near_.other = &far_;
    far_.other = &near_;
  }

  void accept(uv_stream_t* listener, const NetworkAddress& root) {
    near_.stream->accept(listener);
    if (!closing_) static_cast<TlsStream&>(*far_.stream).dial(root);
  }

  void close() {
    if (std::exchange(closing_, true)) return;
    near_.stream->close();
    far_.stream->close();
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
    void on_bytes(absl::string_view bytes) override { other->pass(bytes); }
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

  void on_end_closed() {
    if (--open_ > 0) return;
    on_closed_(this);
    delete this;
  }

  End near_, far_;
  const std::function<void(Pair*)> on_closed_;
  int open_ = 2;
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
    const std::vector<Pair*> open(pairs_.begin(), pairs_.end());
    for (Pair* const one : open) one->close();
    if (const int fd = descriptor_of(*stream()); fd >= 0)
      base::ChildCloses::remove(fd);
    uv_close(reinterpret_cast<uv_handle_t*>(&listener_),
             [](uv_handle_t* handle) {
               auto* const impl = static_cast<Impl*>(handle->data);
               impl->listens_ = false;
               impl->free_when_closed();
             });
  }

 private:
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&listener_); }

  void accept() {
    auto* const one = new Pair(loop_, &psk_, &arrivals_, [this](Pair* closed) {
      pairs_.erase(closed);
      free_when_closed();
    });
    pairs_.insert(one);
    one->accept(stream(), root_);
  }

  void free_when_closed() {
    if (abandoned_ && !listens_ && pairs_.empty()) delete this;
  }

  uv_loop_t* const loop_;
  const NetworkAddress root_;
  const TlsPsk psk_;
  uv_pipe_t listener_ = {};
  std::vector<char> arrivals_ = std::vector<char>(64 << 10);
  std::set<Pair*> pairs_;
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
