#include "fakes/nccl/wire.h"

#include <cerrno>
#include <sys/socket.h>

namespace fakes::nccl {
namespace {

bool send_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(fd, data, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = recv(fd, data, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

bool Writer::send(int fd) const {
  const uint64_t size = bytes_.size();
  return send_all(fd, reinterpret_cast<const char*>(&size), sizeof size) &&
         send_all(fd, bytes_.data(), bytes_.size());
}

bool receive(int fd, std::string* bytes) {
  uint64_t size = 0;
  if (!receive_all(fd, reinterpret_cast<char*>(&size), sizeof size))
    return false;
  bytes->resize(size);
  return receive_all(fd, bytes->data(), size);
}

size_t bytes_in(const Part& part, int rank, int n) {
  const size_t own = part.count * bytes_of(part.type);
  const size_t all = own * static_cast<size_t>(n);
  switch (part.kind) {
    case Kind::kBroadcast:
      return part.peer == rank ? own : 0;
    case Kind::kScatter:
      return part.peer == rank ? all : 0;
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return all;
    case Kind::kMessage:
      return part.sends ? own : 0;
    default:
      return own;
  }
}

size_t bytes_out(const Part& part, int rank, int n) {
  const size_t own = part.count * bytes_of(part.type);
  const size_t all = own * static_cast<size_t>(n);
  switch (part.kind) {
    case Kind::kReduce:
      return part.peer == rank ? own : 0;
    case Kind::kGather:
      return part.peer == rank ? all : 0;
    case Kind::kAllGather:
    case Kind::kAllToAll:
      return all;
    case Kind::kMessage:
      return part.sends ? 0 : own;
    default:
      return own;
  }
}

void put_part(const Part& part, const std::string& in, Writer* to) {
  to->put(part.kind).put(uint64_t{part.count}).put(part.type);
  to->put(part.reduction).put(part.peer).put(part.sends);
  to->put(part.registered.has_value()).put(part.registered.value_or(false));
  to->text(part.factor).text(in);
}

Part get_part(Reader* from, std::string* in) {
  Part part;
  part.kind = from->get<Kind>();
  part.count = from->get<uint64_t>();
  part.type = from->get<int>();
  part.reduction = from->get<Reduction>();
  part.peer = from->get<int>();
  part.sends = from->get<bool>();
  const bool has = from->get<bool>();
  const bool registered = from->get<bool>();
  if (has) part.registered = registered;
  part.factor = from->text();
  *in = from->text();
  return part;
}

}  // namespace fakes::nccl
