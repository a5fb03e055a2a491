// A communicator whose ranks are all in one that has memory already takes its
// own out of that, in one round: everybody tells where its area is, and looks
// at the others' tokens there.
//
// Else in four. The first tells where rank 0 listens, and everybody's token.
// Then the others call it; then it hands its memory over; then they map it and
// show their tokens there, which is the proof that all see the same memory. A
// rank steps when all have stepped, so nobody waits.
#include "backend.h"
#include "meet.h"
#include "sdk/fail.h"
#include "sdk/open.h"
#include "wait.h"

#include <cstring>
#include <new>

namespace shm_backend {
namespace {

// What a rank says in every round.
struct Head {
  uint32_t magic, version;
  int32_t rank, size;
  uint64_t uid, epoch;
  uint64_t round;
  uint64_t token;   // random, this rank's
  uint64_t nonce;   // of the memory: rank 0's; all have one that is there
  uint64_t area;    // where this rank's is in its plot; 0: nowhere yet
  SocketName name;  // rank 0's
};
constexpr uint32_t kMagic = 0x6d687364;
constexpr uint32_t kVersion = 2;

struct Setup {
  Backend* backend = nullptr;
  Head head = {};
  std::unique_ptr<Comm> comm;
  // Of those that make new memory.
  std::shared_ptr<Arena> arena;
  Host host;
  Guest guest;
  std::vector<uint64_t> tokens;  // after the first round
  uint64_t nonce = 0;
  // Of those that take it out of what is there: the ranks of its arena.
  std::vector<int> arena_ranks;
};

int32_t refuse_blob(dw_error* error, int peer, const char* text) {
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, peer, 0,
                 text);
}

int32_t read_heads(const Head& own, const dw_blob* in, uint64_t n,
                   std::vector<Head>* heads, dw_error* error) {
  if (n != static_cast<uint64_t>(own.size))
    return refuse_blob(error, -1, "shm: a round has one blob of each rank");
  heads->resize(n);
  for (int peer = 0; peer < own.size; ++peer) {
    const dw_blob& blob = in[peer];
    Head& head = (*heads)[static_cast<size_t>(peer)];
    if (blob.data == nullptr || blob.size != sizeof head)
      return refuse_blob(error, peer, "shm: a rank's blob has a wrong size");
    std::memcpy(&head, blob.data, sizeof head);
    if (head.magic != kMagic || head.version != kVersion)
      return refuse_blob(error, peer,
                         "shm: a rank's blob is not of this backend's version");
    if (head.rank != peer || head.size != own.size || head.uid != own.uid)
      return refuse_blob(error, peer,
                         "shm: a rank's blob is of another rank or group");
    if (head.epoch != own.epoch)
      return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_STALE_EPOCH, peer,
                     0, "shm: a rank's blob is of another epoch");
    if (head.round != own.round)
      return refuse_blob(error, peer, "shm: a rank's blob is of another round");
  }
  return DW_OK;
}

Header header_of(const Setup& setup) {
  Header header = {};
  header.magic = kSegmentMagic;
  header.nonce = setup.nonce;
  header.uid = setup.head.uid;
  header.epoch = setup.head.epoch;
  header.size = static_cast<uint64_t>(setup.head.size);
  header.stage_bytes = setup.backend->stage_bytes;
  return header;
}

void make_ready(Comm* comm) {
  comm->crowded = comm->size > comm->room.arena()->processors();
  comm->looks = comm->crowded ? 20 : 200;
  comm->consumed = comm->ticket - 1;
  comm->stage.use(kSmallStage, comm->ticket - 1);
  comm->messages.attach(comm);
}

// The ranks of the parent's memory that build this; none when not all do.
std::vector<int> ranks_in(const Room& parent, const dw_setup_info& info) {
  std::vector<int> ranks;
  if (!parent.is_open() || info.parent_rank == nullptr) return ranks;
  for (int rank = 0; rank < info.size; ++rank) {
    const int32_t there = info.parent_rank[rank];
    if (there < 0 || there >= parent.size()) return {};
    ranks.push_back(parent.arena_ranks()[static_cast<size_t>(there)]);
  }
  return ranks;
}

int32_t fail_random(dw_error* error) {
  return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, 0,
                 "shm: there are no random numbers");
}

int32_t begin(Setup* setup, const dw_setup_info& info, dw_error* error) {
  Comm& comm = *setup->comm;
  if (comm.size == 1) return DW_OK;
  if (!fill_random(&setup->head.token, sizeof setup->head.token))
    return fail_random(error);
  if (info.parent != nullptr)
    setup->arena_ranks = ranks_in(of(info.parent)->room, info);
  if (!setup->arena_ranks.empty()) {
    const std::shared_ptr<Arena>& arena = of(info.parent)->room.arena();
    setup->head.nonce = arena->nonce();
    if (int32_t code =
            comm.room.enter(arena, comm.size, setup->head.token, error))
      return code;
    setup->head.area = comm.room.place();
    return DW_OK;
  }
  setup->arena = std::make_shared<Arena>();
  if (comm.rank != 0) return DW_OK;
  if (!fill_random(&setup->head.nonce, sizeof setup->head.nonce))
    return fail_random(error);
  setup->nonce = setup->head.nonce;
  if (int32_t code = setup->arena->create(header_of(*setup), error))
    return code;
  return setup->host.listen(comm.size, &setup->head.name, error);
}

int32_t map_memory(Setup* setup, dw_error* error) {
  Comm& comm = *setup->comm;
  Arena& arena = *setup->arena;
  if (comm.rank != 0) {
    Descriptor memory;
    if (int32_t code = setup->guest.take(comm.rank, comm.size, &memory,
                                         &arena.watch, error))
      return code;
    if (int32_t code = arena.adopt(std::move(memory), header_of(*setup), error))
      return code;
  }
  arena.settle(comm.rank);
  if (int32_t code =
          comm.room.enter(setup->arena, comm.size, setup->head.token, error))
    return code;
  setup->head.area = comm.room.place();
  return DW_OK;
}

// All have an area, and say where. DW_DONE, or why it is none.
int32_t meet(Setup* setup, const std::vector<Head>& heads, dw_error* error) {
  std::vector<Arena::Member> members;
  for (const Head& head : heads) {
    const int rank = setup->arena_ranks.empty()
                         ? head.rank
                         : setup->arena_ranks[members.size()];
    members.push_back({rank, head.area, head.token});
  }
  const int32_t code =
      setup->comm->room.meet(setup->comm->rank, std::move(members), error);
  if (code != DW_OK) return code;
  make_ready(setup->comm.get());
  return DW_DONE;
}

int32_t meet_in_parent(Setup* setup, const std::vector<Head>& heads,
                       dw_error* error) {
  for (const Head& head : heads)
    if (head.nonce != setup->head.nonce)
      return refuse_blob(error, head.rank,
                         "shm: a rank builds the group from another parent");
  return meet(setup, heads, error);
}

// DW_OK when there is another round, DW_DONE after the last.
int32_t step(Setup* setup, const dw_blob* in, uint64_t n, dw_error* error) {
  Comm& comm = *setup->comm;
  std::vector<Head> heads;
  if (int32_t code = read_heads(setup->head, in, n, &heads, error)) return code;
  if (comm.size == 1) return DW_DONE;
  if (!setup->arena_ranks.empty()) return meet_in_parent(setup, heads, error);
  switch (setup->head.round++) {
    case 0:
      for (const Head& head : heads) setup->tokens.push_back(head.token);
      setup->nonce = heads[0].nonce;
      return comm.rank == 0 ? int32_t{DW_OK}
                            : setup->guest.call(heads[0].name, comm.rank,
                                                setup->head.token, error);
    case 1:
      return comm.rank == 0
                 ? setup->host.serve(setup->tokens, setup->arena->fd(),
                                     &setup->arena->watch, error)
                 : int32_t{DW_OK};
    case 2:
      return map_memory(setup, error);
    default:
      return meet(setup, heads, error);
  }
}

}  // namespace

int32_t setup_begin(dw_backend* backend, const dw_setup_info* given,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info info;
  if (int32_t code = dw_read_setup(&info, given, nullptr, 0, error))
    return code;
  if (info.size > kMostRanks)
    return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0,
                   "shm: a group has 128 ranks at most");
  Setup* made = nullptr;
  int32_t code;
  try {
    made = new Setup;
    made->backend = of(backend);
    made->head.magic = kMagic;
    made->head.version = kVersion;
    made->head.rank = info.rank;
    made->head.size = info.size;
    made->head.uid = info.uid;
    made->head.epoch = info.epoch;
    made->comm = std::make_unique<Comm>();
    made->comm->host = of(backend)->host;
    made->comm->rank = info.rank;
    made->comm->size = info.size;
    code = begin(made, info, error);
  } catch (const std::bad_alloc&) {
    code = dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "shm: no memory for a communicator");
  }
  if (code != DW_OK) {
    delete made;
    return code;
  }
  *out = {&made->head, sizeof made->head, nullptr, 0};
  *setup = reinterpret_cast<dw_setup*>(made);
  return DW_OK;
}

int32_t setup_step(dw_setup* given, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error) {
  auto* const setup = reinterpret_cast<Setup*>(given);
  int32_t code;
  try {
    code = step(setup, in, n, error);
  } catch (const std::bad_alloc&) {
    code = dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "shm: no memory for a communicator");
  }
  if (code == DW_OK) {
    *out = {&setup->head, sizeof setup->head, nullptr, 0};
    return DW_OK;
  }
  *out = {};
  if (code == DW_DONE)
    *result = {reinterpret_cast<dw_comm*>(setup->comm.release()), nullptr};
  delete setup;
  return code;
}

void setup_cancel(dw_setup* setup) { delete reinterpret_cast<Setup*>(setup); }

int32_t comm_abort(dw_comm* given, const dw_error* /*why*/) {
  Comm* const comm = of(given);
  comm->failure.abort();
  if (!comm->room.is_open()) return DW_OK;
  comm->room.leave(State::kAborted);
  // Whoever waits for messages alone ends them itself.
  if (!comm->messages.is_shared()) return DW_OK;
  dw_error why = {};
  comm->failure.check(&why);
  comm->messages.fail_all(why);
  return DW_OK;
}

int32_t comm_destroy(dw_comm* given, int64_t /*deadline_ns*/,
                     dw_error* /*error*/) {
  Comm* const comm = of(given);
  comm->worker.finish();
  if (comm->room.is_open()) comm->room.leave(State::kClosed);
  delete comm;
  return DW_OK;
}

}  // namespace shm_backend
