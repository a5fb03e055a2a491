// The way of a host's processes to a store on another host, where no `distwrap
// run` carries their connections: one of the processes does, over one
// connection of its own (relay.h). It is the host's agent.
//
// The agent is the process that holds a lock beside the agent's socket. The
// kernel releases the lock when the process ends in whatever way, and gives it
// to one process only. So the next agent is the first process that looks for
// one, nobody has to know which processes live, and no process waits for
// another one to begin.
//
// A stream through another process outlives the agent: it goes on through the
// next one, under the name that the store knows its conversation by. It asks
// again for what it was waiting for; the store makes each change once and keeps
// the will of the stream meanwhile. News have numbers, so none is missed.
// The streams of the agent's own process have no such name, so the store learns
// of the end of that process at once.
//
// An agent may also be stopped, by a signal or a debugger. A process that
// notices that reaches the store over connections of its own from then on.
//
// Threads: any. Ownership: its streams share it.
//
//   place.go_through(std::make_shared<HostAgent>(path, place));
#ifndef DISTWRAP_SRC_STORE_HOST_AGENT_H_
#define DISTWRAP_SRC_STORE_HOST_AGENT_H_

#include "base/mutex.h"
#include "store/byte_stream.h"
#include "store/socket.h"
#include "store/store_place.h"

#include <absl/status/statusor.h>

#include <memory>
#include <set>
#include <string>
#include <sys/types.h>

namespace distwrap::store {

class HostAgent : public std::enable_shared_from_this<HostAgent> {
 public:
  // `path`: where the agent serves. `store`: the place that it carries.
  HostAgent(std::string path, StorePlace store)
      : path_(std::move(path)), store_(std::move(store)) {}

  // As StorePlace::dial.
  absl::StatusOr<std::unique_ptr<ByteStream>> dial(
      const Socket::ConnectOptions& options, bool* hopeless);

 private:
  class Stream;
  // A connection to the store.
  struct Way {
    std::unique_ptr<ByteStream> stream;
    // The process that carries it; 0 when none does.
    pid_t agent = 0;
    int descriptor = -1;  // the socket of a connection to another process
  };
  // `previous`: the agent whose connection has ended. kUnavailable when that
  // agent lives: then the store has ended the connection.
  absl::StatusOr<Way> reach(const Socket::ConnectOptions& options,
                            bool* hopeless, pid_t previous = 0);
  absl::StatusOr<Way> go_alone(const Socket::ConnectOptions& options,
                               bool* hopeless);
  // The agent does not run.
  void give_up();

  const std::string path_;
  const StorePlace store_;
  base::Mutex mutex_;
  bool gave_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<Stream*> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_HOST_AGENT_H_
