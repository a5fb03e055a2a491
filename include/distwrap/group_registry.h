// The groups of a session, and values that programs attach to them.
//
// init_process_group, split_group and new_group register the groups that they
// make; a group leaves the registry when it is destroyed.
// Threads: any. Ownership: the Session owns its registry.
//
//   session.registry().set_data(group, "grid", 2);
//   session.registry().get_data(group, "grid");  // std::any of 2
#ifndef DISTWRAP_GROUP_REGISTRY_H_
#define DISTWRAP_GROUP_REGISTRY_H_

#include "distwrap/export.h"
#include "distwrap/group.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <any>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap {

struct GroupRecord {
  std::vector<int> global_ranks;
  std::string group_desc;
  std::map<int, int> rank_to_group_rank;
  std::vector<DeviceBackend> device_backends;
};

class DISTWRAP_EXPORT GroupRegistry {
 public:
  GroupRegistry();
  ~GroupRegistry();
  GroupRegistry(const GroupRegistry&) = delete;
  GroupRegistry& operator=(const GroupRegistry&) = delete;

  // Registers a group. Errors: kGroupDuplicate; kInvalidArgument for an empty
  // handle.
  absl::Status create(const Group& group, const std::vector<int>& ranks,
                      absl::string_view desc);
  // Unregisters a group; does nothing for a group that is not registered.
  void destroy(const Group& group);
  // The record of a group; nullopt for a group that is not registered.
  std::optional<GroupRecord> get(const Group& group) const;

  // The functions below fail with kGroupUnknown for a group that is not
  // registered; get_data also does for an unknown key.
  absl::Status assert_registered(const Group& group) const;
  absl::StatusOr<std::vector<int>> get_global_ranks(const Group& group) const;
  absl::StatusOr<std::map<int, int>> get_rank_map(const Group& group) const;
  absl::StatusOr<std::string> get_group_desc(const Group& group) const;
  absl::Status set_data(const Group& group, absl::string_view key,
                        std::any value);
  absl::StatusOr<std::any> get_data(const Group& group,
                                    absl::string_view key) const;

  // The number of registered groups.
  size_t size() const;

 private:
  struct Table;

  const std::unique_ptr<Table> table_;
};

}  // namespace distwrap

#endif  // DISTWRAP_GROUP_REGISTRY_H_
