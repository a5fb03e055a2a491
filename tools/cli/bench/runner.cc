#include "bench/runner.h"

#include "bench/operation.h"

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
// The time from the moment at which all ranks have emptied their caches to the
// call. It is long enough for each rank to learn the start time.
constexpr int64_t kColdLeadNs = 200'000;
constexpr int64_t kMostColdPerBlock = 50;
// A changing clock rate causes smaller differences; another thread on the core
// causes larger ones.
constexpr double kDisturbed = 1.15;
constexpr int kMostTries = 5;  // attempts for one block

double us(int64_t ns) { return static_cast<double>(ns) / 1000; }

// Keeps the code, so that the caller can tell the kind of failure.
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

int64_t batch_of(double each_us, double timed_us) {
  each_us = std::max(each_us, 1e-3);
  if (each_us >= timed_us / 2) return 1;
  return static_cast<int64_t>(std::ceil(timed_us / each_us));
}

Runner::Runner(const std::vector<Case*>& cases, Contestant& contestant,
               SideChannel& side, const Plan& plan)
    : cases_(cases),
      case_(*cases.front()),
      contestant_(contestant),
      side_(side),
      plan_(plan) {
  row_.contestant = contestant.name();
  row_.spec = case_.spec();
  row_.in_bytes = case_.in_bytes();
  row_.out_bytes = case_.out_bytes();
}

absl::StatusOr<bool> Runner::first_call() {
  for (Case* c : cases_) {
    auto call = checked_call(*c);
    if (!call.ok()) return call.status();
    if (*call == nullptr) return false;
    calls_.push_back(*std::move(call));
  }
  if (plan_.check && case_.spec().op == Operation::kBarrier) {
    const auto early = early_leavers();
    if (!early.ok()) return early.status();
    row_.wrong += *early;
  }
  row_.measured = true;
  return true;
}

absl::StatusOr<std::unique_ptr<TimedCall>> Runner::checked_call(Case& c) {
  std::unique_ptr<TimedCall> none;
  c.spoil_output();
  auto call = contestant_.prepare(c);
  absl::Status status = call.status();
  if (call.ok() && *call == nullptr) {
    status = absl::UnimplementedError(on_window(case_.spec().op) &&
                                              case_.spec().ranks < 2
                                          ? "there is no other rank"
                                          : "it has no such operation");
  }
  if (absl::IsUnimplemented(status))
    row_.why_not = std::string(status.message());
  status = side_.agree(of_contestant(status, row_, side_.rank()));
  if (absl::IsUnimplemented(status)) return none;
  if (!status.ok()) return status;

  int64_t ns = 0;
  if (c.active()) status = (*call)->timed({}, absl::MakeSpan(&ns, 1));
  if (absl::IsUnimplemented(status))
    row_.why_not = std::string(status.message());
  std::vector<double> took{us(ns)};
  status = side_.agree(of_contestant(status, row_, side_.rank()));
  if (absl::IsUnimplemented(status)) return none;
  if (status.ok()) status = side_.max(took);
  if (status.ok()) status = check(c, **call);
  if (!status.ok()) return status;
  if (calls_.empty()) row_.first_us = took[0] * c.scale();
  return call;
}

// The last rank comes late to a barrier: a rank that leaves before it has
// entered did not wait. The ranks of one host share a clock.
absl::StatusOr<int64_t> Runner::early_leavers() {
  if (!contestant_.checked()) return 0;
  if (side_.rank() == side_.ranks() - 1) absl::SleepFor(absl::Milliseconds(2));
  std::vector<double> entered{static_cast<double>(Deadline::now_ns())};
  absl::Status status = calls_[0]->repeat(1);
  const auto left = static_cast<double>(Deadline::now_ns());
  status = side_.agree(of_contestant(status, row_, side_.rank()));
  if (status.ok()) status = side_.max(entered);
  if (!status.ok()) return status;
  return side_.sum(left < entered[0] ? 1 : 0);
}

absl::Status Runner::check(Case& c, TimedCall& call) {
  if (!plan_.check || !contestant_.checked()) return absl::OkStatus();
  absl::Status status = c.active()
                            ? of_contestant(call.fetch(), row_, side_.rank())
                            : absl::OkStatus();
  status = side_.agree(status);
  if (!status.ok()) return status;
  const auto wrong = side_.sum(c.wrong());
  if (!wrong.ok()) return wrong.status();
  row_.wrong += *wrong;
  return absl::OkStatus();
}

absl::Status Runner::warm_up() {
  if (plan_.evictor != nullptr) return warm_up_cold();
  const double budget = plan_.block_seconds() * 1e6;
  std::vector<double> each{0};
  for (int64_t n = plan_.warmup > 0 ? plan_.warmup : 1;; n *= 2) {
    absl::Status status = side_.barrier();
    if (!status.ok()) return status;
    const int64_t start = Deadline::now_ns();
    if (case_.active()) status = calls_[0]->repeat(n);
    each[0] = us(Deadline::now_ns() - start) / static_cast<double>(n);
    if (!status.ok()) return of_contestant(status, row_, side_.rank());
    status = side_.max(each);
    if (!status.ok()) return status;
    if (plan_.warmup >= 0 || n >= int64_t{1} << 20 ||
        each[0] * static_cast<double>(n) > budget / 2) {
      break;
    }
  }
  each[0] = std::max(each[0], 1e-3);
  row_.batch = batch_of(each[0], plan_.timed_us);
  const auto fit = static_cast<int64_t>(
      budget / (each[0] * static_cast<double>(row_.batch)));
  per_block_ = plan_.iterations > 0
                   ? plan_.iterations
                   : std::clamp(fit, kLeastPerBlock, kMostPerBlock);
  ns_.resize(static_cast<size_t>(per_block_));
  return absl::OkStatus();
}

absl::Status Runner::cold_call(int64_t& ns) {
  TimedCall& call = *calls_[turn_++ % calls_.size()];
  plan_.evictor->evict();
  std::vector<double> ready{static_cast<double>(Deadline::now_ns())};
  absl::Status status = side_.max(ready);
  if (!status.ok() || !case_.active()) return status;
  const Loop loop{1, static_cast<int64_t>(ready[0]) + kColdLeadNs};
  return of_contestant(call.timed(loop, absl::MakeSpan(&ns, 1)), row_,
                       side_.rank());
}

absl::Status Runner::warm_up_cold() {
  std::vector<double> wall{0};
  int64_t ns = 0;
  for (int i = 0; i < 2; ++i) {  // the first call touches the memory of the
                                 // evictor
    const int64_t start = Deadline::now_ns();
    absl::Status status = cold_call(ns);
    wall[0] = us(Deadline::now_ns() - start);
    if (status.ok()) status = side_.max(wall);
    if (!status.ok()) return status;
  }
  const auto fit = static_cast<int64_t>(plan_.block_seconds() * 1e6 / wall[0]);
  per_block_ = plan_.iterations > 0
                   ? plan_.iterations
                   : std::clamp<int64_t>(fit, 1, kMostColdPerBlock);
  ns_.resize(static_cast<size_t>(per_block_));
  return absl::OkStatus();
}

absl::Status Runner::block(bool last) {
  absl::StatusOr<Times> block = timed_block(last);
  for (int tries = 1; block.ok() && block->slowdown > kDisturbed &&
                      tries < kMostTries && row_.repeated < plan_.most_rounds();
       ++tries) {
    ++row_.repeated;
    block = timed_block(last);
  }
  if (!block.ok()) return block.status();
  std::vector<double>& times = block->us;
  const double scale = case_.scale() / static_cast<double>(row_.batch);
  for (double time : times) spent_us_ += time / scale;
  times_.insert(times_.end(), times.begin(), times.end());
  std::sort(times.begin(), times.end());
  row_.round_p50_us.push_back(percentile(times, 0.5));
  if (block->slowdown > kDisturbed) ++row_.disturbed;
  return absl::OkStatus();
}

absl::StatusOr<Runner::Times> Runner::timed_block(bool last) {
  const bool cold = plan_.evictor != nullptr;
  absl::Status status;
  if (last && plan_.check) {
    for (size_t i = 0; i < cases_.size() && status.ok(); ++i) {
      cases_[i]->spoil_output();
      if (case_.active()) status = calls_[i]->spoil();
    }
  }
  if (status.ok()) status = side_.barrier();
  if (!status.ok()) return of_contestant(status, row_, side_.rank());
  std::fill(ns_.begin(), ns_.end(), 0);
  const auto slowdown = [&] { return plan_.slowdown ? plan_.slowdown() : 1; };
  double slowest = slowdown();
  if (cold) {
    for (size_t i = 0; i < ns_.size() && status.ok(); ++i) {
      status = cold_call(ns_[i]);
    }
    if (!status.ok()) return status;
  } else if (case_.active()) {
    status = calls_[0]->timed({row_.batch, 0}, absl::MakeSpan(ns_));
    if (!status.ok()) return of_contestant(status, row_, side_.rank());
  }
  slowest = std::max(slowest, slowdown());

  std::vector<double> times(ns_.size());
  const double scale = case_.scale() / static_cast<double>(row_.batch);
  for (size_t i = 0; i < times.size(); ++i) times[i] = us(ns_[i]) * scale;
  times.push_back(slowest);
  status = side_.max(times);
  const size_t latest = cold ? (turn_ - 1) % cases_.size() : 0;
  if (status.ok() && last) status = check(*cases_[latest], *calls_[latest]);
  if (!status.ok()) return status;
  slowest = times.back();
  times.pop_back();
  return Times{std::move(times), slowest};
}

Row Runner::row() {
  std::sort(times_.begin(), times_.end());
  row_.iterations = static_cast<int64_t>(times_.size());
  row_.min_us = percentile(times_, 0);
  row_.p50_us = percentile(times_, 0.5);
  row_.p90_us = percentile(times_, 0.9);
  row_.p99_us = percentile(times_, 0.99);
  row_.p999_us = percentile(times_, 0.999);
  row_.max_us = percentile(times_, 1);
  row_.p50_interval = median_interval(row_.round_p50_us);
  return row_;
}

}  // namespace distwrap::bench
