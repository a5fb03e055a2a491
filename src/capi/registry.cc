// The registry of groups, and the names of backends and ranks.
#include "capi/entry.h"
#include "distwrap/c.h"
#include "distwrap/distwrap.h"
#include "distwrap/group_registry.h"
#include "distwrap/peer.h"
#include "facade/binding.h"

#include <any>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace distwrap::capi {
namespace {

// Runs `f(registry, group)` with the registry of the group's session, whichever
// thread asks.
template <class F>
absl::Status in_registry(const char* call, distwrap_group handle, const F& f) {
  auto group = group_of(call, handle);
  if (!group.ok()) return group.status();
  const Session session = facade::session_for(*group);
  if (!session) return facade::not_initialized(call);
  return f(session.registry(), *group ? *group : session.world());
}

// Runs in_registry in the frame of a C function.
template <class F>
int32_t with_registry(const char* call, distwrap_group handle,
                      distwrap_error* error, const F& f) {
  return entry(call, error, [&] { return in_registry(call, handle, f); });
}

// A pointer that the registry frees by a function of the program.
using Owned = std::shared_ptr<void>;

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)
using distwrap::Group;
using distwrap::GroupRegistry;

int32_t distwrap_register_group(distwrap_group group, const int32_t* ranks,
                                uint64_t count, const char* description,
                                distwrap_error* error) {
  constexpr const char* kCall = "register_group";
  return with_registry(
      kCall, group, error,
      [&](GroupRegistry& registry, const Group& g) -> absl::Status {
        if (ranks == nullptr && count != 0) return refuse_null(kCall, "ranks");
        if (count > INT32_MAX)
          return refuse(kCall, "no group has so many ranks",
                        "give the number of ranks");
        return registry.create(g, std::vector<int>(ranks, ranks + count),
                               text_of(description));
      });
}

int32_t distwrap_unregister_group(distwrap_group group, distwrap_error* error) {
  return with_registry("unregister_group", group, error,
                       [](GroupRegistry& registry, const Group& g) {
                         registry.destroy(g);
                         return absl::OkStatus();
                       });
}

int32_t distwrap_registered_ranks(distwrap_group group, int32_t* ranks,
                                  uint64_t capacity, uint64_t* count,
                                  distwrap_error* error) {
  constexpr const char* kCall = "registered_ranks";
  return with_registry(
      kCall, group, error,
      [&](GroupRegistry& registry, const Group& g) -> absl::Status {
        if (count == nullptr) return refuse_null(kCall, "count");
        if (ranks == nullptr && capacity != 0)
          return refuse_null(kCall, "ranks");
        const auto all = registry.get_global_ranks(g);
        if (!all.ok()) return all.status();
        *count = all->size();
        for (uint64_t i = 0; i < all->size() && i < capacity; ++i)
          ranks[i] = (*all)[i];
        return absl::OkStatus();
      });
}

int32_t distwrap_registered_description(distwrap_group group,
                                        distwrap_list* list,
                                        distwrap_error* error) {
  constexpr const char* kCall = "registered_description";
  if (list != nullptr) *list = nullptr;
  return with_registry(
      kCall, group, error,
      [&](GroupRegistry& registry, const Group& g) -> absl::Status {
        if (list == nullptr) return refuse_null(kCall, "list");
        auto description = registry.get_group_desc(g);
        if (!description.ok()) return description.status();
        return hand_out(kCall, List{*std::move(description)}, list);
      });
}

int32_t distwrap_registered_groups(uint64_t* count, distwrap_error* error) {
  constexpr const char* kCall = "registered_groups";
  return with_registry(
      kCall, nullptr, error,
      [&](const GroupRegistry& registry, const Group&) -> absl::Status {
        if (count == nullptr) return refuse_null(kCall, "count");
        *count = registry.size();
        return absl::OkStatus();
      });
}

int32_t distwrap_group_set_data(distwrap_group group, const char* key,
                                void* data, distwrap_error* error) {
  constexpr const char* kCall = "group_set_data";
  return with_registry(
      kCall, group, error,
      [&](GroupRegistry& registry, const Group& g) -> absl::Status {
        if (key == nullptr) return refuse_null(kCall, "key");
        return registry.set_data(g, key, data);
      });
}

int32_t distwrap_group_set_owned_data(distwrap_group group, const char* key,
                                      void* data, void (*free_data)(void* data),
                                      distwrap_error* error) {
  constexpr const char* kCall = "group_set_owned_data";
  return entry(kCall, error, [&]() -> absl::Status {
    if (free_data == nullptr) return refuse_null(kCall, "free_data");
    const Owned owned(data, free_data);
    return in_registry(
        kCall, group,
        [&](GroupRegistry& registry, const Group& g) -> absl::Status {
          if (key == nullptr) return refuse_null(kCall, "key");
          return registry.set_data(g, key, owned);
        });
  });
}

int32_t distwrap_group_get_data(distwrap_group group, const char* key,
                                void** data, distwrap_error* error) {
  constexpr const char* kCall = "group_get_data";
  return with_registry(
      kCall, group, error,
      [&](GroupRegistry& registry, const Group& g) -> absl::Status {
        if (key == nullptr) return refuse_null(kCall, "key");
        if (data == nullptr) return refuse_null(kCall, "data");
        const absl::StatusOr<std::any> found = registry.get_data(g, key);
        if (!found.ok()) return found.status();
        if (const auto* const owned = std::any_cast<Owned>(&*found))
          *data = owned->get();
        else if (void* const* const plain = std::any_cast<void*>(&*found))
          *data = *plain;
        else
          return refuse(kCall, "the value was not set by the C API",
                        "read it where it was set");
        return absl::OkStatus();
      });
}

int32_t distwrap_format_backend(const distwrap_pair* backends, uint64_t count,
                                distwrap_list* list, distwrap_error* error) {
  constexpr const char* kCall = "format_backend";
  if (list != nullptr) *list = nullptr;
  return entry(kCall, error, [&]() -> absl::Status {
    if (list == nullptr) return refuse_null(kCall, "list");
    if (backends == nullptr && count != 0)
      return refuse_null(kCall, "backends");
    std::vector<distwrap::DeviceBackend> all;
    for (uint64_t i = 0; i < count; ++i) {
      if (backends[i].key == nullptr || backends[i].value == nullptr)
        return refuse_null(kCall, "a device or backend");
      all.push_back({backends[i].key, backends[i].value});
    }
    return hand_out(kCall, List{distwrap::format_backend(all)}, list);
  });
}

int32_t distwrap_choose_peer(const int32_t* global_rank,
                             const int32_t* group_rank, const char* argument,
                             distwrap_peer* peer, distwrap_error* error) {
  constexpr const char* kCall = "choose_peer";
  return entry(kCall, error, [&]() -> absl::Status {
    if (peer == nullptr) return refuse_null(kCall, "peer");
    if (argument == nullptr) return refuse_null(kCall, "argument");
    const auto given = [](const int32_t* rank) {
      return rank == nullptr ? std::optional<int>() : std::optional<int>(*rank);
    };
    const auto chosen =
        distwrap::choose_peer(given(global_rank), given(group_rank), argument);
    if (!chosen.ok()) return chosen.status();
    *peer = {};
    if (chosen->is_set())
      *peer = {chosen->is_global() ? DW_RANK_OF_WORLD : DW_RANK_OF_GROUP,
               chosen->rank()};
    return absl::OkStatus();
  });
}
