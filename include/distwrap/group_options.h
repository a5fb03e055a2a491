// What groups are made of.
//
// Threads and ownership: values.
//
//   distwrap::SplitOptions halves{.split_ranks = {{0, 1}, {2, 3}}};
//   halves.group_desc = "half";
#ifndef DISTWRAP_GROUP_OPTIONS_H_
#define DISTWRAP_GROUP_OPTIONS_H_

#include "distwrap/group.h"

#include <absl/time/time.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace distwrap {

struct SplitOptions {
  Group parent = {};  // none: the world
  // Ranks of the parent; place in the list is rank in the new group. Lists are
  // not empty, and no rank is named twice. Equal on all ranks of the parent.
  std::vector<std::vector<int>> split_ranks = {};
  // Unset: the parent's. The limit of the new group's operations; its making is
  // limited by the session's init_timeout.
  std::optional<absl::Duration> timeout = std::nullopt;
  std::optional<std::map<std::string, std::string>> hints = std::nullopt;
  std::string group_desc = {};
  // Empty: the parent's. Device types that the parent has; each may have
  // another backend than there.
  std::string backend = {};
};

struct NewGroupOptions {
  // Ranks of the world; unset: all. They are sorted.
  std::optional<std::vector<int>> ranks = std::nullopt;
  std::optional<absl::Duration> timeout = std::nullopt;  // unset: the world's
  std::string backend = {};                              // empty: the world's
  std::optional<std::map<std::string, std::string>> hints = std::nullopt;
  // Only the members call; else all ranks of the world do.
  bool use_local_synchronization = false;
  std::string group_desc = {};
  std::optional<int> device_id = std::nullopt;  // unset: the session's
};

}  // namespace distwrap

#endif  // DISTWRAP_GROUP_OPTIONS_H_
