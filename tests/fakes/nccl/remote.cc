// Ranks that are processes: each asks the hub, by a connection for each call,
// and the hub makes the call in its own process.
#include "fakes/gpu/memory.h"
#include "fakes/nccl/wire.h"

#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace fakes::nccl {
namespace {

int connect_to(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address),
              sizeof address) == 0)
    return fd;
  close(fd);
  return -1;
}

class RemoteClique final : public Clique {
 public:
  RemoteClique(std::string id, int ranks, const char* hub)
      : Clique(std::move(id), ranks), hub_(hub) {}

  bool wait_for_all(const Key& key, int rank, int ranks,
                    const std::function<bool()>& gone) override {
    Writer ask;
    ask.put(Ask::kMeet).text(id()).put(size()).put(rank).put(key).put(ranks);
    std::string answer;
    return call(ask, gone, &answer);
  }

  void run(int rank, int device, const std::vector<std::pair<Key, Part>>& parts,
           const std::function<bool()>& gone) override {
    Writer ask;
    ask.put(Ask::kRun).text(id()).put(size()).put(rank);
    ask.put(uint64_t{parts.size()});
    for (const auto& [key, part] : parts) {
      const size_t bytes = bytes_in(part, rank, size());
      Part sent = part;
      if (part.factor_at != nullptr)
        sent.factor.assign(
            gpu::reach(device, part.factor_at, bytes_of(part.type)),
            bytes_of(part.type));
      ask.put(key);
      put_part(sent,
               bytes == 0
                   ? std::string()
                   : std::string(gpu::reach(device, part.in, bytes), bytes),
               &ask);
    }
    std::string answer;
    if (!call(ask, gone, &answer)) return;
    Reader reader(answer);
    for (const auto& [key, part] : parts) {
      const std::string out = reader.text();
      if (!out.empty())
        std::memcpy(gpu::reach(device, part.out, out.size()), out.data(),
                    out.size());
    }
  }

 private:
  // The hub takes a closed connection for a rank that has gone.
  bool call(const Writer& ask, const std::function<bool()>& gone,
            std::string* answer) {
    const int fd = connect_to(hub_);
    if (fd < 0) return false;
    bool good = ask.send(fd);
    pollfd waits = {fd, POLLIN, 0};
    while (good && poll(&waits, 1, 1) == 0) good = !gone();
    good = good && receive(fd, answer);
    close(fd);
    return good;
  }

  const std::string hub_;
};

}  // namespace

std::shared_ptr<Clique> make_clique(const std::string& id, int ranks) {
  if (const char* const hub = std::getenv("FAKE_NCCL_HUB"))
    return std::make_shared<RemoteClique>(id, ranks, hub);
  return std::make_shared<LocalClique>(id, ranks);
}

}  // namespace fakes::nccl
