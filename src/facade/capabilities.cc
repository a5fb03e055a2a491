// The operations of a group, as its backend has promised them.
#include "base/error.h"
#include "base/exceptions.h"
#include "comm/op_shape.h"
#include "distwrap/groups.h"
#include "facade/binding.h"

#include <algorithm>
#include <utility>

namespace distwrap {
namespace {

constexpr ReduceOp::Kind kReductions[] = {
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  ReduceOp::enumerator,
#include "distwrap/abi/reductions.def"
};

template <class Promised>
std::vector<DType> dtypes_where(const Promised& promised) {
  std::vector<DType> found;
  for (int dtype = 0; dtype < comm::kDTypes; ++dtype)
    if (promised(static_cast<DType>(dtype)))
      found.push_back(static_cast<DType>(dtype));
  return found;
}

bool contains(const std::vector<DType>& dtypes, DType dtype) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

Capability capability_of(const comm::Capabilities& promised, uint16_t kind) {
  const comm::OpShape& shape = comm::op_shape(kind);
  Capability one{shape.name, {}};
  if (shape.in == comm::Extent::NONE && shape.out == comm::Extent::NONE)
    return one;
  one.dtypes = dtypes_where(
      [&](DType dtype) { return promised.supports_any(kind, dtype); });
  if (!shape.reduces()) return one;
  for (const ReduceOp::Kind op : kReductions) {
    std::vector<DType> dtypes = dtypes_where(
        [&](DType dtype) { return promised.supports(kind, dtype, op); });
    if (!dtypes.empty()) one.reductions.push_back({op, std::move(dtypes)});
  }
  return one;
}

}  // namespace

bool Capability::takes(DType dtype) const { return contains(dtypes, dtype); }

bool Capability::takes(DType dtype, ReduceOp::Kind op) const {
  return std::any_of(reductions.begin(), reductions.end(),
                     [&](const Reduction& one) {
                       return one.op == op && contains(one.dtypes, dtype);
                     });
}

absl::StatusOr<std::vector<Capability>> capabilities(const Group& group,
                                                     Device device) try {
  const auto state = facade::group_for(group, "capabilities");
  if (!state.ok()) return state.status();
  const comm::BackendCommunicator* const found = (*state)->find(device);
  if (found == nullptr) return (*state)->no_communicator(device);
  const comm::Capabilities& promised = found->instance()->capabilities();
  std::vector<Capability> all;
  for (uint16_t kind = 1; kind < comm::kOpKinds; ++kind)
    if (promised.supports_kind(kind))
      all.push_back(capability_of(promised, kind));
  return all;
} catch (...) {
  return base::error_of_exception("capabilities");
}

}  // namespace distwrap
