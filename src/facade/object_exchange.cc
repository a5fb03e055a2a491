#include "facade/object_exchange.h"

#include "algo/objects/codec.h"
#include "algo/objects/limit.h"
#include "base/error.h"
#include "facade/binding.h"
#include "facade/refusal.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace distwrap::facade {

absl::StatusOr<ObjectExchange> ObjectExchange::begin(const char* name,
                                                     ObjectCall call,
                                                     const OpOptions& options) {
  ObjectExchange exchange;
  exchange.name_ = name;
  exchange.call_ = call;
  exchange.group_ = kept_group_of(options.group);
  if (exchange.group_ == nullptr) return not_initialized(name);
  exchange.label_ = options.label;
  exchange.communicator_ = exchange.group_->default_communicator();
  if (exchange.communicator_ == nullptr)
    return exchange.group_->no_communicator(kCpu);
  if (options.async)
    return exchange.error(
        {.reason = Reason::kInvalidArgument,
         .what = "calls that move objects block and do not take `async`",
         .next_step = "leave `async` out, or make the call in a thread"});
  if (options.stream.native != nullptr)
    return refuse_stream(name, *exchange.group_, options);
  exchange.timeout_ = options.timeout;
  exchange.deadline_ =
      Deadline::after(options.timeout.value_or(exchange.group_->timeout()));
  exchange.limit_ = objects::max_bytes();
  return exchange;
}

absl::StatusOr<int> ObjectExchange::resolve(Peer peer, Role role) const {
  const int rank = rank_of(*group_, peer, role);
  if (rank == kNoRank)
    return root_error(name_, *group_, peer, role, {.label = label_});
  if (rank >= 0 && rank < size()) return rank;
  return error(
      {.reason = Reason::kInvalidArgument,
       .what = absl::StrCat("the ", role == Role::kFirstRank ? "root" : "peer",
                            " is not a rank of the group"),
       .expected = absl::StrCat("0..", size() - 1),
       .actual = absl::StrCat(rank),
       .next_step = "give a rank of the group"});
}

absl::Status ObjectExchange::append(const Object& object,
                                    absl::string_view path,
                                    std::string* message) const {
  return finish(objects::append_object(object, path, limit_, message));
}

absl::StatusOr<std::vector<Object>> ObjectExchange::objects_of(
    absl::string_view message, uint64_t count, int from) const {
  std::vector<Object> result;
  const size_t whole = message.size();
  const auto blame = [&](const absl::Status& status) {
    return finish(base::amend_error(
        status, [&](ErrorInfo& info) { info.ranks = {from}; }));
  };
  for (uint64_t i = 0; i < count; ++i) {
    absl::StatusOr<Object> object =
        objects::take_object(&message, whole - message.size(), limit_);
    if (!object.ok()) return blame(object.status());
    result.push_back(*std::move(object));
  }
  if (!message.empty())
    return blame(objects::decode_error("bytes follow the object",
                                       whole - message.size()));
  return result;
}

std::string ObjectExchange::write(const absl::Status& own, int root,
                                  uint64_t count, uint64_t largest,
                                  absl::string_view message,
                                  size_t size) const {
  ObjectRecord record{.call = call_, .root = root, .limit = limit_};
  std::string text;
  if (own.ok()) {
    record.count = count;
    record.largest = largest;
    record.total = message.size();
    record.content = message;
  } else {
    const ErrorInfo info = error_info(own).value_or(ErrorInfo{
        .reason = Reason::kBackendFailed, .what = std::string(own.message())});
    text = base::cause_text({.reason = info.reason,
                             .what = info.what,
                             .expected = info.expected,
                             .actual = info.actual});
    record.reason = info.reason;
    record.content = absl::string_view(text).substr(0, size - kRecordHead);
    record.total = record.content.size();
  }
  return write_record(record, size);
}

absl::StatusOr<std::vector<ObjectRecord>> ObjectExchange::meet(
    const absl::Status& own, int root, uint64_t count, uint64_t largest,
    absl::string_view message) {
  const size_t each = record_size(size());
  const size_t n = static_cast<size_t>(size());
  const std::string mine = write(own, root, count, largest, message, each);
  records_.assign(n * each, '\0');
  absl::Status status = step([&](Communicator& c, const CallOptions& o) {
    return c.all_gather(bytes_view(records_), bytes_view(mine), o);
  });
  if (!own.ok()) return own;
  if (!status.ok()) return status;
  std::vector<std::optional<ObjectRecord>> records;
  std::vector<int> ranks;
  for (size_t r = 0; r < n; ++r) {
    records.push_back(
        read_record(absl::string_view(records_).substr(r * each, each)));
    ranks.push_back(static_cast<int>(r));
  }
  return conclude(own, records, ranks);
}

absl::StatusOr<std::vector<ObjectRecord>> ObjectExchange::conclude(
    const absl::Status& own,
    absl::Span<const std::optional<ObjectRecord>> records,
    absl::Span<const int> ranks) const {
  if (!own.ok()) return own;
  if (std::optional<ErrorInfo> info = judge(records, ranks))
    return error(*std::move(info));
  std::vector<ObjectRecord> result;
  for (const std::optional<ObjectRecord>& record : records)
    result.push_back(*record);
  return result;
}

CallOptions ObjectExchange::call_options() const {
  // The communicator refuses a timeout that is not positive.
  if (timeout_.has_value() && *timeout_ <= absl::ZeroDuration())
    return {.timeout = timeout_, .label = label_};
  // The deadline may pass between two steps. The next step then ends at once
  // with a time-out, which tells the other ranks.
  return {.timeout = std::max(deadline_.remaining(), absl::Microseconds(1)),
          .label = label_};
}

absl::Status ObjectExchange::error(ErrorInfo info) const {
  info.op = name_;
  info.group = group_->name();
  info.my_rank = rank();
  info.group_size = size();
  info.label = std::string(label_);
  return base::make_error(info);
}

absl::Status ObjectExchange::finish(const absl::Status& status) const {
  if (status.ok()) return status;
  return base::amend_error(status, [&](ErrorInfo& info) {
    info.op = name_;
    info.group = group_->name();
    info.my_rank = rank();
    info.group_size = size();
    info.label = std::string(label_);
  });
}

}  // namespace distwrap::facade
