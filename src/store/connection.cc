#include "store/connection.h"

#include "distwrap/store.h"

#include <absl/strings/match.h>

#include <optional>
#include <utility>
#include <vector>

namespace distwrap::store {
namespace {

// Whether a second execution of a request would not be the same as one.
bool is_change(Op op) { return op != Op::kWait && op != Op::kGetAll; }

uint64_t timer_ms(int64_t ns) {
  return static_cast<uint64_t>(ns / 1'000'000 + (ns % 1'000'000 != 0 ? 1 : 0));
}

}  // namespace

Connection::Connection(uv_loop_t* loop, Table* table, SeriesWaits* series,
                       Conversations* conversations,
                       std::function<void(Connection*)> on_closed)
    : table_(*table),
      series_(*series),
      conversations_(*conversations),
      on_closed_(std::move(on_closed)) {
  uv_timer_init(loop, &timer_);
  uv_timer_init(loop, &silence_);
  timer_.data = silence_.data = this;
  wait_.ready = [this] { or_close([&] { finish_wait(); }); };
}

void Connection::take(std::unique_ptr<LoopStream> stream) {
  stream_ = std::move(stream);
  ++open_handles_;
}

void Connection::close() {
  if (closing_) return;
  closing_ = true;
  table_.cancel(&wait_);
  series_.cancel(this);
  if (!name_.empty()) conversations_.erase(name_);
  if (stream_ != nullptr && !is_cut_) stream_->close();
  for (uv_timer_t* const timer : {&timer_, &silence_})
    uv_close(reinterpret_cast<uv_handle_t*>(timer),
             [](uv_handle_t* handle) { of(handle)->on_handle_closed(); });
}

// The client asks again for what it waits for when it comes back.
void Connection::on_cut() {
  if (closing_ || name_.empty()) return close();
  is_cut_ = true;
  table_.cancel(&wait_);
  series_.cancel(this);
  waits_for_series_ = false;
  input_.clear();
  stream_->close();
  uv_update_time(timer_.loop);
  uv_timer_start(
      &timer_, [](uv_timer_t* timer) { of(timer)->close(); },
      static_cast<uint64_t>(absl::ToInt64Milliseconds(kKeepConversation)), 0);
}

// The client goes on with a conversation, or begins one.
void Connection::resume(const Request& request) {
  const auto known = conversations_.find(request.keys.front());
  if (known == conversations_.end() ? request.number != 1
                                    : known->second == this)
    return close();
  number_ = request.number - 1;
  if (known != conversations_.end()) {
    Connection& before = *known->second;
    will_log_ = std::exchange(before.will_log_, {});
    will_ = std::exchange(before.will_, {});
    changed_by_ = before.changed_by_;
    reply_to_change_ = std::move(before.reply_to_change_);
    if (const uint64_t look = uv_timer_get_repeat(&before.silence_); look > 0)
      watch_silence(look);
    before.close();
  }
  if (!request.value.empty() &&
      conversations_.emplace(request.value, this).second)
    name_ = request.value;
}

void Connection::on_handle_closed() {
  if (--open_handles_ > 0) return;
  // Not in `close`, which may run while the table wakes waits.
  if (!will_log_.empty()) {
    try {
      table_.append(will_log_, std::move(will_));
    } catch (const std::bad_alloc&) {
    }
  }
  on_closed_(this);
  delete this;
}

void Connection::on_bytes(absl::string_view bytes) {
  or_close([&] {
    input_.append(bytes.data(), bytes.size());
    while (!closing_ && next_frame()) {
    }
    if (input_.empty() && input_.capacity() > (64 << 10))
      input_.shrink_to_fit();
  });
}

// Serves the first frame of the input; false when it is not complete yet.
bool Connection::next_frame() {
  if (input_.empty()) return false;
  if (absl::StartsWith(input_, kBeat)) {
    input_.erase(0, kBeat.size());
    beat();
    return true;
  }
  // One request at a time, so that neither input nor output can pile up.
  if (wait_.parked || waits_for_series_ || stream_->unsent() != 0) {
    if (!absl::StartsWith(kBeat, input_)) close();
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
  beat();
  serve(*std::move(request));
  return true;
}

void Connection::serve(Request request) {
  if (request.op == Op::kResume) return resume(request);
  ++number_;
  if (is_change(request.op)) {
    if (number_ == changed_by_) return send(reply_to_change_);
    changed_by_ = number_;
  }
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
    case Op::kAppend:
      return reply({.number = table_.append(key, std::move(request.value))});
    case Op::kWill:
      take_will(std::move(request));
      return reply({});
    case Op::kResume:
      return;
  }
}

void Connection::take_will(Request request) {
  will_log_ = std::move(request.keys.front());
  will_ = std::move(request.value);
  if (request.timeout_ns <= 0) return;
  watch_silence(timer_ms(request.timeout_ns / kLooks));
}

void Connection::watch_silence(uint64_t look_ms) {
  uv_update_time(silence_.loop);
  uv_timer_start(
      &silence_, [](uv_timer_t* timer) { of(timer)->on_silence(); }, look_ms,
      look_ms);
}

// A client that a debugger holds may be silent, and has three looks at least
// when the debugger leaves.
void Connection::on_silence() {
  or_close([&] {
    if (stream_->peer_is_traced())
      silent_looks_ = 0;
    else if (++silent_looks_ >= kLooks)
      close();
  });
}

// The client has sent a request, so its silence begins anew.
void Connection::beat() {
  if (will_log_.empty() || closing_) return;
  silent_looks_ = 0;
  uv_update_time(silence_.loop);
  uv_timer_again(&silence_);
}

void Connection::start_wait(Request request) {
  if (request.number != 0) {
    waits_for_series_ = true;
    series_.start(request, this);
    if (!waits_for_series_) return;
  } else {
    wait_.keys = std::move(request.keys);
    wait_wants_values_ = request.op == Op::kGetAll;
    if (table_.start(&wait_)) return finish_wait();
  }
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
  reply(values_of(table_, wait_.keys, wait_wants_values_));
}

size_t Connection::on_series(const std::string& answer) {
  waits_for_series_ = false;
  uv_timer_stop(&timer_);
  or_close([&] {
    if (!closing_ && !stream_->send(answer)) close();
  });
  return closing_ || stream_->shares_bytes() ? 0 : answer.size();
}

void Connection::on_timeout() {
  Reply answer{.answer = Answer::kTimedOut};
  if (waits_for_series_) {
    std::optional<std::vector<uint32_t>> missing = series_.give_up(this);
    if (!missing.has_value()) return;
    waits_for_series_ = false;
    answer.indices = *std::move(missing);
    return reply(answer);
  }
  table_.cancel(&wait_);
  for (size_t i = 0; i < wait_.keys.size(); ++i)
    if (table_.find(wait_.keys[i]) == nullptr)
      answer.indices.push_back(static_cast<uint32_t>(i));
  reply(answer);
}

void Connection::reply(const Reply& answer) {
  std::string frame = encode(answer);
  if (!name_.empty() && number_ == changed_by_) reply_to_change_ = frame;
  send(std::move(frame));
}

void Connection::send(std::string frame) {
  if (!closing_ && !stream_->send(std::move(frame))) close();
}

}  // namespace distwrap::store
