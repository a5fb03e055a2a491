// The ranks compare what each of them wants to prepare.
#include "base/error.h"
#include "base/exceptions.h"
#include "comm/board/pair_counts.h"
#include "comm/board/seen_call.h"
#include "comm/communicator.h"
#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>

#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

// A rank's message to the others about its operation, in words of 64 bits.
class Told {
 public:
  static size_t words(int size) { return 4 + 2 * static_cast<size_t>(size); }
  static std::vector<int64_t> of(const PreparedOp& prepared,
                                 const absl::Status& refused, int rank,
                                 int size) {
    std::vector<int64_t> told(words(size));
    told[0] = static_cast<int64_t>(error_reason(refused));
    if (!refused.ok()) return told;
    const dw_op& op = prepared.op;
    const SeenCall seen = SeenCall::of(op.kind, op, size);
    told[1] = static_cast<int64_t>(seen.what);
    told[2] = seen.count;
    told[3] = static_cast<int64_t>(seen.print);
    if (!PairCounts::are_in(op)) return told;
    const PairCounts counts(op, rank, size);
    for (int peer = 0; peer < size; ++peer) {
      const PairCounts::Pair pair = counts.with(peer);
      told[4 + static_cast<size_t>(peer)] = pair.sends;
      told[4 + static_cast<size_t>(size + peer)] = pair.expects;
    }
    return told;
  }

  Told(const std::vector<int64_t>& all, int rank, int size)
      : at_(all.data() + static_cast<size_t>(rank) * words(size)),
        rank_(rank),
        size_(size) {}
  Reason refused() const { return static_cast<Reason>(at_[0]); }
  uint64_t print() const { return static_cast<uint64_t>(at_[3]); }
  int64_t sends(int peer) const { return at_[4 + peer]; }
  int64_t expects(int peer) const { return at_[4 + size_ + peer]; }
  // "all_reduce f32 x 8 sum (rank 1)"
  std::string text() const {
    return absl::StrCat(
        SeenCall{0, static_cast<uint64_t>(at_[1]), at_[2]}.text(), " (rank ",
        rank_, ")");
  }

 private:
  const int64_t* at_;
  const int rank_, size_;
};

// Why the ranks' operations do not fit each other.
std::optional<ErrorInfo> difference(const std::vector<int64_t>& all, int size) {
  const Told first(all, 0, size);
  for (int r = 0; r < size; ++r) {
    const Told one(all, r, size);
    if (one.refused() != Reason::kNone)
      return ErrorInfo{
          .reason = one.refused(),
          .what = absl::StrCat("rank ", r, " cannot prepare the operation"),
          .ranks = {r},
          .next_step = "see that rank's error"};
  }
  for (int r = 1; r < size; ++r) {
    const Told one(all, r, size);
    if (one.print() != first.print())
      return ErrorInfo{.reason = Reason::kCallMismatch,
                       .what = "ranks prepare different operations",
                       .ranks = {r},
                       .expected = first.text(),
                       .actual = one.text(),
                       .next_step = "prepare the same on all ranks"};
  }
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to) {
      const Told sender(all, from, size), receiver(all, to, size);
      if (sender.sends(to) == receiver.expects(from)) continue;
      return ErrorInfo{
          .reason = Reason::kCallMismatch,
          .what =
              "one rank sends a different number of elements than another "
              "expects",
          .ranks = {std::min(from, to), std::max(from, to)},
          .expected = absl::StrCat(receiver.text(), ": ",
                                   receiver.expects(from), " of rank ", from),
          .actual = absl::StrCat(sender.text(), ": ", sender.sends(to),
                                 " to rank ", to),
          .next_step = "exchange the counts first, by an all_to_all"};
    }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<uint64_t> BackendCommunicator::agree_on(
    const PreparedOp& prepared, const absl::Status& refused) {
  if (backend_->device() != kCpu)
    return base::make_error(
        located({.reason = Reason::kUnsupported,
                 .what = "only operations on host memory are prepared",
                 .next_step = "make the call each time"},
                prepared.op.kind, 0));
  const std::vector<int64_t> own =
      Told::of(prepared, refused, identity_.rank, identity_.size);
  std::vector<int64_t> all(own.size() * static_cast<size_t>(identity_.size));
  const absl::StatusOr<Work> told =
      all_gather(TensorView(all), TensorView(own), {.label = prepared.label});
  if (!told.ok()) return told.status();
  if (!refused.ok()) return refused;
  if (std::optional<ErrorInfo> wrong = difference(all, identity_.size);
      wrong.has_value()) {
    wrong->label = prepared.label;
    return base::make_error(located(*std::move(wrong), prepared.op.kind, 0));
  }
  uint64_t fingerprint = 1;
  for (const int64_t word : all)
    fingerprint = mix(fingerprint + static_cast<uint64_t>(word));
  return fingerprint == 0 ? 1 : fingerprint;
}

absl::StatusOr<std::unique_ptr<PreparedCall>>
BackendCommunicator::prepare_together(const PreparedOp& prepared,
                                      const absl::Status& refused) try {
  const absl::StatusOr<uint64_t> fingerprint = agree_on(prepared, refused);
  if (!fingerprint.ok()) return fingerprint.status();
  std::unique_ptr<PreparedOp> kept = copy_op(prepared, identity_.size);
  kept->op.fingerprint = *fingerprint;
  return make_prepared(std::move(kept));
} catch (...) {
  return base::error_of_exception(op_shape(prepared.op.kind).name);
}

}  // namespace distwrap::comm
