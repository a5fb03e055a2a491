// The rounds of a window. In the first the ranks tell the addresses of their
// parts, and the ranks of one host map each other's. In the second they tell
// whether that was everything. If any rank lacks a part, all make the window's
// workers, register their data there, and tell the keys and addresses in the
// third round.
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

constexpr uint64_t kPage = 4096;
// In groups up to this size all ranks connect when a window is made; in larger
// ones only ranks that write to each other do.
constexpr int kMostConnected = 64;

// A rank's part, followed by the address of its mapper, if it maps, and by its
// key.
struct RankPart {
  uint64_t bytes, token;
  uint64_t control, data;  // addresses
  Owner owner;
  uint32_t brings;
  uint32_t address_bytes;
};

constexpr SetupExchange::Kind kWindow = {"ucx", 0x7778752e, 3};
constexpr char kAllMapped[] = "all", kNotMapped[] = "not all";

class WindowSetup final : public SetupExchange {
 public:
  WindowSetup(Comm* comm, const dw_setup_info& info)
      : SetupExchange(kWindow, info),
        comm_(comm),
        window_(std::make_unique<Window>(comm, info.signals)) {}
  int32_t begin(const dw_setup_info& info, dw_error* error);
  dw_setup_result take() override {
    std::lock_guard<std::mutex> lock(comm_->windows_mutex);
    comm_->windows.push_back(window_.get());
    return {nullptr, reinterpret_cast<dw_window*>(window_.release())};
  }

 private:
  int32_t hear(uint32_t round, const Words& words, dw_error* error) override;
  int32_t place(const Words& words, dw_error* error);
  int32_t meet_mapper(const Words& addresses, dw_error* error);
  int32_t open_worker(dw_error* error);
  int32_t meet(const Words& addresses, dw_error* error);
  void map(int rank, const RankPart& part, const std::string& key);

  Comm* const comm_;
  std::unique_ptr<Window> window_;
  bool all_mapped_ = true;
};

int32_t WindowSetup::begin(const dw_setup_info& info, dw_error* error) {
  if (int32_t code = comm_->failure.check(error)) return code;
  const bool maps = Context::shares_memory(comm_->transports);
  std::shared_ptr<Context> context;
  if (int32_t code = context_for(
          *comm_, maps ? Context::Use::kMapping : Context::Use::kAccess,
          &context, error))
    return code;
  const LogTo log(comm_->host);
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
  if (int32_t code = window.control.allocate(context, bytes + kPage, error))
    return code;
  // On a page boundary, wherever UCX has put it.
  const auto given = reinterpret_cast<uintptr_t>(window.control.data());
  mine.control = whole_pages(given);
  char* const control = window.control.data() + (mine.control - given);
  mine.data = mine.control + control_bytes(comm_->size, info.signals);
  if (mine.brings != 0)
    mine.data = reinterpret_cast<uintptr_t>(info.memory.data);
  window.brings = mine.brings != 0;
  mine.owner = this_process();
  WindowPart& part = window.mine();
  part.lay_out(control, comm_->size);
  part.data = reinterpret_cast<char*>(static_cast<uintptr_t>(mine.data));
  part.bytes = mine.bytes;
  mine.token = mine.control ^
               static_cast<uint64_t>(comm_->host->now_ns(comm_->host->self)) *
                   UINT64_C(0x9e3779b97f4a7c15);
  part.head->token.store(mine.token, std::memory_order_release);
  std::string address;
  if (maps && comm_->size > 1) {
    if (!comm_->mapper.is_open())
      if (int32_t code = comm_->mapper.open(context, {}, error)) return code;
    address = comm_->mapper.address();
  }
  mine.address_bytes = static_cast<uint32_t>(address.size());
  say(std::string(reinterpret_cast<const char*>(&mine), sizeof mine) + address +
      window.control.key());
  return DW_OK;
}

// Maps the part of a rank on this host. Memory that cannot be mapped, or that
// is not the memory which its owner meant, is reached over the worker.
void WindowSetup::map(int rank, const RankPart& part, const std::string& key) {
  WindowPart& seen = window_->parts[static_cast<size_t>(rank)];
  void* found = nullptr;
  seen.mapping = comm_->mapper.unpack(rank, key, part.control, &found);
  if (found == nullptr ||
      static_cast<dw_hostmem::WindowHead*>(found)->token.load(
          std::memory_order_acquire) != part.token)
    return;
  seen.lay_out(static_cast<char*>(found), comm_->size);
  if (part.brings == 0)
    seen.data = static_cast<char*>(found) + (part.data - part.control);
}

int32_t WindowSetup::meet_mapper(const Words& addresses, dw_error* error) {
  if (comm_->mapper.has_met()) return DW_OK;
  std::vector<Worker::Peer> peers;
  for (size_t i = 0; i < addresses.size(); ++i)
    peers.push_back({std::string(addresses[i]), comm_->far[i] != 0});
  return comm_->mapper.meet(std::move(peers), error);
}

int32_t WindowSetup::place(const Words& words, dw_error* error) {
  std::vector<RankPart> parts(words.size());
  Words addresses, keys;
  // Either all ranks of this host map, or none.
  bool maps = true;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    RankPart& part = parts[rank];
    const std::string_view word = words[rank];
    if (word.size() >= sizeof part)
      std::memcpy(&part, word.data(), sizeof part);
    if (word.size() < sizeof part ||
        word.size() - sizeof part < part.address_bytes)
      return refuse_size(static_cast<int>(rank), error);
    addresses.push_back(word.substr(sizeof part, part.address_bytes));
    keys.push_back(word.substr(sizeof part + part.address_bytes));
    WindowPart& seen = window_->parts[rank];
    seen.bytes = part.bytes;
    seen.address = part.data;
    seen.owner = part.owner;
    if (comm_->size > 1 && comm_->far[rank] == 0 && part.address_bytes == 0)
      maps = false;
  }
  if (comm_->size == 1) return DW_DONE;
  if (maps)
    if (int32_t code = meet_mapper(addresses, error)) return code;
  Worker::Hold hold(comm_->mapper);
  for (int rank = 0; rank < comm_->size; ++rank) {
    if (rank == comm_->rank) continue;
    const auto i = static_cast<size_t>(rank);
    if (maps && comm_->far[i] == 0) map(rank, parts[i], std::string(keys[i]));
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
            window.reached.adopt(context, mine.data, mine.bytes, error))
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

Window::~Window() {
  thread.finish();
  if (!comm->mapper.is_open()) return;
  Worker::Hold hold(comm->mapper);
  for (const WindowPart& part : parts)
    if (part.mapping != nullptr) comm->mapper.drop(part.mapping);
}

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
