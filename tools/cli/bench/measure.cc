#include "bench/measure.h"

#include "bench/runner.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace distwrap::bench {
namespace {

// Fewer than six rounds give no interval of the median.
constexpr int kLeastRounds = 6;
constexpr int kMostRounds = 20;
constexpr int kCountedRounds = 5;  // rounds when the number of iterations is
                                   // given

// Whether the results are precise enough or the time is over. All ranks have
// the same times and therefore decide equally.
bool settled(const std::vector<Runner*>& able, const Runner* yardstick,
             const Plan& plan) {
  bool precise = true;
  for (const Runner* runner : able) {
    if (runner->spent_us() >= plan.seconds * 1e6) return true;
    if (yardstick == nullptr || able.size() == 1) {
      const auto& rounds = runner->round_p50();
      precise = precise && relative_error(median_interval(rounds),
                                          median(rounds)) <= plan.precision;
    } else if (runner != yardstick) {
      const Ratio ratio =
          paired_ratio(runner->round_p50(), yardstick->round_p50());
      precise = precise && relative_error({ratio.low, ratio.high},
                                          ratio.median) <= plan.precision;
    }
  }
  return precise;
}

// Further cases like the first, which take turns with it.
absl::StatusOr<std::vector<std::unique_ptr<Case>>> rotating(const Spec& spec,
                                                            SideChannel& side,
                                                            const Plan& plan) {
  std::vector<std::unique_ptr<Case>> more;
  absl::Status status;
  if (plan.evictor != nullptr) {
    const int sets = rotation(moved_bytes(spec), plan.evictor->bytes() / 2);
    for (int i = 1; i < sets && status.ok(); ++i) {
      auto made = Case::make(spec);
      status = made.status();
      if (made.ok()) more.push_back(std::make_unique<Case>(*std::move(made)));
    }
    status = side.agree(status);
  }
  if (!status.ok()) return status;
  return more;
}

}  // namespace

double Row::algbw() const {
  return p50_us > 0 ? static_cast<double>(spec.bytes) / p50_us / 1000 : 0;
}

double Row::busbw() const {
  return p50_us > 0 ? bus_bytes(spec) / p50_us / 1000 : 0;
}

double Row::reached() const { return p50_us > 0 ? limit_us / p50_us : 0; }

int Plan::least_rounds() const {
  if (rounds > 0) return rounds;
  return iterations > 0 ? kCountedRounds : kLeastRounds;
}

int Plan::most_rounds() const {
  if (rounds > 0) return rounds;
  return iterations > 0 ? kCountedRounds : kMostRounds;
}

std::vector<size_t> turns(size_t count, int round, uint64_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  // All ranks have to draw the same order.
  std::mt19937_64 random(seed * 1000003 + static_cast<uint64_t>(round / 2));
  for (size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[random() % i]);
  }
  if (round % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

absl::StatusOr<std::vector<Row>> measure(
    Case& c, const std::vector<Contestant*>& contestants, size_t baseline,
    SideChannel& side, const Plan& plan) {
  auto more = rotating(c.spec(), side, plan);
  if (!more.ok()) return more.status();
  std::vector<Case*> cases = {&c};
  for (const auto& one : *more) cases.push_back(one.get());

  std::vector<Runner> all;
  all.reserve(contestants.size());
  std::vector<Runner*> able;
  const Runner* yardstick = nullptr;
  for (size_t i = 0; i < contestants.size(); ++i) {
    all.emplace_back(cases, *contestants[i], side, plan);
    const auto has = all.back().first_call();
    if (!has.ok()) return has.status();
    if (*has) able.push_back(&all.back());
    if (*has && i == baseline) yardstick = &all.back();
  }
  for (Runner* runner : able) {
    const absl::Status status = runner->warm_up();
    if (!status.ok()) return status;
  }
  const uint64_t seed = static_cast<uint64_t>(c.spec().op) * 131 +
                        static_cast<uint64_t>(c.spec().bytes);
  bool last = able.empty();
  for (int round = 0; !last; ++round) {
    last = round + 1 >= plan.most_rounds() ||
           (round + 1 >= plan.least_rounds() && settled(able, yardstick, plan));
    for (size_t turn : turns(able.size(), round, seed)) {
      const absl::Status status = able[turn]->block(last);
      if (!status.ok()) return status;
    }
  }

  std::vector<Row> rows;
  rows.reserve(all.size());
  for (Runner& runner : all) rows.push_back(runner.row());
  if (!rows[baseline].measured) return rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == baseline || !rows[i].measured) continue;
    rows[i].ratio =
        paired_ratio(rows[i].round_p50_us, rows[baseline].round_p50_us);
    if (!plan.overhead) continue;
    Difference longer =
        paired_difference(rows[i].round_p50_us, rows[baseline].round_p50_us);
    for (double* us : {&longer.median, &longer.low, &longer.high}) *us *= 1000;
    rows[i].overhead_ns = longer;
  }
  return rows;
}

}  // namespace distwrap::bench
