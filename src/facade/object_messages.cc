// Lists of objects from one rank to another. The two ranks first tell each
// other their intentions; the part of the list that did not fit follows. All
// messages use the host's own class of tags, which a caller's messages never
// match.
#include "distwrap/abi/types.h"
#include "facade/object_calls.h"
#include "facade/object_exchange.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap::facade {
namespace {

// The number of a message within the class.
enum Step : int64_t { kOffer = 0, kAnswer = 1, kBody = 2 };

absl::Status run(const ObjectExchange& exchange, uint16_t kind,
                 comm::AnyCall call, int peer, Step step) {
  call.peer = peer;
  call.tag = step;
  call.tag_class = DW_TAG_CLASS_HOST;
  return exchange.step(
      [&](comm::BackendCommunicator& c, const CallOptions& options) {
        return c.run_any(kind, call, options);
      });
}

absl::Status send(const ObjectExchange& exchange, int peer, Step step,
                  const std::string& bytes) {
  comm::AnyCall call;
  call.in = bytes_view(bytes);
  return run(exchange, DW_OP_SEND, call, peer, step);
}

absl::Status receive(const ObjectExchange& exchange, int peer, Step step,
                     std::string& bytes) {
  comm::AnyCall call;
  call.out = bytes_view(bytes);
  return run(exchange, DW_OP_RECV, call, peer, step);
}

absl::StatusOr<int> peer_of(const ObjectExchange& exchange, Peer peer,
                            Role role) {
  absl::StatusOr<int> rank = exchange.resolve(peer, role);
  if (rank.ok() && *rank == exchange.rank())
    return exchange.error(
        {.reason = Reason::kInvalidArgument,
         .what = "source and destination of the list are the same rank",
         .actual = absl::StrCat("rank ", *rank),
         .next_step = "copy the objects instead"});
  return rank;
}

}  // namespace

absl::Status send_object_list(absl::Span<const Object> list, Peer dst,
                              const OpOptions& options) {
  const absl::StatusOr<ObjectExchange> exchange =
      ObjectExchange::begin("send_object_list", ObjectCall::kMessage, options);
  if (!exchange.ok()) return exchange.status();
  const absl::StatusOr<int> peer = peer_of(*exchange, dst, Role::kDestination);
  if (!peer.ok()) return peer.status();
  absl::Status own;
  std::string message;
  for (size_t i = 0; own.ok() && i < list.size(); ++i)
    own = exchange->append(list[i], absl::StrCat("[", i, "]"), &message);

  const std::string mine = exchange->write(own, 0, list.size(), message.size(),
                                           message, kMostRecord);
  absl::Status status = send(*exchange, *peer, kOffer, mine);
  std::string theirs(kLeastRecord, '\0');
  if (status.ok()) status = receive(*exchange, *peer, kAnswer, theirs);
  if (!own.ok()) return own;
  if (!status.ok()) return status;
  const absl::StatusOr<std::vector<ObjectRecord>> records = exchange->conclude(
      own, {read_record(mine), read_record(theirs)}, {exchange->rank(), *peer});
  if (!records.ok()) return records.status();
  if (records->front().inlined(kMostRecord)) return absl::OkStatus();
  return send(*exchange, *peer, kBody, message);
}

absl::Status recv_object_list(absl::Span<Object> list, Peer src,
                              const OpOptions& options) {
  const absl::StatusOr<ObjectExchange> exchange =
      ObjectExchange::begin("recv_object_list", ObjectCall::kMessage, options);
  if (!exchange.ok()) return exchange.status();
  const absl::StatusOr<int> peer =
      peer_of(*exchange, src, Role::kReceiveSource);
  if (!peer.ok()) return peer.status();

  std::string theirs(kMostRecord, '\0');
  absl::Status status = receive(*exchange, *peer, kOffer, theirs);
  if (!status.ok()) return status;
  const std::string mine =
      exchange->write(absl::OkStatus(), 0, list.size(), 0, "", kLeastRecord);
  status = send(*exchange, *peer, kAnswer, mine);
  if (!status.ok()) return status;
  const absl::StatusOr<std::vector<ObjectRecord>> records = exchange->conclude(
      absl::OkStatus(), {read_record(theirs), read_record(mine)},
      {*peer, exchange->rank()});
  if (!records.ok()) return records.status();

  const ObjectRecord& from = records->front();
  std::string message(from.content);
  if (!from.inlined(kMostRecord)) {
    message.resize(from.total);
    status = receive(*exchange, *peer, kBody, message);
    if (!status.ok()) return status;
  }
  absl::StatusOr<std::vector<Object>> objects =
      exchange->objects_of(message, list.size(), *peer);
  if (!objects.ok()) return objects.status();
  std::move(objects->begin(), objects->end(), list.begin());
  return absl::OkStatus();
}

}  // namespace distwrap::facade
