#include "store/news_line.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "base/thread.h"
#include "store/table.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <optional>
#include <utility>
#include <vector>

namespace distwrap::store {
namespace {

// How many requests a silent process has missed before it is given up.
constexpr int kBeats = 5;

absl::Status broken(Io io) {
  if (io.kind == Io::kTimedOut)
    return absl::DeadlineExceededError("the store does not answer");
  return absl::UnavailableError(io.error == 0
                                    ? "the store has closed the connection"
                                    : base::errno_text(io.error));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NewsLine>> NewsLine::open(Plan plan,
                                                         Listener& listener,
                                                         Deadline deadline) {
  bool hopeless = false;
  absl::StatusOr<std::unique_ptr<ByteStream>> stream = plan.place.dial(
      {.deadline = deadline, .wait_for_server = false}, &hopeless);
  if (!stream.ok()) return stream.status();
  std::unique_ptr<NewsLine> line(
      new NewsLine(std::move(plan), listener, *std::move(stream)));
  const absl::StatusOr<Reply> taken =
      line->ask({.op = Op::kWill,
                 .timeout_ns = absl::ToInt64Nanoseconds(line->plan_.silence),
                 .keys = {line->plan_.log},
                 .value = line->plan_.will},
                deadline);
  if (!taken.ok())
    return base::make_error(
        {.reason = Reason::kStoreUnreachable,
         .what = absl::StrCat("the store at ", line->plan_.place.address(),
                              " does not keep a line"),
         .op = "init",
         .cause = std::string(taken.status().message())});
  line->stream_->expect_answers_within(2 * longest_pause(line->plan_.silence));
  absl::StatusOr<std::thread> thread =
      base::start_thread("dw-news", [self = line.get()] { self->run(); });
  if (!thread.ok()) return thread.status();
  line->thread_ = *std::move(thread);
  return line;
}

absl::Duration NewsLine::longest_pause(absl::Duration silence) {
  return silence / kBeats;
}

absl::Duration NewsLine::pause() const {
  return absl::Nanoseconds(Deadline::now_ns() - heard_ns_);
}

NewsLine::~NewsLine() {
  ends_ = true;
  stream_->shut();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<Reply> NewsLine::ask(const Request& request, Deadline deadline) {
  Io io = stream_->send(encode(request), deadline);
  if (io.kind != Io::kDone) return broken(io);
  char header[kHeaderBytes];
  io = stream_->receive(header, sizeof header, deadline);
  if (io.kind != Io::kDone) return broken(io);
  const std::optional<size_t> size = decode_header({header, sizeof header});
  if (!size.has_value()) return absl::UnavailableError("the store's answer");
  std::string body(*size, '\0');
  io = stream_->receive(body.data(), body.size(), deadline);
  if (io.kind != Io::kDone) return broken(io);
  std::optional<Reply> reply = decode_reply(body);
  if (!reply.has_value())
    return absl::UnavailableError("the store's answer cannot be read");
  return *std::move(reply);
}

// A log keeps its newest entries only.
absl::Status NewsLine::check_not_behind(int64_t next) {
  const absl::StatusOr<Reply> reply =
      ask({.op = Op::kGetAll,
           .timeout_ns = 0,
           .keys = {absl::StrCat(plan_.log, "/count")}},
          Deadline::after(plan_.silence));
  if (!reply.ok()) return reply.status();
  int64_t count = 0;
  if (reply->answer != Answer::kDone || reply->texts.size() != 1 ||
      !absl::SimpleAtoi(reply->texts.front(), &count) ||
      count - Table::kKeptOfLog < next)
    return absl::OkStatus();
  return absl::UnavailableError("news came faster than they were read");
}

void NewsLine::run() {
  const absl::Status status = base::guarded("news", [this] {
    for (int64_t next = 1; !ends_;) {
      const absl::StatusOr<Reply> reply = ask(
          {.op = Op::kGetAll,
           .timeout_ns = absl::ToInt64Nanoseconds(longest_pause(plan_.silence)),
           .keys = {absl::StrCat(plan_.log, "/", next)}},
          Deadline::after(plan_.silence));
      if (!reply.ok()) return reply.status();
      heard_ns_ = Deadline::now_ns();
      if (reply->answer == Answer::kDone && reply->texts.size() == 1) {
        ++next;
        listener_.on_news(reply->texts.front());
      } else if (absl::Status behind = check_not_behind(next); !behind.ok()) {
        return behind;
      }
    }
    return absl::OkStatus();
  });
  if (!status.ok() && !ends_)
    listener_.on_line_lost(status.message(), absl::IsDeadlineExceeded(status));
}

}  // namespace distwrap::store
