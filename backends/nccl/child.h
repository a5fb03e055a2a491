// A communicator that NCCL makes of another one, without ids:
//
// - of one that was revoked after a failure, by the ranks that are left;
// - of one that is whole, by all of its ranks, if the hint `split` allows that.
//
// Threads: one setup. Ownership: of the setup. The parent may end meanwhile.
#ifndef DISTWRAP_BACKENDS_NCCL_CHILD_H_
#define DISTWRAP_BACKENDS_NCCL_CHILD_H_

#include "backend.h"

#include <memory>
#include <utility>
#include <vector>

namespace nccl_backend {

class Child {
 public:
  enum class Way : uint32_t { kNone = 0, kShrink = 1, kSplit = 2 };

  // Whether this rank could make the communicator of `info` so; null: it could
  // not.
  static std::unique_ptr<Child> offer(Backend& backend, const Hints& hints,
                                      const dw_setup_info& info);
  // Gives up what has been begun, and with it what is left of the parent.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  uint64_t parent_uid() const { return parent_uid_; }
  Way way() const { return way_; }
  // Lets NCCL begin, once the parent is revoked, or has nothing in flight, and
  // asks whether it is made; then `*made` is the caller's. Only when all ranks
  // have agreed.
  int32_t look(ncclConfig* config, ncclComm** made, bool* ready,
               dw_error* error);

 private:
  Child(Backend& backend, const Comm& parent, Way way)
      : backend_(backend),
        part_(parent.part),
        parent_uid_(parent.uid),
        way_(way) {}
  bool may_begin() const;
  int begin(ncclConfig* config, const char** what);
  static int32_t gone(dw_error* error);

  Backend& backend_;
  const std::shared_ptr<NcclPart> part_;  // the parent's
  const uint64_t parent_uid_;
  const Way way_;
  std::vector<int> excluded_;  // ranks of the parent, for a shrink
  int color_ = 0, key_ = 0;    // for a split
  bool begun_ = false, made_ = false;
};

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_CHILD_H_
