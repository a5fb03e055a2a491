// The fake NCCL: the functions that a library exports. FAKE_NCCL_VERSION says
// which version it is, and so what it exports.
#include "fakes/gpu/driver.h"
#include "fakes/nccl/comm.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <pthread.h>
#include <random>

using namespace fakes;
using nccl::Called;
using nccl::Kind;
using nccl::Part;

namespace {

constexpr int kVersion = FAKE_NCCL_VERSION;

struct Library {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<nccl::Clique>> cliques;  // by id
  std::set<ncclComm*> comms;              // all there ever were
  std::deque<ncclWindow_vidmem> windows;  // all there ever were
  std::set<const void*> allocated;        // by ncclMemAlloc
  std::mt19937_64 random{std::random_device{}()};
};
Library& library() {
  static Library* const kLibrary = new Library;
  return *kLibrary;
}

// The group of a thread.
struct Group {
  int depth = 0;
  int failed = ncclSuccess;  // a call's error, which the end repeats
  std::vector<Called> calls;
  std::set<int> entered;  // devices

  ~Group() {
    if (depth != 0) gpu::broken("group left open", "its thread has ended");
  }
};
// Not thread_local: glibc frees such variables of an opened library behind
// ThreadSanitizer's back.
Group& group() {
  static const pthread_key_t kKey = [] {
    pthread_key_t made;
    pthread_key_create(&made, [](void* of) { delete static_cast<Group*>(of); });
    return made;
  }();
  auto* own = static_cast<Group*>(pthread_getspecific(kKey));
  if (own == nullptr) {
    own = new Group;
    pthread_setspecific(kKey, own);
  }
  return *own;
}

// The threads that are inside, by device: from a group's first call to its end.
constexpr int kDevices = 64;
std::atomic<std::thread::id> inside[kDevices];

void enter_device(int device) {
  if (group().entered.count(device) != 0) return;
  std::thread::id nobody;
  if (!inside[device].compare_exchange_strong(nobody,
                                              std::this_thread::get_id()))
    gpu::broken("two threads on a device",
                "NCCL was called for device " + std::to_string(device) +
                    " by two threads at the same time");
  else
    group().entered.insert(device);
}
void leave_devices() {
  for (const int device : group().entered) inside[device] = std::thread::id();
  group().entered.clear();
}
// For one call that is no part of a group.
struct Inside {
  explicit Inside(int device) { enter_device(device); }
  ~Inside() {
    if (group().depth == 0) leave_devices();
  }
};

bool is_alive(ncclComm* comm, const char* call) {
  {
    std::lock_guard<std::mutex> lock(library().mutex);
    if (library().comms.count(comm) == 0) {
      gpu::broken("no communicator", std::string(call) + " of an address");
      return false;
    }
  }
  if (!comm->over) return true;
  gpu::broken("use after the end",
              std::string(call) + " of an ended communicator");
  return false;
}

// For calls that may not be made while the communicator is in progress.
bool is_ready(ncclComm* comm, const char* call) {
  if (!is_alive(comm, call)) return false;
  if (comm->finalized) {
    gpu::broken("use after finalize", call);
    return false;
  }
  if (comm->revoked) {
    gpu::broken("use after revoke", call);
    return false;
  }
  if (comm->state != ncclInProgress) return true;
  gpu::broken("call while in progress",
              std::string(call) + " before the last call has finished");
  return false;
}

int make_call(ncclComm* comm, CUstream_st* handle, Part part,
              const char* name) {
  if (!is_ready(comm, name)) return ncclInvalidUsage;
  if (const int planned = gpu::planned_failure()) return planned;
  const bool alone = group().depth == 0;
  if (alone)
    gpu::broken("call without a group",
                std::string(name) +
                    ": without one it may return before it is launched");
  enter_device(comm->device);
  CUstream_st* const stream = gpu::stream_of(handle);
  if (stream == nullptr) return ncclInvalidArgument;
  if (stream->device != comm->device) {
    gpu::broken("wrong context", "the stream is of another device");
    return ncclInvalidArgument;
  }
  if (nccl::bytes_of(part.type) == 0) return ncclInvalidArgument;
  if (part.reduction.op >= ncclNumOps) {
    const auto found = comm->reductions.find(part.reduction.op);
    if (found == comm->reductions.end() || found->second.type != part.type) {
      gpu::broken("unknown reduction", "it was destroyed, or never made");
      return ncclInvalidArgument;
    }
    part.factor = found->second.factor;
    part.factor_at = found->second.factor_at;
    part.reduction = {ncclSum, true};
  }
  if (part.peer < -1 || part.peer >= comm->clique->size())
    return ncclInvalidArgument;
  if (part.in != nullptr || part.out != nullptr)
    part.registered = (part.in == nullptr || comm->is_registered(part.in)) &&
                      (part.out == nullptr || comm->is_registered(part.out));
  ++stream->unlaunched;
  group().calls.push_back({comm, stream, part, {}});
  std::vector<std::shared_ptr<void>>& held = group().calls.back().held;
  held.push_back(gpu::hold(part.in));
  held.push_back(gpu::hold(part.out));
  return ncclSuccess;
}

int call(ncclComm* comm, CUstream_st* stream, Part part, const char* name) {
  const int result = make_call(comm, stream, std::move(part), name);
  if (result != ncclSuccess) group().failed = result;
  if (group().depth == 0) {
    group().calls.clear();
    leave_devices();
  }
  return result;
}

// A group with an error launches nothing.
int end_group() {
  std::vector<Called> calls;
  calls.swap(group().calls);
  if (const int failed = std::exchange(group().failed, int{ncclSuccess})) {
    for (Called& called : calls) --called.stream->unlaunched;
    leave_devices();
    return failed;
  }
  const int result = nccl::launch_group(std::move(calls));
  leave_devices();
  return result;
}

std::string text_of(const ncclUniqueId& id) {
  return std::string(id.internal, sizeof id.internal);
}

void note_field(const char* name, int value) {
  if (value != INT_MIN)
    gpu::note(std::string(name) + "=" + std::to_string(value));
}

// The forms of ncclConfig_t up to this version.
bool config_fits(const ncclConfig& config) {
  const bool known = config.magic == 0xcafebeef &&
                     config.version <= static_cast<unsigned>(kVersion) &&
                     ((config.version >= 23100 && config.size == 120) ||
                      (config.version >= 22803 && config.version < 23100 &&
                       config.size == 80) ||
                      (config.version >= 22703 && config.version < 22803 &&
                       config.size == 72) ||
                      (config.version >= 21700 && config.version < 22703 &&
                       config.size == 48));
  if (!known)
    gpu::broken("a config of another version",
                "size " + std::to_string(config.size) + ", version " +
                    std::to_string(config.version));
  if (known && config.blocking != 0)
    gpu::broken("a blocking communicator", "its calls never end by themselves");
  return known;
}

void note_config(const ncclConfig& config) {
  note_field("minCTAs", config.minCTAs);
  note_field("maxCTAs", config.maxCTAs);
  note_field("cgaClusterSize", config.cgaClusterSize);
  note_field("splitShare", config.splitShare);
  if (config.netName != nullptr)
    gpu::note(std::string("netName=") + config.netName);
  if (config.version >= 22600) note_field("trafficClass", config.trafficClass);
  if (config.size < 72) return;
  if (config.commName != nullptr)
    gpu::note(std::string("commName=") + config.commName);
  note_field("collnetEnable", config.collnetEnable);
  note_field("CTAPolicy", config.CTAPolicy);
  note_field("nvlsCTAs", config.nvlsCTAs);
  if (config.size < 80) return;
  note_field("nChannelsPerNetPeer", config.nChannelsPerNetPeer);
  note_field("nvlinkCentricSched", config.nvlinkCentricSched);
  if (config.size < 120) return;
  note_field("launchOrderImplicit", config.launchOrderImplicit);
}

// NCCL's thread meets the other ranks of a communicator that is built.
bool meet_ranks(ncclComm* made, int ranks, const std::function<bool()>& gone) {
  const bool all =
      made->clique->wait_for_all({0, 0, 0, 0}, made->rank, ranks, gone);
  std::this_thread::sleep_for(std::chrono::microseconds(300));
  made->state = ncclSuccess;
  return all;
}

int init(ncclComm** comm, int ranks, int rank, const std::string& id,
         const ncclConfig* config) {
  if (const int planned = gpu::planned_failure()) return planned;
  const int device = gpu::current_device();
  if (device < 0) {
    gpu::broken("no context", "ncclCommInitRank without a current context");
    return ncclUnhandledCudaError;
  }
  if (rank < 0 || rank >= ranks || !config_fits(*config))
    return ncclInvalidArgument;
  const Inside entry(device);
  note_config(*config);
  std::shared_ptr<nccl::Clique> clique;
  {
    std::lock_guard<std::mutex> lock(library().mutex);
    std::shared_ptr<nccl::Clique>& place = library().cliques[id];
    if (place == nullptr) place = nccl::make_clique(id, ranks);
    clique = place;
    *comm = new ncclComm(clique, rank, device);
    library().comms.insert(*comm);
  }
  ncclComm* const made = *comm;
  made->later([made, ranks] {
    meet_ranks(made, ranks, [made] { return made->is_gone(); });
  });
  return ncclInProgress;
}

#if FAKE_NCCL_VERSION >= 22703
// Whether the memory may become a window, with NCCL's mutex held.
bool may_be_window(const ncclComm* comm, const char* at, size_t bytes) {
  const void* const allocation = gpu::allocation_of(at);
  const char* rule = nullptr;
  if (bytes == 0 || reinterpret_cast<uintptr_t>(at) % 4096 != 0)
    rule = "a window that is not aligned";
  else if (library().allocated.count(allocation) == 0 ||
           gpu::device_of(at) != comm->device)
    rule = "a window on memory that cannot be shared";
  else if (kVersion < 23102)
    for (const ncclComm* const other : library().comms)
      for (const ncclWindow_vidmem* const window : other->windows)
        if (!other->over && gpu::allocation_of(window->at) == allocation)
          rule = "two windows on one allocation";
  if (rule != nullptr) gpu::broken(rule, std::to_string(bytes) + " bytes");
  return rule == nullptr;
}

// The windows of a communicator end with it.
void end_windows(ncclComm* comm, bool by_abort) {
  std::lock_guard<std::mutex> lock(library().mutex);
  for (const ncclWindow_vidmem* const window : comm->windows)
    comm->clique->remove_window(window->number, comm->rank, by_abort);
  comm->windows.clear();
}
#else
void end_windows(ncclComm* /*comm*/, bool /*by_abort*/) {}
#endif

#if FAKE_NCCL_VERSION >= 22902
// Checks the rules that every one-sided call has to keep.
int check_one_sided(const ncclComm* comm, int index, int context,
                    unsigned flags, const char* name) {
  if (gpu::driver_version() < 12050) return ncclInvalidUsage;
  if (index != 0 || context != 0 || flags != 0) {
    gpu::broken("a signal with an index",
                std::string(name) + ": index, context and flags have to be 0");
    return ncclInvalidArgument;
  }
  const std::lock_guard<std::mutex> lock(library().mutex);
  if (!comm->windows.empty()) return ncclSuccess;
  gpu::broken("a signal before a window", name);
  return ncclInvalidUsage;
}

// The window of the communicator in which this memory lies.
bool is_in_window(const ncclComm* comm, const char* at, size_t bytes) {
  const std::lock_guard<std::mutex> lock(library().mutex);
  return std::any_of(comm->windows.begin(), comm->windows.end(),
                     [&](const ncclWindow_vidmem* window) {
                       return at >= window->at &&
                              at + bytes <= window->at + window->bytes;
                     });
}
#endif

// Some ranks of `parent` build a communicator of their own: its id, their
// number and this rank's place, which NCCL's thread finds out. `*child` is set
// when it is ready, and until then the parent is in progress.
struct Place {
  std::string id;
  int ranks = 0, rank = 0;
};
int make_child(ncclComm* parent, ncclComm** child, const ncclConfig* config,
               const std::function<bool(Place*)>& find) {
  if (!config_fits(*config)) return ncclInvalidArgument;
  note_config(*config);
  *child = nullptr;
  parent->state = ncclInProgress;
  parent->later([parent, child, find] {
    Place place;
    if (find(&place)) {
      ncclComm* made;
      {
        std::lock_guard<std::mutex> lock(library().mutex);
        std::shared_ptr<nccl::Clique>& at = library().cliques[place.id];
        if (at == nullptr) at = nccl::make_clique(place.id, place.ranks);
        made = new ncclComm(at, place.rank, parent->device);
        library().comms.insert(made);
        parent->child_clique = made->clique;
      }
      if (meet_ranks(made, place.ranks,
                     [parent] { return parent->aborted.load(); }))
        *child = made;
      else
        made->end();
    }
    parent->state = ncclSuccess;
  });
  return ncclInProgress;
}

// The colours and keys of all ranks in a split, by its name.
struct Split {
  std::map<int, std::pair<int, int>> ranks;
};

// Finds the place of a rank in a split, when all have come. Only for ranks that
// are threads.
bool find_in_split(ncclComm* parent, const std::string& name, int color,
                   int key, uint64_t number, Place* place) {
  static std::mutex mutex;
  static std::map<std::string, Split> splits;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    splits[name].ranks[parent->rank] = {color, key};
  }
  if (!parent->clique->wait_for_all({4, number, 0, 0}, parent->rank,
                                    parent->clique->size(),
                                    [parent] { return parent->is_gone(); }))
    return false;
  const std::lock_guard<std::mutex> lock(mutex);
  for (const auto& [rank, other] : splits[name].ranks) {
    if (other.first != color) continue;
    ++place->ranks;
    if (std::make_pair(other.second, rank) < std::make_pair(key, parent->rank))
      ++place->rank;
  }
  place->id = name + " colour " + std::to_string(color);
  return true;
}

Part part_of(Kind kind, const void* in, void* out, size_t count, int type,
             int op = ncclSum, int peer = -1, bool sends = false) {
  Part part;
  part.kind = kind;
  part.in = in;
  part.out = out;
  part.count = count;
  part.type = type;
  part.reduction.op = op;
  part.peer = peer;
  part.sends = sends;
  return part;
}

}  // namespace

extern "C" {

FAKE_EXPORT int ncclGetVersion(int* version) {
  *version = kVersion;
  return ncclSuccess;
}
FAKE_EXPORT const char* ncclGetErrorString(int result) {
  return result == ncclRemoteError ? "remote process exited"
                                   : "a fake NCCL's error";
}
FAKE_EXPORT const char* ncclGetLastError(ncclComm*) { return ""; }

FAKE_EXPORT int ncclGetUniqueId(ncclUniqueId* id) {
  if (const int planned = gpu::planned_failure()) return planned;
  std::lock_guard<std::mutex> lock(library().mutex);
  std::memset(id, 0, sizeof *id);
  for (size_t i = 0; i < 2; ++i) {
    const uint64_t word = library().random();
    std::memcpy(id->internal + i * sizeof word, &word, sizeof word);
  }
  return ncclSuccess;
}

FAKE_EXPORT int ncclCommInitRankConfig(ncclComm** comm, int ranks,
                                       ncclUniqueId id, int rank,
                                       ncclConfig* config) {
  return init(comm, ranks, rank, text_of(id), config);
}

FAKE_EXPORT int ncclCommGetAsyncError(ncclComm* comm, int* result) {
  if (!is_alive(comm, "ncclCommGetAsyncError")) return ncclInvalidArgument;
  if (const int planned = gpu::planned_failure(gpu::Calls::kQuestion))
    return planned;
  const int failed = gpu::asynchronous_failure();
  *result = failed != 0 ? failed : comm->state.load();
  return ncclSuccess;
}

FAKE_EXPORT int ncclCommFinalize(ncclComm* comm) {
  if (!is_ready(comm, "ncclCommFinalize")) return ncclInvalidUsage;
  if (const int planned = gpu::planned_failure()) return planned;
  const Inside entry(comm->device);
  // An abort may leave some: NCCL frees them with the communicator.
  if (!comm->reductions.empty())
    gpu::broken("reduction left", "a premul_sum was never destroyed");
  comm->finalized = true;
  comm->state = ncclInProgress;
  comm->later([comm] {
    // Destroyed graphs let go of it.
    while (comm->graphs.use_count() > 1 && !comm->is_gone())
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (comm->last_kernel != nullptr) comm->last_kernel->wait();
    comm->state = ncclSuccess;
  });
  return ncclInProgress;
}

FAKE_EXPORT int ncclCommDestroy(ncclComm* comm) {
  if (!is_alive(comm, "ncclCommDestroy")) return ncclInvalidArgument;
  if (!gpu::leaves_captures_alone("ncclCommDestroy"))
    return ncclUnhandledCudaError;
  if (!comm->finalized || comm->state == ncclInProgress)
    gpu::broken("destroyed in progress",
                "ncclCommDestroy before ncclCommFinalize has finished");
  if (const int planned = gpu::planned_failure(gpu::Calls::kDestroy))
    return planned;
  while (gpu::ends_hang())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  comm->end();
  end_windows(comm, false);
  comm->join();
  return ncclSuccess;
}

FAKE_EXPORT int ncclCommAbort(ncclComm* comm) {
  if (!is_alive(comm, "ncclCommAbort")) return ncclInvalidArgument;
  if (!gpu::leaves_captures_alone("ncclCommAbort"))
    return ncclUnhandledCudaError;
  if (const int planned = gpu::planned_failure(gpu::Calls::kAbort))
    return planned;
  while (gpu::ends_hang())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  comm->end();
  comm->aborted = true;
  comm->clique->wake();
  std::shared_ptr<nccl::Clique> child;
  {
    std::lock_guard<std::mutex> lock(library().mutex);
    child = comm->child_clique;
  }
  if (child != nullptr) child->wake();
  comm->join();
  end_windows(comm, true);
  return ncclSuccess;
}

FAKE_EXPORT int ncclMemAlloc(void** address, size_t bytes) {
  if (const int planned = gpu::planned_failure()) return planned;
  if (gpu::current_device() < 0) {
    gpu::broken("no context", "ncclMemAlloc without a current context");
    return ncclUnhandledCudaError;
  }
  if (!gpu::leaves_captures_alone("ncclMemAlloc"))
    return ncclUnhandledCudaError;
  *address = gpu::allocate(gpu::current_device(), bytes);
  const std::lock_guard<std::mutex> lock(library().mutex);
  library().allocated.insert(*address);
  return *address == nullptr ? ncclUnhandledCudaError : ncclSuccess;
}
FAKE_EXPORT int ncclMemFree(void* address) {
  if (!gpu::leaves_captures_alone("ncclMemFree")) return ncclUnhandledCudaError;
  if (const int planned = gpu::planned_failure()) return planned;
  {
    std::lock_guard<std::mutex> lock(library().mutex);
    for (const ncclComm* const comm : library().comms) {
      if (comm->over) continue;
      bool known = comm->is_registered(address);
      for (const ncclWindow_vidmem* const window : comm->windows)
        known = known || gpu::allocation_of(window->at) == address;
      if (known)
        gpu::broken("memory freed while registered",
                    "a communicator still knows it");
    }
    library().allocated.erase(address);
  }
  return gpu::release(address) ? ncclSuccess : ncclInvalidArgument;
}

FAKE_EXPORT int ncclCommSplit(ncclComm* comm, int color, int key,
                              ncclComm** child, ncclConfig* config) {
  if (!is_ready(comm, "ncclCommSplit")) return ncclInvalidUsage;
  if (const int planned = gpu::planned_failure()) return planned;
  if (comm->last_kernel != nullptr && !comm->last_kernel->has_happened())
    gpu::broken("operations under way", "ncclCommSplit waits for them");
  const Inside entry(comm->device);
  gpu::note("ncclCommSplit");
  const auto number = static_cast<uint64_t>(comm->children++);
  const std::string name =
      "split " + std::to_string(number) + " of " + comm->clique->id();
  return make_child(
      comm, child, config, [comm, name, color, key, number](Place* place) {
        return find_in_split(comm, name, color, key, number, place);
      });
}

FAKE_EXPORT int ncclCommRegister(ncclComm* comm, void* address, size_t bytes,
                                 void** registration) {
  if (!is_ready(comm, "ncclCommRegister")) return ncclInvalidUsage;
  if (!gpu::leaves_captures_alone("ncclCommRegister"))
    return ncclUnhandledCudaError;
  if (const int planned = gpu::planned_failure()) return planned;
  const Inside entry(comm->device);
  if (gpu::device_of(address) != comm->device) {
    gpu::broken("registered memory of another device",
                "its device is " + std::to_string(gpu::device_of(address)));
    return ncclInvalidArgument;
  }
  if (comm->is_registered(address))
    gpu::broken("registered twice", "with the same communicator");
  char* const begin = static_cast<char*>(address);
  std::lock_guard<std::mutex> lock(library().mutex);
  comm->registered[begin] = begin + bytes;
  *registration = address;
  gpu::note("ncclCommRegister");
  return ncclSuccess;
}
FAKE_EXPORT int ncclCommDeregister(ncclComm* comm, void* registration) {
  if (!is_ready(comm, "ncclCommDeregister")) return ncclInvalidUsage;
  if (!gpu::leaves_captures_alone("ncclCommDeregister"))
    return ncclUnhandledCudaError;
  if (const int planned = gpu::planned_failure()) return planned;
  const Inside entry(comm->device);
  std::lock_guard<std::mutex> lock(library().mutex);
  if (comm->registered.erase(static_cast<char*>(registration)) != 1)
    gpu::broken("unknown registration", "it has ended, or never was");
  gpu::note("ncclCommDeregister");
  return ncclSuccess;
}

FAKE_EXPORT int ncclGroupStart() {
  if (const int planned = gpu::planned_failure()) return planned;
  ++group().depth;
  return ncclSuccess;
}
FAKE_EXPORT int ncclGroupEnd() {
  const int planned = gpu::planned_failure();
  if (group().depth == 0) {
    gpu::broken("no group to end", "ncclGroupEnd without ncclGroupStart");
    return ncclInvalidUsage;
  }
  if (planned != 0) group().failed = planned;
  return --group().depth != 0 ? planned : end_group();
}

FAKE_EXPORT int ncclRedOpCreatePreMulSum(int* op, void* factor, int type,
                                         int residence, ncclComm* comm) {
  if (!is_ready(comm, "ncclRedOpCreatePreMulSum")) return ncclInvalidUsage;
  if (const int planned = gpu::planned_failure()) return planned;
  const Inside entry(comm->device);
  Part made;
  made.type = type;
  if (residence == ncclScalarHostImmediate)
    made.factor.assign(static_cast<const char*>(factor), nccl::bytes_of(type));
  else
    made.factor_at = factor;
  *op = comm->next_reduction++;
  comm->reductions[*op] = made;
  return ncclSuccess;
}
FAKE_EXPORT int ncclRedOpDestroy(int op, ncclComm* comm) {
  if (!is_ready(comm, "ncclRedOpDestroy")) return ncclInvalidUsage;
  const Inside entry(comm->device);
  if (comm->reductions.erase(op) != 1)
    gpu::broken("unknown reduction", "it was destroyed twice");
  return gpu::planned_failure();
}

FAKE_EXPORT int ncclAllReduce(const void* in, void* out, size_t count, int type,
                              int op, ncclComm* comm, CUstream_st* stream) {
  return call(comm, stream, part_of(Kind::kAllReduce, in, out, count, type, op),
              "ncclAllReduce");
}
FAKE_EXPORT int ncclReduce(const void* in, void* out, size_t count, int type,
                           int op, int root, ncclComm* comm,
                           CUstream_st* stream) {
  return call(comm, stream,
              part_of(Kind::kReduce, in, out, count, type, op, root),
              "ncclReduce");
}
FAKE_EXPORT int ncclBroadcast(const void* in, void* out, size_t count, int type,
                              int root, ncclComm* comm, CUstream_st* stream) {
  return call(comm, stream,
              part_of(Kind::kBroadcast, in, out, count, type, ncclSum, root),
              "ncclBroadcast");
}
FAKE_EXPORT int ncclAllGather(const void* in, void* out, size_t count, int type,
                              ncclComm* comm, CUstream_st* stream) {
  return call(comm, stream, part_of(Kind::kAllGather, in, out, count, type),
              "ncclAllGather");
}
FAKE_EXPORT int ncclReduceScatter(const void* in, void* out, size_t count,
                                  int type, int op, ncclComm* comm,
                                  CUstream_st* stream) {
  return call(comm, stream,
              part_of(Kind::kReduceScatter, in, out, count, type, op),
              "ncclReduceScatter");
}
FAKE_EXPORT int ncclSend(const void* in, size_t count, int type, int peer,
                         ncclComm* comm, CUstream_st* stream) {
  return call(
      comm, stream,
      part_of(Kind::kMessage, in, nullptr, count, type, ncclSum, peer, true),
      "ncclSend");
}
FAKE_EXPORT int ncclRecv(void* out, size_t count, int type, int peer,
                         ncclComm* comm, CUstream_st* stream) {
  return call(comm, stream,
              part_of(Kind::kMessage, nullptr, out, count, type, ncclSum, peer),
              "ncclRecv");
}

#if FAKE_NCCL_VERSION >= 22300
FAKE_EXPORT int ncclCommInitRankScalable(ncclComm** comm, int ranks, int rank,
                                         int ids, ncclUniqueId* id,
                                         ncclConfig* config) {
  gpu::note("ids=" + std::to_string(ids));
  std::string all;
  for (int i = 0; i < ids; ++i) all += text_of(id[i]);
  return init(comm, ranks, rank, all, config);
}
#endif
#if FAKE_NCCL_VERSION >= 22803
FAKE_EXPORT int ncclAlltoAll(const void* in, void* out, size_t count, int type,
                             ncclComm* comm, CUstream_st* stream) {
  gpu::note("ncclAlltoAll");
  return call(comm, stream, part_of(Kind::kAllToAll, in, out, count, type),
              "ncclAlltoAll");
}
FAKE_EXPORT int ncclGather(const void* in, void* out, size_t count, int type,
                           int root, ncclComm* comm, CUstream_st* stream) {
  gpu::note("ncclGather");
  return call(comm, stream,
              part_of(Kind::kGather, in, out, count, type, ncclSum, root),
              "ncclGather");
}
FAKE_EXPORT int ncclScatter(const void* in, void* out, size_t count, int type,
                            int root, ncclComm* comm, CUstream_st* stream) {
  gpu::note("ncclScatter");
  return call(comm, stream,
              part_of(Kind::kScatter, in, out, count, type, ncclSum, root),
              "ncclScatter");
}
#endif
#if FAKE_NCCL_VERSION >= 22807
FAKE_EXPORT int ncclCommRevoke(ncclComm* comm, int flags) {
  if (!is_alive(comm, "ncclCommRevoke")) return ncclInvalidArgument;
  if (flags != NCCL_REVOKE_DEFAULT) return ncclInvalidArgument;
  if (comm->revoked || comm->finalized) {
    gpu::broken("revoked in vain", "it was revoked or finalized before");
    return ncclInvalidArgument;
  }
  if (const int planned = gpu::planned_failure(gpu::Calls::kRevoke))
    return planned;
  while (gpu::ends_hang())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  comm->revoked = true;
  comm->state = ncclInProgress;
  comm->clique->wake();
  comm->later([comm] {
    if (comm->last_kernel != nullptr) comm->last_kernel->wait();
    comm->state = ncclSuccess;
  });
  return ncclInProgress;
}
#endif
#if FAKE_NCCL_VERSION >= 23203
// A process has one key, for all its communicators.
FAKE_EXPORT int ncclSetEncryption(const ncclEncryptionConfig* config) {
  if (const int planned = gpu::planned_failure()) return planned;
  if (config->magic != nccl_backend::kConfigMagic ||
      config->size != sizeof *config ||
      config->mode != NCCL_ENCRYPTION_MODE_PSK || config->psk == nullptr ||
      std::strlen(config->psk) < 32)
    return ncclInvalidArgument;
  gpu::note(std::string("key=") + config->psk);
  return ncclSuccess;
}
#endif
#if FAKE_NCCL_VERSION >= 22703
FAKE_EXPORT int ncclCommShrink(ncclComm* comm, int* excluded, int n_excluded,
                               ncclComm** child, ncclConfig* config,
                               int /*flags*/) {
  if (!is_alive(comm, "ncclCommShrink")) return ncclInvalidArgument;
  if (const int planned = gpu::planned_failure()) return planned;
  if (comm->state == ncclInProgress)
    gpu::broken("call while in progress", "ncclCommShrink");
  if (!comm->revoked && comm->last_kernel != nullptr &&
      !comm->last_kernel->has_happened())
    gpu::broken("operations under way", "ncclCommShrink waits for them");
  Place place{"shrunk " + std::to_string(comm->children++),
              comm->clique->size() - n_excluded, comm->rank};
  for (int i = 0; i < n_excluded; ++i) {
    if (excluded[i] == comm->rank) return ncclInvalidArgument;
    if (excluded[i] < comm->rank) --place.rank;
    place.id += ' ' + std::to_string(excluded[i]);
  }
  if (n_excluded == 0) return ncclInvalidArgument;
  const Inside entry(comm->device);
  gpu::note("ncclCommShrink");
  place.id += " of " + comm->clique->id();
  return make_child(comm, child, config, [place](Place* found) {
    *found = place;
    return true;
  });
}
#endif

#if FAKE_NCCL_VERSION >= 22703
// All ranks make their windows in the same order.
FAKE_EXPORT int ncclCommWindowRegister(ncclComm* comm, void* address,
                                       size_t bytes, ncclWindow_vidmem** window,
                                       int flags) {
  if (!is_ready(comm, "ncclCommWindowRegister")) return ncclInvalidUsage;
  if (const int planned = gpu::planned_failure()) return planned;
  const Inside entry(comm->device);
  const std::lock_guard<std::mutex> lock(library().mutex);
  char* const at = static_cast<char*>(address);
  if (flags != NCCL_WIN_COLL_SYMMETRIC || !may_be_window(comm, at, bytes))
    return ncclInvalidArgument;
  ncclWindow_vidmem* const made = &library().windows.emplace_back(
      ncclWindow_vidmem{comm, comm->windows_made++, at, bytes});
  if (!comm->clique->add_window(made->number, comm->rank, comm->device, at,
                                bytes))
    return ncclInvalidUsage;
  comm->windows.insert(made);
  gpu::note("ncclCommWindowRegister");
  *window = nullptr;
  comm->state = ncclInProgress;
  comm->later([comm, made, window] {
    if (comm->clique->wait_for_all({5, made->number, 0, 0}, comm->rank,
                                   comm->clique->size(),
                                   [comm] { return comm->is_gone(); })) {
      std::this_thread::sleep_for(std::chrono::microseconds(300));
      *window = made;
    }
    comm->state = ncclSuccess;
  });
  return ncclInProgress;
}
FAKE_EXPORT int ncclCommWindowDeregister(ncclComm* comm,
                                         ncclWindow_vidmem* window) {
  if (!is_ready(comm, "ncclCommWindowDeregister")) return ncclInvalidUsage;
  if (const int planned = gpu::planned_failure()) return planned;
  const Inside entry(comm->device);
  const std::lock_guard<std::mutex> lock(library().mutex);
  if (comm->windows.erase(window) != 1) {
    gpu::broken("unknown window", "it has ended, or never was");
    return ncclInvalidArgument;
  }
  comm->clique->remove_window(window->number, comm->rank, false);
  return ncclSuccess;
}
#endif
#if FAKE_NCCL_VERSION >= 22902
FAKE_EXPORT int ncclPutSignal(const void* in, size_t count, int type, int peer,
                              ncclWindow_vidmem* window, size_t offset,
                              int index, int context, unsigned flags,
                              ncclComm* comm, CUstream_st* stream) {
  constexpr char kName[] = "ncclPutSignal";
  if (const int bad = check_one_sided(comm, index, context, flags, kName))
    return bad;
  {
    const std::lock_guard<std::mutex> lock(library().mutex);
    if (comm->windows.count(window) == 0) {
      gpu::broken("unknown window", kName);
      return ncclInvalidArgument;
    }
  }
  if (in == nullptr || !is_in_window(comm, static_cast<const char*>(in),
                                     count * nccl::bytes_of(type))) {
    gpu::broken("a put from outside of a window", kName);
    return ncclInvalidArgument;
  }
  Part part =
      part_of(Kind::kPut, in, nullptr, count, type, ncclSum, peer, true);
  part.window = window->number;
  part.offset = offset;
  gpu::note(kName);
  return call(comm, stream, std::move(part), kName);
}
FAKE_EXPORT int ncclSignal(int peer, int index, int context, unsigned flags,
                           ncclComm* comm, CUstream_st* stream) {
  constexpr char kName[] = "ncclSignal";
  if (const int bad = check_one_sided(comm, index, context, flags, kName))
    return bad;
  return call(comm, stream,
              part_of(Kind::kSignal, nullptr, nullptr, 0, ncclUint8, ncclSum,
                      peer, true),
              kName);
}
FAKE_EXPORT int ncclWaitSignal(int n, ncclWaitSignalDesc* signals,
                               ncclComm* comm, CUstream_st* stream) {
  constexpr char kName[] = "ncclWaitSignal";
  if (n <= 0 || signals == nullptr) return ncclInvalidArgument;
  for (int i = 0; i < n; ++i) {
    const ncclWaitSignalDesc& one = signals[i];
    if (const int bad = check_one_sided(comm, one.sigIdx, one.ctx, 0, kName))
      return bad;
    if (one.opCnt <= 0) return ncclInvalidArgument;
    if (const int bad = call(comm, stream,
                             part_of(Kind::kWaitSignal, nullptr, nullptr,
                                     static_cast<size_t>(one.opCnt), ncclUint8,
                                     ncclSum, one.peer),
                             kName))
      return bad;
  }
  return ncclSuccess;
}
#endif

}  // extern "C"
