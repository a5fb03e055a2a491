#include "bench/measure.h"

#include "bench/runner.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace distwrap::bench {

double Row::algbw() const {
  return p50_us > 0 ? static_cast<double>(spec.bytes) / p50_us / 1000 : 0;
}

double Row::busbw() const { return algbw() * bus_factor(spec.op, spec.ranks); }

std::vector<size_t> turns(size_t count, int round) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  if (count < 2) return order;
  const auto by = static_cast<size_t>(round / 2) % count;
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(by),
              order.end());
  if (round % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

absl::StatusOr<std::vector<Row>> measure(
    Case& c, const std::vector<Contestant*>& contestants, size_t baseline,
    SideChannel& side, const Plan& plan) {
  std::vector<Runner> all;
  std::vector<size_t> able;
  for (Contestant* contestant : contestants) {
    all.emplace_back(c, *contestant, side, plan);
    const auto has = all.back().first_call();
    if (!has.ok()) return has.status();
    if (*has) able.push_back(all.size() - 1);
  }
  for (size_t i : able) {
    const absl::Status status = all[i].warm_up();
    if (!status.ok()) return status;
  }
  for (int round = 0; round < plan.rounds; ++round) {
    for (size_t turn : turns(able.size(), round)) {
      const absl::Status status =
          all[able[turn]].block(round + 1 == plan.rounds);
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
  }
  return rows;
}

}  // namespace distwrap::bench
