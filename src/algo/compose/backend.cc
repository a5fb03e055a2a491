#include "algo/compose/backend.h"

#include "algo/decorator.h"
#include "algo/windows/window.h"
#include "distwrap/abi/read.h"
#include "sdk/guard.h"

#include <absl/types/span.h>

#include <algorithm>
#include <memory>

namespace distwrap::algo::compose {

int32_t Backend::open(const dw_host_api* host, const dw_open_info* info,
                      dw_backend** backend, dw_error* error) {
  dw_open_info read;
  if (int32_t code =
          dw_read_struct(&read, sizeof read, info, DW_OPEN_INFO_SIZE_1_0))
    return fail(error, code, DW_REASON_INVALID_ARGUMENT,
                "the open info has a size or a field that is not known");
  if (read.n_inner != 1 || read.inner == nullptr)
    return invalid(error, "compose takes one inner table");
  if (read.inner->backend != nullptr)
    return invalid(error,
                   "compose opens the inner backend itself: give its table "
                   "alone");
  return dw_sdk::guarded("compose", error, [&]() -> int32_t {
    auto made = std::make_unique<Backend>();
    if (int32_t code = made->open_below(host, read, error)) return code;
    *backend = reinterpret_cast<dw_backend*>(made.release());
    return DW_OK;
  });
}

int32_t Backend::open_below(const dw_host_api* host, dw_open_info info,
                            dw_error* error) {
  absl::Span<const dw_caps_row> rows;
  if (int32_t code = BackendBelow::open(host, info, &rows, error)) return code;
  recipes_ = Recipes(rows, info.device_type);
  has_groups_ = inner().submit_group != nullptr;
  if (recipes_.on_host()) {
    promise();
    hand_on_windows(rows);
  } else {
    rows_.assign(rows.begin(), rows.end());
    promise_on_device(uint32_t{1} << info.device_type);
  }
  return DW_OK;
}

// Adds to the rows of the backend below one for each kind, form and dtype that
// is composed.
void Backend::promise_on_device(uint32_t memory) {
  for (uint16_t kind = 1; kind < Recipes::kKinds; ++kind)
    for (const uint32_t form : {0u, uint32_t{DW_FLAG_PER_RANK}})
      for (int dtype = 0; dtype < Recipes::kDTypes; ++dtype) {
        uint32_t reductions = 0, flags = form;
        const auto is_composed = [&](uint32_t with, uint16_t reduce) {
          return (with & ~Recipes::flags_of(kind)) == 0 &&
                 recipes_.find(kind, with, dtype, reduce).how ==
                     Recipes::kComposed;
        };
        for (uint16_t reduce = 0; reduce < Recipes::kReductions; ++reduce)
          if (is_composed(form, reduce)) reductions |= 1u << reduce;
        if (reductions == 0) continue;
        for (const uint32_t more :
             {uint32_t{DW_FLAG_IN_PLACE}, uint32_t{DW_FLAG_PARTS}}) {
          bool all = true;
          for (uint16_t reduce = 0; reduce < Recipes::kReductions; ++reduce)
            if ((reductions >> reduce & 1) != 0)
              all = all && is_composed(form | more, reduce) &&
                    is_composed(flags | more, reduce);
          if (all) flags |= more;
        }
        rows_.push_back({DW_BIT(kind), DW_BIT(dtype), reductions,
                         DW_FLAG_CALLER_WAITS | flags, memory, 0, 0, 0});
      }
}

// One row for each kind, form and set of dtypes with equal reductions.
void Backend::promise() {
  for (uint16_t kind = 1; kind < Recipes::kKinds; ++kind)
    for (const uint32_t form :
         {0u, uint32_t{DW_FLAG_PER_RANK}, uint32_t{DW_FLAG_EXCLUSIVE}}) {
      const uint32_t known = Recipes::flags_of(kind);
      if ((form & ~known) != 0) continue;
      const uint32_t others = known & ~(DW_FLAG_PER_RANK | DW_FLAG_EXCLUSIVE);
      const size_t first = rows_.size();
      for (int dtype = 0; dtype < Recipes::kDTypes; ++dtype) {
        uint32_t reductions = 0;
        for (uint16_t reduce = 0; reduce < Recipes::kReductions; ++reduce)
          if (recipes_.find(kind, form | others, dtype, reduce).how !=
              Recipes::kIsRefused)
            reductions |= 1u << reduce;
        if (reductions == 0) continue;
        const auto same =
            std::find_if(rows_.begin() + static_cast<std::ptrdiff_t>(first),
                         rows_.end(), [&](const dw_caps_row& row) {
                           return row.reductions == reductions;
                         });
        if (same != rows_.end())
          same->dtypes |= DW_BIT(dtype);
        else
          rows_.push_back({DW_BIT(kind), DW_BIT(dtype), reductions,
                           DW_FLAG_CALLER_WAITS | form | others,
                           DW_BIT(DW_DEVICE_CPU), 0, 0, 0});
      }
      if (kind == DW_OP_BARRIER && rows_.size() > first) {
        rows_.resize(first + 1);
        rows_.back().dtypes = 0;
      }
    }
}

// Promises the window operations of the backend below, or all of them composed.
void Backend::hand_on_windows(absl::Span<const dw_caps_row> rows) {
  for (dw_caps_row row : rows) {
    row.ops &= kWindowOps;
    if (row.ops == 0) continue;
    rows_.push_back(row);
    has_windows_ = true;
  }
  if (composes_windows()) windows::append_rows(&rows_);
}

uint64_t Backend::passed_on() const {
  constexpr uint64_t kMessages = DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV);
  constexpr uint64_t kCollectives =
      (DW_BIT(Recipes::kKinds) - 1) & ~kMessages & ~DW_BIT(0);
  uint64_t ops = 0;
  if (recipes_.collectives_complete()) ops |= kCollectives;
  // A backend that has only messages can carry the operation thread's messages
  // beside a caller that waits.
  if (recipes_.complete() || (recipes_.only_messages() &&
                              (inner().flags & DW_BACKEND_SUBMIT_BESIDE) != 0))
    ops |= kMessages;
  if (has_windows_) ops |= kWindowOps;
  return ops;
}

}  // namespace distwrap::algo::compose
