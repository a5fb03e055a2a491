#include "algo/below/backend.h"

#include "algo/decorator.h"
#include "distwrap/abi/read.h"

#include <algorithm>
#include <cstring>
#include <sched.h>

namespace distwrap::algo {
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
  // A table may be longer than the part that this version knows; the rest is
  // ignored.
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

int32_t BackendBelow::open(const dw_host_api* host, dw_open_info info,
                           absl::Span<const dw_caps_row>* rows,
                           dw_error* error) {
  host_ = host;
  std::memcpy(&below_, host,
              std::min<size_t>(host->struct_size, sizeof(dw_host_api)));
  below_.struct_size = sizeof(dw_host_api);
  below_.complete = Cell::complete;
  if (int32_t code = read_table(info.inner->api, &inner_, error)) return code;
  info.inner = nullptr;
  info.n_inner = 0;
  dw_backend* opened = nullptr;
  if (int32_t code = inner_.open(&below_, &info, &opened, error)) return code;
  inner_backend_ = opened;
  const dw_caps_row* first = nullptr;
  uint64_t n_rows = 0;
  if (int32_t code = inner_.caps(inner_backend_, &first, &n_rows, error))
    return code;
  *rows = absl::MakeConstSpan(first, n_rows);
  return DW_OK;
}

BackendBelow::~BackendBelow() {
  if (inner_backend_ != nullptr) inner_.close(inner_backend_);
}

int32_t BackendBelow::progress() {
  if (inner_.progress == nullptr || !calls_.try_lock()) return 0;
  const int32_t events = inner_.progress(inner_backend_);
  calls_.unlock();
  if (events > 0) progresses_.store(true, std::memory_order_relaxed);
  return events;
}

template <class Done>
void BackendBelow::wait(Gate& gate, bool (Gate::*wait_until)(Deadline),
                        Done done) {
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

void BackendBelow::wait_settled(Gate& gate) {
  wait(gate, &Gate::wait_settled, [&] { return gate.settled(); });
}

void BackendBelow::wait_all(Gate& gate) {
  wait(gate, &Gate::wait_all,
       [&] { return gate.wait_all(Deadline::at_ns(0)); });
}

}  // namespace distwrap::algo
