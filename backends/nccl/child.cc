#include "child.h"

#include "comm_parts.h"
#include "sdk/fail.h"

#include <chrono>
#include <mutex>
#include <utility>

namespace nccl_backend {
namespace {

// How long a thread that is inside NCCL with the parent is waited for.
constexpr std::chrono::milliseconds kPatience{20};

// The ranks of the parent that are not in the new communicator. False where
// NCCL cannot leave them out: it keeps the order of the others, and needs one
// to leave out.
bool find_excluded(const Comm& parent, const dw_setup_info& info,
                   std::vector<int>* excluded) {
  int next = 0;
  for (int r = 0; r < info.size; ++r) {
    if (info.parent_rank[r] < next) return false;
    for (; next < info.parent_rank[r]; ++next) excluded->push_back(next);
    ++next;
  }
  for (; next < parent.size; ++next) excluded->push_back(next);
  return !excluded->empty();
}

}  // namespace

std::unique_ptr<Child> Child::offer(Backend& backend, const Hints& hints,
                                    const dw_setup_info& info) {
  Comm* const parent = of(info.parent);
  if (parent == nullptr || info.parent_rank == nullptr) return nullptr;
  const bool failed = parent->failure.is_over();
  std::vector<int> excluded;
  if (failed) {
    if (backend.nccl.ncclCommShrink == nullptr ||
        backend.nccl.ncclCommRevoke == nullptr ||
        !find_excluded(*parent, info, &excluded))
      return nullptr;
  } else if (hints.split != 1 || (info.flags & DW_SETUP_ALL_OF_PARENT) == 0) {
    return nullptr;
  }
  NcclPart& part = *parent->part;
  // Without it the communicator is built from ids.
  if (!part.inside.try_lock_for(kPatience)) return nullptr;
  const std::lock_guard<CallLock> inside(part.inside, std::adopt_lock);
  if (part.is_gone() || part.child != nullptr) return nullptr;
  // A graph that runs meanwhile would be in the way.
  if (!failed && part.captured) return nullptr;
  part.child = std::make_unique<ncclComm*>(nullptr);
  std::unique_ptr<Child> made(
      new Child(backend, *parent, failed ? Way::kShrink : Way::kSplit));
  made->excluded_ = std::move(excluded);
  // A rank of the parent is in one new communicator at most, so the first rank
  // of each tells them apart.
  made->color_ = info.parent_rank[0];
  made->key_ = info.rank;
  return made;
}

Child::~Child() {
  if (begun_ && !made_) {
    dw_error why = {};
    dw_fail(&why, DW_ABORTED, DW_REASON_ABORTED, -1, 0,
            "nccl: NCCL was splitting the communicator for another group, "
            "which was given up");
    part_->failure.fail(why, nullptr);
  }
  // When another thread does not come out of NCCL with the parent, nothing more
  // is made of the parent, and the instance's thread ends it.
  if (!part_->inside.try_lock_for(kPatience)) return;
  std::unique_lock<CallLock> inside(part_->inside, std::adopt_lock);
  if (!begun_ || made_) {
    part_->child = nullptr;
    return;
  }
  part_->splitting = false;
  if (part_->handle != nullptr)
    abort_part(backend_, part_, AbortBy::kAbort, std::move(inside));
}

bool Child::may_begin() const {
  return way_ == Way::kShrink ? part_->revoked : part_->operations == 0;
}

int Child::begin(ncclConfig* config, const char** what) {
  const std::unique_lock<CallLock> calls(backend_.device->calls(),
                                         std::try_to_lock);
  if (!calls.owns_lock()) return ncclInProgress;
  backend_.device->calls().say("the building of a communicator", 0);
  begun_ = true;
  if (way_ == Way::kShrink) {
    *what = "ncclCommShrink";
    return backend_.nccl.ncclCommShrink(
        part_->handle, excluded_.data(), static_cast<int>(excluded_.size()),
        part_->child.get(), config, NCCL_SHRINK_DEFAULT);
  }
  *what = "ncclCommSplit";
  part_->splitting = true;
  return backend_.nccl.ncclCommSplit(part_->handle, color_, key_,
                                     part_->child.get(), config);
}

int32_t Child::look(ncclConfig* config, ncclComm** made, bool* ready,
                    dw_error* error) {
  *ready = false;
  const std::unique_lock<CallLock> inside(part_->inside, std::try_to_lock);
  if (!inside.owns_lock()) return DW_OK;
  if (part_->is_gone()) return gone(error);
  if (way_ == Way::kSplit)
    if (int32_t code = part_->failure.check(error)) return code;
  const char* what = "the communicator cannot be built";
  int result = ncclSuccess;
  if (!begun_) {
    if (!may_begin()) return DW_OK;
    result = begin(config, &what);
    if (!begun_) return DW_OK;
  }
  if (result == ncclSuccess || result == ncclInProgress) {
    // The parent is in progress until the child is made.
    int state = ncclSuccess;
    const int asked =
        backend_.nccl.ncclCommGetAsyncError(part_->handle, &state);
    result = asked != ncclSuccess ? asked : state;
  }
  if (result == ncclInProgress) return DW_OK;
  if (result != ncclSuccess) {
    dw_error why = {};
    fail_nccl(backend_.nccl, what, result, part_->handle, &why);
    // The parent ends by this, too.
    part_->failure.fail(why, nullptr);
    if (error != nullptr) *error = why;
    return why.code;
  }
  // From here on only the caller ends it.
  *made = std::exchange(*part_->child, nullptr);
  *ready = made_ = *made != nullptr;
  if (made_) part_->splitting = false;
  return DW_OK;
}

int32_t Child::gone(dw_error* error) {
  return dw_fail(error, DW_ABORTED, DW_REASON_ABORTED, -1, 0,
                 "nccl: the communicator was ended of which another one was to "
                 "be made");
}

}  // namespace nccl_backend
