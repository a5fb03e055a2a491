// A Unix socket on an event loop. Only processes of this user are trusted: the
// kernel tells whose they are.
#ifndef DISTWRAP_SRC_STORE_UNIX_STREAM_H_
#define DISTWRAP_SRC_STORE_UNIX_STREAM_H_

#include "base/debugger.h"
#include "store/loop_stream.h"

#include <memory>
#include <vector>

namespace distwrap::store {

class UnixStream final : public LoopStream {
 public:
  // `arrivals` is the input buffer for one callback of the loop; all streams of
  // a loop share it.
  UnixStream(uv_loop_t* loop, std::vector<char>* arrivals, Owner* owner);

  // Takes the client that `listener` announces. May call `on_end`.
  void accept(uv_stream_t* listener);
  bool send(std::string bytes) override;
  size_t unsent() const override;
  bool peer_is_traced() const override { return base::is_traced(peer_); }
  void close() override;

 private:
  bool is_same_user();
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&pipe_); }
  template <class Handle>
  static UnixStream* of(Handle* handle) {
    return static_cast<UnixStream*>(handle->data);
  }

  std::vector<char>& arrivals_;
  Owner& owner_;
  uv_pipe_t pipe_ = {};
  pid_t peer_ = 0;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_UNIX_STREAM_H_
