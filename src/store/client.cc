// The store of a rank that is a process: a client of a server on this host, or
// on another one.
//
// Each call uses a connection of its own, so a call that waits delays no other
// call; idle connections are kept for later calls. A connection whose call
// timed out or failed is closed, because an answer may still arrive on it.
#include "store/client.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "base/mutex.h"
#include "distwrap/store.h"
#include "store/call.h"
#include "store/interrupt.h"
#include "store/store_place.h"
#include "store/wire.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <unistd.h>
#include <utility>

namespace distwrap {
namespace store {
namespace {

using base::Mutex;
using base::MutexLock;

constexpr size_t kKeptConnections = 8;
// The server ends a wait at the deadline and reports the missing keys; the
// client waits this long for the report.
constexpr absl::Duration kAnswerTime = absl::Milliseconds(50);
// A wait asks for the missing keys this long before the deadline, so that the
// error can name them even if the server is slow at the deadline.
constexpr absl::Duration kLookAhead = absl::Seconds(1);

class Client final : public ClientStore {
 public:
  explicit Client(StorePlace place)
      : place_(std::move(place)), pid_(getpid()) {}

  // Opens the first connection, which waits for the server to appear.
  absl::Status open(Deadline deadline, bool* hopeless) {
    absl::StatusOr<StreamPtr> stream =
        place_.dial({.deadline = deadline}, hopeless);
    if (!stream.ok()) return stream.status();
    put_back(*std::move(stream));
    return absl::OkStatus();
  }

  absl::Status set(absl::string_view key, absl::string_view value,
                   Deadline deadline) override try {
    const StoreCall call("store set", deadline);
    if (absl::Status status = call.check(key, value); !status.ok())
      return status;
    Request request = one_key(Op::kSet, key);
    request.value = std::string(value);
    return ask(call, request).status();
  } catch (...) {
    return base::error_of_exception("store set");
  }

  absl::StatusOr<std::string> get(absl::string_view key,
                                  Deadline deadline) override try {
    const StoreCall call("store get", deadline);
    if (absl::Status status = call.check(key); !status.ok()) return status;
    return text_of(call, ask(call, one_key(Op::kGetAll, key)));
  } catch (...) {
    return base::error_of_exception("store get");
  }

  absl::Status wait(const std::vector<std::string>& keys,
                    Deadline deadline) override try {
    const StoreCall call("store wait", deadline);
    if (absl::Status status = call.check(keys); !status.ok()) return status;
    return ask(call, request_for(Op::kWait, keys)).status();
  } catch (...) {
    return base::error_of_exception("store wait");
  }

  absl::StatusOr<std::vector<std::string>> get_all(
      const std::vector<std::string>& keys, Deadline deadline) override try {
    const StoreCall call("store get_all", deadline);
    if (absl::Status status = call.check(keys); !status.ok()) return status;
    absl::StatusOr<Reply> reply = ask(call, request_for(Op::kGetAll, keys));
    if (!reply.ok()) return reply.status();
    if (reply->answer == Answer::kTooLong)
      return Store::get_all(keys, deadline);
    if (reply->texts.size() != keys.size()) return malformed(call);
    return std::move(reply->texts);
  } catch (...) {
    return base::error_of_exception("store get_all");
  }

  absl::StatusOr<int64_t> add(absl::string_view key, int64_t delta,
                              Deadline deadline) override try {
    const StoreCall call("store add", deadline);
    if (absl::Status status = call.check(key); !status.ok()) return status;
    Request request = one_key(Op::kAdd, key);
    request.number = delta;
    const absl::StatusOr<Reply> reply = ask(call, request);
    if (!reply.ok()) return reply.status();
    return reply->number;
  } catch (...) {
    return base::error_of_exception("store add");
  }

  absl::StatusOr<std::string> compare_set(absl::string_view key,
                                          absl::string_view expected,
                                          absl::string_view desired,
                                          Deadline deadline) override try {
    const StoreCall call("store compare_set", deadline);
    if (absl::Status status = call.check(key, desired, expected); !status.ok())
      return status;
    Request request = one_key(Op::kCompareSet, key);
    request.value = std::string(desired);
    request.expected = std::string(expected);
    return text_of(call, ask(call, request));
  } catch (...) {
    return base::error_of_exception("store compare_set");
  }

  absl::StatusOr<bool> delete_key(absl::string_view key,
                                  Deadline deadline) override try {
    const StoreCall call("store delete_key", deadline);
    if (absl::Status status = call.check(key); !status.ok()) return status;
    const absl::StatusOr<Reply> reply = ask(call, one_key(Op::kDelete, key));
    if (!reply.ok()) return reply.status();
    return reply->number != 0;
  } catch (...) {
    return base::error_of_exception("store delete_key");
  }

  absl::StatusOr<int64_t> append(absl::string_view log, absl::string_view text,
                                 Deadline deadline) override try {
    const StoreCall call("store append", deadline);
    if (absl::Status status = call.check(log, text); !status.ok())
      return status;
    Request request = one_key(Op::kAppend, log);
    request.value = std::string(text);
    const absl::StatusOr<Reply> reply = ask(call, request);
    if (!reply.ok()) return reply.status();
    return reply->number;
  } catch (...) {
    return base::error_of_exception("store append");
  }

  const StorePlace& place() const override { return place_; }
  void give_up(absl::string_view cause) override {
    MutexLock lock(mutex_);
    if (gone_.has_value()) return;
    gone_ = std::string(cause);
    kept_.clear();
    for (ByteStream* const stream : used_) stream->shut();
  }
  std::string address() const override { return place_.address(); }

 private:
  using StreamPtr = std::unique_ptr<ByteStream>;

  // Ranks that meet wait for a key of each, which is shorter as a series.
  static Request request_for(Op op, const std::vector<std::string>& keys) {
    const Request all{.op = op, .keys = keys};
    if (keys.size() < 2 ||
        static_cast<int64_t>(keys.size()) > Request::kMostOfSeries ||
        !absl::EndsWith(keys[0], "/0"))
      return all;
    const absl::string_view name =
        absl::string_view(keys[0]).substr(0, keys[0].size() - 2);
    if (name.empty()) return all;
    for (size_t i = 1; i < keys.size(); ++i)
      if (keys[i] != key_of_series(name, static_cast<int64_t>(i))) return all;
    return {.op = op,
            .keys = {std::string(name)},
            .number = static_cast<int64_t>(keys.size())};
  }
  static Request one_key(Op op, absl::string_view key) {
    return {.op = op, .keys = {std::string(key)}};
  }

  absl::StatusOr<std::string> text_of(const StoreCall& call,
                                      absl::StatusOr<Reply> reply) const {
    if (!reply.ok()) return reply.status();
    if (reply->texts.size() != 1) return malformed(call);
    return std::move(reply->texts.front());
  }

  // Turns an error of the server into an error of this call.
  absl::StatusOr<Reply> ask(const StoreCall& call, const Request& request) {
    if (request.op == Op::kWait || request.op == Op::kGetAll)
      return ask_wait(call, request);
    absl::StatusOr<Reply> reply = ask_once(call, request, call.deadline());
    if (!reply.ok()) return reply;
    if (reply->answer == Answer::kTimedOut) return malformed(call);
    return reply;
  }

  // A wait with a deadline sends two requests: the first one ends early and
  // reports the keys that are missing by then.
  absl::StatusOr<Reply> ask_wait(const StoreCall& call, Request request) {
    const Deadline end = call.deadline();
    Deadline step, answered_by;
    if (!end.is_never()) {
      const absl::Duration left = end.remaining();
      step = Deadline::after(left - std::min(left / 2, kLookAhead));
      answered_by =
          Deadline::at_ns(end.ns() + absl::ToInt64Nanoseconds(kAnswerTime));
    }
    std::vector<std::string> missing;
    int64_t seen_ns = 0;
    for (;; step = end) {
      if (!end.is_never())
        request.timeout_ns = absl::ToInt64Nanoseconds(step.remaining());
      absl::StatusOr<Reply> reply = ask_once(call, request, answered_by);
      if (!reply.ok()) {
        if (missing.empty() ||
            error_reason(reply.status()) != Reason::kTimedOut)
          return reply;
        return call.timed_out(
            missing,
            absl::StrCat("the store answered last ",
                         absl::FormatDuration(absl::Trunc(
                             absl::Nanoseconds(Deadline::now_ns() - seen_ns),
                             absl::Milliseconds(1))),
                         " ago"));
      }
      if (reply->answer != Answer::kTimedOut) return reply;
      missing.clear();
      seen_ns = Deadline::now_ns();
      const std::vector<std::string> keys = keys_of(request);
      for (const uint32_t index : reply->indices)
        if (index < keys.size()) missing.push_back(keys[index]);
      if (end.passed()) return call.timed_out(missing);
    }
  }

  absl::StatusOr<Reply> ask_once(const StoreCall& call, const Request& request,
                                 Deadline until) {
    absl::StatusOr<StreamPtr> stream = take(call);
    if (!stream.ok()) return stream.status();
    absl::StatusOr<Reply> reply = round_trip(call, request, until, **stream);
    if (!reply.ok()) return reply;
    put_back(*std::move(stream));
    if (reply->answer == Answer::kRefused)
      return call.invalid(request.keys.front(), reply->texts.empty()
                                                    ? "refused by the store"
                                                    : reply->texts.front());
    return reply;
  }

  absl::StatusOr<Reply> round_trip(const StoreCall& call,
                                   const Request& request, Deadline until,
                                   ByteStream& stream) {
    const Use use(this, &stream);
    // Without an answer, this rank does not know which keys exist.
    const auto failed = [&](Io io) {
      if (io.kind == Io::kTimedOut)
        return call.timed_out({}, "the store did not answer");
      if (io.kind == Io::kInterrupted) return Interrupt::error(call.op());
      return lost(call, io.error == 0 ? std::string("it closed the connection")
                                      : base::errno_text(io.error));
    };
    Io io = stream.send(encode(request), until);
    if (io.kind != Io::kDone) return failed(io);
    char header[kHeaderBytes];
    io = stream.receive(header, sizeof header, until);
    if (io.kind != Io::kDone) return failed(io);
    const std::optional<size_t> size =
        decode_header(absl::string_view(header, sizeof header));
    if (!size.has_value()) return malformed(call);
    std::string body(*size, '\0');
    io = stream.receive(body.data(), body.size(), until);
    if (io.kind != Io::kDone) return failed(io);
    std::optional<Reply> reply = decode_reply(body);
    if (!reply.has_value()) return malformed(call);
    return *std::move(reply);
  }

  // Takes an idle connection or opens a new one.
  absl::StatusOr<StreamPtr> take(const StoreCall& call) {
    {
      MutexLock lock(mutex_);
      // The connections that a forked child inherits carry the parent's calls.
      if (pid_ != getpid()) {
        kept_.clear();
        used_.clear();
        pid_ = getpid();
      }
      if (gone_.has_value()) return lost(call, *gone_);
      while (!kept_.empty()) {
        StreamPtr stream = std::move(kept_.back());
        kept_.pop_back();
        if (!stream->has_ended()) return stream;
      }
    }
    // The server has been there before, so a missing server has ended.
    bool hopeless = false;
    return place_.dial({.deadline = call.deadline(), .wait_for_server = false},
                       &hopeless);
  }

  void put_back(StreamPtr stream) {
    MutexLock lock(mutex_);
    if (kept_.size() < kKeptConnections) kept_.push_back(std::move(stream));
  }

  // A call's use of a stream, which `give_up` ends.
  class Use {
   public:
    Use(Client* client, ByteStream* stream)
        : client_(*client), stream_(*stream) {
      MutexLock lock(client_.mutex_);
      client_.used_.push_back(stream);
      if (client_.gone_.has_value()) stream->shut();
    }
    ~Use() {
      MutexLock lock(client_.mutex_);
      std::vector<ByteStream*>& all = client_.used_;
      all.erase(std::remove(all.begin(), all.end(), &stream_), all.end());
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Client& client_;
    ByteStream& stream_;
  };

  absl::Status lost(const StoreCall& call, absl::string_view cause) const {
    return base::make_error(
        {.reason = Reason::kStoreUnreachable,
         .what = absl::StrCat("the store at ", place_.address(), " is gone"),
         .op = call.op(),
         .elapsed = call.elapsed(),
         .deadline = call.limit(),
         .cause = std::string(cause),
         .next_step =
             "find out why rank 0 or `distwrap run`, which serves it, ended"});
  }

  absl::Status malformed(const StoreCall& call) const {
    return lost(call, "its answer cannot be read");
  }

  const StorePlace place_;
  Mutex mutex_;
  pid_t pid_ ABSL_GUARDED_BY(mutex_);
  std::vector<StreamPtr> kept_ ABSL_GUARDED_BY(mutex_);
  std::vector<ByteStream*> used_ ABSL_GUARDED_BY(mutex_);  // by calls
  // Why the server is gone, once that is known.
  std::optional<std::string> gone_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::shared_ptr<ClientStore>> connect_to(StorePlace place,
                                                        Deadline deadline,
                                                        bool* hopeless) {
  auto client = std::make_shared<Client>(std::move(place));
  if (absl::Status status = client->open(deadline, hopeless); !status.ok())
    return status;
  return client;
}

}  // namespace store

absl::StatusOr<std::shared_ptr<Store>> Store::connect(absl::string_view address,
                                                      Deadline deadline) try {
  absl::StatusOr<store::StorePlace> place = store::StorePlace::parse(address);
  if (!place.ok()) return place.status();
  bool hopeless = false;
  return store::connect_to(*std::move(place), deadline, &hopeless);
} catch (...) {
  return base::error_of_exception("store connect");
}

}  // namespace distwrap
