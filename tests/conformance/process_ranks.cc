#include "process_ranks.h"

#include "host.h"

#include <csignal>
#include <cstring>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::conformance {
namespace {

constexpr int kMostRanks = 8;
constexpr size_t kMostBlob = 4096;

}  // namespace

struct ProcessRanks::Shared {
  std::atomic<int> words[kWords];
  std::atomic<uint64_t> arrived;
  bool own_hosts;
  size_t sizes[kMostRanks];
  char blobs[kMostRanks][kMostBlob];

  // Every rank calls it; returns when all ranks have.
  void meet(int size) {
    const uint64_t n = static_cast<uint64_t>(size);
    const uint64_t turn = arrived.fetch_add(1) / n;
    while (arrived.load() < (turn + 1) * n) sched_yield();
  }

  // The rounds of a setup after its beginning; all NULL when it fails.
  dw_setup_result step(const dw_backend_api& api, int rank, int size,
                       dw_setup* setup, dw_blob out) {
    for (;;) {
      sizes[rank] = out.size;
      std::memcpy(blobs[rank], out.data, out.size);
      meet(size);
      std::vector<std::string> copies;
      for (int r = 0; r < size; ++r) copies.emplace_back(blobs[r], sizes[r]);
      meet(size);
      std::vector<dw_blob> in;
      for (const std::string& copy : copies)
        in.push_back({copy.data(), copy.size(), nullptr, 0});
      dw_setup_result result = {};
      const int32_t code =
          api.setup_step(setup, in.data(), in.size(), &out, &result, nullptr);
      if (code == DW_DONE) return result;
      if (code != DW_OK) return {};
    }
  }

  dw_comm* build(const dw_backend_api& api, const std::vector<dw_hint>& hints,
                 int rank, int size, dw_backend** backend) {
    dw_open_info open = {};
    open.struct_size = sizeof open;
    open.device_type = DW_DEVICE_CPU;
    open.hints = hints.data();
    open.n_hints = hints.size();
    if (api.open(&host_table(), &open, backend, nullptr) != DW_OK)
      return nullptr;
    const dw_setup_info info = info_of(DW_SETUP_COMMUNICATOR, 5, rank, size);
    dw_setup* setup = nullptr;
    dw_blob out = {};
    if (api.setup_begin(*backend, &info, &setup, &out, nullptr) != DW_OK)
      return nullptr;
    return step(api, rank, size, setup, out).comm;
  }

  dw_window* build_window(const Rank& self, const dw_buf& memory,
                          uint64_t signals) {
    dw_setup_info info = info_of(DW_SETUP_WINDOW, 6, self.rank, self.size);
    info.parent = self.comm;
    info.memory = memory;
    info.signals = signals;
    dw_setup* setup = nullptr;
    dw_blob out = {};
    if (self.api.window_create(self.comm, &info, &setup, &out, nullptr) !=
        DW_OK)
      return nullptr;
    return step(self.api, self.rank, self.size, setup, out).window;
  }

 private:
  dw_setup_info info_of(uint32_t flags, uint64_t uid, int rank,
                        int size) const {
    dw_setup_info info = {};
    info.struct_size = sizeof info;
    info.flags = flags;
    info.rank = rank;
    info.size = size;
    info.uid = uid;
    info.epoch = 1;
    static constexpr int32_t kOneHost[64] = {};
    static constexpr int32_t kOwnHosts[] = {0, 1, 2, 3};
    info.host_of = own_hosts ? kOwnHosts : kOneHost;
    return info;
  }
};

ProcessRanks::ProcessRanks(const ProcessPlan& plan, int size,
                           const std::function<int(Rank&)>& body)
    : shared_(static_cast<Shared*>(mmap(nullptr, sizeof(Shared),
                                        PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
  shared_->own_hosts = plan.own_hosts;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (plan.prepare && !plan.prepare(rank)) _exit(98);
      const std::vector<dw_hint> hints =
          plan.hints ? plan.hints(rank) : std::vector<dw_hint>();
      const dw_backend_api& api = plan.table();
      Rank self = {api, nullptr, nullptr, rank, size, shared_->words, {}};
      self.make_window = [&](const dw_buf& memory, uint64_t signals) {
        return shared_->build_window(self, memory, signals);
      };
      self.comm = shared_->build(api, hints, rank, size, &self.backend);
      _exit(self.comm == nullptr ? 99 : body(self));
    }
    pids_.push_back(pid);
  }
}

ProcessRanks::~ProcessRanks() {
  for (const pid_t pid : pids_) {
    if (pid <= 0) continue;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  munmap(shared_, sizeof(Shared));
}

std::atomic<int>* ProcessRanks::words() const { return shared_->words; }

int ProcessRanks::wait(int rank) {
  pid_t& pid = pids_[static_cast<size_t>(rank)];
  int status = 0;
  waitpid(pid, &status, 0);
  pid = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace distwrap::conformance
