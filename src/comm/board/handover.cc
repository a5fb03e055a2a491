#include "comm/board/handover.h"

#include "base/error.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

constexpr size_t kNameBytes = 16;
constexpr char kPrefix[] = "distwrap-board-";

struct Hello {
  uint64_t token;
  int64_t rank;
};

base::Descriptor make_socket() {
  return base::Descriptor(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// Fills in the socket address. False if the name is not valid.
bool address_of(absl::string_view name, sockaddr_un* address, socklen_t* size) {
  if (name.size() != kNameBytes) return false;
  // The first byte stays zero: the abstract namespace.
  const std::string text = absl::StrCat(kPrefix, absl::BytesToHexString(name));
  *address = {};
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, text.data(), text.size());
  *size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return true;
}

bool of_this_user(int socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

bool give(int socket, int memory) {
  char byte = 1;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof memory)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof memory);
  std::memcpy(CMSG_DATA(head), &memory, sizeof memory);
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

// Receives the descriptor that came with a byte; empty when there was not
// exactly one, or when this process had no room for it: `full`.
base::Descriptor take(int socket, bool* full) {
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
    return {};
  *full = (message.msg_flags & MSG_CTRUNC) != 0;
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_level != SOL_SOCKET ||
      head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int)))
    return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return base::Descriptor(fd);
}

absl::Status no_door(int error) {
  const bool limit = error == EMFILE || error == ENFILE;
  return base::make_error(
      {.reason = limit ? Reason::kResourceLimit : Reason::kRunDirectory,
       .what = "no socket can be made at which the ranks of this host meet",
       .cause = base::errno_text(error),
       .next_step = limit ? "raise the limit of open files (ulimit -n)"
                          : "let the process make Unix sockets, or set "
                            "DISTWRAP_CHECK=off"});
}

}  // namespace

absl::StatusOr<DescriptorHandover> DescriptorHandover::open() {
  char random[kNameBytes];
  if (getrandom(random, sizeof random, 0) !=
      static_cast<ssize_t>(sizeof random))
    return no_door(errno);
  std::string name(random, sizeof random);
  base::Descriptor listener = make_socket(), spare = make_socket();
  sockaddr_un address;
  socklen_t size = 0;
  if (!listener.is_open() || !spare.is_open() ||
      !address_of(name, &address, &size) ||
      bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0)
    return no_door(errno);
  return DescriptorHandover(std::move(listener), std::move(spare),
                            std::move(name));
}

base::Descriptor DescriptorHandover::next_caller() {
  const auto accept = [&] {
    return base::Descriptor(accept4(listener_.get(), nullptr, nullptr,
                                    SOCK_NONBLOCK | SOCK_CLOEXEC));
  };
  base::Descriptor caller = accept();
  if (caller.is_open() || (errno != EMFILE && errno != ENFILE)) return caller;
  spare_ = base::Descriptor();
  return accept();
}

void DescriptorHandover::serve(int memory, std::vector<HostMember>* guests) {
  for (;;) {
    base::Descriptor caller = next_caller();
    if (!caller.is_open()) break;
    if (of_this_user(caller.get())) callers_.push_back(std::move(caller));
  }
  std::vector<base::Descriptor> silent;
  for (base::Descriptor& caller : callers_) {
    Hello hello = {};
    const ssize_t got = recv(caller.get(), &hello, sizeof hello, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      silent.push_back(std::move(caller));
      continue;
    }
    if (got != static_cast<ssize_t>(sizeof hello)) continue;  // a stranger
    const auto guest = std::find_if(
        guests->begin(), guests->end(), [&](const HostMember& member) {
          return member.rank == hello.rank && member.token == hello.token;
        });
    if (guest != guests->end() && give(caller.get(), memory))
      guests->erase(guest);
  }
  callers_ = std::move(silent);
  if (!spare_.is_open()) spare_ = make_socket();
}

absl::StatusOr<base::Descriptor> ask_at(absl::string_view name, int host,
                                        const HostMember& me,
                                        Deadline deadline) {
  base::Descriptor socket = make_socket();
  if (!socket.is_open()) return no_door(errno);
  sockaddr_un address;
  socklen_t size = 0;
  const Hello hello = {me.token, me.rank};
  const auto lost = [&](std::string why) {
    return base::make_error(
        {.reason = Reason::kPeerLost,
         .what = "a rank of this host did not hand its memory over",
         .op = "init",
         .ranks = {host},
         .cause = std::move(why),
         .next_step = "look at that rank's own output; DISTWRAP_CHECK=off "
                      "does without that memory"});
  };
  if (!address_of(name, &address, &size) ||
      connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0)
    return lost(base::errno_text(errno));
  if (send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof hello))
    return lost(base::errno_text(errno));
  pollfd polled = {socket.get(), POLLIN, 0};
  int ready;
  while ((ready = poll(&polled, 1, deadline.remaining_ms())) <= 0)
    if ((ready == 0 && deadline.passed()) || (ready < 0 && errno != EINTR))
      return base::make_error(
          {.reason = Reason::kTimedOut,
           .what = "a rank of this host did not hand its memory over in time",
           .op = "init",
           .ranks = {host}});
  bool full = false;
  base::Descriptor memory = take(socket.get(), &full);
  if (full) return no_door(EMFILE);
  if (!memory.is_open()) return lost("it has closed the connection");
  return memory;
}

}  // namespace distwrap::comm
