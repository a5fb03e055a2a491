// The rounds of a window. In the first the ranks tell where their parts are,
// and the ranks of one host map each other's. In the second they tell whether
// that was everything. If any rank lacks a part, all make the window's workers,
// register their data there, and tell the keys and addresses in the third
// round.
//
// UCX could map the parts, too. But 1.13, when it cannot unpack a key because
// the owner has gone, detaches memory at an address that it has never set.
#include "backend.h"
#include "sdk/fail.h"
#include "window.h"

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace ucx_backend {
namespace {

using dw_hostmem::control_bytes;
using dw_hostmem::SetupExchange;
using dw_hostmem::whole_pages;

// In groups up to this size all ranks connect when a window is made; in larger
// ones only ranks that write to each other do.
constexpr int kMostConnected = 64;

// A rank tells this of its part.
struct RankPart {
  uint64_t bytes, token;
  uint64_t data;  // address
  Owner owner;
  uint32_t brings;
  int32_t fd;  // descriptor of the owner; -1: not to be mapped
};

constexpr SetupExchange::Kind kWindow = {"ucx", 0x7778752e, 4};
constexpr char kAllMapped[] = "all", kNotMapped[] = "not all";

class WindowSetup final : public SetupExchange {
 public:
  WindowSetup(Comm* comm, const dw_setup_info& info)
      : SetupExchange(kWindow, info),
        comm_(comm),
        window_(std::make_unique<Window>(comm, info.signals)) {}
  int32_t begin(const dw_setup_info& info, dw_error* error);
  dw_setup_result take() override {
    window_->control.close_descriptor();
    std::lock_guard<std::mutex> lock(comm_->windows_mutex);
    comm_->windows.push_back(window_.get());
    return {nullptr, reinterpret_cast<dw_window*>(window_.release())};
  }

 private:
  int32_t hear(uint32_t round, const Words& words, dw_error* error) override;
  int32_t place(const Words& words, dw_error* error);
  int32_t open_worker(dw_error* error);
  int32_t meet(const Words& addresses, dw_error* error);
  void map(int rank, const RankPart& part);

  Comm* const comm_;
  std::unique_ptr<Window> window_;
  bool all_mapped_ = true;
};

int32_t WindowSetup::begin(const dw_setup_info& info, dw_error* error) {
  if (int32_t code = comm_->failure.check(error)) return code;
  RankPart mine = {};
  uint64_t bytes = control_bytes(comm_->size, info.signals);
  mine.bytes = dw_hostmem::data_bytes(info);
  mine.brings = info.memory.data != nullptr;
  if (mine.brings == 0 &&
      (__builtin_add_overflow(bytes, whole_pages(mine.bytes), &bytes) ||
       mine.bytes > INT64_MAX || bytes > INT64_MAX))
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "ucx: the window is larger than any memory");
  Window& window = *window_;
  if (int32_t code = window.control.create(bytes, error)) return code;
  if (int32_t code = window.control.reserve(0, bytes, error)) return code;
  char* const control = window.control.data();
  WindowPart& part = window.mine();
  part.lay_out(control, comm_->size);
  part.data = mine.brings != 0
                  ? static_cast<char*>(info.memory.data)
                  : control + control_bytes(comm_->size, info.signals);
  part.bytes = mine.bytes;
  window.brings = mine.brings != 0;
  mine.data = reinterpret_cast<uintptr_t>(part.data);
  mine.owner = this_process();
  mine.fd =
      Context::shares_memory(comm_->transports) ? window.control.fd() : -1;
  mine.token = reinterpret_cast<uintptr_t>(control) ^
               static_cast<uint64_t>(comm_->host->now_ns(comm_->host->self)) *
                   UINT64_C(0x9e3779b97f4a7c15);
  part.head->token.store(mine.token, std::memory_order_release);
  say_object(mine);
  return DW_OK;
}

// Maps the part of a rank on this host. Memory that cannot be mapped, or that
// is not the memory which its owner meant, is reached over the worker.
void WindowSetup::map(int rank, const RankPart& part) {
  const Owner self = this_process();
  if (self.pid_space == 0 || part.owner.pid_space != self.pid_space) return;
  WindowPart& seen = window_->parts[static_cast<size_t>(rank)];
  dw_hostmem::Segment& memory = seen.mapping;
  dw_hostmem::Descriptor fd =
      dw_hostmem::descriptor_of(part.owner.pid, part.fd);
  if (!fd.is_open() || memory.adopt(std::move(fd), nullptr) != DW_OK) return;
  memory.close_descriptor();
  const uint64_t control = control_bytes(comm_->size, window_->signals);
  const uint64_t data = part.brings != 0 ? 0 : part.bytes;
  if (memory.bytes() < control || memory.bytes() - control < data ||
      reinterpret_cast<dw_hostmem::WindowHead*>(memory.data())
              ->token.load(std::memory_order_acquire) != part.token)
    return;
  seen.lay_out(memory.data(), comm_->size);
  if (part.brings == 0) seen.data = memory.data() + control;
}

int32_t WindowSetup::place(const Words& words, dw_error* error) {
  std::vector<RankPart> parts;
  if (int32_t code = read(words, &parts, error)) return code;
  // Either all ranks of this host map, or none.
  bool maps = true;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const RankPart& part = parts[rank];
    WindowPart& seen = window_->parts[rank];
    seen.bytes = part.bytes;
    seen.address = part.data;
    seen.owner = part.owner;
    if (comm_->far[rank] == 0 && part.fd < 0) maps = false;
  }
  if (comm_->size == 1) return DW_DONE;
  for (int rank = 0; rank < comm_->size; ++rank) {
    if (rank == comm_->rank) continue;
    const auto i = static_cast<size_t>(rank);
    if (maps && comm_->far[i] == 0) map(rank, parts[i]);
    const WindowPart& seen = window_->parts[i];
    if (seen.head == nullptr || (seen.data == nullptr && seen.bytes != 0))
      all_mapped_ = false;
  }
  say(all_mapped_ ? kAllMapped : kNotMapped);
  return DW_OK;
}

int32_t WindowSetup::open_worker(dw_error* error) {
  std::shared_ptr<Context> context;
  if (int32_t code =
          context_for(*comm_, Context::Use::kAccess, &context, error))
    return code;
  const LogTo log(comm_->host);
  Window& window = *window_;
  if (int32_t code = window.worker.open(context, comm_->hosts, error))
    return code;
  window.has_worker = true;
  if (int32_t code = window.worker.hear(hear_window, &window, error))
    return code;
  const WindowPart& mine = window.mine();
  if (mine.bytes != 0)
    if (int32_t code =
            window.reached.map(context, mine.data, mine.bytes, error))
      return code;
  const std::string& address = window.worker.address();
  const uint64_t address_bytes = address.size();
  say(std::string(reinterpret_cast<const char*>(&address_bytes),
                  sizeof address_bytes) +
      address + window.reached.key());
  return DW_OK;
}

int32_t WindowSetup::meet(const Words& words, dw_error* error) {
  std::vector<Worker::Peer> peers(words.size());
  for (size_t i = 0; i < peers.size(); ++i) {
    uint64_t address_bytes = 0;
    const size_t at = sizeof address_bytes;
    if (words[i].size() >= at) std::memcpy(&address_bytes, words[i].data(), at);
    if (address_bytes == 0 || words[i].size() - at < address_bytes)
      return refuse(static_cast<int>(i),
                    "a rank's setup message has no address", error);
    WindowPart& part = window_->parts[i];
    peers[i] = {std::string(words[i].substr(at, address_bytes)),
                comm_->far[i] != 0, &part.told_closed};
    part.key = words[i].substr(at + address_bytes);
  }
  if (int32_t code = window_->worker.meet(std::move(peers), error)) return code;
  if (comm_->size <= kMostConnected) window_->worker.connect();
  if (int32_t code = window_->thread.start(error)) return code;
  return DW_DONE;
}

int32_t WindowSetup::hear(uint32_t round, const Words& words, dw_error* error) {
  switch (round) {
    case 0:
      return place(words, error);
    case 1:
      for (const std::string_view word : words)
        if (word != kAllMapped) return open_worker(error);
      return DW_DONE;
    default:
      return meet(words, error);
  }
}

}  // namespace

Window::Window(Comm* by, uint64_t n_signals)
    : WindowWords("ucx", by->size, n_signals),
      comm(by),
      parts(static_cast<size_t>(by->size)),
      worker(by->host, by->rank, &failure) {}

Window::~Window() { thread.finish(); }

WindowPart& Window::mine() { return parts[static_cast<size_t>(comm->rank)]; }

int32_t begin_window(Comm* comm, const dw_setup_info& info,
                     std::unique_ptr<SetupExchange>* exchange,
                     dw_error* error) {
  if (int32_t code =
          dw_hostmem::check_window(info, comm->rank, comm->size, error))
    return code;
  auto made = std::make_unique<WindowSetup>(comm, info);
  const int32_t code = made->begin(info, error);
  *exchange = std::move(made);
  return code;
}

}  // namespace ucx_backend
