#include "fakes/nccl/comm.h"

#include "fakes/gpu/driver.h"

#include <algorithm>
#include <chrono>
#include <iterator>

void ncclComm::later(std::function<void()> task) {
  std::lock_guard<std::mutex> lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

bool ncclComm::is_registered(const void* at) const {
  const char* const address = static_cast<const char*>(at);
  const auto next = registered.upper_bound(address);
  return next != registered.begin() && address < std::prev(next)->second;
}

void ncclComm::join() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void ncclComm::run() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

namespace fakes::nccl {
namespace {

enum Sort : uint64_t { kJoin, kConnect, kCollective, kMessages };

struct Kernel {
  ncclComm* comm = nullptr;
  bool captured = false;
  std::vector<Called> calls;
};

// The next key of a call. Those of captured kernels count for themselves, since
// they run when their graph does.
Key next_key(ncclComm* comm, const Part& part, bool captured) {
  static std::mutex mutex;  // graphs run in threads of streams
  const std::lock_guard<std::mutex> lock(mutex);
  Key key = {part.kind == Kind::kMessage ? kMessages : kCollective,
             captured ? 1u : 0u, 0, 0};
  if (part.kind == Kind::kMessage) {
    const int from = part.sends ? comm->rank : part.peer;
    const int to = part.sends ? part.peer : comm->rank;
    key[2] = static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
    // The two halves of a message to oneself count apart, and alike.
    Key counted = key;
    counted[3] = part.sends ? 1 : 2;
    key[3] = comm->counts[counted]++;
    return key;
  }
  key[3] = comm->counts[key]++;
  return key;
}

std::vector<std::pair<Key, Part>> with_keys(const Kernel& kernel) {
  std::vector<std::pair<Key, Part>> parts;
  for (const Called& called : kernel.calls)
    if (!is_one_sided(called.part.kind))
      parts.emplace_back(next_key(kernel.comm, called.part, kernel.captured),
                         called.part);
  return parts;
}

LaunchOrder& launch_order() {
  static LaunchOrder* const kOrder = new LaunchOrder;
  return *kOrder;
}

std::shared_ptr<Launched> put_in_order(
    const Kernel& kernel, const std::vector<std::pair<Key, Part>>& parts) {
  std::vector<Call> calls;
  for (const auto& part : parts)
    calls.emplace_back(kernel.comm->clique.get(), part.first);
  std::vector<CUstream_st*> streams;
  for (const Called& called : kernel.calls) streams.push_back(called.stream);
  return launch_order().add(std::move(calls), streams,
                            kernel.comm->last_launched);
}

void run_one_sided(const Kernel& kernel, const std::function<bool()>& gone) {
  ncclComm* const comm = kernel.comm;
  for (const Called& called : kernel.calls)
    if (is_one_sided(called.part.kind))
      comm->clique->run_one_sided(comm->rank, comm->device, called.part, gone);
}

void put_kernel(const std::shared_ptr<Kernel>& kernel) {
  ncclComm* const comm = kernel->comm;
  CUstream_st* const stream = kernel->calls[0].stream;
  const auto gone = [comm] { return comm->is_gone(); };
  if (kernel->captured) {
    const std::shared_ptr<int> graphs = comm->graphs;
    stream->put([kernel, comm, gone, graphs] {
      comm->clique->run(comm->rank, comm->device, with_keys(*kernel), gone);
    });
    return;
  }
  // The kernel and the other streams of its group wait for each other.
  const auto ended = std::make_shared<gpu::Moment>();
  std::vector<std::shared_ptr<gpu::Moment>> before;
  std::set<CUstream_st*> others;
  for (const Called& called : kernel->calls)
    if (called.stream != stream) others.insert(called.stream);
  for (CUstream_st* const other : others) {
    const auto reached = std::make_shared<gpu::Moment>();
    before.push_back(reached);
    other->put([reached, ended] {
      reached->happen();
      ended->wait();
    });
  }
  const auto parts = with_keys(*kernel);
  const auto launched = put_in_order(*kernel, parts);
  stream->put([kernel, comm, gone, parts, before, ended, launched,
               previous = comm->last_kernel]() mutable {
    for (const auto& moment : before) moment->wait();
    if (previous != nullptr) previous->wait();
    run_one_sided(*kernel, gone);
    if (!parts.empty())
      comm->clique->run(comm->rank, comm->device, parts, gone);
    kernel->calls.clear();  // lets go of the memory
    launch_order().end(launched);
    ended->happen();
  });
  comm->last_kernel = ended;
  comm->last_launched = launched;
}

void launch_kernel(const std::shared_ptr<Kernel>& kernel) {
  std::vector<CUstream_st*> streams;
  for (const Called& called : kernel->calls) streams.push_back(called.stream);
  put_kernel(kernel);
  for (CUstream_st* const stream : streams) --stream->unlaunched;
}

// After an abort NCCL launches nothing.
void drop_kernel(Kernel& kernel) {
  for (const Called& called : kernel.calls) --called.stream->unlaunched;
  kernel.calls.clear();
}

// Until 2.31 NCCL prepares one-sided operations inside the first of them, with
// all ranks.
constexpr bool kPreparesInCalls = FAKE_NCCL_VERSION < 23100;
constexpr int kOneSided = -2;  // in place of a peer

// NCCL connects to a peer inside the first call that needs it, and waits there
// for the peer's; to all peers of a group in an order that all ranks share.
void connect(Kernel& kernel) {
  ncclComm* const comm = kernel.comm;
  const auto gone = [comm] { return comm->is_gone(); };
  std::map<Key, int> ranks;  // so many ranks meet
  for (const Called& called : kernel.calls) {
    if (is_one_sided(called.part.kind)) {
      if (kPreparesInCalls && comm->connected.insert(kOneSided).second)
        comm->clique->wait_for_all({kConnect, 2, 0, 0}, comm->rank,
                                   comm->clique->size(), gone);
      continue;
    }
    const bool message = called.part.kind == Kind::kMessage;
    const int peer = message ? called.part.peer : -1;
    if (peer == comm->rank || !comm->connected.insert(peer).second) continue;
    const Key key = {kConnect, message ? 1u : 0u,
                     static_cast<uint64_t>(std::min(comm->rank, peer)),
                     static_cast<uint64_t>(std::max(comm->rank, peer))};
    const Key all = {kConnect, 0, 0, 0};
    ranks[message ? key : all] = message ? 2 : comm->clique->size();
  }
  for (const auto& [key, n] : ranks)
    comm->clique->wait_for_all(key, comm->rank, n, gone);
}

bool is_connected(const Kernel& kernel) {
  return std::all_of(
      kernel.calls.begin(), kernel.calls.end(), [&](const Called& called) {
        const int peer =
            called.part.kind == Kind::kMessage ? called.part.peer : -1;
        if (is_one_sided(called.part.kind))
          return !kPreparesInCalls ||
                 kernel.comm->connected.count(kOneSided) != 0;
        return peer == kernel.comm->rank ||
               kernel.comm->connected.count(peer) != 0;
      });
}

}  // namespace

int launch_group(std::vector<Called> calls) {
  std::vector<std::shared_ptr<Kernel>> kernels;
  for (Called& called : calls) {
    const auto found = std::find_if(
        kernels.begin(), kernels.end(),
        [&](const auto& kernel) { return kernel->comm == called.comm; });
    if (found != kernels.end()) {
      (*found)->calls.push_back(std::move(called));
      continue;
    }
    const auto made = std::make_shared<Kernel>();
    made->comm = called.comm;
    made->captured = called.stream->is_capturing();
    made->calls.push_back(std::move(called));
    kernels.push_back(made);
  }
  int result = ncclSuccess;
  for (const std::shared_ptr<Kernel>& kernel : kernels) {
    ncclComm* const comm = kernel->comm;
    // Now and then also a connected one is launched by NCCL's thread.
    if (is_connected(*kernel) && ++comm->groups % 3 != 0) {
      launch_kernel(kernel);
      continue;
    }
    result = ncclInProgress;
    comm->state = ncclInProgress;
    comm->later([kernel, comm] {
      connect(*kernel);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (comm->is_gone()) return drop_kernel(*kernel);
      launch_kernel(kernel);
      int expected = ncclInProgress;
      comm->state.compare_exchange_strong(expected, ncclSuccess);
    });
  }
  return result;
}

}  // namespace fakes::nccl
