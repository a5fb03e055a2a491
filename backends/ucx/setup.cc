// A communicator is built in two rounds. In the first the ranks tell the host
// names that their hints give, which together with the host's `host_of` decide
// the transports of the workers; in the second they tell the workers'
// addresses. Endpoints are made on first use.
#include "backend.h"
#include "hostmem/processors.h"
#include "hostmem/setup_exchange.h"
#include "quiet.h"
#include "sdk/fail.h"
#include "sdk/open.h"
#include "sdk/read_op.h"
#include "wait.h"
#include "window.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace ucx_backend {
namespace {

// The number of polls of a running peer's transfer before the clock is read.
constexpr int kLooks = 200;
constexpr int kLooksOversubscribed = 2;

// The limit of the wait for data in flight to other hosts.
constexpr int64_t kFlushNs = 500'000'000;

std::string hint(const dw_setup_info& info, const dw_str& key,
                 const std::string& otherwise) {
  const dw_str value = dw_find_hint(info.hints, info.n_hints, key);
  return value.data == nullptr ? otherwise
                               : std::string(value.data, value.size);
}

// Without `host_of` each rank counts as on a host of its own.
bool is_far(const dw_setup_info& info, int rank) {
  if (info.host_of == nullptr) return rank != info.rank;
  return info.host_of[rank] != info.host_of[info.rank];
}

using dw_hostmem::Processors;
using dw_hostmem::SetupExchange;

constexpr SetupExchange::Kind kCommunicator = {"ucx", 0x7863752e, 4};

// A rank's setup message of the first round. The name of its host follows, and
// between hosts the host's addresses.
struct Hello {
  uint32_t major, minor;  // version of UCX
  Processors processors;
  uint32_t name_bytes;
};

class CommSetup final : public SetupExchange {
 public:
  CommSetup(Backend* backend, const dw_setup_info& info)
      : SetupExchange(kCommunicator, info),
        comm_(std::make_unique<Comm>(backend, info.rank, info.size)),
        host_(hint(info, kHints[2], backend->host_name)) {
    comm_->transports = hint(info, kHints[1], backend->transports);
    for (int rank = 0; rank < info.size; ++rank)
      comm_->far.push_back(is_far(info, rank) ? 1 : 0);
    const Hello mine = {backend->library.major, backend->library.minor,
                        Processors::usable(),
                        static_cast<uint32_t>(host_.size())};
    const bool may_be_far =
        !host_.empty() ||
        std::find(comm_->far.begin(), comm_->far.end(), 1) != comm_->far.end();
    say(std::string(reinterpret_cast<const char*>(&mine), sizeof mine) + host_ +
        (may_be_far ? dw_sdk::encode_addresses(dw_sdk::own_addresses()) : ""));
  }
  dw_setup_result take() override {
    return {reinterpret_cast<dw_comm*>(comm_.release()), nullptr};
  }

 private:
  int32_t hear(uint32_t round, const Words& words, dw_error* error) override {
    if (comm_->size == 1) return DW_DONE;
    if (round != 0) return meet(words, error);
    if (int32_t code = meet_hosts(words, error)) return code;
    return open_worker(error);
  }
  int32_t meet_hosts(const Words& words, dw_error* error);
  int32_t open_worker(dw_error* error);
  int32_t meet(const Words& addresses, dw_error* error);

  std::unique_ptr<Comm> comm_;
  const std::string host_;
};

// Compares the versions of UCX, then the hosts of all ranks.
int32_t CommSetup::meet_hosts(const Words& words, dw_error* error) {
  Comm& comm = *comm_;
  const Library& own = comm.backend->library;
  Processors all = Processors::usable();
  int here = 0;
  std::map<std::pair<uint8_t, std::array<uint8_t, 16>>, dw_sdk::HostAddress>
      hosts;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    Hello hello;
    if (words[rank].size() < sizeof hello)
      return refuse_size(static_cast<int>(rank), error);
    std::memcpy(&hello, words[rank].data(), sizeof hello);
    if (hello.major != own.major || hello.minor != own.minor)
      return refuse(
          static_cast<int>(rank),
          "rank " + std::to_string(rank) + " has UCX " +
              std::to_string(hello.major) + "." + std::to_string(hello.minor) +
              ", rank " + std::to_string(comm.rank) + " has " +
              std::to_string(own.major) + "." + std::to_string(own.minor),
          error);
    const std::string_view rest = words[rank].substr(sizeof hello);
    if (hello.name_bytes > rest.size())
      return refuse_size(static_cast<int>(rank), error);
    if (rest.substr(0, hello.name_bytes) != host_) comm.far[rank] = 1;
    std::vector<dw_sdk::HostAddress> theirs;
    if (dw_sdk::decode_addresses(rest.substr(hello.name_bytes), &theirs))
      for (const dw_sdk::HostAddress& one : theirs)
        hosts.emplace(std::pair(one.bytes_used, one.bytes), one);
    if (comm.far[rank] != 0) continue;
    ++here;
    all.add(hello.processors);
  }
  comm.one_host = here == comm.size;
  for (const auto& [bytes, address] : hosts)
    if (!comm.one_host) comm.hosts.push_back(address);
  comm.oversubscribed = here > all.count();
  comm.looks = comm.oversubscribed ? kLooksOversubscribed : kLooks;
  return DW_OK;
}

int32_t CommSetup::open_worker(dw_error* error) {
  Comm& comm = *comm_;
  std::shared_ptr<Context> context;
  if (int32_t code =
          context_for(comm, Context::Use::kMessages, &context, error))
    return code;
  if (int32_t code = comm.worker.open(std::move(context), comm.hosts, error))
    return code;
  say(comm.worker.address());
  return DW_OK;
}

int32_t CommSetup::meet(const Words& addresses, dw_error* error) {
  std::vector<Worker::Peer> peers(addresses.size());
  for (size_t i = 0; i < peers.size(); ++i) {
    if (addresses[i].empty())
      return refuse(static_cast<int>(i),
                    "a rank's setup message has no address", error);
    peers[i] = {std::string(addresses[i]), comm_->far[i] != 0};
  }
  if (int32_t code = comm_->worker.meet(std::move(peers), error)) return code;
  Backend& backend = *comm_->backend;
  std::lock_guard<std::mutex> lock(backend.mutex);
  backend.comms.push_back(comm_.get());
  return DW_DONE;
}

constexpr char kBuilding[] = "ucx: a communicator or window";

}  // namespace

int32_t context_for(const Comm& comm, Context::Use use,
                    std::shared_ptr<Context>* context, dw_error* error) {
  Backend& backend = *comm.backend;
  const HostSpan span = comm.one_host ? HostSpan::kOneHost : HostSpan::kHosts;
  for (const Backend::Kept& kept : backend.contexts)
    if (kept.span == span && kept.use == use &&
        kept.transports == comm.transports)
      if ((*context = kept.context.lock()) != nullptr) return DW_OK;
  const LogTo log(backend.host);
  if (int32_t code = Context::open(backend.library, span, comm.transports,
                                   backend.interface, use, context, error))
    return code;
  auto& all = backend.contexts;
  all.erase(
      std::remove_if(all.begin(), all.end(),
                     [](const auto& kept) { return kept.context.expired(); }),
      all.end());
  all.push_back({span, use, comm.transports, *context});
  return DW_OK;
}

int32_t setup_begin(dw_backend* backend, const dw_setup_info* given,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info info;
  if (int32_t code =
          dw_read_setup(&info, given, kHints, std::size(kHints), error))
    return code;
  if (info.size > kMostRanks)
    return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0,
                   "ucx: a group has 2^19 ranks at most");
  return dw_hostmem::begin_setup_exchange(
      kBuilding,
      [&](std::unique_ptr<SetupExchange>* made) {
        *made = std::make_unique<CommSetup>(of(backend), info);
        return DW_OK;
      },
      setup, out, error);
}

int32_t window_create(dw_comm* comm, const dw_setup_info* given,
                      dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info info;
  if (int32_t code = dw_read_window(&info, given, comm, error)) return code;
  return dw_hostmem::begin_setup_exchange(
      kBuilding,
      [&](std::unique_ptr<SetupExchange>* made) {
        return begin_window(of(comm), info, made, error);
      },
      setup, out, error);
}

int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error) {
  return dw_hostmem::step_setup_exchange(kBuilding, setup, in, n, out, result,
                                         error);
}

void setup_cancel(dw_setup* setup) { dw_hostmem::cancel_setup_exchange(setup); }

int32_t comm_abort(dw_comm* given, const dw_error* /*why*/) {
  Comm* const comm = of(given);
  comm->failure.abort();
  {
    Worker::Hold hold(comm->worker);
    comm->worker.tear_down(true);
  }
  break_windows(comm);
  return DW_OK;
}

int32_t comm_destroy(dw_comm* given, int64_t deadline_ns, dw_error* /*error*/) {
  const std::unique_ptr<Comm> comm(of(given));
  {
    Backend& backend = *comm->backend;
    std::lock_guard<std::mutex> lock(backend.mutex);
    auto& all = backend.comms;
    all.erase(std::remove(all.begin(), all.end(), comm.get()), all.end());
  }
  comm->thread.finish();
  if (!comm->one_host && deadline_ns != 0) {
    const int64_t now = comm->host->now_ns(comm->host->self);
    comm->worker.flush(std::min(deadline_ns, now + kFlushNs));
  }
  return DW_OK;
}

}  // namespace ucx_backend
