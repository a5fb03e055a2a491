#include "store/pmi_manager.h"

#include "base/error.h"
#include "store/process_identity.h"

#include <absl/strings/str_cat.h>

#include <optional>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace distwrap::store {
namespace {

constexpr int kMostAncestors = 64;

absl::Status failed(int fd, absl::string_view cause) {
  return base::make_error(
      {.reason = Reason::kLaunchMissing,
       .what =
           absl::StrCat("PMI_FD=", fd, " does not lead to the process manager"),
       .op = "init",
       .cause = std::string(cause),
       .next_step = "call init before MPI_Finalize, or set DISTWRAP_JOB_ID to "
                    "a text that no other job has"});
}

bool is_ancestor(pid_t pid) {
  pid_t at = getpid();
  for (int i = 0; i < kMostAncestors && at > 1; ++i) {
    at = parent_of(at);
    if (at == pid) return at > 0;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::string> pmi_manager(int fd) {
  sockaddr_un address = {};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return failed(fd, base::errno_text(errno));
  if (address.sun_family != AF_UNIX) return failed(fd, "it is no Unix socket");
  ucred peer = {};
  size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return failed(fd, base::errno_text(errno));
  const std::optional<ProcessIdentity> manager = ProcessIdentity::of(peer.pid);
  if (!is_ancestor(peer.pid) || !manager.has_value())
    return failed(fd, absl::StrCat("its other end is process ", peer.pid,
                                   ", which is not above this one"));
  return absl::StrCat(manager->pid, "-", manager->start_ticks);
}

}  // namespace distwrap::store
