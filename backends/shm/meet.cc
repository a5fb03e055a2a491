#include "meet.h"

#include "layout.h"
#include "sdk/fail.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace shm_backend {
namespace {

// The first message of a rank to rank 0.
struct Hello {
  uint64_t token;
  int64_t rank;
};

// Rank 0's answer. The first descriptor is the memory, the others are
// processes. `process_of` tells by rank which descriptor is its process, 0 for
// none and for ranks of the receiving process.
struct Welcome {
  uint8_t process_of[kMostRanks];
};
constexpr size_t kMostDescriptors = kMostRanks + 1;
static_assert(kMostDescriptors <= 253);  // the kernel's limit

int32_t fail_socket(dw_error* error, int peer, const char* what, int cause) {
  char text[200];
  std::snprintf(text, sizeof text, "shm: %s: %s", what, strerror(cause));
  if (cause == EMFILE || cause == ENFILE)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_RESOURCE_LIMIT, -1,
                   cause, text);
  // A connection that the other rank has closed: it gave up, or died.
  const bool is_lost = peer >= 0 && (cause == EPIPE || cause == ECONNRESET);
  return dw_fail(error, DW_UNAVAILABLE,
                 is_lost ? DW_REASON_PEER_LOST : DW_REASON_BACKEND_FAILED, peer,
                 cause, text);
}

Descriptor make_socket() {
  return Descriptor(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

socklen_t address_of(const SocketName& name, sockaddr_un* address) {
  static const char kPrefix[] = "distwrap-shm-";
  *address = {};
  address->sun_family = AF_UNIX;
  // The first byte stays zero, which means the abstract namespace.
  char* to = address->sun_path + 1;
  std::memcpy(to, kPrefix, sizeof kPrefix - 1);
  to += sizeof kPrefix - 1;
  for (const unsigned char byte : name.bytes) {
    static const char kHex[] = "0123456789abcdef";
    *to++ = kHex[byte >> 4];
    *to++ = kHex[byte & 15];
  }
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                static_cast<size_t>(to - address->sun_path));
}

bool of_this_user(int socket, ucred* peer) {
  socklen_t size = sizeof *peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, peer, &size) == 0 &&
         peer->uid == geteuid();
}

Descriptor open_process(pid_t pid) {
#ifdef SYS_pidfd_open
  const long fd = syscall(SYS_pidfd_open, pid, 0);
  return Descriptor(static_cast<int>(fd));
#else
  return Descriptor();
#endif
}

bool send_welcome(int socket, const Welcome& welcome, const int* fds,
                  size_t n) {
  iovec part = {const_cast<Welcome*>(&welcome), sizeof welcome};
  alignas(cmsghdr) char space[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = CMSG_SPACE(n * sizeof(int));
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(n * sizeof(int));
  std::memcpy(CMSG_DATA(head), fds, n * sizeof(int));
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof welcome);
}

// Receives the answer. Returns the number of descriptors, which the caller
// owns; -1 when the message is not valid, kNoPlace when the process has no room
// for all descriptors.
constexpr int kNoPlace = -2;
int receive_welcome(int socket, Welcome* welcome,
                    Descriptor (&fds)[kMostDescriptors]) {
  iovec part = {welcome, sizeof *welcome};
  alignas(cmsghdr) char space[CMSG_SPACE(kMostDescriptors * sizeof(int))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  const ssize_t bytes =
      recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (bytes < 0) return -1;
  size_t n = 0;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
      continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      Descriptor taken(fd);
      if (n < kMostDescriptors) fds[n++] = std::move(taken);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) return kNoPlace;
  const bool good = bytes == static_cast<ssize_t>(sizeof *welcome) &&
                    (message.msg_flags & MSG_TRUNC) == 0;
  return good ? static_cast<int>(n) : -1;
}

}  // namespace

bool fill_random(void* bytes, size_t n) {
  return getrandom(bytes, n, 0) == static_cast<ssize_t>(n);
}

int32_t Host::listen(int size, SocketName* name, dw_error* error) {
  if (!fill_random(name, sizeof *name))
    return fail_socket(error, -1, "no random numbers", errno);
  listener_ = make_socket();
  sockaddr_un address;
  const socklen_t length = address_of(*name, &address);
  if (!listener_.is_open() ||
      bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) !=
          0 ||
      ::listen(listener_.get(), size) != 0)
    return fail_socket(error, -1, "no socket to hand memory over", errno);
  return DW_OK;
}

int32_t Host::serve(const std::vector<uint64_t>& tokens, int memory,
                    Watch* watch, dw_error* error) {
  const size_t size = tokens.size();
  std::vector<Descriptor> sockets(size);
  std::vector<pid_t> pids(size);
  std::vector<Descriptor> processes(size);
  pids[0] = getpid();
  for (;;) {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      return fail_socket(error, -1, "a rank's call cannot be taken", errno);
    }
    ucred peer = {};
    Hello hello;
    if (!of_this_user(socket.get(), &peer) ||
        recv(socket.get(), &hello, sizeof hello, MSG_DONTWAIT) !=
            static_cast<ssize_t>(sizeof hello) ||
        hello.rank < 1 || hello.rank >= static_cast<int64_t>(size) ||
        tokens[static_cast<size_t>(hello.rank)] != hello.token)
      continue;  // a stranger
    const auto rank = static_cast<size_t>(hello.rank);
    sockets[rank] = std::move(socket);
    pids[rank] = peer.pid;
  }
  listener_ = Descriptor();
  for (size_t rank = 1; rank < size; ++rank)
    if (!sockets[rank].is_open())
      return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED,
                     static_cast<int32_t>(rank), 0,
                     "shm: a rank did not fetch the shared memory");
  // Only the first rank of a process has its descriptor.
  std::vector<size_t> first(size);
  for (size_t rank = 0; rank < size; ++rank) {
    first[rank] = static_cast<size_t>(
        std::find(pids.begin(), pids.end(), pids[rank]) - pids.begin());
    if (first[rank] == rank && watch != nullptr)
      processes[rank] = open_process(pids[rank]);
  }
  for (size_t to = 1; to < size; ++to) {
    Welcome welcome = {};
    int fds[kMostDescriptors] = {memory};
    size_t n = 1;
    for (size_t rank = 0; rank < size; ++rank) {
      if (pids[rank] == pids[to]) continue;
      if (first[rank] != rank) {
        welcome.process_of[rank] = welcome.process_of[first[rank]];
      } else if (processes[rank].is_open()) {
        welcome.process_of[rank] = static_cast<uint8_t>(n);
        fds[n++] = processes[rank].get();
      }
    }
    if (!send_welcome(sockets[to].get(), welcome, fds, n))
      return fail_socket(error, static_cast<int>(to),
                         "the memory cannot be handed over", errno);
  }
  for (size_t rank = 1; rank < size; ++rank) {
    if (!processes[rank].is_open()) continue;
    std::vector<int> ranks;
    for (size_t one = rank; one < size; ++one)
      if (first[one] == rank) ranks.push_back(static_cast<int>(one));
    watch->add(std::move(processes[rank]), ranks);
  }
  return DW_OK;
}

int32_t Guest::call(const SocketName& name, int rank, uint64_t token,
                    dw_error* error) {
  socket_ = make_socket();
  if (!socket_.is_open()) return fail_socket(error, -1, "no socket", errno);
  sockaddr_un address;
  const socklen_t length = address_of(name, &address);
  ucred peer;
  const Hello hello = {token, rank};
  if (connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), length) !=
      0) {
    if (errno == ECONNREFUSED)
      return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, 0, errno,
                     "shm: rank 0 is not on this host, or in another network "
                     "namespace: use a backend that crosses hosts");
    return fail_socket(error, 0, "rank 0 cannot be called", errno);
  }
  if (!of_this_user(socket_.get(), &peer))
    return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, 0, 0,
                   "shm: rank 0's socket belongs to another user");
  if (send(socket_.get(), &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(sizeof hello))
    return fail_socket(error, 0, "rank 0 cannot be told who calls", errno);
  return DW_OK;
}

int32_t Guest::take(int rank, int size, Descriptor* memory, Watch* watch,
                    dw_error* error) {
  Welcome welcome;
  Descriptor fds[kMostDescriptors];
  const int n = receive_welcome(socket_.get(), &welcome, fds);
  socket_ = Descriptor();
  if (n == kNoPlace)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_RESOURCE_LIMIT, -1,
                   EMFILE, "shm: no descriptor is left for the shared memory");
  if (n < 1)
    return dw_fail(error, DW_UNAVAILABLE, DW_REASON_BACKEND_FAILED, 0, 0,
                   "shm: rank 0 did not hand the memory over: it closed");
  *memory = std::move(fds[0]);
  for (int at = 1; at < n && watch != nullptr; ++at) {
    std::vector<int> ranks;
    for (int other = 0; other < size; ++other)
      if (welcome.process_of[other] == at && other != rank)
        ranks.push_back(other);
    watch->add(std::move(fds[at]), ranks);
  }
  return DW_OK;
}

}  // namespace shm_backend
