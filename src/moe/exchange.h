// The communication of one call: bytes from each rank to each, as a collective,
// or as messages where some ranks do not call.
//
// Threads: one at a time. Ownership: keeps the group.
#ifndef DISTWRAP_SRC_MOE_EXCHANGE_H_
#define DISTWRAP_SRC_MOE_EXCHANGE_H_

#include "distwrap/deadline.h"
#include "distwrap/status.h"
#include "distwrap/work.h"
#include "group/group_state.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::moe {

// Whether the session's ranks compare what they can (Check::kFull).
bool checks_fully(const group::GroupState& group);

// The name, group and limits of a call.
struct CallPlace {
  const char* name = "";
  std::shared_ptr<group::GroupState> group;
  comm::BackendCommunicator* communicator = nullptr;
  std::optional<absl::Duration> timeout = {};
  std::string label = {};
};

// One side of an exchange: counts[r] bytes for or from rank r at displs[r].
struct ByteParts {
  uint8_t* data = nullptr;
  absl::Span<const int64_t> counts, displs;
};

// Numbers of messages within the host's class of tags; 0 to 2 are those of
// objects.
inline constexpr int64_t kPlanTag = 8;
inline constexpr int64_t kCallTag = 1 << 20;

class Exchange {
 public:
  explicit Exchange(CallPlace place);

  int rank() const { return place_.group->rank(); }
  int size() const { return place_.group->size(); }
  const CallPlace& place() const { return place_; }

  // By rank 1 for those that do not call; they get and send nothing. The
  // caller keeps the list.
  void mask(absl::Span<const uint8_t> masked) { masked_ = masked; }
  bool has_masked() const { return !masked_.empty(); }
  bool calls(int rank) const {
    return masked_.empty() || masked_[static_cast<size_t>(rank)] == 0;
  }

  // Every rank calls. Waits, or returns a running Work.
  absl::StatusOr<Work> all_to_all(const ByteParts& out, const ByteParts& in,
                                  int64_t tag, bool async) const;
  // Rows that lie where `rows` says (abi/moe.h), with counts in bytes by rank.
  // All of it lives until the exchange has ended. No rank is masked.
  absl::StatusOr<Work> all_to_all(const dw_ext& rows,
                                  absl::Span<const int64_t> out_counts,
                                  absl::Span<const int64_t> in_counts,
                                  bool async) const;
  // Rank i's ins[j] to rank j's outs[i], where they lie.
  absl::StatusOr<Work> all_to_all(absl::Span<const TensorView> outs,
                                  absl::Span<const TensorView> ins,
                                  bool async) const;
  // Messages only, between those ranks that have something for each other. The
  // own part is copied.
  absl::StatusOr<Work> messages(const ByteParts& out, const ByteParts& in,
                                int64_t tag, bool async) const;

  // Adds the call, the group and the rank.
  absl::Status error(ErrorInfo info) const;
  // Turns an error of a step into one of the call.
  absl::Status finish(const absl::Status& status) const;
  absl::Status check_open() const;

 private:
  CallOptions how(bool async) const;

  CallPlace place_;
  Deadline deadline_;
  absl::Span<const uint8_t> masked_;
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_EXCHANGE_H_
