#include "store/unix_stream.h"

#include "base/child_closes.h"
#include "base/log.h"

#include <absl/strings/str_cat.h>

#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace distwrap::store {

UnixStream::UnixStream(uv_loop_t* loop, std::vector<char>* arrivals,
                       Owner* owner)
    : arrivals_(*arrivals), owner_(*owner) {
  uv_pipe_init(loop, &pipe_, 0);
  pipe_.data = this;
}

bool UnixStream::is_same_user() {
  ucred peer = {};
  socklen_t size = sizeof peer;
  const int fd = descriptor_of(*stream());
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  peer_ = peer.pid;
  if (peer.uid == geteuid()) return true;
  base::log(base::LogLevel::kWarning,
            absl::StrCat("store: refused process ", peer.pid, " of user id ",
                         peer.uid));
  return false;
}

void UnixStream::accept(uv_stream_t* listener) {
  if (uv_accept(listener, stream()) != 0 || !is_same_user())
    return owner_.on_end();
  base::ChildCloses::add(descriptor_of(*stream()));
  owner_.on_trusted();
  const auto give_buffer = [](uv_handle_t* to, size_t, uv_buf_t* buffer) {
    std::vector<char>& arrivals = of(to)->arrivals_;
    *buffer =
        uv_buf_init(arrivals.data(), static_cast<unsigned>(arrivals.size()));
  };
  const auto take_bytes = [](uv_stream_t* from, ssize_t n,
                             const uv_buf_t* buffer) {
    if (n < 0) return of(from)->owner_.on_end();
    of(from)->owner_.on_bytes(
        absl::string_view(buffer->base, static_cast<size_t>(n)));
  };
  if (uv_read_start(stream(), give_buffer, take_bytes) != 0) owner_.on_end();
}

bool UnixStream::send(std::string bytes) {
  return write_to(stream(), std::move(bytes),
                  [](uv_stream_t* to) { of(to)->owner_.on_end(); });
}

size_t UnixStream::unsent() const {
  return uv_stream_get_write_queue_size(
      reinterpret_cast<const uv_stream_t*>(&pipe_));
}

void UnixStream::close() {
  base::ChildCloses::remove(descriptor_of(*stream()));
  uv_close(reinterpret_cast<uv_handle_t*>(&pipe_),
           [](uv_handle_t* handle) { of(handle)->owner_.on_closed(); });
}

}  // namespace distwrap::store
