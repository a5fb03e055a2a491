#include "headroom.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace shm_backend {
namespace {

// A first word that is not a number, like "max", is no limit.
bool read_number(const std::string& file, uint64_t* value) {
  std::ifstream in(file);
  return static_cast<bool>(in >> *value);
}

// Pages of files that the kernel gives back when memory gets short count as
// used, but do not stand in the way.
uint64_t reclaimable(const std::string& folder, const char* key) {
  std::ifstream in(folder + "/memory.stat");
  std::string name;
  uint64_t value;
  while (in >> name >> value)
    if (name == key) return value;
  return 0;
}

struct Hierarchy {
  std::string root;
  const char *limit, *used, *files;
};

void look_at(const Hierarchy& hierarchy, std::string group, Headroom* room) {
  // A group within a group has the limits of both.
  for (;;) {
    const std::string folder = hierarchy.root + group;
    uint64_t limit, used;
    if (read_number(folder + "/" + hierarchy.limit, &limit) &&
        limit < uint64_t{1} << 60 &&
        read_number(folder + "/" + hierarchy.used, &used)) {
      used -= std::min(used, reclaimable(folder, hierarchy.files));
      const uint64_t left = limit > used ? limit - used : 0;
      if (!room->limited || left < room->free_bytes)
        *room = {true, left, limit};
    }
    const size_t slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return;
    group.resize(slash);
  }
}

}  // namespace

Headroom read_headroom(const std::string& proc_cgroup,
                       const std::string& mount) {
  Headroom room;
  std::ifstream in(proc_cgroup);
  std::string line;
  while (std::getline(in, line)) {
    // number:controllers:path
    const size_t first = line.find(':');
    const size_t second =
        first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    controllers.insert(controllers.begin(), ',');
    controllers.push_back(',');
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers == ",,")
      look_at({mount, "memory.max", "memory.current", "inactive_file"}, group,
              &room);
    else if (controllers.find(",memory,") != std::string::npos)
      look_at({mount + "/memory", "memory.limit_in_bytes",
               "memory.usage_in_bytes", "total_inactive_file"},
              group, &room);
  }
  return room;
}

}  // namespace shm_backend
