// The tables of handles, one for each kind, and the values in them.
//
// Threads: any.
#ifndef DISTWRAP_SRC_CAPI_BOXES_H_
#define DISTWRAP_SRC_CAPI_BOXES_H_

#include "base/mutex.h"
#include "capi/handles.h"
#include "capi/object_values.h"
#include "distwrap/alltoallv_op.h"
#include "distwrap/batch.h"
#include "distwrap/c_types.h"
#include "distwrap/hooks.h"
#include "distwrap/memory.h"
#include "distwrap/mesh.h"
#include "distwrap/moe_plan.h"
#include "distwrap/moe_raw.h"
#include "distwrap/plan.h"
#include "distwrap/prepared_operation.h"
#include "distwrap/session.h"
#include "distwrap/status.h"
#include "distwrap/store.h"
#include "distwrap/window.h"
#include "distwrap/work.h"

#include <memory>
#include <string>
#include <vector>

namespace distwrap::capi {

// A handle may be used by several threads, but a Batch only by one at a time.
struct BatchBox {
  base::Mutex mutex;
  Batch batch ABSL_GUARDED_BY(mutex);
  Group group ABSL_GUARDED_BY(mutex);  // default of operations without one
};

struct PendingBox {
  base::Mutex mutex;
  MoePending pending ABSL_GUARDED_BY(mutex);
};

struct PreparedBox {
  explicit PreparedBox(AllToAllVOp given) : op(std::move(given)) {}
  base::Mutex mutex;
  AllToAllVOp op ABSL_GUARDED_BY(mutex);
};

struct ErrorBox {
  int32_t code;
  ErrorInfo info;
  std::string text;
  std::string page = {};
  // The structs of `info` for C. Their pointers refer to memory of `info` that
  // stays in place when the box moves.
  std::vector<distwrap_seen_rank> seen = {};
};

// The texts and bytes that a call returns.
using List = std::vector<std::string>;

template <class Handle>
struct BoxOf;
#define DISTWRAP_BOX(handle, kind, box)       \
  template <>                                 \
  struct BoxOf<handle> {                      \
    using Box = box;                          \
    static constexpr Kind kKind = Kind::kind; \
  };
DISTWRAP_BOX(distwrap_session, kSession, Session)
DISTWRAP_BOX(distwrap_group, kGroup, Group)
DISTWRAP_BOX(distwrap_work, kWork, Work)
DISTWRAP_BOX(distwrap_batch, kBatch, std::unique_ptr<BatchBox>)
DISTWRAP_BOX(distwrap_store, kStore, std::shared_ptr<Store>)
DISTWRAP_BOX(distwrap_list, kList, List)
DISTWRAP_BOX(distwrap_error, kError, ErrorBox)
DISTWRAP_BOX(distwrap_hook, kHook, Hook)
DISTWRAP_BOX(distwrap_window, kWindow, Window)
DISTWRAP_BOX(distwrap_memory, kMemory, Memory)
DISTWRAP_BOX(distwrap_pages, kPages, WindowPages)
DISTWRAP_BOX(distwrap_writer, kWriter, std::unique_ptr<ObjectWriter>)
DISTWRAP_BOX(distwrap_reader, kReader, std::unique_ptr<ObjectReader>)
DISTWRAP_BOX(distwrap_mesh, kMesh, DeviceMesh)
DISTWRAP_BOX(distwrap_plan, kPlan, PlanRef)
DISTWRAP_BOX(distwrap_moe_plan, kMoePlan, MoePlan)
DISTWRAP_BOX(distwrap_moe_pending, kMoePending, std::unique_ptr<PendingBox>)
DISTWRAP_BOX(distwrap_dedup_request, kDedupRequest, DedupRequest)
DISTWRAP_BOX(distwrap_alltoallv_op, kAllToAllV, std::unique_ptr<PreparedBox>)
DISTWRAP_BOX(distwrap_prepared, kPrepared, PreparedOperation)
#undef DISTWRAP_BOX

template <class Handle>
using Table = HandleTable<typename BoxOf<Handle>::Box, BoxOf<Handle>::kKind>;
template <class Handle>
using Held = typename Table<Handle>::Held;

// Never destroyed: threads may use handles until the process ends.
template <class Handle>
inline constinit Table<Handle> table;

template <class Handle>
uint64_t number_of(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}

template <class Handle>
Held<Handle> find(Handle handle) {
  return table<Handle>.find(number_of(handle));
}

template <class Handle>
Handle handle_of(uint64_t number) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): never followed
  return reinterpret_cast<Handle>(number);
}

// A new handle; NULL when there are too many handles.
template <class Handle>
Handle give(typename BoxOf<Handle>::Box box) {
  return handle_of<Handle>(table<Handle>.add(std::move(box)));
}

// Frees a handle; freeing NULL is allowed.
template <class Handle>
int32_t free_handle(Handle handle) {
  return handle == nullptr || table<Handle>.remove(number_of(handle))
             ? DW_OK
             : DW_INVALID_ARGUMENT;
}

}  // namespace distwrap::capi

#endif  // DISTWRAP_SRC_CAPI_BOXES_H_
