// One client of the server: reads its frames, parks its wait, writes replies.
//
// A client that an agent carries may come back over another connection when the
// agent ends. A connection whose client has named its conversation waits for
// that without a stream, and hands what it knows to the new connection.
//
// Threads: the loop's thread. Ownership: a connection deletes itself after
// `close`, when the loop has closed its handles, and then calls `on_closed`.
#ifndef DISTWRAP_SRC_STORE_CONNECTION_H_
#define DISTWRAP_SRC_STORE_CONNECTION_H_

#include "store/loop_stream.h"
#include "store/series_waits.h"
#include "store/table.h"
#include "store/wire.h"

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>

namespace distwrap::store {

class Connection final : private LoopStream::Owner,
                         private SeriesWaits::Client {
 public:
  // The connections whose clients have named their conversations.
  using Conversations = std::map<std::string, Connection*>;

  // The objects behind the pointers outlive the connection.
  Connection(uv_loop_t* loop, Table* table, SeriesWaits* series,
             Conversations* conversations,
             std::function<void(Connection*)> on_closed);

  // The stream's owner is this object, so the stream is made after it.
  LoopStream::Owner* as_owner() { return this; }
  // The client's stream, before any of its bytes.
  void take(std::unique_ptr<LoopStream> stream);
  void close();

 private:
  ~Connection() = default;

  // LoopStream::Owner
  void on_bytes(absl::string_view bytes) override;
  void on_end() override { close(); }
  void on_cut() override;
  void on_closed() override { on_handle_closed(); }

  // SeriesWaits::Client
  size_t on_series(const std::string& answer) override;
  size_t unsent() const override { return stream_->unsent(); }
  void on_no_memory() override { close(); }

  bool next_frame();
  void serve(Request request);
  void start_wait(Request request);
  void finish_wait();
  void on_timeout();
  void reply(const Reply& reply);
  void send(std::string frame);
  void resume(const Request& request);
  void take_will(Request request);
  void watch_silence(uint64_t look_ms);
  void beat();
  void on_silence();
  void on_handle_closed();
  // Runs a callback of the loop, through which nothing may be thrown. Without
  // memory for an answer the connection closes, so the client does not wait.
  template <class Callback>
  void or_close(const Callback& callback) {
    try {
      callback();
    } catch (const std::bad_alloc&) {
      close();
    }
  }

  template <class Handle>
  static Connection* of(Handle* handle) {
    return static_cast<Connection*>(handle->data);
  }

  Table& table_;
  SeriesWaits& series_;
  Conversations& conversations_;
  const std::function<void(Connection*)> on_closed_;
  std::unique_ptr<LoopStream> stream_;
  bool is_cut_ = false;  // the stream has ended, and the client may come back
  // The conversation's name, if it has one, and the number of its last request.
  std::string name_;
  int64_t number_ = 0;
  // The last change that the client has asked for, and the reply.
  int64_t changed_by_ = 0;
  std::string reply_to_change_;
  // A silent client is looked at so often within its limit.
  static constexpr int kLooks = 4;
  int silent_looks_ = 0;  // since its last request
  uv_timer_t timer_ = {}, silence_ = {};
  int open_handles_ = 2;  // the timers, and the stream once there is one
  bool closing_ = false;
  std::string input_;  // the incomplete rest of the input
  Wait wait_;
  bool wait_wants_values_ = false;
  bool waits_for_series_ = false;
  // Appended to the log `will_log_` when the client has gone or is silent.
  std::string will_log_, will_;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_CONNECTION_H_
