// A communicator in two rounds. First the ranks tell which host they are on,
// which decides what transports their workers get; then they give the workers'
// addresses. Endpoints are made when they are first used.
#include "backend.h"
#include "building.h"
#include "locality.h"
#include "quiet.h"
#include "sdk/fail.h"
#include "sdk/open.h"
#include "sdk/read_op.h"
#include "wait.h"
#include "window.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>

namespace ucx_backend {
namespace {

// Looks at a transfer of a peer that runs, before the clock matters.
constexpr int kLooks = 200;
constexpr int kLooksCrowded = 2;

// A wait for what is still on its way to other hosts.
constexpr int64_t kFlushNs = 500'000'000;

std::string hint(const dw_setup_info& info, const dw_str& key,
                 const std::string& otherwise) {
  const dw_str value = dw_find_hint(info.hints, info.n_hints, key);
  return value.data == nullptr ? otherwise
                               : std::string(value.data, value.size);
}

class CommSetup final : public Building {
 public:
  CommSetup(Backend* backend, const dw_setup_info& info)
      : Building(What::kCommunicator, backend->library, info),
        comm_(std::make_unique<Comm>(backend, info.rank, info.size)) {
    comm_->transports = hint(info, kHints[1], backend->transports);
    say(host_identity(hint(info, kHints[2], backend->host_name)));
  }
  dw_setup_result take() override {
    return {reinterpret_cast<dw_comm*>(comm_.release()), nullptr};
  }

 private:
  int32_t hear(uint32_t round, const Words& words, dw_error* error) override {
    if (comm_->size == 1) return DW_DONE;
    return round == 0 ? open_worker(words, error) : meet(words, error);
  }
  int32_t open_worker(const Words& hosts, dw_error* error);
  int32_t meet(const Words& addresses, dw_error* error);

  std::unique_ptr<Comm> comm_;
};

// Who is where is known.
int32_t CommSetup::open_worker(const Words& hosts, dw_error* error) {
  Comm& comm = *comm_;
  const std::string& mine = hosts[static_cast<size_t>(comm.rank)];
  int here = 0;
  for (const std::string& host : hosts) {
    comm.far.push_back(host != mine ? 1 : 0);
    here += host == mine;
    comm.one_host = comm.one_host && host == hosts[0];
  }
  comm.crowded = here > usable_processors();
  comm.looks = comm.crowded ? kLooksCrowded : kLooks;
  std::shared_ptr<Context> context;
  if (int32_t code =
          context_for(comm, Context::Use::kMessages, &context, error))
    return code;
  if (int32_t code = comm.worker.open(std::move(context), error)) return code;
  say(comm.worker.address());
  return DW_OK;
}

int32_t CommSetup::meet(const Words& addresses, dw_error* error) {
  std::vector<Worker::Peer> peers(addresses.size());
  for (size_t i = 0; i < peers.size(); ++i) {
    if (addresses[i].empty())
      return refuse_word(error, static_cast<int>(i),
                         "a rank's blob has no address");
    peers[i] = {addresses[i], comm_->far[i] != 0};
  }
  if (int32_t code = comm_->worker.meet(std::move(peers), error)) return code;
  Backend& backend = *comm_->backend;
  std::lock_guard<std::mutex> lock(backend.mutex);
  backend.comms.push_back(comm_.get());
  return DW_DONE;
}

int32_t fail_memory(dw_error* error) {
  return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                 "ucx: no memory for a communicator or window");
}

// Makes it and lets it say its first word.
template <class Make>
int32_t begin_building(const Make& make, dw_setup** setup, dw_blob* out,
                       dw_error* error) {
  try {
    std::unique_ptr<Building> made;
    if (int32_t code = make(&made)) return code;
    *out = made->word();
    *setup = reinterpret_cast<dw_setup*>(made.release());
    return DW_OK;
  } catch (const std::bad_alloc&) {
    return fail_memory(error);
  }
}

}  // namespace

int32_t context_for(const Comm& comm, Context::Use use,
                    std::shared_ptr<Context>* context, dw_error* error) {
  Backend& backend = *comm.backend;
  const Reach reach = comm.one_host ? Reach::kOneHost : Reach::kHosts;
  for (const Backend::Kept& kept : backend.contexts)
    if (kept.reach == reach && kept.use == use &&
        kept.transports == comm.transports)
      if ((*context = kept.context.lock()) != nullptr) return DW_OK;
  const LogTo log(backend.host);
  if (int32_t code = Context::open(backend.library, reach, comm.transports, use,
                                   context, error))
    return code;
  auto& all = backend.contexts;
  all.erase(
      std::remove_if(all.begin(), all.end(),
                     [](const auto& kept) { return kept.context.expired(); }),
      all.end());
  all.push_back({reach, use, comm.transports, *context});
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
                   "ucx: a group has 2^23 ranks at most");
  return begin_building(
      [&](std::unique_ptr<Building>* made) {
        *made = std::make_unique<CommSetup>(of(backend), info);
        return DW_OK;
      },
      setup, out, error);
}

int32_t window_create(dw_comm* comm, const dw_setup_info* given,
                      dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info info;
  if (int32_t code = dw_read_window(&info, given, comm, error)) return code;
  return begin_building(
      [&](std::unique_ptr<Building>* made) {
        return begin_window(of(comm), info, made, error);
      },
      setup, out, error);
}

int32_t setup_step(dw_setup* given, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error) {
  std::unique_ptr<Building> setup(reinterpret_cast<Building*>(given));
  int32_t code;
  try {
    code = setup->step(in, n, error);
  } catch (const std::bad_alloc&) {
    code = fail_memory(error);
  } catch (const std::system_error& cause) {
    code = dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_RESOURCE_LIMIT, -1,
                   cause.code().value(), "ucx: no thread for a window");
  }
  *out = {};
  if (code == DW_DONE) *result = setup->take();
  if (code != DW_OK) return code;
  *out = setup->word();
  setup.release();
  return DW_OK;
}

void setup_cancel(dw_setup* setup) {
  delete reinterpret_cast<Building*>(setup);
}

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
