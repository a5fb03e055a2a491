#include "facade/object_calls.h"

#include "base/exceptions.h"
#include "facade/binding.h"
#include "facade/roots.h"
#include "facade/shown_call.h"

#include <algorithm>

namespace distwrap {
namespace {

template <class Body>
auto shown_objects(const char* name, absl::Span<const Object> objects,
                   Peer peer, facade::Role role, const OpOptions& options,
                   const Body& body) -> decltype(body()) try {
  const std::shared_ptr<group::GroupState> group =
      facade::kept_group_of(options.group);
  if (group == nullptr) return base::guarded(name, body);
  // A part that peers wait for in the middle of the call will not come.
  const auto guarded = [&]() -> decltype(body()) {
    try {
      return body();
    } catch (...) {
      const absl::Status failed = base::error_of_exception(name);
      for (const group::Channel& channel : group->channels())
        channel.communicator->break_by(failed);
      return failed;
    }
  };
  return facade::shown(
      *group,
      [&](HookedCall& call) {
        call.op = name;
        call.objects = objects.data();
        call.object_count = objects.size();
        call.peer = std::max(facade::rank_of(*group, peer, role), -1);
        call.timeout = options.timeout.value_or(group->timeout());
        call.label = options.label;
      },
      [&](const ErrorInfo& why) { facade::break_group(*group, why); }, guarded);
} catch (...) {
  return base::error_of_exception(name);
}

}  // namespace

using facade::Role;

absl::StatusOr<std::vector<Object>> all_gather_object(
    const Object& object, const OpOptions& options) {
  return shown_objects(
      "all_gather_object", {&object, 1}, {}, Role::kSource, options,
      [&] { return facade::all_gather_object(object, options); });
}

absl::StatusOr<std::vector<Object>> gather_object(const Object& object,
                                                  Peer dst,
                                                  const OpOptions& options) {
  return shown_objects(
      "gather_object", {&object, 1}, dst, Role::kFirstRank, options,
      [&] { return facade::gather_object(object, dst, options); });
}

absl::Status broadcast_object_list(absl::Span<Object> list, Peer src,
                                   const OpOptions& options) {
  return shown_objects(
      "broadcast_object_list", list, src, Role::kFirstRank, options,
      [&] { return facade::broadcast_object_list(list, src, options); });
}

absl::StatusOr<Object> scatter_object_list(absl::Span<const Object> list,
                                           Peer src, const OpOptions& options) {
  return shown_objects(
      "scatter_object_list", list, src, Role::kFirstRank, options,
      [&] { return facade::scatter_object_list(list, src, options); });
}

absl::Status send_object_list(absl::Span<const Object> list, Peer dst,
                              const OpOptions& options) {
  return shown_objects(
      "send_object_list", list, dst, Role::kDestination, options,
      [&] { return facade::send_object_list(list, dst, options); });
}

absl::Status recv_object_list(absl::Span<Object> list, Peer src,
                              const OpOptions& options) {
  return shown_objects(
      "recv_object_list", list, src, Role::kReceiveSource, options,
      [&] { return facade::recv_object_list(list, src, options); });
}

}  // namespace distwrap
