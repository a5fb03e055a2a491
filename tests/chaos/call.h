// One collective, or a ring of messages, whose result is known: fills the
// inputs, makes the call, and compares every element of the result.
//
// Threads: one at a time. Ownership: owns its buffers.
//
//   Performer performer(group);
//   absl::Status status = performer.perform(call, round);
//   performer.wrong();  // wrong data of a call that succeeded
#ifndef DISTWRAP_TESTS_CHAOS_CALL_H_
#define DISTWRAP_TESTS_CHAOS_CALL_H_

#include "chaos/setting.h"
#include "distwrap/distwrap.h"

#include <absl/types/span.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::chaos {

enum class Kind : uint8_t {
  kBarrier,
  kBroadcast,
  kReduce,
  kAllReduce,
  kGather,
  kScatter,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kScan,
  kAllGatherV,      // with `counts`
  kReduceScatterV,  // with `counts`
  kAllToAllV,       // with `counts`: counts[(i + j) % ranks] from rank i to j
  kRing,            // a message to the next rank, one from the previous
};
const char* kind_name(Kind kind);
bool has_root(Kind kind);
bool reduces(Kind kind);
bool has_counts(Kind kind);

struct Call {
  Kind kind = Kind::kBarrier;
  int64_t count = 1;  // elements of a block
  DType dtype = DType::kI32;
  ReduceOp::Kind reduction = ReduceOp::kSum;
  int root = 0;
  std::vector<int64_t> counts = {};
  bool async = false;

  // "all_reduce of 1024 i32, sum"
  std::string text() const;
};

// Draws a call whose whole data has about `bytes`, one of the first kinds or
// the ring.
Call draw_call(Draw& draw, int ranks, int64_t bytes);

class Performer {
 public:
  explicit Performer(Group group)
      : group_(std::move(group)), me_(group_.rank()), ranks_(group_.size()) {}

  // Runs a call to its end. The data depend on `round`, which is equal on all
  // ranks.
  absl::Status perform(const Call& call, uint64_t round,
                       std::optional<absl::Duration> timeout = std::nullopt);
  const std::string& wrong() const { return wrong_; }
  uint64_t wrong_round() const { return wrong_round_; }

 private:
  template <class T>
  absl::Status perform_with(const Call& call, uint64_t round,
                            const OpOptions& options);
  template <class T>
  std::vector<T> filled(const Call& call, uint64_t round, int64_t n) const;
  template <class T>
  void expect(const Call& call, uint64_t round, const T* got, int64_t n,
              int64_t first, int from, int to);

  const Group group_;
  const int me_, ranks_;
  std::string wrong_;  // the first mistake
  uint64_t wrong_round_ = 0;
};

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_CALL_H_
