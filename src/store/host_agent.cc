#include "store/host_agent.h"

#include "base/error.h"
#include "store/frame_follower.h"
#include "store/hosted_store.h"
#include "store/interrupt.h"
#include "store/wire.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace distwrap::store {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(20);

// A name that no other conversation has.
std::string new_name() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8));
}

// The process that serves at the other end.
pid_t peer_of(const Socket& socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  return getsockopt(socket.descriptor(), SOL_SOCKET, SO_PEERCRED, &peer,
                    &size) == 0
             ? peer.pid
             : 0;
}

}  // namespace

// Sends requests and receives whole replies, so that a request can be sent
// again.
class HostAgent::Stream final : public ByteStream {
 public:
  Stream(std::shared_ptr<HostAgent> agent, Way way)
      : agent_(std::move(agent)), way_(std::move(way)) {
    if (goes_through_another()) name_ = new_name();
    base::MutexLock lock(agent_->mutex_);
    agent_->streams_.insert(this);
  }
  ~Stream() override {
    base::MutexLock lock(agent_->mutex_);
    agent_->streams_.erase(this);
  }

  Io send(absl::string_view bytes, Deadline deadline) override {
    request_ = std::string(bytes);
    reply_.clear();
    taken_ = 0;
    followed_.pass(bytes);
    const bool begins = ++number_ == 1 && !name_.empty();
    const Io io =
        begins ? say(name_, deadline) : way_.stream->send(request_, deadline);
    return io.kind == Io::kBroken ? go_on(io, deadline) : io;
  }

  Io receive(char* bytes, size_t size, Deadline deadline) override {
    if (reply_.empty())
      if (const Io io = fetch(deadline); io.kind != Io::kDone) return io;
    if (size > reply_.size() - taken_) return {Io::kBroken, EPROTO};
    std::memcpy(bytes, reply_.data() + taken_, size);
    taken_ += size;
    return {};
  }

  void shut() override {
    base::MutexLock lock(mutex_);
    is_shut_ = true;
    way_.stream->shut();
  }
  // Ends the connection to an agent that does not run.
  void leave_agent() {
    base::MutexLock lock(mutex_);
    if (!name_.empty()) way_.stream->shut();
  }

  bool has_ended() override {
    char byte;
    return way_.descriptor >= 0 &&
           recv(way_.descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }
  void expect_answers_within(absl::Duration time) override { patience_ = time; }

 private:
  bool goes_through_another() const {
    return way_.agent != 0 && way_.agent != getpid();
  }

  // Sends the request as the next one of a conversation.
  Io say(const std::string& name, Deadline deadline) {
    const Request resume{.op = Op::kResume,
                         .timeout_ns = followed_.silence_ns(),
                         .keys = {name},
                         .value = name_,
                         .number = number_};
    return way_.stream->send(absl::StrCat(encode(resume), request_), deadline);
  }

  Io fetch(Deadline deadline) {
    for (;;) {
      const Deadline expected =
          name_.empty()
              ? deadline
              : Deadline::earlier(deadline, Deadline::after(patience_));
      Io io = receive_reply(expected);
      if (io.kind == Io::kTimedOut && !deadline.passed()) {
        agent_->give_up();
        io = {Io::kBroken, ETIMEDOUT};
      }
      if (io.kind == Io::kBroken) io = go_on(io, deadline);
      if (io.kind != Io::kDone || !reply_.empty()) return io;
    }
  }

  Io receive_reply(Deadline deadline) {
    std::string reply(kHeaderBytes, '\0');
    Io io = way_.stream->receive(reply.data(), kHeaderBytes, deadline);
    if (io.kind != Io::kDone) return io;
    const std::optional<size_t> size = decode_header(reply);
    if (!size.has_value()) return {Io::kBroken, EPROTO};
    reply.resize(kHeaderBytes + *size);
    io = way_.stream->receive(reply.data() + kHeaderBytes, *size, deadline);
    if (io.kind == Io::kDone) reply_ = std::move(reply);
    return io;
  }

  // Goes on over another connection after `ended`, unless the store has ended
  // the conversation.
  Io go_on(Io ended, Deadline deadline) {
    const Deadline until =
        Deadline::earlier(deadline, Deadline::after(kLookForAgent));
    while (!name_.empty()) {
      bool hopeless = false;
      absl::StatusOr<Way> way = agent_->reach(
          {.deadline = until, .wait_for_server = false}, &hopeless, way_.agent);
      if (error_reason(way.status()) == Reason::kAborted)
        return {Io::kInterrupted, 0};
      if (!way.ok()) return ended;
      std::string name = name_;
      {
        base::MutexLock lock(mutex_);
        if (is_shut_) return ended;
        way_ = *std::move(way);
        if (!goes_through_another()) name_.clear();
      }
      const Io io = say(name, deadline);
      if (io.kind != Io::kBroken) return io;
    }
    return ended;
  }

  const std::shared_ptr<HostAgent> agent_;
  // Held where `way_` changes, and where another thread reads it.
  base::Mutex mutex_;
  Way way_;
  // The conversation's name; empty for a connection whose end is the end of the
  // conversation.
  std::string name_;
  bool is_shut_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration patience_ = absl::InfiniteDuration();
  int64_t number_ = 0;  // the last request's
  std::string request_, reply_;
  size_t taken_ = 0;        // bytes of the reply
  FrameFollower followed_;  // the requests
};

absl::StatusOr<std::unique_ptr<ByteStream>> HostAgent::dial(
    const Socket::ConnectOptions& options, bool* hopeless) {
  absl::StatusOr<Way> way = reach(options, hopeless);
  if (!way.ok()) return way.status();
  return std::make_unique<Stream>(shared_from_this(), *std::move(way));
}

absl::StatusOr<HostAgent::Way> HostAgent::go_alone(
    const Socket::ConnectOptions& options, bool* hopeless) {
  absl::StatusOr<std::unique_ptr<ByteStream>> stream =
      store_.dial(options, hopeless);
  if (!stream.ok()) return stream.status();
  return Way{.stream = *std::move(stream)};
}

absl::StatusOr<HostAgent::Way> HostAgent::reach(
    const Socket::ConnectOptions& options, bool* hopeless, pid_t previous) {
  *hopeless = false;
  absl::Duration pause = kFirstPause;
  for (;;) {
    {
      base::MutexLock lock(mutex_);
      if (gave_up_) break;
    }
    absl::StatusOr<Socket> socket = Socket::connect(
        path_, {.deadline = options.deadline, .wait_for_server = false});
    pid_t agent = 0;
    if (socket.ok()) {
      agent = peer_of(*socket);
      // A process that cannot be seen from here could not be told from the
      // next.
      if (agent == 0) break;
      if (agent != previous) {
        auto stream = std::make_unique<Socket>(*std::move(socket));
        const int descriptor = stream->descriptor();
        return Way{std::move(stream), agent, descriptor};
      }
      // A process that ends has released its lock before its connections end.
      if (serving_process(path_) == previous)
        return absl::UnavailableError("the store has ended the connection");
    } else if (error_reason(socket.status()) != Reason::kStoreUnreachable) {
      break;
    } else {
      const absl::StatusOr<pid_t> serving = host_agent(
          path_, [&] { return store_.find(options, hopeless); }, store_.psk());
      if (error_reason(serving.status()) == Reason::kRunDirectory) break;
      if (!serving.ok()) return serving.status();
      if (*serving == getpid() && !options.deadline.passed()) continue;
      agent = *serving;
    }
    if (options.deadline.passed())
      return base::make_error(
          {.reason = Reason::kStoreUnreachable,
           .what = absl::StrCat("process ", agent,
                                ", through which the ranks of this host reach "
                                "the store at ",
                                store_.address(), ", has not reached it"),
           .op = "store connect",
           .next_step = "look at the output of that process"});
    if (!Interrupt::sleep(
            Deadline::earlier(options.deadline, Deadline::after(pause))))
      return Interrupt::error("store connect");
    pause = std::min(2 * pause, kLongestPause);
  }
  return go_alone(options, hopeless);
}

void HostAgent::give_up() {
  base::MutexLock lock(mutex_);
  if (std::exchange(gave_up_, true)) return;
  for (Stream* const stream : streams_) stream->leave_agent();
}

}  // namespace distwrap::store
