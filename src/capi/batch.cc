// Batches: operations that start together.
#include "capi/operation.h"
#include "distwrap/c.h"

#include <absl/functional/function_ref.h>

#include <memory>
#include <utility>
#include <vector>

namespace distwrap::capi {

absl::Status record(BatchBox& box, absl::FunctionRef<void(Batch&)> add) {
  base::MutexLock lock(box.mutex);
  add(box.batch);
  return absl::OkStatus();
}

}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)

int32_t distwrap_batch_create(distwrap_batch* batch, distwrap_error* error) {
  constexpr const char* kCall = "batch_create";
  return entry(kCall, error, [&]() -> absl::Status {
    if (batch == nullptr) return refuse_null(kCall, "batch");
    *batch = nullptr;
    return hand_out(kCall, std::make_unique<BatchBox>(), batch);
  });
}

int32_t distwrap_batch_on(distwrap_batch batch, distwrap_group group,
                          distwrap_error* error) {
  constexpr const char* kCall = "batch_on";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, batch);
    if (!found.ok()) return found.status();
    auto of = group_of(kCall, group);
    if (!of.ok()) return of.status();
    BatchBox& box = ***found;
    distwrap::base::MutexLock lock(box.mutex);
    box.group = *std::move(of);
    return absl::OkStatus();
  });
}

int32_t distwrap_batch_submit(distwrap_batch batch, distwrap_work* work,
                              distwrap_error* error) {
  if (work != nullptr) *work = nullptr;
  constexpr const char* kCall = "batch_submit";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, batch);
    if (!found.ok()) return found.status();
    BatchBox& box = ***found;
    const auto submit = [&] {
      distwrap::base::MutexLock lock(box.mutex);
      return box.batch.submit();
    };
    if (work != nullptr) return hand_out_started(kCall, work, submit);
    const absl::StatusOr<distwrap::Work> begun = submit();
    return begun.ok() ? begun->wait() : begun.status();
  });
}

int32_t distwrap_batch_item(distwrap_batch batch, int32_t item,
                            distwrap_work* work, distwrap_error* error) {
  constexpr const char* kCall = "batch_item";
  return entry(kCall, error, [&]() -> absl::Status {
    if (work == nullptr) return refuse_null(kCall, "work");
    *work = nullptr;
    const auto found = held(kCall, batch);
    if (!found.ok()) return found.status();
    BatchBox& box = ***found;
    absl::StatusOr<distwrap::Work> one = [&] {
      distwrap::base::MutexLock lock(box.mutex);
      return box.batch.item(item);
    }();
    if (!one.ok()) return one.status();
    return hand_out(kCall, *std::move(one), work);
  });
}

int32_t distwrap_batch_size(distwrap_batch batch) {
  const auto found = find(batch);
  if (!found) return -1;
  distwrap::base::MutexLock lock((*found)->mutex);
  return (*found)->batch.size();
}

int32_t distwrap_batch_free(distwrap_batch batch) { return free_handle(batch); }
