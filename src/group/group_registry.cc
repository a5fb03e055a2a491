#include "distwrap/group_registry.h"

#include "base/error.h"
#include "base/mutex.h"
#include "group/group_state.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>

#include <map>
#include <utility>

namespace distwrap {
namespace {

// Entries are found by the group's address, which is never dereferenced, so a
// handle of a group that has ended is a valid key.
struct Entry {
  std::vector<int> ranks;
  std::string desc;
  std::vector<DeviceBackend> backends;
  std::map<std::string, std::any, std::less<>> data;
};

absl::Status located(const Group& group, const char* call, ErrorInfo info) {
  info.op = call;
  if (group) {
    info.group = std::string(group.name());
    info.my_rank = group.rank();
    info.group_size = group.size();
  }
  return base::make_error(info);
}

absl::Status unknown(const Group& group, const char* call,
                     absl::string_view what = "") {
  return located(
      group, call,
      {.reason = Reason::kGroupUnknown,
       .what = what.empty() ? std::string("the group is not registered")
                            : std::string(what),
       .next_step = "use a group that this session has made and "
                    "not destroyed"});
}

std::map<int, int> rank_map(const std::vector<int>& ranks) {
  std::map<int, int> map;
  for (size_t i = 0; i < ranks.size(); ++i)
    map.emplace(ranks[i], static_cast<int>(i));
  return map;
}

}  // namespace

struct GroupRegistry::Table {
  mutable base::Mutex mutex;
  std::map<const group::GroupState*, Entry> entries ABSL_GUARDED_BY(mutex);

  Entry* find(const Group& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto found = entries.find(group.state().get());
    return found == entries.end() ? nullptr : &found->second;
  }
};

GroupRegistry::GroupRegistry() : table_(std::make_unique<Table>()) {}
GroupRegistry::~GroupRegistry() = default;

absl::Status GroupRegistry::create(const Group& group,
                                   const std::vector<int>& ranks,
                                   absl::string_view desc) {
  if (!group)
    return located(group, "register_group",
                   {.reason = Reason::kInvalidArgument,
                    .what = "there is no group to register",
                    .next_step = "give a group"});
  Entry entry{ranks, std::string(desc), group.device_backends(), {}};
  base::MutexLock lock(table_->mutex);
  if (table_->entries.try_emplace(group.state().get(), std::move(entry)).second)
    return absl::OkStatus();
  return located(group, "register_group",
                 {.reason = Reason::kGroupDuplicate,
                  .what = "the group is already registered",
                  .next_step = "destroy the entry first"});
}

void GroupRegistry::destroy(const Group& group) {
  // The program's values are destroyed after the lock is released.
  std::map<const group::GroupState*, Entry>::node_type ended;
  base::MutexLock lock(table_->mutex);
  ended = table_->entries.extract(group.state().get());
}

std::optional<GroupRecord> GroupRegistry::get(const Group& group) const {
  base::MutexLock lock(table_->mutex);
  const Entry* const entry = table_->find(group);
  if (entry == nullptr) return std::nullopt;
  return GroupRecord{entry->ranks, entry->desc, rank_map(entry->ranks),
                     entry->backends};
}

absl::Status GroupRegistry::assert_registered(const Group& group) const {
  base::MutexLock lock(table_->mutex);
  return table_->find(group) == nullptr ? unknown(group, "assert_registered")
                                        : absl::OkStatus();
}

absl::StatusOr<std::vector<int>> GroupRegistry::get_global_ranks(
    const Group& group) const {
  base::MutexLock lock(table_->mutex);
  const Entry* const entry = table_->find(group);
  if (entry == nullptr) return unknown(group, "get_global_ranks");
  return entry->ranks;
}

absl::StatusOr<std::map<int, int>> GroupRegistry::get_rank_map(
    const Group& group) const {
  base::MutexLock lock(table_->mutex);
  const Entry* const entry = table_->find(group);
  if (entry == nullptr) return unknown(group, "get_rank_map");
  return rank_map(entry->ranks);
}

absl::StatusOr<std::string> GroupRegistry::get_group_desc(
    const Group& group) const {
  base::MutexLock lock(table_->mutex);
  const Entry* const entry = table_->find(group);
  if (entry == nullptr) return unknown(group, "get_group_desc");
  return entry->desc;
}

absl::Status GroupRegistry::set_data(const Group& group, absl::string_view key,
                                     std::any value) {
  base::MutexLock lock(table_->mutex);
  Entry* const entry = table_->find(group);
  if (entry == nullptr) return unknown(group, "set_data");
  std::swap(entry->data[std::string(key)], value);
  return absl::OkStatus();
}

absl::StatusOr<std::any> GroupRegistry::get_data(const Group& group,
                                                 absl::string_view key) const {
  base::MutexLock lock(table_->mutex);
  const Entry* const entry = table_->find(group);
  if (entry == nullptr) return unknown(group, "get_data");
  const auto found = entry->data.find(key);
  if (found == entry->data.end())
    return unknown(group, "get_data",
                   absl::StrCat("the key is not registered: "
                                "'",
                                absl::CHexEscape(key), "'"));
  return absl::StatusOr<std::any>(absl::in_place, found->second);
}

size_t GroupRegistry::size() const {
  base::MutexLock lock(table_->mutex);
  return table_->entries.size();
}

}  // namespace distwrap
