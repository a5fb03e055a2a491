// The way from a facade call to the communicator that serves it. Each call is
// defined once; it either runs or is recorded as an item of a batch.
#ifndef DISTWRAP_SRC_FACADE_DISPATCH_H_
#define DISTWRAP_SRC_FACADE_DISPATCH_H_

#include "base/exceptions.h"
#include "comm/on_stream.h"
#include "facade/batch_items.h"
#include "facade/binding.h"
#include "facade/refusal.h"
#include "facade/roots.h"

#include <optional>

namespace distwrap::facade {

// `call(communicator, how)` makes the call; a rooted one is `call(communicator,
// root, how)`. `name` is the facade's function, for errors.

// Takes the place of a device for a call without a tensor.
struct NoTensor {
  operator std::optional<Device>() const { return std::nullopt; }
};
inline comm::BackendCommunicator* find(const group::GroupState& group,
                                       Device device) {
  return group.find(device);
}
inline comm::BackendCommunicator* find(const group::GroupState& group,
                                       NoTensor) {
  return group.default_communicator();
}
inline absl::Status not_found(const group::GroupState& group, Device device,
                              const char* call) {
  return group.no_communicator(device, call);
}
inline absl::Status not_found(const group::GroupState& group, NoTensor,
                              const char* call) {
  return group.no_communicator(kCpu, call);
}

template <class Where, class Body>
absl::StatusOr<Work> run(const char* name, const OpOptions& options,
                         Where device, const Body& call) {
  const group::GroupState* const group = group_of(options.group);
  if (group == nullptr) [[unlikely]]
    return not_initialized(name);
  comm::BackendCommunicator* const communicator = find(*group, device);
  if (communicator == nullptr) [[unlikely]]
    return not_found(*group, device, name);
  if (options.stream.native != nullptr) [[unlikely]] {
    comm::OnStream on_stream(*communicator, options.stream);
    return call(on_stream,
                CallOptions{options.async, options.timeout, options.label});
  }
  return call(*communicator,
              CallOptions{options.async, options.timeout, options.label});
}

// The group is looked up twice, which costs a few instructions but keeps a
// single way to a communicator.
template <class Body>
absl::StatusOr<Work> run_rooted(const char* name, const OpOptions& options,
                                Device device, Peer peer, Role role,
                                const Body& call) {
  const group::GroupState* const group = group_of(options.group);
  if (group == nullptr) [[unlikely]]
    return not_initialized(name);
  const int root = rank_of(*group, peer, role);
  if (root == kNoRank) [[unlikely]]
    return root_error(name, *group, peer, role, options);
  return run(name, options, device, [&](auto& c, const CallOptions& how) {
    return call(c, root, how);
  });
}

// Records a call as an item of a batch; returns the item's number.
template <class Body>
int record(BatchItems& items, const char* name, const OpOptions& options,
           std::optional<Device> device, const Body& call) {
  const int number = items.size();
  absl::Status status = base::guarded(name, [&] {
    absl::Status refused;
    Communicator* const c = items.open(name, options, device, &refused);
    return c == nullptr
               ? refused
               : call(*c, CallOptions{false, options.timeout, options.label})
                     .status();
  });
  return items.keep(number, status);
}

template <class Body>
int record_rooted(BatchItems& items, const char* name, const OpOptions& options,
                  Device device, Peer peer, Role role, const Body& call) {
  return record(
      items, name, options, device,
      [&](Communicator& c, const CallOptions& how) -> absl::StatusOr<Work> {
        const group::GroupState& group = *group_of(options.group);
        const int root = rank_of(group, peer, role);
        if (root == kNoRank)
          return root_error(name, group, peer, role, options);
        return call(c, root, how);
      });
}

}  // namespace distwrap::facade

// Defines a call and the item of a batch that records it. `...` calls
// `communicator` with `how` and, in the second form, with `root`.
#define DISTWRAP_CALL(name, parameters, device, ...)                        \
  absl::StatusOr<Work> name parameters {                                    \
    return facade::run(#name, options, device,                              \
                       [&](auto& communicator, const CallOptions& how) {    \
                         return __VA_ARGS__;                                \
                       });                                                  \
  }                                                                         \
  int Batch::name parameters {                                              \
    return facade::record(*items_, #name, options, device,                  \
                          [&](auto& communicator, const CallOptions& how) { \
                            return __VA_ARGS__;                             \
                          });                                               \
  }

#define DISTWRAP_ROOTED_CALL(name, parameters, device, peer, role, ...) \
  absl::StatusOr<Work> name parameters {                                \
    return facade::run_rooted(                                          \
        #name, options, device, peer, facade::Role::role,               \
        [&](auto& communicator, int root, const CallOptions& how) {     \
          return __VA_ARGS__;                                           \
        });                                                             \
  }                                                                     \
  int Batch::name parameters {                                          \
    return facade::record_rooted(                                       \
        *items_, #name, options, device, peer, facade::Role::role,      \
        [&](auto& communicator, int root, const CallOptions& how) {     \
          return __VA_ARGS__;                                           \
        });                                                             \
  }

#endif  // DISTWRAP_SRC_FACADE_DISPATCH_H_
