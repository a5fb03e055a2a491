// A communicator is built in rounds. In the first the ranks tell each other
// their versions, devices and NCCL's ids; then NCCL builds the communicator by
// itself, in threads of its own, and in each further round the ranks tell
// whether it is ready. Ranks that are left of a failed communicator need no
// ids, if all of them still have it (child.h). So a rank that is missing is
// missing in a round, where the host names it, and a setup can be cancelled at
// any time.
//
// A window is built in the same way: first the communicator that it has for
// itself, then NCCL's window.
#include "backend.h"
#include "child.h"
#include "comm_parts.h"
#include "config.h"
#include "hostmem/setup_exchange.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "sdk/open.h"
#include "window.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace nccl_backend {
namespace {

constexpr dw_hostmem::SetupExchange::Kind kKind = {"nccl", 0x6c63636e, 3};

// The longest wait for NCCL in one round: in the first rounds, and later.
constexpr std::chrono::microseconds kShortLook{2000}, kLongLook{20000};
constexpr uint32_t kShortLooks = 10;

constexpr int kRanksPerId = 128;
constexpr int kRanksOnOneGpuSince = version_code(2, 30, 3);

struct Hello {
  int32_t version, device;
  CUuuid uuid;
  uint64_t hints;         // hash of what the ranks need in common
  uint64_t window_bytes;  // this rank's part; 0: no window is built
  uint64_t parent;  // uid of the one of which this rank can make it; 0: none
  uint32_t has_id;
  Child::Way way;  // with `parent`
  ncclUniqueId id;
};
struct Ready {
  uint64_t ready;
};

uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Whether the rank makes an id of NCCL: `ids` of the `n` ranks do, evenly
// spread.
bool makes_id(int rank, int n, int ids) {
  for (int i = 0; i < ids; ++i)
    if (rank == static_cast<int>(static_cast<int64_t>(i) * n / ids))
      return true;
  return false;
}

class Setup final : public dw_hostmem::SetupExchange {
 public:
  Setup(Backend* backend, const dw_setup_info& info, Hints hints)
      : SetupExchange(kKind, info),
        backend_(*backend),
        rank_(info.rank),
        size_(info.size),
        comm_(std::make_unique<Comm>(backend, info.rank, info.size)) {
    comm_->uid = info.uid;
    comm_->hints = std::move(hints);
  }
  ~Setup() override {
    if (signalled_ != nullptr) backend_.watch->put_back(signalled_);
    if (comm_ != nullptr) end_comm(std::move(comm_), EndBy::kAbort);
  }

  // Builds this window, and not a communicator of the group.
  int32_t put_window(std::unique_ptr<Window> window, dw_error* error) {
    Blocks& blocks = backend_.blocks;
    if (backend_.nccl.version < kWindowsShareBlocksSince &&
        blocks.has_window(window->at)) {
      const std::string text =
          "nccl: another window is on the same block of memory, which needs "
          "NCCL " +
          version_text(kWindowsShareBlocksSince) + "; this is NCCL " +
          version_text(backend_.nccl.version);
      return dw_unsupported(error, text.c_str());
    }
    if (!blocks.add_window(window->at, window->bytes, comm_->part))
      return dw_invalid(error,
                        "nccl: the window's memory is not of the group's "
                        "allocator (get_mem_allocator)");
    hello_.window_bytes = window->bytes;
    window_ = std::move(window);
    return DW_OK;
  }

  int32_t begin(const dw_setup_info& info, dw_error* error) {
    const CurrentContext current(*backend_.device);
    const RelaxedCapture relaxed(backend_.device->driver());
    if (int32_t code = make_parts(comm_.get(), error)) return code;
    // Before any rank hears of the others: what the hints ask of this version.
    if (int32_t code =
            fill_config(backend_.nccl.version, comm_->hints, &config_, error))
      return code;
    if (comm_->hints.watch_replays == 1 &&
        !Replays::possible(backend_.device->driver()))
      return dw_unsupported(error,
                            "nccl: hint watch_replays needs a driver of CUDA "
                            "11.7 or newer");
    hello_.version = backend_.nccl.version;
    hello_.device = backend_.device->ordinal();
    hello_.uuid = backend_.device->uuid();
    hello_.hints = hash_of(comm_->hints.common());
    // A window's own communicator is made from ids, which disturbs nobody.
    if (window_ == nullptr) child_ = Child::offer(backend_, comm_->hints, info);
    return say_hello(error);
  }

  dw_setup_result take() override {
    backend_.watch->add(comm_.get());
    if (window_ != nullptr) {
      Comm& owner = *window_->owner;
      const std::lock_guard<std::mutex> lock(owner.windows_mutex);
      owner.windows.push_back(comm_.get());
      if (owner.failure.is_over()) comm_->failure.abort();
      window_->comm = std::move(comm_);
      return {nullptr, reinterpret_cast<dw_window*>(window_.release())};
    }
    return {reinterpret_cast<dw_comm*>(comm_.release()), nullptr};
  }

 private:
  int count_ids() const {
    if (backend_.nccl.ncclCommInitRankScalable == nullptr) return 1;
    const int per = comm_->hints.ranks_per_id == kUnset
                        ? kRanksPerId
                        : comm_->hints.ranks_per_id;
    return (size_ + per - 1) / per;
  }

  int32_t hear(uint32_t round, const Words& words, dw_error* error) override {
    const CurrentContext current(*backend_.device);
    const RelaxedCapture relaxed(backend_.device->driver());
    if (!is_building_) {
      if (int32_t code = hear_hellos(words, error)) return code;
      if (!is_building_) return DW_OK;
    } else {
      std::vector<Ready> all;
      if (int32_t code = read(words, &all, error)) return code;
      bool ready = true;
      for (const Ready& one : all) ready = ready && one.ready != 0;
      if (ready) return DW_DONE;
    }
    bool ready = false;
    if (int32_t code =
            look(round < kShortLooks ? kShortLook : kLongLook, &ready, error))
      return code;
    say_object(Ready{ready ? 1u : 0u});
    return DW_OK;
  }

  int32_t say_hello(dw_error* error) {
    hello_.parent = child_ == nullptr ? 0 : child_->parent_uid();
    hello_.way = child_ == nullptr ? Child::Way::kNone : child_->way();
    if (child_ == nullptr && makes_id(rank_, size_, count_ids())) {
      hello_.has_id = 1;
      if (int result = backend_.nccl.ncclGetUniqueId(&hello_.id);
          result != ncclSuccess)
        return fail_nccl(backend_.nccl, "ncclGetUniqueId", result, nullptr,
                         error);
    }
    say_object(hello_);
    return DW_OK;
  }

  int32_t hear_hellos(const Words& words, dw_error* error) {
    std::vector<Hello> all;
    if (int32_t code = read(words, &all, error)) return code;
    std::vector<ncclUniqueId> ids;
    int from_parent = 0;
    for (int r = 0; r < size_; ++r) {
      if (int32_t code = check(all, r, error)) return code;
      const Hello& one = all[static_cast<size_t>(r)];
      if (one.has_id != 0) ids.push_back(one.id);
      if (one.parent != 0 && one.parent == all[0].parent &&
          one.way == all[0].way)
        ++from_parent;
    }
    is_building_ = true;
    if (from_parent == size_) return DW_OK;
    const bool some = std::any_of(all.begin(), all.end(), [](const Hello& one) {
      return one.parent != 0;
    });
    if (some) {
      // In the next round all ranks have ids.
      is_building_ = false;
      child_ = nullptr;
      return say_hello(error);
    }
    if (ids.size() != static_cast<size_t>(count_ids()))
      return refuse(0, "the ranks made another number of ids", error);
    ids_ = std::move(ids);
    return DW_OK;
  }

  // NCCL begins to build from the ids. Precondition: the device's lock of calls
  // is held.
  int32_t begin_from_ids(dw_error* error) {
    std::vector<ncclUniqueId> ids = std::exchange(ids_, {});
    const int result =
        ids.size() == 1
            ? backend_.nccl.ncclCommInitRankConfig(&comm_->part->handle, size_,
                                                   ids[0], rank_, &config_)
            : backend_.nccl.ncclCommInitRankScalable(
                  &comm_->part->handle, size_, rank_,
                  static_cast<int>(ids.size()), ids.data(), &config_);
    if (result == ncclSuccess || result == ncclInProgress) return DW_OK;
    return fail_nccl(backend_.nccl, "the communicator cannot be built", result,
                     nullptr, error);
  }

  // Compares a rank's facts with this rank's, and its device with those of the
  // ranks before it.
  int32_t check(const std::vector<Hello>& all, int rank,
                dw_error* error) const {
    const Hello& own = all[static_cast<size_t>(rank_)];
    const Hello& other = all[static_cast<size_t>(rank)];
    if (other.version != own.version)
      return refuse(rank,
                    "it has NCCL " + version_text(other.version) + ", rank " +
                        std::to_string(rank_) + " has NCCL " +
                        version_text(own.version),
                    error);
    if (other.hints != own.hints)
      return refuse(
          rank, "its hints differ from those of rank " + std::to_string(rank_),
          error);
    if (other.window_bytes != own.window_bytes)
      return refuse(rank,
                    "its part of the window has " +
                        std::to_string(other.window_bytes) +
                        " bytes, that of "
                        "rank " +
                        std::to_string(rank_) + " has " +
                        std::to_string(own.window_bytes) +
                        "; NCCL's windows are equally large on all ranks",
                    error);
    const char* const several = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    if (own.version >= kRanksOnOneGpuSince && several != nullptr &&
        std::string_view(several) == "1")
      return DW_OK;
    for (int r = 0; r < rank; ++r) {
      const Hello& earlier = all[static_cast<size_t>(r)];
      if (std::memcmp(&earlier.uuid, &other.uuid, sizeof(CUuuid)) == 0)
        return refuse(rank,
                      "it is on the same GPU as rank " + std::to_string(r) +
                          " (their devices " + std::to_string(earlier.device) +
                          " and " + std::to_string(other.device) +
                          "); give each rank a device of its own",
                      error);
    }
    return DW_OK;
  }

  int32_t look(std::chrono::microseconds patience, bool* ready,
               dw_error* error) {
    const auto limit = std::chrono::steady_clock::now() + patience;
    for (;;) {
      if (int32_t code = ask(ready, error)) return code;
      if (*ready || std::chrono::steady_clock::now() >= limit) return DW_OK;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  // Without the lock this rank is not ready, and the host ends the setup in
  // time.
  std::unique_lock<CallLock> try_to_call() {
    std::unique_lock<CallLock> calls(backend_.device->calls(),
                                     std::try_to_lock);
    if (calls.owns_lock())
      calls.mutex()->say("the building of a communicator", 0);
    return calls;
  }

  int32_t ask(bool* ready, dw_error* error) {
    *ready = false;
    if (child_ != nullptr) {
      if (int32_t code =
              child_->look(&config_, &comm_->part->handle, ready, error))
        return code;
      if (!*ready) return DW_OK;
      child_ = nullptr;
    }
    if (!ids_.empty()) {
      const std::unique_lock<CallLock> calls = try_to_call();
      if (!calls.owns_lock()) return DW_OK;
      if (int32_t code = begin_from_ids(error)) return code;
    }
    int state = ncclSuccess;
    const int asked =
        backend_.nccl.ncclCommGetAsyncError(comm_->part->handle, &state);
    const int result = asked != ncclSuccess ? asked : state;
    if (result == ncclSuccess && window_ != nullptr)
      return ask_window(ready, error);
    *ready = result == ncclSuccess;
    if (*ready || result == ncclInProgress) return DW_OK;
    return fail_nccl(backend_.nccl, "the communicator cannot be built", result,
                     comm_->part->handle, error);
  }

  // The communicator is ready for the next step. All ranks make NCCL's window
  // together. Then each one signals to the next and waits for the one before:
  // until 2.31 NCCL prepares one-sided operations inside the first of them,
  // with all ranks; and where it cannot do them, the window is not made.
  int32_t ask_window(bool* ready, dw_error* error) {
    const std::unique_lock<CallLock> calls = try_to_call();
    if (!calls.owns_lock()) return DW_OK;
    const Nccl& nccl = backend_.nccl;
    ncclComm* const comm = comm_->part->handle;
    switch (step_) {
      case WindowStep::kRegister:
        step_ = WindowStep::kSignal;
        return began("ncclCommWindowRegister",
                     nccl.ncclCommWindowRegister(
                         comm, window_->at, window_->bytes, &window_->handle,
                         NCCL_WIN_COLL_SYMMETRIC),
                     error);
      case WindowStep::kSignal:
        step_ = WindowStep::kWait;
        return in_group(
            "ncclSignal",
            [&] {
              return nccl.ncclSignal((rank_ + 1) % size_, 0, 0, 0, comm,
                                     comm_->stream);
            },
            error);
      case WindowStep::kWait: {
        step_ = WindowStep::kRecord;
        ncclWaitSignalDesc before = {1, (rank_ + size_ - 1) % size_, 0, 0};
        return in_group(
            "ncclWaitSignal",
            [&] {
              return nccl.ncclWaitSignal(1, &before, comm, comm_->stream);
            },
            error);
      }
      case WindowStep::kRecord:
        step_ = WindowStep::kDevice;
        if (int32_t code = backend_.watch->take(&signalled_, error))
          return code;
        return on_device(backend_.device->driver().cuEventRecord(
                             signalled_->event, comm_->stream),
                         error);
      case WindowStep::kDevice:
        break;
    }
    const int result =
        backend_.device->driver().cuEventQuery(signalled_->event);
    *ready = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_NOT_READY ? int32_t{DW_OK}
                                          : on_device(result, error);
  }
  int32_t began(const char* what, int result, dw_error* error) const {
    if (result == ncclSuccess || result == ncclInProgress) return DW_OK;
    return fail_nccl(backend_.nccl, what, result, comm_->part->handle, error);
  }
  int32_t on_device(int result, dw_error* error) const {
    if (result == CUDA_SUCCESS) return DW_OK;
    return fail_driver(backend_.device->driver(), "the first signal", result,
                       error);
  }
  // A call that enqueues; the group is closed on every path.
  template <class Call>
  int32_t in_group(const char* what, const Call& call, dw_error* error) const {
    const int begun = backend_.nccl.ncclGroupStart();
    if (begun != ncclSuccess) return began("ncclGroupStart", begun, error);
    const int called = call();
    const int ended = backend_.nccl.ncclGroupEnd();
    const int32_t code = began(what, called, error);
    return code != DW_OK ? code : began("ncclGroupEnd", ended, error);
  }

  Backend& backend_;
  const int rank_, size_;
  std::unique_ptr<Window> window_;  // null: a communicator is built
  std::unique_ptr<Comm> comm_;
  ncclConfig config_ = {};
  Hello hello_ = {};
  std::unique_ptr<Child> child_;   // until NCCL has made it
  std::vector<ncclUniqueId> ids_;  // until NCCL has them
  bool is_building_ = false;
  enum class WindowStep : uint8_t {
    kRegister,
    kSignal,
    kWait,
    kRecord,
    kDevice
  } step_ = WindowStep::kRegister;
  Flight* signalled_ = nullptr;  // null: no signal was sent
};

}  // namespace

int32_t setup_begin(dw_backend* backend, const dw_setup_info* given,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  return dw_hostmem::begin_setup_exchange(
      "nccl: a communicator",
      [&](std::unique_ptr<dw_hostmem::SetupExchange>* made) -> int32_t {
        dw_setup_info info;
        if (int32_t code =
                dw_read_setup(&info, given, kHints, std::size(kHints), error))
          return code;
        Hints hints = of(backend)->hints;
        if (int32_t code = read_hints(info.hints, info.n_hints, &hints, error))
          return code;
        if (hints.encryption_key_file != of(backend)->hints.encryption_key_file)
          return dw_invalid(error,
                            "nccl: encryption_key_file is a hint of the "
                            "session: NCCL has one key for all groups");
        auto building =
            std::make_unique<Setup>(of(backend), info, std::move(hints));
        if (int32_t code = building->begin(info, error)) return code;
        *made = std::move(building);
        return DW_OK;
      },
      setup, out, error);
}

int32_t window_create(dw_comm* comm, const dw_setup_info* given,
                      dw_setup** setup, dw_blob* out, dw_error* error) {
  return dw_hostmem::begin_setup_exchange(
      "nccl: a window",
      [&](std::unique_ptr<dw_hostmem::SetupExchange>* made) -> int32_t {
        dw_setup_info info;
        auto window = std::make_unique<Window>();
        if (int32_t code =
                read_window(of(comm), given, &info, window.get(), error))
          return code;
        auto building =
            std::make_unique<Setup>(of(comm)->backend, info, of(comm)->hints);
        if (int32_t code = building->put_window(std::move(window), error))
          return code;
        if (int32_t code = building->begin(info, error)) return code;
        *made = std::move(building);
        return DW_OK;
      },
      setup, out, error);
}

int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error) {
  return dw_hostmem::step_setup_exchange("nccl: a communicator", setup, in, n,
                                         out, result, error);
}

void setup_cancel(dw_setup* setup) { dw_hostmem::cancel_setup_exchange(setup); }

}  // namespace nccl_backend
