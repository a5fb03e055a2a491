#include "store/connection.h"

#include "base/child_closes.h"
#include "base/log.h"
#include "distwrap/store.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <memory>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace distwrap::store {
namespace {

// A reply that libuv is writing; libuv borrows the bytes until then.
struct Write {
  uv_write_t request = {};
  std::string bytes;
};

uint64_t timer_ms(int64_t ns) {
  return static_cast<uint64_t>(ns / 1'000'000 + (ns % 1'000'000 != 0 ? 1 : 0));
}

}  // namespace

Connection::Connection(uv_loop_t* loop, Table* table,
                       std::vector<char>* arrivals,
                       std::function<void(Connection*)> on_closed)
    : table_(*table), arrivals_(*arrivals), on_closed_(std::move(on_closed)) {
  uv_pipe_init(loop, &pipe_, 0);
  uv_timer_init(loop, &timer_);
  pipe_.data = timer_.data = this;
  wait_.ready = [this] { or_close([&] { finish_wait(); }); };
}

int descriptor_of(const uv_pipe_t& pipe) {
  uv_os_fd_t descriptor = -1;
  const auto* const handle = reinterpret_cast<const uv_handle_t*>(&pipe);
  return uv_fileno(handle, &descriptor) == 0 ? descriptor : -1;
}

bool Connection::is_same_user() const {
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (getsockopt(descriptor_of(pipe_), SOL_SOCKET, SO_PEERCRED, &peer, &size) !=
      0)
    return false;
  if (peer.uid == geteuid()) return true;
  base::log(base::LogLevel::kWarning,
            absl::StrCat("store: refused process ", peer.pid, " of user id ",
                         peer.uid));
  return false;
}

void Connection::accept(uv_stream_t* listener) {
  auto* const stream = reinterpret_cast<uv_stream_t*>(&pipe_);
  if (uv_accept(listener, stream) != 0 || !is_same_user()) return close();
  base::ChildCloses::add(descriptor_of(pipe_));
  const auto give_buffer = [](uv_handle_t* to, size_t, uv_buf_t* buffer) {
    std::vector<char>& arrivals = of(to)->arrivals_;
    *buffer =
        uv_buf_init(arrivals.data(), static_cast<unsigned>(arrivals.size()));
  };
  const auto take_bytes = [](uv_stream_t* from, ssize_t n,
                             const uv_buf_t* buffer) {
    if (n < 0) return of(from)->close();
    of(from)->or_close([&] {
      of(from)->on_bytes(
          absl::string_view(buffer->base, static_cast<size_t>(n)));
    });
  };
  if (uv_read_start(stream, give_buffer, take_bytes) != 0) close();
}

void Connection::close() {
  if (closing_) return;
  closing_ = true;
  table_.cancel(&wait_);
  base::ChildCloses::remove(descriptor_of(pipe_));
  const auto closed = [](uv_handle_t* handle) {
    of(handle)->on_handle_closed();
  };
  uv_close(reinterpret_cast<uv_handle_t*>(&pipe_), closed);
  uv_close(reinterpret_cast<uv_handle_t*>(&timer_), closed);
}

void Connection::on_handle_closed() {
  if (--open_handles_ > 0) return;
  on_closed_(this);
  delete this;
}

void Connection::on_bytes(absl::string_view bytes) {
  input_.append(bytes.data(), bytes.size());
  while (!closing_ && next_frame()) {
  }
  if (input_.empty() && input_.capacity() > (64 << 10)) input_.shrink_to_fit();
}

// Serves the first frame of the input; false when it is not complete yet.
bool Connection::next_frame() {
  if (input_.empty()) return false;
  const auto* stream = reinterpret_cast<const uv_stream_t*>(&pipe_);
  // One request at a time, so that neither input nor output can pile up.
  if (wait_.parked || uv_stream_get_write_queue_size(stream) != 0) {
    close();
    return false;
  }
  if (input_.size() < kHeaderBytes) return false;
  const std::optional<size_t> size =
      decode_header(absl::string_view(input_).substr(0, kHeaderBytes));
  if (size.has_value() && input_.size() < kHeaderBytes + *size) {
    input_.reserve(kHeaderBytes + *size);
    return false;
  }
  std::optional<Request> request;
  if (size.has_value())
    request =
        decode_request(absl::string_view(input_).substr(kHeaderBytes, *size));
  if (!request.has_value()) {
    close();
    return false;
  }
  input_.erase(0, kHeaderBytes + *size);
  serve(*std::move(request));
  return true;
}

void Connection::serve(Request request) {
  const std::string key =
      request.keys.empty() ? std::string() : request.keys[0];
  switch (request.op) {
    case Op::kSet:
      table_.set(key, std::move(request.value));
      return reply({});
    case Op::kWait:
    case Op::kGetAll:
      return start_wait(std::move(request));
    case Op::kAdd: {
      const absl::StatusOr<int64_t> sum = table_.add(key, request.number);
      if (sum.ok()) return reply({.number = *sum});
      return reply({.answer = Answer::kRefused,
                    .texts = {std::string(sum.status().message())}});
    }
    case Op::kCompareSet:
      return reply({.texts = {table_.compare_set(key, request.expected,
                                                 std::move(request.value))}});
    case Op::kDelete:
      return reply({.number = table_.erase(key) ? 1 : 0});
  }
}

void Connection::start_wait(Request request) {
  wait_.keys = std::move(request.keys);
  wait_wants_values_ = request.op == Op::kGetAll;
  if (table_.start(&wait_)) return finish_wait();
  if (request.timeout_ns < 0) return;
  // uv_now() is the time of the loop's last wake-up, so it is updated first.
  uv_update_time(timer_.loop);
  uv_timer_start(
      &timer_,
      [](uv_timer_t* timer) {
        of(timer)->or_close([&] { of(timer)->on_timeout(); });
      },
      timer_ms(request.timeout_ns), 0);
}

// Replies to a wait all of whose keys exist.
void Connection::finish_wait() {
  uv_timer_stop(&timer_);
  Reply answer;
  size_t total = 0;
  for (const std::string& key : wait_.keys) {
    if (!wait_wants_values_) break;
    const std::string& value = *table_.find(key);
    total += value.size() + sizeof(uint32_t);
    if (total > Store::kMaxValueBytes + sizeof(uint32_t)) {
      answer = {.answer = Answer::kTooLong};
      break;
    }
    answer.texts.push_back(value);
  }
  reply(answer);
}

void Connection::on_timeout() {
  table_.cancel(&wait_);
  Reply answer{.answer = Answer::kTimedOut};
  for (size_t i = 0; i < wait_.keys.size(); ++i)
    if (table_.find(wait_.keys[i]) == nullptr)
      answer.indices.push_back(static_cast<uint32_t>(i));
  reply(answer);
}

void Connection::reply(const Reply& answer) {
  if (closing_) return;
  auto write = std::make_unique<Write>();
  write->bytes = encode(answer);
  write->request.data = write.get();
  uv_buf_t buffer = uv_buf_init(write->bytes.data(),
                                static_cast<unsigned>(write->bytes.size()));
  const auto written = [](uv_write_t* request, int status) {
    const std::unique_ptr<Write> done(static_cast<Write*>(request->data));
    if (status < 0 && status != UV_ECANCELED) of(request->handle)->close();
  };
  if (uv_write(&write->request, reinterpret_cast<uv_stream_t*>(&pipe_), &buffer,
               1, written) != 0)
    return close();
  (void)write.release();  // `written` frees it
}

}  // namespace distwrap::store
