#include "bench/runner.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace distwrap::bench {
namespace {

constexpr int64_t kLeastPerBlock = 5;
constexpr int64_t kMostPerBlock = 4000;
// A clock reading takes 20 to 30 ns: it has to be little beside what it times.
constexpr double kLeastTimedUs = 2;

double us(int64_t ns) { return static_cast<double>(ns) / 1000; }

// Keeps the code, so that the caller can tell what kind of failure it was.
absl::Status of_contestant(const absl::Status& status, const Row& row,
                           int rank) {
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(row.contestant, ", ", operation_name(row.spec.op), " of ",
                   row.spec.bytes, " bytes, rank ", rank, ": ",
                   status.message()));
}

}  // namespace

Runner::Runner(Case& c, Contestant& contestant, SideChannel& side,
               const Plan& plan)
    : case_(c), contestant_(contestant), side_(side), plan_(plan) {
  row_.contestant = contestant.name();
  row_.spec = c.spec();
  row_.in_bytes = c.in_bytes();
  row_.out_bytes = c.out_bytes();
}

absl::StatusOr<bool> Runner::first_call() {
  auto call = contestant_.prepare(case_);
  absl::Status status = call.status();
  const bool has = call.ok() && *call != nullptr;
  if (call.ok() && !has) status = absl::UnimplementedError("no such operation");
  if (has) call_ = *std::move(call);
  case_.spoil_output();
  status = side_.agree(of_contestant(status, row_, side_.rank()));
  if (absl::IsUnimplemented(status)) return false;
  if (!status.ok()) return status;

  const int64_t start = Deadline::now_ns();
  if (case_.active()) status = call_->repeat(1);
  std::vector<double> took{us(Deadline::now_ns() - start)};
  status = side_.agree(of_contestant(status, row_, side_.rank()));
  if (absl::IsUnimplemented(status)) return false;
  if (status.ok()) status = side_.max(took);
  if (status.ok()) status = check();
  if (!status.ok()) return status;
  if (plan_.check && case_.spec().op == Operation::kBarrier) {
    const auto early = early_leavers();
    if (!early.ok()) return early.status();
    row_.wrong += *early;
  }
  row_.first_us = took[0] * case_.scale();
  row_.measured = true;
  return true;
}

// The last rank comes late to a barrier: who leaves before it has entered did
// not wait. The ranks of one host share a clock.
absl::StatusOr<int64_t> Runner::early_leavers() {
  if (!contestant_.checked()) return 0;
  if (side_.rank() == side_.ranks() - 1) absl::SleepFor(absl::Milliseconds(2));
  std::vector<double> entered{static_cast<double>(Deadline::now_ns())};
  absl::Status status = call_->repeat(1);
  const auto left = static_cast<double>(Deadline::now_ns());
  status = side_.agree(of_contestant(status, row_, side_.rank()));
  if (status.ok()) status = side_.max(entered);
  if (!status.ok()) return status;
  return side_.sum(left < entered[0] ? 1 : 0);
}

absl::Status Runner::check() {
  if (!plan_.check || !contestant_.checked()) return absl::OkStatus();
  const auto wrong = side_.sum(case_.wrong());
  if (!wrong.ok()) return wrong.status();
  row_.wrong += *wrong;
  return absl::OkStatus();
}

absl::Status Runner::warm_up() {
  const double budget = plan_.seconds * 1e6;
  std::vector<double> each{0};
  for (int64_t n = plan_.warmup > 0 ? plan_.warmup : 1;; n *= 2) {
    absl::Status status = side_.barrier();
    if (!status.ok()) return status;
    const int64_t start = Deadline::now_ns();
    if (case_.active()) status = call_->repeat(n);
    each[0] = us(Deadline::now_ns() - start) / static_cast<double>(n);
    if (!status.ok()) return of_contestant(status, row_, side_.rank());
    status = side_.max(each);
    if (!status.ok()) return status;
    if (plan_.warmup >= 0 || n >= int64_t{1} << 20 ||
        each[0] * static_cast<double>(n) > budget / 5) {
      break;
    }
  }
  each[0] = std::max(each[0], 1e-3);
  row_.batch = static_cast<int64_t>(
      std::ceil(each[0] >= kLeastTimedUs / 2 ? 1 : kLeastTimedUs / each[0]));
  const auto fit = static_cast<int64_t>(
      budget / (each[0] * static_cast<double>(row_.batch)));
  per_block_ = plan_.iterations > 0
                   ? plan_.iterations
                   : std::clamp(fit, kLeastPerBlock, kMostPerBlock);
  clock_.resize(static_cast<size_t>(per_block_) + 1);
  return absl::OkStatus();
}

absl::Status Runner::block(bool last) {
  if (last && plan_.check) case_.spoil_output();
  absl::Status status = side_.barrier();
  if (!status.ok()) return status;

  if (case_.active()) {
    const int64_t batch = row_.batch;
    clock_[0] = Deadline::now_ns();
    for (size_t i = 1; i < clock_.size() && status.ok(); ++i) {
      status = call_->repeat(batch);
      clock_[i] = Deadline::now_ns();
    }
  }
  if (!status.ok()) return of_contestant(status, row_, side_.rank());

  std::vector<double> times(clock_.size() - 1);
  const double scale = case_.scale() / static_cast<double>(row_.batch);
  for (size_t i = 0; i < times.size() && case_.active(); ++i) {
    times[i] = us(clock_[i + 1] - clock_[i]) * scale;
  }
  status = side_.max(times);
  if (status.ok() && last) status = check();
  if (!status.ok()) return status;
  times_.insert(times_.end(), times.begin(), times.end());
  std::sort(times.begin(), times.end());
  row_.round_p50_us.push_back(percentile(times, 0.5));
  return absl::OkStatus();
}

Row Runner::row() {
  std::sort(times_.begin(), times_.end());
  row_.iterations = static_cast<int64_t>(times_.size());
  row_.min_us = percentile(times_, 0);
  row_.p50_us = percentile(times_, 0.5);
  row_.p90_us = percentile(times_, 0.9);
  row_.p99_us = percentile(times_, 0.99);
  row_.max_us = percentile(times_, 1);
  return row_;
}

}  // namespace distwrap::bench
