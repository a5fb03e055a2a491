// Groups: making them, asking about them, ending them.
#include "distwrap/groups.h"

#include "capi/entry.h"
#include "distwrap/c.h"
#include "distwrap/distwrap.h"
#include "facade/binding.h"

#include <absl/strings/str_cat.h>

#include <map>
#include <utility>
#include <vector>

namespace distwrap::capi {
namespace {

// The group of a handle, or the world for NULL; an error when neither exists.
absl::StatusOr<Group> some_group(const char* call, distwrap_group handle) {
  const absl::StatusOr<Group> group = group_of(call, handle);
  if (!group.ok()) return group;
  auto found = facade::group_for(*group, call);
  if (!found.ok()) return found.status();
  return Group(*std::move(found));
}

// The names, each after a blank.
std::string names_of(const std::vector<DType>& dtypes) {
  std::string names;
  for (const DType dtype : dtypes)
    absl::StrAppend(&names, " ", dtype_name(dtype));
  return names;
}

std::optional<absl::Duration> unless_zero(int64_t timeout) {
  if (timeout == 0) return std::nullopt;
  return duration_of(timeout);
}

absl::StatusOr<distwrap_group_options> read_group_options(
    const char* call, const distwrap_group_options* given) {
  distwrap_group_options read;
  if (absl::Status status = read_options(call, given, &read); !status.ok())
    return status;
  if (read.ranks == nullptr && read.ranks_count != 0)
    return refuse_null(call, "ranks");
  return read;
}

absl::StatusOr<std::optional<std::map<std::string, std::string>>> hints_of(
    const char* call, const distwrap_group_options& given) {
  std::optional<std::map<std::string, std::string>> none;
  if (given.hints == nullptr && given.hints_count == 0) return none;
  auto hints = pairs_of(call, given.hints, given.hints_count);
  if (!hints.ok()) return hints.status();
  return std::optional(*std::move(hints));
}

// The options of both kinds of split; only split_group has lists.
absl::StatusOr<SplitOptions> split_options(const char* call, bool with_lists,
                                           const distwrap_group_options* from) {
  const auto given = read_group_options(call, from);
  if (!given.ok()) return given.status();
  auto parent = group_of(call, given->parent);
  if (!parent.ok()) return parent.status();
  auto hints = hints_of(call, *given);
  if (!hints.ok()) return hints.status();
  SplitOptions options;
  options.parent = *std::move(parent);
  options.timeout = unless_zero(given->timeout);
  options.hints = *std::move(hints);
  options.group_desc = text_of(given->description);
  options.backend = text_of(given->backend);
  if (!with_lists) return options;
  if (given->list_sizes == nullptr && given->lists != 0)
    return refuse_null(call, "list_sizes");
  const int32_t* rank = given->ranks;
  uint64_t left = given->ranks_count;
  for (uint64_t i = 0; i < given->lists; ++i) {
    const uint64_t size = given->list_sizes[i];
    if (size > left)
      return refuse(call, "the lists have more ranks than ranks_count says",
                    "let list_sizes add up to ranks_count");
    options.split_ranks.emplace_back(rank, rank + size);
    rank += size;
    left -= size;
  }
  if (left != 0)
    return refuse(call, absl::StrCat(left, " ranks are in no list"),
                  "let list_sizes add up to ranks_count");
  return options;
}

// Runs `f(group)` with an existing group.
template <class F>
int32_t with_group(const char* call, distwrap_group handle,
                   distwrap_error* error, const F& f) {
  return entry(call, error, [&]() -> absl::Status {
    const absl::StatusOr<Group> group = some_group(call, handle);
    return group.ok() ? f(*group) : group.status();
  });
}

absl::Status hand_out_list(const char* call, List list, distwrap_list* handle) {
  if (handle == nullptr) return refuse_null(call, "list");
  return hand_out(call, std::move(list), handle);
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)
using distwrap::Group;

int32_t distwrap_world(distwrap_group* group, distwrap_error* error) {
  return entry("world", error, [&]() -> absl::Status {
    if (group == nullptr) return refuse_null("world", "group");
    *group = nullptr;
    const auto world = some_group("world", nullptr);
    return world.ok() ? hand_out_group("world", *world, group) : world.status();
  });
}

int32_t distwrap_split_group(const distwrap_group_options* options,
                             distwrap_group* group, distwrap_error* error) {
  constexpr const char* kCall = "split_group";
  return entry(kCall, error, [&]() -> absl::Status {
    if (group == nullptr) return refuse_null(kCall, "group");
    *group = nullptr;
    const auto read = split_options(kCall, true, options);
    if (!read.ok()) return read.status();
    return hand_out_started(kCall, group,
                            [&] { return distwrap::split_group(*read); });
  });
}

int32_t distwrap_split_group_by_color(int64_t color, int64_t key,
                                      const distwrap_group_options* options,
                                      distwrap_group* group,
                                      distwrap_error* error) {
  constexpr const char* kCall = "split_group_by_color";
  return entry(kCall, error, [&]() -> absl::Status {
    if (group == nullptr) return refuse_null(kCall, "group");
    *group = nullptr;
    const auto read = split_options(kCall, false, options);
    if (!read.ok()) return read.status();
    return hand_out_started(kCall, group, [&] {
      return distwrap::split_group_by_color(color, key, *read);
    });
  });
}

int32_t distwrap_new_group(const distwrap_group_options* options,
                           distwrap_group* group, distwrap_error* error) {
  constexpr const char* kCall = "new_group";
  return entry(kCall, error, [&]() -> absl::Status {
    if (group == nullptr) return refuse_null(kCall, "group");
    *group = nullptr;
    const auto given = read_group_options(kCall, options);
    if (!given.ok()) return given.status();
    if (given->parent != nullptr || given->lists != 0)
      return refuse(kCall, "parent and lists are of split_group",
                    "leave them zero");
    auto hints = hints_of(kCall, *given);
    if (!hints.ok()) return hints.status();
    distwrap::NewGroupOptions read;
    if (given->ranks != nullptr)
      read.ranks.emplace(given->ranks, given->ranks + given->ranks_count);
    read.timeout = unless_zero(given->timeout);
    read.backend = text_of(given->backend);
    read.hints = *std::move(hints);
    read.use_local_synchronization = given->use_local_synchronization != 0;
    read.group_desc = text_of(given->description);
    if (given->has_device_id != 0) read.device_id = given->device_id;
    read.sort_ranks = given->keep_order == 0;
    return hand_out_started(kCall, group,
                            [&] { return distwrap::new_group(read); });
  });
}

int32_t distwrap_abort(distwrap_group group, distwrap_error* error) {
  return with_group("abort", group, error,
                    [](const Group& g) { return distwrap::abort(g); });
}

int32_t distwrap_group_free(distwrap_group group) { return free_handle(group); }

int32_t distwrap_group_read(distwrap_group group, distwrap_group_info* info,
                            distwrap_error* error) {
  constexpr const char* kCall = "group_read";
  return with_group(kCall, group, error, [&](const Group& g) {
    distwrap_group_info out = {};
    out.rank = g.rank();
    out.size = g.size();
    out.uid = g.uid();
    out.timeout = g.timeout() == absl::InfiniteDuration()
                      ? DW_FOREVER
                      : absl::ToInt64Nanoseconds(g.timeout());
    out.name = g.state()->name().c_str();
    out.description = g.description().c_str();
    return write_info(kCall, out, info);
  });
}

int32_t distwrap_group_parent(distwrap_group group, distwrap_group* parent,
                              distwrap_error* error) {
  constexpr const char* kCall = "group_parent";
  return with_group(kCall, group, error, [&](const Group& g) {
    if (parent == nullptr) return refuse_null(kCall, "parent");
    *parent = nullptr;
    return hand_out_group(kCall, g.parent(), parent);
  });
}

int32_t distwrap_group_children(distwrap_group group, distwrap_group* children,
                                uint64_t capacity, uint64_t* count,
                                distwrap_error* error) {
  constexpr const char* kCall = "group_children";
  return with_group(kCall, group, error, [&](const Group& g) -> absl::Status {
    if (count == nullptr) return refuse_null(kCall, "count");
    if (children == nullptr && capacity != 0)
      return refuse_null(kCall, "children");
    const std::vector<Group> all = g.children();
    *count = all.size();
    for (uint64_t i = 0; i < all.size() && i < capacity; ++i) {
      children[i] = nullptr;
      absl::Status given = hand_out_group(kCall, all[i], &children[i]);
      if (!given.ok()) return given;
    }
    return absl::OkStatus();
  });
}

int32_t distwrap_group_backends(distwrap_group group, distwrap_list* list,
                                distwrap_error* error) {
  constexpr const char* kCall = "group_backends";
  return with_group(kCall, group, error, [&](const Group& g) {
    List names;
    for (const distwrap::DeviceBackend& one : g.device_backends())
      names.push_back(absl::StrCat(one.device, ":", one.backend));
    return hand_out_list(kCall, std::move(names), list);
  });
}

int32_t distwrap_get_rank(distwrap_group group) {
  const auto found = group_of("get_rank", group);
  return found.ok() ? distwrap::get_rank(*found) : -1;
}

int32_t distwrap_get_world_size(distwrap_group group) {
  const auto found = group_of("get_world_size", group);
  return found.ok() ? distwrap::get_world_size(*found) : -1;
}

int32_t distwrap_get_process_group_ranks(distwrap_group group, int32_t* ranks,
                                         uint64_t capacity, uint64_t* count,
                                         distwrap_error* error) {
  constexpr const char* kCall = "get_process_group_ranks";
  return with_group(kCall, group, error, [&](const Group& g) -> absl::Status {
    if (count == nullptr) return refuse_null(kCall, "count");
    if (ranks == nullptr && capacity != 0) return refuse_null(kCall, "ranks");
    const std::vector<int>& all = g.global_ranks();
    *count = all.size();
    for (uint64_t i = 0; i < all.size() && i < capacity; ++i) ranks[i] = all[i];
    return absl::OkStatus();
  });
}

int32_t distwrap_get_group_rank(distwrap_group group, int32_t global_rank,
                                int32_t* rank, distwrap_error* error) {
  constexpr const char* kCall = "get_group_rank";
  return with_group(kCall, group, error, [&](const Group& g) -> absl::Status {
    if (rank == nullptr) return refuse_null(kCall, "rank");
    const absl::StatusOr<int> found = distwrap::get_group_rank(g, global_rank);
    if (found.ok()) *rank = *found;
    return found.status();
  });
}

int32_t distwrap_get_global_rank(distwrap_group group, int32_t group_rank,
                                 int32_t* rank, distwrap_error* error) {
  constexpr const char* kCall = "get_global_rank";
  return with_group(kCall, group, error, [&](const Group& g) -> absl::Status {
    if (rank == nullptr) return refuse_null(kCall, "rank");
    const absl::StatusOr<int> found = distwrap::get_global_rank(g, group_rank);
    if (found.ok()) *rank = *found;
    return found.status();
  });
}

int32_t distwrap_get_backend(distwrap_group group, distwrap_device device,
                             distwrap_list* list, distwrap_error* error) {
  constexpr const char* kCall = "get_backend";
  return with_group(kCall, group, error, [&](const Group& g) -> absl::Status {
    auto name =
        distwrap::get_backend(g, {device.device_type, device.device_id});
    if (!name.ok()) return name.status();
    return hand_out_list(kCall, {*std::move(name)}, list);
  });
}

int32_t distwrap_set_timeout(distwrap_group group, int64_t timeout,
                             distwrap_error* error) {
  return with_group("set_timeout", group, error, [&](const Group& g) {
    return distwrap::set_timeout(g, duration_of(timeout));
  });
}

int32_t distwrap_capabilities(distwrap_group group, distwrap_device device,
                              distwrap_list* list, distwrap_error* error) {
  constexpr const char* kCall = "capabilities";
  return with_group(kCall, group, error, [&](const Group& g) -> absl::Status {
    const auto all =
        distwrap::capabilities(g, {device.device_type, device.device_id});
    if (!all.ok()) return all.status();
    List lines;
    for (const distwrap::Capability& one : *all) {
      lines.push_back(absl::StrCat(one.operation, names_of(one.dtypes)));
      for (const distwrap::Capability::Reduction& reduction : one.reductions)
        lines.push_back(absl::StrCat(one.operation, "/",
                                     distwrap::reduce_op_name(reduction.op),
                                     names_of(reduction.dtypes)));
    }
    return hand_out_list(kCall, std::move(lines), list);
  });
}

int32_t distwrap_parse_backend(const char* text, distwrap_list* list,
                               distwrap_error* error) {
  constexpr const char* kCall = "parse_backend";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto all = distwrap::parse_backend(text_of(text));
    if (!all.ok()) return all.status();
    List names;
    for (const distwrap::DeviceBackend& one : *all)
      names.push_back(absl::StrCat(one.device, ":", one.backend));
    return hand_out_list(kCall, std::move(names), list);
  });
}
