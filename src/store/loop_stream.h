// A stream of bytes on an event loop: a Unix socket, a TLS connection, or one
// of the streams that such a connection carries. The protocol of the store
// stands above this and does not know which of them it is.
//
// Threads: the loop's thread. Ownership: its owner, who calls `close` first and
// destroys the stream when `on_closed` has been called, or within that call.
#ifndef DISTWRAP_SRC_STORE_LOOP_STREAM_H_
#define DISTWRAP_SRC_STORE_LOOP_STREAM_H_

#include <absl/strings/string_view.h>
#include <uv.h>

#include <cstddef>
#include <string>

namespace distwrap::store {

class LoopStream {
 public:
  class Owner {
   public:
    // The peer has proved that it may join. Called once, before any bytes.
    virtual void on_trusted() {}
    virtual void on_bytes(absl::string_view bytes) = 0;
    // The peer has gone, or broke a rule: nothing more arrives.
    virtual void on_end() = 0;
    // The connection that carried the stream beside others has ended, and
    // nothing more arrives. The peer may be well.
    virtual void on_cut() { on_end(); }
    // Called after `close`, as the stream's last act.
    virtual void on_closed() = 0;

   protected:
    ~Owner() = default;
  };

  virtual ~LoopStream() = default;
  LoopStream(const LoopStream&) = delete;
  LoopStream& operator=(const LoopStream&) = delete;

  // Queues bytes for the peer; false when the stream is broken.
  virtual bool send(std::string bytes) = 0;
  // The number of bytes that the system has not taken yet.
  virtual size_t unsent() const = 0;
  // Whether equal bytes to several such streams take the memory of one.
  virtual bool shares_bytes() const { return false; }
  // Whether the peer is a process of this host that a debugger holds.
  virtual bool peer_is_traced() const { return false; }
  virtual void close() = 0;

 protected:
  LoopStream() = default;
};

// The file descriptor of a stream; -1 when it has none.
int descriptor_of(const uv_stream_t& stream);

// Writes bytes that libuv borrows until they are written. Calls `on_failed`
// when they cannot be written, unless the stream has been closed.
bool write_to(uv_stream_t* stream, std::string bytes,
              void (*on_failed)(uv_stream_t* stream));

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_LOOP_STREAM_H_
