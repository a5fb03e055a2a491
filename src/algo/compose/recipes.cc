#include "algo/compose/recipes.h"

#include "algo/below/dtypes.h"
#include "algo/reduce_kernels.h"

#include <algorithm>

namespace distwrap::algo::compose {
namespace {

constexpr uint64_t kReducing = DW_BIT(DW_OP_REDUCE) | DW_BIT(DW_OP_ALL_REDUCE) |
                               DW_BIT(DW_OP_REDUCE_SCATTER) |
                               DW_BIT(DW_OP_SCAN);
constexpr uint64_t kMessages = DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV);
constexpr uint32_t kForms =
    DW_FLAG_IN_PLACE | DW_FLAG_EXCLUSIVE | DW_FLAG_PER_RANK | DW_FLAG_PARTS;

bool has(uint64_t mask, unsigned bit) { return (mask >> bit & 1) != 0; }

bool has_kernel(int dtype, uint16_t reduce) {
  return reduce_kernel(kDTypeOf[dtype], reduce) != nullptr;
}

absl::string_view name_of(Recipe recipe, uint16_t kind) {
  switch (recipe) {
    case Recipe::kRefused:
    case Recipe::kNative:
      return "";
    case Recipe::kCarried:
      return "itself as another type of the same bytes";
    case Recipe::kToSelf:
      return "a copy; to oneself only";
    case Recipe::kSumThenDivide:
      return "its sum + a division";
    case Recipe::kScaleThenSum:
      return "a scaled copy + its sum";
    case Recipe::kBarrierByAllReduce:
      return "all_reduce";
    case Recipe::kByMessages:
      return has(kReducing, kind) ? "send + recv + kernel" : "send + recv";
    case Recipe::kGatherByAllGather:
      return "all_gather + a copy";
    case Recipe::kScatterByBroadcast:
      return "broadcast + a copy";
    case Recipe::kAllGatherPadded:
      return "all_gather of equal parts + a copy";
    case Recipe::kAllToAllByAllGather:
      return "all_gather + a copy";
    case Recipe::kReduceByAllReduce:
      return "all_reduce + a copy";
    case Recipe::kAllReduceByReduceScatter:
      return "reduce_scatter + all_gather";
    case Recipe::kAllReduceByReduce:
      return "reduce + broadcast";
    case Recipe::kReduceScatterByAllToAll:
      return "all_to_all + kernel";
    case Recipe::kReduceScatterByAllReduce:
      return "all_reduce + a copy";
    case Recipe::kKernelByAllGather:
      return "all_gather + kernel";
  }
  return "";
}

}  // namespace

bool Recipes::reduces(uint16_t kind) { return has(kReducing, kind); }

bool Recipes::exists(uint16_t kind, uint32_t flags, int dtype,
                     uint16_t reduce) {
  if (kind == 0 || kind >= kKinds || dtype < 0 || dtype >= kDTypes ||
      reduce >= kReductions)
    return false;
  if ((flags & ~(flags_of(kind) | DW_FLAG_CALLER_WAITS)) != 0) return false;
  if (!reduces(kind)) return reduce == DW_REDUCE_NONE;
  if (kind == DW_OP_SCAN && reduce == DW_REDUCE_AVG) return false;
  return has_kernel(dtype, reduce);
}

Recipes::Recipes(absl::Span<const dw_caps_row> rows, int32_t device_type) {
  on_host_ = device_type == DW_DEVICE_CPU;
  read(rows, device_type, false);
  choose_all();
  if (std::any_of(rows.begin(), rows.end(),
                  [](const dw_caps_row& row) { return row.score < 0; })) {
    read(rows, device_type, true);
    choose_all();
  }
  only_messages_ = all_native(DW_OP_SEND) && all_native(DW_OP_RECV);
  for (const dw_caps_row& row : rows)
    if ((row.ops & ~(kMessages | kWindowOps)) != 0) only_messages_ = false;
  collectives_complete_ = true;
  for (uint16_t kind = 1; kind < kKinds; ++kind)
    if (kind != DW_OP_SEND && kind != DW_OP_RECV && !all_native(kind))
      collectives_complete_ = false;
}

void Recipes::choose_all() {
  choose_carriers();
  for (uint16_t kind = 1; kind < kKinds; ++kind)
    for (size_t v = 0; v < 2; ++v) {
      const uint32_t flags = v == 0               ? 0
                             : kind == DW_OP_SCAN ? DW_FLAG_EXCLUSIVE
                                                  : DW_FLAG_PER_RANK;
      for (int dtype = 0; dtype < kDTypes; ++dtype)
        for (uint16_t reduce = 0; reduce < kReductions; ++reduce) {
          recipes_[kind][v][static_cast<size_t>(dtype)][reduce] =
              on_host_ ? choose(kind, flags, dtype, reduce)
                       : choose_on_device(kind, flags, dtype, reduce);
        }
    }
}

void Recipes::read(absl::Span<const dw_caps_row> rows, int32_t device_type,
                   bool last_resort) {
  uint64_t no_caller_waits = 0;
  for (const dw_caps_row& row : rows) {
    if (device_type < 0 || device_type > 31 ||
        !has(row.memory, static_cast<unsigned>(device_type)))
      continue;
    for (uint16_t kind = 1; kind < kKinds; ++kind) {
      if (!has(row.ops, kind)) continue;
      (has(row.flags, 1) ? caller_waits_ : no_caller_waits) |= DW_BIT(kind);
      const bool is_last = row.score < 0 && !has(kMessages, kind);
      // A recipe has to work for every size.
      if (row.min_bytes == 0 && row.max_bytes == 0) {
        if (is_last == last_resort) add(row, kind, last_resort);
        continue;
      }
      const uint32_t chosen_by_ranks =
          flags_of(kind) & (DW_FLAG_IN_PLACE | DW_FLAG_PARTS);
      if (last_resort || is_last || has(kMessages, kind) ||
          (chosen_by_ranks & ~row.flags) != 0)
        continue;
      limited_kinds_ |= DW_BIT(kind);
      limited_.push_back(row);
      limited_.back().ops = DW_BIT(kind);
    }
  }
  caller_waits_ &= ~no_caller_waits;
}

void Recipes::add(const dw_caps_row& row, uint16_t kind, bool last_resort) {
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t flags = (i & 1) | (i & 2) << 2 | (i & 12) << 4;
    if ((flags & ~(row.flags & flags_of(kind))) != 0) continue;
    for (int dtype = 0; dtype < kDTypes; ++dtype) {
      if (kind != DW_OP_BARRIER &&
          !has(row.dtypes, static_cast<unsigned>(dtype)))
        continue;
      uint16_t& bits = native_[kind][i][static_cast<size_t>(dtype)];
      for (uint16_t reduce = 0; reduce < kReductions; ++reduce)
        if ((!reduces(kind) || has(row.reductions, reduce)) &&
            exists(kind, flags, dtype, reduce) &&
            (!last_resort ||
             recipe(kind, flags, dtype, reduce) == Recipe::kRefused))
          bits = static_cast<uint16_t>(bits | 1u << reduce);
    }
  }
}

bool Recipes::find_limited(uint16_t kind, uint32_t flags, int dtype,
                           uint16_t reduce, uint64_t bytes) const {
  if (!exists(kind, flags, dtype, reduce)) return false;
  if ((flags & DW_FLAG_PER_RANK) != 0) return false;
  for (const dw_caps_row& row : limited_)
    if (has(row.ops, kind) && (flags & ~row.flags) == 0 &&
        (kind == DW_OP_BARRIER ||
         has(row.dtypes, static_cast<unsigned>(dtype))) &&
        (!reduces(kind) || has(row.reductions, reduce)) &&
        bytes >= row.min_bytes &&
        (row.max_bytes == 0 || bytes <= row.max_bytes))
      return true;
  return false;
}

// Chooses a carrier of the same size, else bytes.
void Recipes::choose_carriers() {
  for (uint16_t kind = 1; kind < kKinds; ++kind)
    for (size_t v = 0; v < 2; ++v)
      for (int dtype = 0; dtype < kDTypes; ++dtype) {
        const uint32_t flags = v == 0 ? 0 : DW_FLAG_PER_RANK;
        const auto can = [&](int other) {
          if (reduces(kind) || (flags & ~flags_of(kind)) != 0) return false;
          if (has(kMessages, kind))
            return native(DW_OP_SEND, 0, other, 0) &&
                   native(DW_OP_RECV, 0, other, 0);
          return native(kind, flags, other, 0);
        };
        int chosen = can(dtype) ? dtype : -1;
        if (!on_host_ && has(kMessages, kind)) {
          carriers_[kind][v][static_cast<size_t>(dtype)] =
              static_cast<int8_t>(chosen);
          continue;
        }
        for (int other = 0; other < kDTypes && chosen < 0; ++other)
          // A backend may normalise a bool, so bool carries no other type.
          if (other != DW_DTYPE_BOOL &&
              dtype_bytes(other) == dtype_bytes(dtype) && can(other))
            chosen = other;
        if (chosen < 0 && can(DW_DTYPE_U8)) chosen = DW_DTYPE_U8;
        carriers_[kind][v][static_cast<size_t>(dtype)] =
            static_cast<int8_t>(chosen);
      }
  for (int dtype = kDTypes - 1; dtype >= 0; --dtype)
    if (native(DW_OP_ALL_REDUCE, 0, dtype, DW_REDUCE_MAX))
      barrier_dtype_ = static_cast<int8_t>(dtype);
  if (barrier_dtype_ >= 0) return;
  for (int dtype = kDTypes - 1; dtype >= 0; --dtype)
    if (message_carrier(dtype) == dtype)
      barrier_dtype_ = static_cast<int8_t>(dtype);
}

bool Recipes::direct(uint16_t kind, uint32_t flags, int dtype,
                     uint16_t reduce) const {
  if (!exists(kind, flags, dtype, reduce)) return false;
  if (native(kind, flags, dtype, reduce)) return true;
  if (!reduces(kind)) return carrier(kind, flags, dtype) >= 0;
  // Sums of 16-bit floats have been rounded before the division.
  return reduce == DW_REDUCE_AVG && !is_half(dtype) &&
         native(kind, flags, dtype, DW_REDUCE_SUM);
}

Recipe Recipes::choose(uint16_t kind, uint32_t flags, int dtype,
                       uint16_t reduce) const {
  if (!exists(kind, flags, dtype, reduce)) return Recipe::kRefused;
  if (native(kind, flags, dtype, reduce)) return Recipe::kNative;
  if (reduces(kind)) return choose_reduction(kind, flags, dtype, reduce);
  return choose_move(kind, flags, dtype);
}

// Messages of another type need a head, which lies in host memory.
Recipe Recipes::choose_on_device(uint16_t kind, uint32_t flags, int dtype,
                                 uint16_t reduce) const {
  if (!exists(kind, flags, dtype, reduce)) return Recipe::kRefused;
  if (native(kind, flags, dtype, reduce)) return Recipe::kNative;
  if (!reduces(kind))
    return kind != DW_OP_BARRIER && !has(kMessages, kind) &&
                   carrier(kind, flags, dtype) >= 0
               ? Recipe::kCarried
               : Recipe::kRefused;
  const auto is_native = [&](uint16_t step, uint16_t how) {
    return native(step, 0, dtype, how) &&
           native(step, DW_FLAG_IN_PLACE, dtype, how);
  };
  return kind == DW_OP_ALL_REDUCE && is_native(DW_OP_REDUCE, reduce) &&
                 is_native(DW_OP_BROADCAST, DW_REDUCE_NONE)
             ? Recipe::kAllReduceByReduce
             : Recipe::kRefused;
}

bool Recipes::has_form(Recipe chosen, uint16_t kind, uint32_t flags, int dtype,
                       uint16_t reduce) const {
  flags &= kForms;
  if (chosen == Recipe::kAllReduceByReduce) return true;
  if (chosen == Recipe::kCarried) dtype = carrier(kind, flags, dtype);
  return native(kind, flags, dtype, reduce);
}

Recipe Recipes::choose_move(uint16_t kind, uint32_t flags, int dtype) const {
  if (kind == DW_OP_BARRIER) {
    if (barrier_dtype_ < 0) return Recipe::kRefused;
    return native(DW_OP_ALL_REDUCE, 0, barrier_dtype_, DW_REDUCE_MAX)
               ? Recipe::kBarrierByAllReduce
               : Recipe::kByMessages;
  }
  if (carrier(kind, flags, dtype) >= 0) return Recipe::kCarried;
  if (has(kMessages, kind)) return Recipe::kToSelf;
  if (messages(dtype)) return Recipe::kByMessages;
  const bool per_rank = (flags & DW_FLAG_PER_RANK) != 0;
  switch (kind) {
    case DW_OP_GATHER:
      // Only the root knows the counts.
      if (!per_rank && direct(DW_OP_ALL_GATHER, 0, dtype, 0))
        return Recipe::kGatherByAllGather;
      break;
    case DW_OP_SCATTER:
      if (!per_rank && direct(DW_OP_BROADCAST, 0, dtype, 0))
        return Recipe::kScatterByBroadcast;
      break;
    case DW_OP_ALL_GATHER:
      if (per_rank && direct(DW_OP_ALL_GATHER, 0, dtype, 0))
        return Recipe::kAllGatherPadded;
      break;
    case DW_OP_ALL_TO_ALL:
      if (!per_rank && direct(DW_OP_ALL_GATHER, 0, dtype, 0))
        return Recipe::kAllToAllByAllGather;
      break;
    default:
      break;
  }
  return Recipe::kRefused;
}

Recipe Recipes::choose_reduction(uint16_t kind, uint32_t flags, int dtype,
                                 uint16_t reduce) const {
  if (reduce == DW_REDUCE_PREMUL_SUM)
    return made(kind, flags, dtype, DW_REDUCE_SUM) ? Recipe::kScaleThenSum
                                                   : Recipe::kRefused;
  if (direct(kind, flags, dtype, reduce)) return Recipe::kSumThenDivide;
  const bool gathers = direct(DW_OP_ALL_GATHER, 0, dtype, 0);
  const bool reduces_all =
      kind != DW_OP_ALL_REDUCE && direct(DW_OP_ALL_REDUCE, 0, dtype, reduce);
  switch (kind) {
    case DW_OP_REDUCE:
      if (messages(dtype)) return Recipe::kByMessages;
      if (reduces_all) return Recipe::kReduceByAllReduce;
      break;
    case DW_OP_ALL_REDUCE:
      if (gathers && direct(DW_OP_REDUCE_SCATTER, 0, dtype, reduce))
        return Recipe::kAllReduceByReduceScatter;
      if (native(DW_OP_REDUCE, 0, dtype, reduce) &&
          made(DW_OP_BROADCAST, 0, dtype, 0))
        return Recipe::kAllReduceByReduce;
      if (messages(dtype)) return Recipe::kByMessages;
      if (gathers && direct(DW_OP_ALL_TO_ALL, 0, dtype, 0))
        return Recipe::kAllReduceByReduceScatter;
      break;
    case DW_OP_REDUCE_SCATTER:
      if (messages(dtype)) return Recipe::kByMessages;
      if (direct(DW_OP_ALL_TO_ALL, flags, dtype, 0))
        return Recipe::kReduceScatterByAllToAll;
      if (reduces_all) return Recipe::kReduceScatterByAllReduce;
      return Recipe::kRefused;
    case DW_OP_SCAN:
      if (messages(dtype)) return Recipe::kByMessages;
      break;
    default:
      break;
  }
  return gathers ? Recipe::kKernelByAllGather : Recipe::kRefused;
}

Recipes::Answer Recipes::find(uint16_t kind, uint32_t flags, int dtype,
                              uint16_t reduce) const {
  if (kind == DW_OP_BARRIER) dtype = 0;
  if (!exists(kind, flags, dtype, reduce)) return {};
  const Recipe chosen = recipe_of_form(kind, flags, dtype, reduce);
  if (chosen == Recipe::kRefused) return {};
  if (chosen != Recipe::kNative) return {kComposed, name_of(chosen, kind)};
  if (native(kind, flags & kForms, dtype, reduce)) return {kIsNative, ""};
  return {kComposed, "itself + a copy"};
}

bool Recipes::all_native(uint16_t kind) const {
  if (!caller_waits(kind)) return false;
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t flags = (i & 1) | (i & 2) << 2 | (i & 12) << 4;
    for (int dtype = 0; dtype < kDTypes; ++dtype)
      for (uint16_t reduce = 0; reduce < kReductions; ++reduce)
        if (exists(kind, flags, dtype, reduce) &&
            find(kind, flags, dtype, reduce).how != kIsNative)
          return false;
  }
  return true;
}

}  // namespace distwrap::algo::compose
