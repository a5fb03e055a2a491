// From a facade call to the communicator that serves it.
#ifndef DISTWRAP_SRC_FACADE_DISPATCH_H_
#define DISTWRAP_SRC_FACADE_DISPATCH_H_

#include "facade/binding.h"

namespace distwrap::facade {

// Runs `call(communicator, call_options)` on the group's communicator for
// memory of `device`. `name` is the facade's function, for errors.
template <class Call>
absl::StatusOr<Work> dispatch(const char* name, const OpOptions& options,
                              Device device, const Call& call) {
  const group::GroupState* const group = group_of(options.group);
  if (group == nullptr) [[unlikely]]
    return not_initialized(name);
  comm::BackendCommunicator* const communicator = group->find(device);
  if (communicator == nullptr) [[unlikely]]
    return group->no_communicator(device);
  return call(*communicator, CallOptions{options.async, options.timeout});
}

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_DISPATCH_H_
