#include "layout/plan_cache.h"

#include <array>
#include <memory>

namespace distwrap::layout {
namespace {

constexpr int kSlotBits = 8;
using Table = std::array<PlanRef, size_t{1} << kSlotBits>;

Table& table() {
  static thread_local const std::unique_ptr<Table> kTable =
      std::make_unique<Table>();
  return *kTable;
}

}  // namespace

PlanRef& plan_slot(absl::Span<const int64_t> shape, int64_t itemsize,
                   const Layout& source, const Layout& target,
                   const PlanOptions& options) {
  uint64_t hash = 0;
  const auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  };
  for (const int64_t extent : shape) mix(static_cast<uint64_t>(extent));
  mix(source.id());
  mix(target.id());
  mix(static_cast<uint64_t>(itemsize));
  mix(static_cast<uint64_t>(options.mode));
  mix(static_cast<uint64_t>(options.cap_bytes));
  mix(static_cast<uint64_t>(options.ranks_per_host));
  const PlanPrices& prices = options.prices;
  for (const int64_t one : {prices.begin, prices.near, prices.far, prices.copy})
    mix(static_cast<uint64_t>(one));
  return table()[hash >> (64 - kSlotBits)];
}

bool holds(const PlanRef& slot, absl::Span<const int64_t> shape,
           int64_t itemsize, const Layout& source, const Layout& target,
           const PlanOptions& options) {
  return slot != nullptr && &slot->source() == &source &&
         &slot->target() == &target && slot->itemsize() == itemsize &&
         slot->options() == options && slot->shape() == shape;
}

}  // namespace distwrap::layout
