// One call that moves objects: its name, group and deadline, and its steps.
//
// Threads: one thread. Ownership: an object lives for one call and keeps the
// group alive.
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
  // Errors: kNotInitialized, kNoCommunicator; kInvalidArgument for `async`.
  static absl::StatusOr<ObjectExchange> begin(const char* name, ObjectCall call,
                                              const OpOptions& options);

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  uint64_t limit() const { return limit_; }

  // The rank of the group that a Peer names, by the rules of all calls.
  absl::StatusOr<int> resolve(Peer peer, Role role) const;

  // Appends an object to a message of at most `limit` bytes. `path` is the
  // object's place in errors, "[3]" for the fourth of a list.
  absl::Status append(const Object& object, absl::string_view path,
                      std::string* message) const;
  // Decodes the `count` objects that a message of rank `from` holds.
  absl::StatusOr<std::vector<Object>> objects_of(absl::string_view message,
                                                 uint64_t count,
                                                 int from) const;

  // This rank's record: the size of its message and, if short, the message
  // itself; or the error that keeps this rank from taking part. `largest` is
  // compared with the limit.
  std::string write(const absl::Status& own, int root, uint64_t count,
                    uint64_t largest, absl::string_view message,
                    size_t size) const;

  // The first exchange: returns the records of all ranks by rank of the group;
  // they refer to memory of this object. Fails with `own` if that is an error,
  // otherwise with the error that all ranks conclude.
  absl::StatusOr<std::vector<ObjectRecord>> meet(const absl::Status& own,
                                                 int root, uint64_t count,
                                                 uint64_t largest,
                                                 absl::string_view message);
  // Draws the same conclusion from records that came another way; `ranks` names
  // their ranks.
  absl::StatusOr<std::vector<ObjectRecord>> conclude(
      const absl::Status& own,
      absl::Span<const std::optional<ObjectRecord>> records,
      absl::Span<const int> ranks) const;
  bool inlined(const ObjectRecord& record) const {
    return record.inlined(record_size(size()));
  }

  // Runs one step, `call(communicator, call_options)`, with the remaining time.
  template <class Body>
  absl::Status step(const Body& call) const {
    return finish(call(*communicator_, call_options()).status());
  }
  comm::BackendCommunicator& communicator() const { return *communicator_; }

  // Adds the call, the group and the rank to `info`.
  absl::Status error(ErrorInfo info) const;

 private:
  ObjectExchange() = default;
  CallOptions call_options() const;
  // Turns an error of a step into an error of this call.
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

// Bytes as a tensor, for output or for input.
inline TensorView bytes_view(std::string& bytes) {
  return {bytes.data(), static_cast<int64_t>(bytes.size()), DType::kU8};
}
inline TensorView bytes_view(const std::string& bytes) {
  return TensorView(reinterpret_cast<const uint8_t*>(bytes.data()),
                    static_cast<int64_t>(bytes.size()));
}

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_OBJECT_EXCHANGE_H_
