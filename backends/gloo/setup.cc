// A communicator is built in two rounds. In the first every rank opens a
// listener for each peer and sends the addresses. Between hosts another round
// comes first, in which the ranks tell the addresses of their hosts: a listener
// then takes its peer's packets only, before its port is told. Then of every
// two ranks one calls the other, which works as soon as the listener is open.
// The second round confirms that all ranks have called, so that no rank then
// waits for a peer that never comes. The host notices absent ranks between the
// rounds.
#include "backend.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "sdk/open.h"
#include "sdk/read_op.h"
#include "sdk/thread.h"
#include "signals.h"
#include "strangers.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <iterator>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gloo_backend {
namespace {

// A rank's data in the first round: this head, then for every rank the address
// of a listener in Gloo's form, zeros for itself.
struct SetupHeader {
  uint32_t magic, version;
  int32_t rank, size;
  uint64_t uid, epoch;
};
constexpr uint32_t kMagic = 0x6f6f6c67;
constexpr uint32_t kHostsMagic = 0x686f6c67;  // the round of hosts
constexpr uint32_t kVersion = 1;

// Every two ranks have a connection, for which a network and the hosts' limits
// are not made beyond this. One host may have more ranks.
constexpr int32_t kMostOverHosts = 256;

std::chrono::milliseconds time_to(int64_t deadline_ns,
                                  const dw_host_api* host) {
  if (deadline_ns == 0) return std::chrono::hours(100);
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::nanoseconds(deadline_ns - host->now_ns(host->self)));
}

}  // namespace
}  // namespace gloo_backend

struct dw_setup {
  gloo_backend::SetupHeader head = {};
  bool tells_hosts = false;  // the round of hosts has not ended
  std::chrono::milliseconds connecting = {};
  std::unique_ptr<dw_comm> comm;
  std::string blob;
  std::vector<gloo_backend::Address> peers;  // set after the first round
};

namespace gloo_backend {
namespace {

std::shared_ptr<Device> device_for(dw_backend* backend, const Place& place) {
  std::shared_ptr<Device>& device = backend->devices[place];
  if (device == nullptr) device = std::make_shared<Device>(place);
  return device;
}

std::string addresses(const SetupHeader& head, const Mesh* mesh) {
  std::string blob(reinterpret_cast<const char*>(&head), sizeof head);
  for (int peer = 0; peer < head.size && mesh != nullptr; ++peer) {
    const std::vector<char>& bytes = mesh->listener(peer).gloo_bytes();
    blob.append(bytes.data(), bytes.size());
    blob.resize(sizeof head +
                static_cast<size_t>(peer + 1) * Address::kGlooBytes);
  }
  return blob;
}

// Whether `host_of` shows ranks on other hosts than this one's.
bool has_several_hosts(const dw_setup_info& info) {
  for (int32_t peer = 0; info.host_of != nullptr && peer < info.size; ++peer)
    if (info.host_of[peer] != info.host_of[info.rank]) return true;
  return false;
}

int32_t refuse_blob(dw_error* error, int peer, const char* text) {
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, peer, 0,
                 text);
}

// Reads the address at which each peer listens for this rank.
int32_t read_addresses(const SetupHeader& own, const dw_blob* in, uint64_t n,
                       std::vector<Address>* peers, dw_error* error) {
  if (n != static_cast<uint64_t>(own.size))
    return refuse_blob(error, -1, "gloo: a round has one blob of each rank");
  peers->resize(n);
  for (int peer = 0; peer < own.size; ++peer) {
    const dw_blob& blob = in[peer];
    const size_t entries =
        own.size == 1 ? 0 : static_cast<size_t>(own.size) * Address::kGlooBytes;
    if (blob.data == nullptr || blob.size != sizeof(SetupHeader) + entries)
      return refuse_blob(error, peer, "gloo: a rank's blob has a wrong size");
    SetupHeader head;
    std::memcpy(&head, blob.data, sizeof head);
    if (head.magic != kMagic || head.version != kVersion)
      return refuse_blob(error, peer,
                         "gloo: a rank's blob is not of this backend's "
                         "version");
    if (head.rank != peer || head.size != own.size || head.uid != own.uid)
      return refuse_blob(error, peer,
                         "gloo: a rank's blob is of another rank or group");
    if (head.epoch != own.epoch)
      return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_STALE_EPOCH, peer,
                     0, "gloo: a rank's setup message is of another epoch");
    if (peer == own.rank) continue;
    Address& address = (*peers)[static_cast<size_t>(peer)];
    address = Address(static_cast<const char*>(blob.data) + sizeof head +
                          static_cast<size_t>(own.rank) * Address::kGlooBytes,
                      Address::kGlooBytes);
    if (address.empty())
      return refuse_blob(error, peer, "gloo: a rank's blob has no address");
  }
  return DW_OK;
}

int32_t fail_setup(dw_error* error, const char* cause) {
  // Gloo reports neither the failure of its thread nor an errno, so the limit
  // of descriptors is tested here.
  const int one = eventfd(0, EFD_CLOEXEC);
  if (one < 0 && (errno == EMFILE || errno == ENFILE))
    return dw_fail(
        error, DW_RESOURCE_EXHAUSTED, DW_REASON_RESOURCE_LIMIT, -1, errno,
        (std::string("gloo: no descriptor is left: ") + cause).c_str());
  if (one >= 0) ::close(one);
  return dw_fail(error, DW_UNAVAILABLE, DW_REASON_BACKEND_FAILED, -1, 0,
                 (std::string("gloo: ") + cause).c_str());
}

// Runs a step of a setup; an exception becomes an error.
template <class Step>
int32_t guarded(dw_error* error, const Step& step) {
  return dw_sdk::guarded("gloo: a communicator", error, [&] {
    try {
      return step();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::system_error& refused) {
      // Gloo's own thread may be the one that cannot start.
      if (refused.code().value() == EAGAIN)
        return dw_sdk::fail_thread("of Gloo's sockets", EAGAIN, error);
      return fail_setup(error, refused.what());
    } catch (const std::exception& exception) {
      return fail_setup(error, exception.what());
    }
  });
}

// Opens the listeners. `hosts`: by rank, the addresses from which each peer may
// call; empty: all ranks are on this host.
int32_t listen(dw_setup* setup,
               const std::vector<std::vector<HostAddress>>& hosts,
               dw_error* error) {
  dw_comm& comm = *setup->comm;
  comm.mesh = std::make_shared<Mesh>(*comm.device, comm.rank, comm.size,
                                     setup->connecting);
  std::vector<Listener> listeners;
  for (int peer = 0; peer < comm.size && !hosts.empty(); ++peer)
    if (peer != comm.rank)
      listeners.push_back(
          {comm.mesh->listener(peer), &hosts[static_cast<size_t>(peer)]});
  if (!keep_strangers_out(listeners))
    return fail_setup(error,
                      (std::string("the listeners cannot be kept for the "
                                   "group's hosts: ") +
                       std::strerror(errno))
                          .c_str());
  Peers* const peers = &comm.mesh->peers();
  comm.desk.attach(peers, comm.size);
  comm.messages.attach(peers, comm.size);
  setup->blob = addresses(setup->head, comm.mesh.get());
  return DW_OK;
}

// Reads the addresses of every rank's host.
int32_t read_hosts(const SetupHeader& own, const dw_blob* in, uint64_t n,
                   std::vector<std::vector<HostAddress>>* hosts,
                   dw_error* error) {
  if (n != static_cast<uint64_t>(own.size))
    return refuse_blob(error, -1, "gloo: a round has one blob of each rank");
  hosts->resize(n);
  for (int peer = 0; peer < own.size; ++peer) {
    const dw_blob& blob = in[peer];
    SetupHeader head;
    if (blob.data == nullptr || blob.size < sizeof head)
      return refuse_blob(error, peer, "gloo: a rank's blob has a wrong size");
    std::memcpy(&head, blob.data, sizeof head);
    const std::string_view rest(
        static_cast<const char*>(blob.data) + sizeof head,
        blob.size - sizeof head);
    if (head.magic != kHostsMagic || head.version != kVersion ||
        head.rank != peer || head.size != own.size || head.uid != own.uid ||
        head.epoch != own.epoch ||
        !dw_sdk::decode_addresses(rest, &(*hosts)[static_cast<size_t>(peer)]))
      return refuse_blob(error, peer,
                         "gloo: a rank's blob does not tell its host");
  }
  return DW_OK;
}

int32_t begin(dw_backend* backend, const dw_setup_info& info,
              const Place& place, dw_setup* setup, dw_error* error) {
  setup->head = {kMagic, kVersion, info.rank, info.size, info.uid, info.epoch};
  setup->comm = std::make_unique<dw_comm>();
  dw_comm& comm = *setup->comm;
  comm.host = backend->host;
  comm.rank = info.rank;
  comm.size = info.size;
  comm.guard_pipe_signal = pipe_signal_is_deadly();
  if (info.size > 1) {
    const std::chrono::milliseconds left =
        time_to(info.deadline_ns, backend->host);
    if (left.count() <= 0)
      return dw_fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, -1, 0,
                     "gloo: no time is left to connect");
    comm.device = device_for(backend, place);
    setup->connecting = left;
    setup->tells_hosts = has_several_hosts(info);
    if (setup->tells_hosts && info.size > kMostOverHosts)
      return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0,
                     ("gloo connects every two ranks, between hosts at most " +
                      std::to_string(kMostOverHosts) + ", here " +
                      std::to_string(info.size) + ": use the backend ucx")
                         .c_str());
    if (!setup->tells_hosts) return listen(setup, {}, error);
    SetupHeader head = setup->head;
    head.magic = kHostsMagic;
    setup->blob.assign(reinterpret_cast<const char*>(&head), sizeof head);
    setup->blob += dw_sdk::encode_addresses(dw_sdk::own_addresses());
    return DW_OK;
  }
  setup->blob = addresses(setup->head, nullptr);
  return DW_OK;
}

// Gloo leaves Nagle's algorithm on: a second small message would wait until the
// peer has acknowledged the first one, which takes up to 40 ms.
void send_at_once(const Sockets& sockets) {
  const int on = 1;
  for (const Sockets::Held& held : sockets.held())
    setsockopt(held.descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// DW_OK after the first rounds, DW_DONE after the last.
int32_t step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_error* error) {
  dw_comm& comm = *setup->comm;
  if (std::exchange(setup->tells_hosts, false)) {
    std::vector<std::vector<HostAddress>> hosts;
    if (int32_t code = read_hosts(setup->head, in, n, &hosts, error))
      return code;
    return listen(setup, hosts, error);
  }
  setup->blob.clear();
  if (setup->peers.empty()) {
    if (int32_t code = read_addresses(setup->head, in, n, &setup->peers, error))
      return code;
    if (comm.size == 1) return DW_DONE;
    const Device::Hurry hurry(*comm.device);
    comm.mesh->call(setup->peers);
    return DW_OK;
  }
  if (n != static_cast<uint64_t>(comm.size))
    return refuse_blob(error, -1, "gloo: a round has one blob of each rank");
  comm.mesh->answer(setup->peers);
  if (!comm.sockets.add(comm.mesh->connections(setup->peers)))
    return fail_setup(error,
                      "a connection was closed while the group was "
                      "built");
  send_at_once(comm.sockets);
  comm.watch =
      std::make_unique<Watch>(*comm.device, comm.sockets, comm.mesh->peers());
  return DW_DONE;
}

// Destroys Gloo's objects in their order, without Gloo's pauses.
void discard(std::unique_ptr<dw_comm> comm) {
  comm->operation_thread.reset();
  if (comm->device == nullptr) return;
  const std::shared_ptr<Device> device = comm->device;
  const Device::Hurry hurry(*device);
  comm.reset();
}

void discard(dw_setup* setup) {
  if (setup->comm != nullptr) discard(std::move(setup->comm));
  delete setup;
}

}  // namespace

int32_t setup_begin(dw_backend* backend, const dw_setup_info* given,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info info;
  if (int32_t code =
          dw_read_setup(&info, given, kHints, std::size(kHints), error))
    return code;
  dw_setup* made = nullptr;
  const int32_t code = guarded(error, [&] {
    const dw_str hint = dw_find_hint(info.hints, info.n_hints, kHints[0]);
    made = new dw_setup;
    return begin(backend, info,
                 hint.data == nullptr
                     ? backend->place
                     : Place{std::string(hint.data, hint.size), std::string()},
                 made, error);
  });
  if (code != DW_OK) {
    if (made != nullptr) discard(made);
    return code;
  }
  *out = {made->blob.data(), made->blob.size(), nullptr, 0};
  *setup = made;
  return DW_OK;
}

int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error) {
  int32_t code;
  {
    const PipeSignalBlocked blocked(setup->comm->guard_pipe_signal);
    code = guarded(error, [&] { return step(setup, in, n, error); });
  }
  if (code == DW_OK) {
    *out = {setup->blob.data(), setup->blob.size(), nullptr, 0};
    return DW_OK;
  }
  if (code == DW_DONE) {
    *out = {};
    *result = {setup->comm.release(), nullptr};
  }
  discard(setup);
  return code;
}

void setup_cancel(dw_setup* setup) { discard(setup); }

int32_t comm_abort(dw_comm* comm, const dw_error* /*why*/) {
  comm->failure.abort();
  comm->end_transfers();
  return DW_OK;
}

int32_t comm_destroy(dw_comm* comm, int64_t /*deadline_ns*/,
                     dw_error* /*error*/) {
  const PipeSignalBlocked blocked(comm->guard_pipe_signal);
  discard(std::unique_ptr<dw_comm>(comm));
  return DW_OK;
}

}  // namespace gloo_backend
