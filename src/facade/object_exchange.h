// One call that moves objects: who makes it, by when it ends, and its steps.
//
// Threads: as a plain object. Ownership: lives for the call, and keeps the
// group.
#ifndef DISTWRAP_SRC_FACADE_OBJECT_EXCHANGE_H_
#define DISTWRAP_SRC_FACADE_OBJECT_EXCHANGE_H_

#include "distwrap/deadline.h"
#include "distwrap/objects.h"
#include "facade/object_record.h"
#include "facade/roots.h"
#include "group/group_state.h"

#include <memory>
#include <string>
#include <vector>

namespace distwrap::facade {

class ObjectExchange {
 public:
  // kNotInitialized, kNoCommunicator, kInvalidArgument for `async`.
  static absl::StatusOr<ObjectExchange> begin(const char* name, ObjectCall call,
                                              const OpOptions& options);

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  uint64_t limit() const { return limit_; }

  // A rank of the group, by the rules of all calls.
  absl::StatusOr<int> resolve(Peer peer, Role role) const;

  // Appends an object to a message, which has at most `limit` bytes. The error
  // says "[3]" for the fourth of a list.
  absl::Status append(const Object& object, absl::string_view path,
                      std::string* message) const;
  // All that a message of `from` holds, which is `count`.
  absl::StatusOr<std::vector<Object>> objects_of(absl::string_view message,
                                                 uint64_t count,
                                                 int from) const;

  // What this rank says: the message's size and, when it is short, the message
  // itself; in place of it, that of an error, why it cannot take part.
  // `largest` is what of it is held against the limit.
  std::string write(const absl::Status& own, int root, uint64_t count,
                    uint64_t largest, absl::string_view message,
                    size_t size) const;

  // The first exchange: everybody's records, by rank of the group, which refer
  // to memory of this object. The error of `own` if there is one, else the one
  // that all ranks conclude on.
  absl::StatusOr<std::vector<ObjectRecord>> meet(const absl::Status& own,
                                                 int root, uint64_t count,
                                                 uint64_t largest,
                                                 absl::string_view message);
  // The same of records that came another way; `ranks` says whose they are.
  absl::StatusOr<std::vector<ObjectRecord>> conclude(
      const absl::Status& own,
      absl::Span<const std::optional<ObjectRecord>> records,
      absl::Span<const int> ranks) const;
  bool inlined(const ObjectRecord& record) const {
    return record.inlined(record_size(size()));
  }

  // A step: `call(communicator, call_options)` with the time that is left.
  template <class Call>
  absl::Status step(const Call& call) const {
    return finish(call(*communicator_, call_options()).status());
  }
  comm::BackendCommunicator& communicator() const { return *communicator_; }

  // `info` with which call of whom it is.
  absl::Status error(ErrorInfo info) const;

 private:
  ObjectExchange() = default;
  CallOptions call_options() const;
  // An error of a step becomes one of this call.
  absl::Status finish(const absl::Status& status) const;

  const char* name_ = "";
  ObjectCall call_ = ObjectCall::kAllGather;
  std::shared_ptr<group::GroupState> group_;
  comm::BackendCommunicator* communicator_ = nullptr;
  absl::string_view label_;
  std::optional<absl::Duration> timeout_;
  Deadline deadline_;
  uint64_t limit_ = 0;
  std::string records_;
};

// Bytes as a tensor, an output or an input.
inline TensorView bytes_view(std::string& bytes) {
  return {bytes.data(), static_cast<int64_t>(bytes.size()), DType::kU8};
}
inline TensorView bytes_view(const std::string& bytes) {
  return TensorView(reinterpret_cast<const uint8_t*>(bytes.data()),
                    static_cast<int64_t>(bytes.size()));
}

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_OBJECT_EXCHANGE_H_
