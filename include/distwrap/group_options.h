// The options from which groups are made.
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
  // Lists of ranks of the parent; a rank's place in its list is its rank in the
  // new group. No list is empty and no rank is named twice. The lists are equal
  // on all ranks of the parent.
  std::vector<std::vector<int>> split_ranks = {};
  // The time limit of the new group's operations; unset: the parent's. The
  // session's init_timeout limits the creation itself.
  std::optional<absl::Duration> timeout = std::nullopt;
  std::optional<std::map<std::string, std::string>> hints = std::nullopt;
  std::string group_desc = {};
  // The backend string; empty: the parent's. It names only device types that
  // the parent has, each with any backend.
  std::string backend = {};
};

struct NewGroupOptions {
  // Ranks of the world; unset: all.
  std::optional<std::vector<int>> ranks = std::nullopt;
  std::optional<absl::Duration> timeout = std::nullopt;  // unset: the world's
  std::string backend = {};                              // empty: the world's
  std::optional<std::map<std::string, std::string>> hints = std::nullopt;
  // True: only the members call new_group. False: all ranks of the world do.
  bool use_local_synchronization = false;
  std::string group_desc = {};
  std::optional<int> device_id = std::nullopt;  // unset: the session's
  // True: the ranks are numbered by their order in the world. False: a rank's
  // place in `ranks` is its rank in the new group.
  bool sort_ranks = true;
};

}  // namespace distwrap

#endif  // DISTWRAP_GROUP_OPTIONS_H_
