#include "child.h"

#include "comm_parts.h"
#include "sdk/fail.h"

#include <mutex>
#include <utility>

namespace nccl_backend {

std::unique_ptr<Child> Child::offer(Backend& backend,
                                    const dw_setup_info& info) {
  Comm* const parent = of(info.parent);
  if (parent == nullptr || info.parent_rank == nullptr ||
      backend.nccl.ncclCommShrink == nullptr ||
      backend.nccl.ncclCommRevoke == nullptr || info.size >= parent->size ||
      !parent->failure.is_over())
    return nullptr;
  // NCCL keeps the order of the ranks.
  std::vector<int> excluded;
  int next = 0;
  for (int r = 0; r < info.size; ++r) {
    if (info.parent_rank[r] < next) return nullptr;
    for (; next < info.parent_rank[r]; ++next) excluded.push_back(next);
    ++next;
  }
  for (; next < parent->size; ++next) excluded.push_back(next);

  NcclPart& part = *parent->part;
  const std::lock_guard<std::mutex> inside(part.inside);
  if (part.is_gone() || part.child != nullptr) return nullptr;
  part.child = std::make_unique<ncclComm*>(nullptr);
  return std::unique_ptr<Child>(
      new Child(backend, *parent, std::move(excluded)));
}

Child::~Child() {
  std::unique_lock<std::mutex> inside(part_->inside);
  if (!begun_ || made_)
    part_->child = nullptr;
  else if (part_->handle != nullptr)
    abort_part(backend_, part_, std::move(inside));
}

int32_t Child::look(ncclConfig* config, ncclComm** made, bool* ready,
                    dw_error* error) {
  const std::lock_guard<std::mutex> inside(part_->inside);
  if (part_->is_gone()) return gone(error);
  *ready = false;
  if (!part_->revoked) return DW_OK;
  const char* what = "ncclCommShrink";
  int result = ncclSuccess;
  if (!begun_) {
    begun_ = true;
    const std::lock_guard<std::mutex> calls(backend_.device->calls());
    result = backend_.nccl.ncclCommShrink(
        part_->handle, excluded_.data(), static_cast<int>(excluded_.size()),
        part_->child.get(), config, NCCL_SHRINK_DEFAULT);
  }
  if (result == ncclSuccess || result == ncclInProgress) {
    what = "the communicator cannot be built";
    // The parent is in progress until the child is made.
    int state = ncclSuccess;
    const int asked =
        backend_.nccl.ncclCommGetAsyncError(part_->handle, &state);
    result = asked != ncclSuccess ? asked : state;
  }
  if (result == ncclInProgress) return DW_OK;
  if (result != ncclSuccess)
    return fail_nccl(backend_.nccl, what, result, part_->handle, error);
  *made = *part_->child;
  *ready = made_ = *made != nullptr;
  return DW_OK;
}

int32_t Child::gone(dw_error* error) {
  return dw_fail(error, DW_ABORTED, DW_REASON_ABORTED, -1, 0,
                 "nccl: the communicator was ended of which another one was to "
                 "be made");
}

}  // namespace nccl_backend
