#include "output.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace distwrap::cli {

std::string LinePrefixer::add(absl::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t room = kLongestLine - partial_.size();
    const size_t newline = bytes.substr(0, room).find('\n');
    const bool whole = newline != absl::string_view::npos;
    const size_t taken = whole ? newline : std::min(room, bytes.size());
    partial_.append(bytes.data(), taken);
    bytes.remove_prefix(whole ? taken + 1 : taken);
    if (!whole && partial_.size() < kLongestLine) break;
    absl::StrAppend(&out, prefix_, partial_, "\n");
    partial_.clear();
  }
  return out;
}

std::string LinePrefixer::finish() {
  if (partial_.empty()) return {};
  std::string out = absl::StrCat(prefix_, partial_, "\n");
  partial_.clear();
  return out;
}

Sink::Sink(uv_loop_t* loop, int fd) : fd_(fd) {
  // libuv makes the descriptor non-blocking for every process that shares it.
  const int flags = fcntl(fd, F_GETFL);
  has_poll_ = uv_poll_init(loop, &poll_, fd) == 0;
  if (has_poll_ && flags != -1) fcntl(fd, F_SETFL, flags);
  poll_.data = this;
}

// Whether a write of PIPE_BUF bytes will not block.
bool Sink::is_ready() const {
  if (!has_poll_) return true;
  pollfd entry = {.fd = fd_, .events = POLLOUT, .revents = 0};
  return poll(&entry, 1, 0) > 0;
}

void Sink::write(absl::string_view bytes) {
  if (broken_ || closed_) return;
  pending_.append(bytes.data(), bytes.size());
  flush();
}

void Sink::flush() {
  size_t done = 0;
  while (done < pending_.size() && !broken_ && is_ready()) {
    const size_t left = pending_.size() - done;
    const size_t size = has_poll_ ? std::min<size_t>(left, PIPE_BUF) : left;
    const ssize_t n = ::write(fd_, pending_.data() + done, size);
    if (n >= 0) {
      done += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      broken_ = true;
      done = pending_.size();
    }
  }
  pending_.erase(0, done);
  if (!pending_.empty() && has_poll_) {
    uv_poll_start(&poll_, UV_WRITABLE, [](uv_poll_t* handle, int, int) {
      static_cast<Sink*>(handle->data)->flush();
    });
    return;
  }
  if (has_poll_) uv_poll_stop(&poll_);
  if (on_idle) on_idle();
}

void Sink::close() {
  if (closed_) return;
  closed_ = true;
  pending_.clear();
  if (has_poll_) uv_close(reinterpret_cast<uv_handle_t*>(&poll_), nullptr);
}

void Source::open(uv_loop_t* loop, int fd) {
  uv_pipe_init(loop, &pipe_, 0);
  pipe_.data = this;
  open_ = true;
  paused_ = true;
  if (uv_pipe_open(&pipe_, fd) != 0) {
    ::close(fd);
    return close();
  }
  resume();
}

void Source::resume() {
  if (!open_) return;
  if (sink_->is_broken()) return close();
  if (!paused_ || sink_->is_full()) return;
  paused_ = false;
  uv_read_start(
      reinterpret_cast<uv_stream_t*>(&pipe_),
      [](uv_handle_t*, size_t, uv_buf_t* buffer) {
        thread_local char bytes[64 << 10];
        *buffer = uv_buf_init(bytes, sizeof bytes);
      },
      [](uv_stream_t* stream, ssize_t n, const uv_buf_t* buffer) {
        auto* const source = static_cast<Source*>(stream->data);
        if (n < 0) return source->close();
        source->on_bytes(
            absl::string_view(buffer->base, static_cast<size_t>(n)));
      });
}

void Source::on_bytes(absl::string_view bytes) {
  sink_->write(lines_.add(bytes));
  // The rank gets SIGPIPE, as any program whose reader has gone.
  if (sink_->is_broken()) return close();
  if (!sink_->is_full()) return;
  paused_ = true;
  uv_read_stop(reinterpret_cast<uv_stream_t*>(&pipe_));
}

void Source::close() {
  if (!open_) return;
  open_ = false;
  sink_->write(lines_.finish());
  uv_close(reinterpret_cast<uv_handle_t*>(&pipe_), nullptr);
}

}  // namespace distwrap::cli
