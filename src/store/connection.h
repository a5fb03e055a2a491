// One client of the server: reads its frames, parks its wait, writes replies.
//
// Threads: the loop's thread. Ownership: a connection deletes itself after
// `close`, when the loop has closed its handles, and then calls `on_closed`.
#ifndef DISTWRAP_SRC_STORE_CONNECTION_H_
#define DISTWRAP_SRC_STORE_CONNECTION_H_

#include "store/table.h"
#include "store/wire.h"

#include <uv.h>

#include <functional>
#include <new>
#include <string>
#include <vector>

namespace distwrap::store {

// The file descriptor of a pipe; -1 when it has none.
int descriptor_of(const uv_pipe_t& pipe);

class Connection {
 public:
  // `arrivals` is the input buffer for one callback of the loop; all
  // connections of a loop share it.
  Connection(uv_loop_t* loop, Table* table, std::vector<char>* arrivals,
             std::function<void(Connection*)> on_closed);

  // Accepts the client that `listener` announces. The connection closes itself
  // when that fails or when the client belongs to another user.
  void accept(uv_stream_t* listener);
  void close();

 private:
  ~Connection() = default;
  bool is_same_user() const;
  void on_bytes(absl::string_view bytes);
  bool next_frame();
  void serve(Request request);
  void start_wait(Request request);
  void finish_wait();
  void on_timeout();
  void reply(const Reply& reply);
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
  std::vector<char>& arrivals_;
  std::function<void(Connection*)> on_closed_;
  uv_pipe_t pipe_ = {};
  uv_timer_t timer_ = {};
  int open_handles_ = 2;
  bool closing_ = false;
  std::string input_;  // the incomplete rest of the input
  Wait wait_;
  bool wait_wants_values_ = false;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_CONNECTION_H_
