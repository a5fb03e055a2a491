#include "store/several_hosts.h"

#include "store/job_name.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <cstdint>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>

namespace distwrap::store {
namespace {

// Linux hands out ports from 32768 on (ip_local_port_range).
constexpr uint64_t kFirstPort = 20000, kPorts = 12000;
constexpr int kTried = 10;

}  // namespace

std::string first_node(absl::string_view list) {
  const size_t end = list.find_first_of(",[");
  const std::string head(list.substr(0, end));
  if (end == absl::string_view::npos || list[end] == ',') return head;
  const absl::string_view range = list.substr(end + 1);
  const size_t first = range.find_first_of("-,]");
  if (first == absl::string_view::npos || first == 0) return "";
  // The text behind the brackets belongs to every name of the range.
  const size_t close = range.find(']');
  if (close == absl::string_view::npos) return "";
  const absl::string_view tail = range.substr(close + 1);
  return absl::StrCat(head, range.substr(0, first),
                      tail.substr(0, tail.find(',')));
}

std::string first_host(const LaunchInfo& info,
                       const base::Environment& environment) {
  if (info.launcher == "torchrun")
    return environment.get("MASTER_ADDR").value_or("");
  if (info.launcher != "slurm") return "";
  for (const char* const name : {"SLURM_STEP_NODELIST", "SLURM_NODELIST"})
    if (const auto list = environment.get(name)) return first_node(*list);
  return "";
}

std::vector<HostPort> job_ports(const std::string& host,
                                absl::string_view job) {
  std::vector<HostPort> places;
  uint64_t state = stable_hash(job);
  for (int i = 0; i < kTried; ++i) {
    places.push_back({host, static_cast<int>(kFirstPort + state % kPorts)});
    state = state * 6364136223846793005u + 1442695040888963407u;
    state ^= state >> 33;
  }
  return places;
}

std::string source_address(const HostPort& place) {
  const absl::StatusOr<std::vector<NetworkAddress>> addresses = resolve(place);
  if (!addresses.ok()) return "";
  for (const NetworkAddress& address : *addresses) {
    const int fd = socket(address.get()->sa_family,
                          SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    // Connecting a datagram socket only chooses the way.
    std::optional<NetworkAddress> here;
    if (connect(fd, address.get(), address.size()) == 0)
      here = NetworkAddress::here(fd);
    close(fd);
    if (here.has_value()) return here->host();
  }
  return "";
}

}  // namespace distwrap::store
