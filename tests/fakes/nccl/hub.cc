#include "fakes/nccl/hub.h"

#include "fakes/gpu/memory.h"
#include "fakes/nccl/wire.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace fakes::nccl {
namespace {

std::shared_ptr<LocalClique> clique_of(const std::string& id, int ranks) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<LocalClique>> cliques;
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<LocalClique>& place = cliques[id];
  if (place == nullptr) place = std::make_shared<LocalClique>(id, ranks);
  return place;
}

// Makes the call of a rank; false when the rank has gone.
bool make_call(Reader& from, Ask ask, LocalClique& clique, int rank,
               const std::function<bool()>& gone, Writer* answer) {
  if (ask == Ask::kMeet) {
    const auto key = from.get<Key>();
    return clique.wait_for_all(key, rank, from.get<int>(), gone);
  }
  std::list<std::string> memory;  // addresses stay
  std::vector<std::pair<Key, Part>> parts;
  for (auto n = from.get<uint64_t>(); n > 0; --n) {
    const auto key = from.get<Key>();
    Part part = get_part(&from, &memory.emplace_back());
    part.in = memory.back().data();
    memory.emplace_back(bytes_out(part, rank, clique.size()), '\0');
    part.out = memory.back().data();
    parts.emplace_back(key, part);
  }
  clique.run(rank, 0, parts, gone);
  for (const auto& [key, part] : parts)
    answer->text(
        {static_cast<char*>(part.out), bytes_out(part, rank, clique.size())});
  return !gone();
}

// A second thread sees when the rank has gone.
void serve(int fd) {
  std::string bytes;
  if (receive(fd, &bytes)) {
    Reader from(bytes);
    const auto ask = from.get<Ask>();
    const std::string id = from.text();
    const int ranks = from.get<int>(), rank = from.get<int>();
    const std::shared_ptr<LocalClique> clique = clique_of(id, ranks);
    std::atomic<bool> has_gone = false;
    std::thread watch([&] {
      char nothing;
      if (recv(fd, &nothing, 1, 0) > 0) return;
      has_gone = true;
      clique->wake();
    });
    const auto gone = [&] { return has_gone.load(); };
    Writer answer;
    if (make_call(from, ask, *clique, rank, gone, &answer)) answer.send(fd);
    shutdown(fd, SHUT_RDWR);
    watch.join();
  }
  close(fd);
}

[[noreturn]] void serve_all(int listener) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  gpu::allow_host_memory(true);
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) std::thread(serve, fd).detach();
  }
}

}  // namespace

Hub::Hub() {
  char folder[] = "/tmp/fake_nccl_XXXXXX";
  folder_ = mkdtemp(folder);
  path_ = folder_ + "/hub";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address),
           sizeof address) != 0 ||
      listen(listener, 128) != 0)
    std::abort();
  pid_ = fork();
  if (pid_ == 0) serve_all(listener);
  close(listener);
}

Hub::~Hub() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  unlink(path_.c_str());
  rmdir(folder_.c_str());
}

}  // namespace fakes::nccl
