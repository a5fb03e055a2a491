#include "algo/compose/backend.h"

#include "algo/decorator.h"
#include "algo/windows/window.h"
#include "distwrap/abi/read.h"

#include <absl/types/span.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <sched.h>

namespace distwrap::algo::compose {
namespace {

// How long a wait sleeps before it looks again, when nobody wakes it.
constexpr int64_t kFirstNap = 50'000;
constexpr int64_t kLongestNap = 1'000'000;
constexpr int64_t kLongestIdleNap = 10'000'000;
constexpr int kSpins = 200;
constexpr int kIdleSpins = 4;

int32_t read_table(const dw_backend_api* given, dw_backend_api* table,
                   dw_error* error) {
  if (given == nullptr || given->struct_size < DW_BACKEND_API_SIZE_1_0)
    return invalid(error, "the inner table is missing or too short");
  // A table is an offer: what lies behind the end that is known is ignored.
  *table = {};
  std::memcpy(table, given,
              std::min<size_t>(given->struct_size, sizeof(dw_backend_api)));
  if (table->open == nullptr || table->close == nullptr ||
      table->caps == nullptr || table->setup_begin == nullptr ||
      table->setup_step == nullptr || table->setup_cancel == nullptr ||
      table->comm_abort == nullptr || table->comm_destroy == nullptr ||
      table->query == nullptr || table->submit == nullptr)
    return invalid(error, "the inner table lacks a slot that is required");
  return DW_OK;
}

}  // namespace

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
  auto* const made = new (std::nothrow) Backend;
  if (made == nullptr) return no_memory(error);
  made->host_ = host;
  std::memcpy(&made->below_, host,
              std::min<size_t>(host->struct_size, sizeof(dw_host_api)));
  made->below_.struct_size = sizeof(dw_host_api);
  made->below_.complete = Cell::complete;
  int32_t code = read_table(read.inner->api, &made->inner_, error);
  if (code == DW_OK) {
    read.inner = nullptr;
    read.n_inner = 0;
    dw_backend* opened = nullptr;
    code = made->inner_.open(&made->below_, &read, &opened, error);
    if (code == DW_OK) made->inner_backend_ = opened;
  }
  const dw_caps_row* rows = nullptr;
  uint64_t n_rows = 0;
  if (code == DW_OK)
    code = made->inner_.caps(made->inner_backend_, &rows, &n_rows, error);
  if (code != DW_OK) {
    delete made;
    return code;
  }
  made->recipes_ = Recipes(absl::MakeConstSpan(rows, n_rows), read.device_type);
  made->has_groups_ = made->inner_.submit_group != nullptr;
  if (made->recipes_.composes()) {
    made->promise();
    made->hand_on_windows(absl::MakeConstSpan(rows, n_rows));
  } else {
    made->rows_.assign(rows, rows + n_rows);
  }
  *backend = reinterpret_cast<dw_backend*>(made);
  return DW_OK;
}

Backend::~Backend() {
  if (inner_backend_ != nullptr) inner_.close(inner_backend_);
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

// Those of the backend, or all of them composed.
void Backend::hand_on_windows(absl::Span<const dw_caps_row> rows) {
  for (dw_caps_row row : rows) {
    row.ops &= kWindowOps;
    if (row.ops == 0) continue;
    rows_.push_back(row);
    has_windows_ = true;
  }
  if (composes_windows()) windows::append_rows(&rows_);
}

int32_t Backend::progress() {
  if (inner_.progress == nullptr || !calls_.try_lock()) return 0;
  const int32_t events = inner_.progress(inner_backend_);
  calls_.unlock();
  if (events > 0) progresses_.store(true, std::memory_order_relaxed);
  return events;
}

template <class Done>
void Backend::wait(Gate& gate, bool (Gate::*wait_until)(Deadline), Done done) {
  if (inner_.progress == nullptr) {
    (gate.*wait_until)(Deadline::never());
    return;
  }
  int64_t nap = kFirstNap;
  for (int idle = 0; !done();) {
    if (progress() > 0) {
      idle = 0;
      nap = kFirstNap;
      continue;
    }
    const bool busy = progresses_.load(std::memory_order_relaxed);
    if (++idle < (busy ? kSpins : kIdleSpins)) {
      sched_yield();
      continue;
    }
    if ((gate.*wait_until)(Deadline::at_ns(Deadline::now_ns() + nap))) return;
    nap = std::min(2 * nap, busy ? kLongestNap : kLongestIdleNap);
  }
}

void Backend::wait_settled(Gate& gate) {
  wait(gate, &Gate::wait_settled, [&] { return gate.settled(); });
}

void Backend::wait_all(Gate& gate) {
  wait(gate, &Gate::wait_all,
       [&] { return gate.wait_all(Deadline::at_ns(0)); });
}

}  // namespace distwrap::algo::compose
