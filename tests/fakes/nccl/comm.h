// A rank's communicator in the fake NCCL, with the thread that NCCL has for
// what it does not do inside calls.
#ifndef DISTWRAP_TESTS_FAKES_NCCL_COMM_H_
#define DISTWRAP_TESTS_FAKES_NCCL_COMM_H_

#include "fakes/gpu/rules.h"
#include "fakes/gpu/stream.h"
#include "fakes/nccl/clique.h"
#include "fakes/nccl/order.h"
#include "nccl/nccl_types.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A rank's part of a window. Never freed, like communicators.
struct ncclWindow_vidmem {
  ncclComm* comm = nullptr;
  uint64_t number = 0;
  char* at = nullptr;
  size_t bytes = 0;
};

// Never freed: a pointer to one that has ended stays recognisable.
struct ncclComm {
 public:
  ncclComm(std::shared_ptr<fakes::nccl::Clique> of, int my_rank, int on_device)
      : clique(std::move(of)),
        rank(my_rank),
        device(on_device),
        thread_([this] { run(); }) {
    fakes::gpu::add_communicators(1);
  }

  const std::shared_ptr<fakes::nccl::Clique> clique;
  const int rank, device;
  std::atomic<int> state{ncclInProgress};
  std::atomic<bool> aborted{false}, over{false}, finalized{false};
  std::atomic<bool> revoked{false};
  // Captured graphs that have kernels of this communicator.
  std::shared_ptr<int> graphs = std::make_shared<int>(0);
  std::map<int, fakes::nccl::Part> reductions;  // the factors of premul_sum
  int next_reduction = ncclNumOps;
  // Registered memory: the end of each block, by its beginning.
  std::map<const char*, const char*> registered;
  // The windows of the communicator; guarded by the library's lock.
  std::set<ncclWindow_vidmem*> windows;
  uint64_t windows_made = 0;
  int groups = 0;           // launched so far
  int children = 0;         // made of it so far
  std::set<int> connected;  // peers; -1: all, for collectives
  // How many calls of each sort there were, by the first words of their key.
  std::map<fakes::nccl::Key, uint64_t> counts;
  std::shared_ptr<fakes::gpu::Moment> last_kernel;
  std::shared_ptr<fakes::nccl::Launched> last_launched;
  // Where it meets for a communicator that is made of it.
  std::shared_ptr<fakes::nccl::Clique> child_clique;

  // Whether kernels end without their results.
  bool is_gone() const { return aborted || revoked; }
  bool is_registered(const void* at) const;
  void end() {
    over = true;
    fakes::gpu::add_communicators(-1);
  }
  // Runs `task` in NCCL's thread.
  void later(std::function<void()> task);
  // Ends the thread; what it waits for has to be gone.
  void join();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

namespace fakes::nccl {

// A call inside a group, until the group is launched.
struct Called {
  ncclComm* comm;
  CUstream_st* stream;
  Part part;
  std::vector<std::shared_ptr<void>> held;  // keeps the call's memory
};

// Launches what a group called: ncclSuccess when that is done, ncclInProgress
// when NCCL's threads go on with it.
int launch_group(std::vector<Called> calls);

}  // namespace fakes::nccl

#endif  // DISTWRAP_TESTS_FAKES_NCCL_COMM_H_
