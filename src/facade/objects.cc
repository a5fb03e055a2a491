// Object collectives: a first exchange of records, and a second one of the
// bytes that did not fit into them.
#include "base/error.h"
#include "facade/object_calls.h"
#include "facade/object_exchange.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>
#include <string.h>
#include <utility>

namespace distwrap::facade {
namespace {

// The messages of all ranks: those inside the records, and those that the
// second exchange brings into `bytes`.
class Messages {
 public:
  Messages(const ObjectExchange& exchange,
           const std::vector<ObjectRecord>& records)
      : exchange_(exchange), records_(records) {
    for (const ObjectRecord& record : records)
      counts_.push_back(
          exchange.inlined(record) ? 0 : static_cast<int64_t>(record.total));
  }

  // Whether a second exchange is needed.
  bool outstanding() const { return total() != 0; }
  const std::vector<int64_t>& counts() const { return counts_; }
  // The part of `message` that this rank contributes to the second exchange.
  TensorView mine(const std::string& message) const {
    return counts_[static_cast<size_t>(exchange_.rank())] == 0
               ? TensorView()
               : bytes_view(message);
  }
  TensorView make_room() {
    bytes_.resize(static_cast<size_t>(total()));
    return bytes_view(bytes_);
  }

  // One object of each rank; `own` is this rank's object.
  absl::StatusOr<std::vector<Object>> read(const Object& own) const {
    std::vector<Object> all;
    size_t at = 0;
    for (int r = 0; r < exchange_.size(); ++r) {
      const size_t i = static_cast<size_t>(r);
      const size_t size = static_cast<size_t>(counts_[i]);
      const absl::string_view message =
          size == 0 ? records_[i].content
                    : absl::string_view(bytes_).substr(at, size);
      at += size;
      if (r == exchange_.rank()) {
        all.push_back(own);
        continue;
      }
      absl::StatusOr<std::vector<Object>> one =
          exchange_.objects_of(message, 1, r);
      if (!one.ok()) return one.status();
      all.push_back(std::move(one->front()));
    }
    return all;
  }

 private:
  int64_t total() const {
    return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
  }

  const ObjectExchange& exchange_;
  const std::vector<ObjectRecord>& records_;
  std::vector<int64_t> counts_;
  std::string bytes_;
};

std::string list_path(size_t index) { return absl::StrCat("[", index, "]"); }

// The message of scatter: the size of each object, then the objects.
struct Scattered {
  std::vector<int64_t> sizes;
  std::string message;
  size_t largest = 0;

  size_t head() const { return sizes.size() * sizeof(int64_t); }
};

absl::Status write_scattered(const ObjectExchange& exchange,
                             absl::Span<const Object> list, Scattered* out) {
  const size_t n = static_cast<size_t>(exchange.size());
  if (list.size() != n)
    return exchange.error(
        {.reason = Reason::kInvalidArgument,
         .what = "the root's list does not have one object for each rank",
         .expected = absl::StrCat(n),
         .actual = absl::StrCat(list.size()),
         .next_step = "give the root one object for each rank of the group"});
  out->message.assign(n * sizeof(int64_t), '\0');
  for (size_t i = 0; i < n; ++i) {
    std::string one;
    absl::Status status = exchange.append(list[i], list_path(i), &one);
    if (!status.ok()) return status;
    out->sizes.push_back(static_cast<int64_t>(one.size()));
    out->largest = std::max(out->largest, one.size());
    out->message += one;
  }
  memcpy(out->message.data(), out->sizes.data(), out->head());
  return absl::OkStatus();
}

// This rank's piece of a message inside the root's record; empty when there is
// none.
std::string piece_of(absl::string_view message, int ranks, int rank) {
  const size_t head = static_cast<size_t>(ranks) * sizeof(int64_t);
  if (message.size() < head) return {};
  size_t at = head;
  for (int r = 0; r <= rank; ++r) {
    uint64_t size;
    memcpy(&size, message.data() + static_cast<size_t>(r) * sizeof size,
           sizeof size);
    if (size > message.size() - at) return {};
    if (r == rank) return std::string(message.substr(at, size));
    at += size;
  }
  return {};
}

}  // namespace

absl::StatusOr<std::vector<Object>> all_gather_object(
    const Object& object, const OpOptions& options) {
  absl::StatusOr<ObjectExchange> exchange = ObjectExchange::begin(
      "all_gather_object", ObjectCall::kAllGather, options);
  if (!exchange.ok()) return exchange.status();
  std::string message;
  const absl::Status own = exchange->append(object, "", &message);
  const absl::StatusOr<std::vector<ObjectRecord>> records =
      exchange->meet(own, 0, 1, message.size(), message);
  if (!records.ok()) return records.status();

  Messages messages(*exchange, *records);
  if (messages.outstanding()) {
    const absl::Status status =
        exchange->step([&](Communicator& c, const CallOptions& o) {
          return c.all_gather_v(messages.make_room(), messages.mine(message),
                                {messages.counts()}, o);
        });
    if (!status.ok()) return status;
  }
  return messages.read(object);
}

absl::StatusOr<std::vector<Object>> gather_object(const Object& object,
                                                  Peer dst,
                                                  const OpOptions& options) {
  absl::StatusOr<ObjectExchange> exchange =
      ObjectExchange::begin("gather_object", ObjectCall::kGather, options);
  if (!exchange.ok()) return exchange.status();
  const absl::StatusOr<int> root = exchange->resolve(dst, Role::kFirstRank);
  std::string message;
  const absl::Status own =
      root.ok() ? exchange->append(object, "", &message) : root.status();
  const absl::StatusOr<std::vector<ObjectRecord>> records =
      exchange->meet(own, root.value_or(-1), 1, message.size(), message);
  if (!records.ok()) return records.status();

  Messages messages(*exchange, *records);
  const bool is_root = exchange->rank() == *root;
  if (messages.outstanding()) {
    const absl::Status status = exchange->step([&](Communicator& c,
                                                   const CallOptions& o) {
      return c.gather_v(is_root ? messages.make_room() : TensorView(),
                        messages.mine(message), *root, {messages.counts()}, o);
    });
    if (!status.ok()) return status;
  }
  if (!is_root) return std::vector<Object>();
  return messages.read(object);
}

absl::Status broadcast_object_list(absl::Span<Object> list, Peer src,
                                   const OpOptions& options) {
  absl::StatusOr<ObjectExchange> exchange = ObjectExchange::begin(
      "broadcast_object_list", ObjectCall::kBroadcast, options);
  if (!exchange.ok()) return exchange.status();
  const absl::StatusOr<int> root = exchange->resolve(src, Role::kFirstRank);
  absl::Status own = root.status();
  const bool is_root = root.ok() && exchange->rank() == *root;
  std::string message;
  for (size_t i = 0; is_root && own.ok() && i < list.size(); ++i)
    own = exchange->append(list[i], list_path(i), &message);
  const absl::StatusOr<std::vector<ObjectRecord>> records = exchange->meet(
      own, root.value_or(-1), list.size(), message.size(), message);
  if (!records.ok()) return records.status();

  const ObjectRecord& from = (*records)[static_cast<size_t>(*root)];
  if (!exchange->inlined(from)) {
    message.resize(from.total);
    const absl::Status status = exchange->step([&](Communicator& c,
                                                   const CallOptions& o) {
      return c.broadcast(bytes_view(message), bytes_view(message), *root, o);
    });
    if (!status.ok()) return status;
  } else {
    message = std::string(from.content);
  }
  if (is_root) return absl::OkStatus();
  absl::StatusOr<std::vector<Object>> objects =
      exchange->objects_of(message, list.size(), *root);
  if (!objects.ok()) return objects.status();
  std::move(objects->begin(), objects->end(), list.begin());
  return absl::OkStatus();
}

absl::StatusOr<Object> scatter_object_list(absl::Span<const Object> list,
                                           Peer src, const OpOptions& options) {
  absl::StatusOr<ObjectExchange> exchange = ObjectExchange::begin(
      "scatter_object_list", ObjectCall::kScatter, options);
  if (!exchange.ok()) return exchange.status();
  const absl::StatusOr<int> root = exchange->resolve(src, Role::kFirstRank);
  absl::Status own = root.status();
  const bool is_root = root.ok() && exchange->rank() == *root;
  Scattered scattered;
  if (is_root) own = write_scattered(*exchange, list, &scattered);
  const absl::StatusOr<std::vector<ObjectRecord>> records = exchange->meet(
      own, root.value_or(-1), 0, scattered.largest, scattered.message);
  if (!records.ok()) return records.status();

  const ObjectRecord& from = (*records)[static_cast<size_t>(*root)];
  std::string piece;
  if (exchange->inlined(from)) {
    piece = piece_of(from.content, exchange->size(), exchange->rank());
  } else {
    int64_t size = 0;
    absl::Status status =
        exchange->step([&](Communicator& c, const CallOptions& o) {
          return c.scatter(TensorView(&size, 1), TensorView(scattered.sizes),
                           *root, o);
        });
    if (!status.ok()) return status;
    if (size < 0 || static_cast<uint64_t>(size) > from.largest)
      return exchange->error(
          {.reason = Reason::kObjectDecode,
           .what = "an object is larger than its sender said",
           .ranks = {*root},
           .next_step = "check that all ranks run the same version"});
    piece.resize(static_cast<size_t>(size));
    status = exchange->step([&](Communicator& c, const CallOptions& o) {
      const TensorView all(scattered.message.data() + scattered.head(),
                           static_cast<int64_t>(scattered.message.size()) -
                               static_cast<int64_t>(scattered.head()),
                           DType::kU8);
      return c.scatter_v(bytes_view(piece), is_root ? all : TensorView(), *root,
                         {scattered.sizes}, o);
    });
    if (!status.ok()) return status;
  }
  if (is_root) return list[static_cast<size_t>(*root)];
  absl::StatusOr<std::vector<Object>> object =
      exchange->objects_of(piece, 1, *root);
  if (!object.ok()) return object.status();
  return std::move(object->front());
}

}  // namespace distwrap::facade
