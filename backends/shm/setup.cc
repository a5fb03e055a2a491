// If all ranks of a new communicator share a group segment, each takes its part
// from that, in one round: it tells where its area is, and checks the others'
// tokens there.
//
// Otherwise there are four rounds. In the first, rank 0 tells where it listens,
// and each rank its token. In the second the others connect, in the third rank
// 0 hands the memory over, and in the last all map it and write their tokens
// there, which proves that all see one memory. A rank steps when all have
// stepped, so no rank waits.
#include "backend.h"
#include "hostmem/setup_exchange.h"
#include "meet.h"
#include "sdk/fail.h"
#include "sdk/open.h"
#include "wait.h"
#include "window.h"

#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace shm_backend {
namespace {

using dw_hostmem::SetupExchange;

constexpr SetupExchange::Kind kCommunicator = {"shm", 0x6d687364, 6};

// A rank's setup message in every round.
struct Word {
  uint64_t token;  // this rank's random token
  // nonce of the group segment: rank 0's, unless all ranks share a segment
  uint64_t nonce;
  uint64_t area;    // offset of this rank's area in its region; 0: none yet
  SocketName name;  // the socket of rank 0
  uint64_t key;     // this rank's random key; never in shared memory
  Processors processors;  // this rank's, once it has an area
};

class Setup final : public SetupExchange {
 public:
  Setup(Backend* backend, const dw_setup_info& info);
  int32_t begin(const dw_setup_info& info, dw_error* error);
  dw_setup_result take() override {
    return {reinterpret_cast<dw_comm*>(comm_.release()), nullptr};
  }

 private:
  int32_t prepare(const dw_setup_info& info, dw_error* error);
  int32_t hear(uint32_t round, const Words& words, dw_error* error) override;
  Header header() const;
  void tell_place();
  int32_t map_memory(dw_error* error);
  int32_t meet(const std::vector<Word>& words, dw_error* error);
  int32_t meet_in_parent(const std::vector<Word>& words, dw_error* error);

  Backend* const backend_;
  Tuning tuning_;  // tuning of a new group segment
  Word word_ = {};
  std::unique_ptr<Comm> comm_;
  // For ranks that make a new group segment.
  std::shared_ptr<Arena> arena_;
  Host host_;
  Guest guest_;
  std::vector<uint64_t> tokens_;  // after the first round
  uint64_t nonce_ = 0;
  // For ranks that use an existing segment: their ranks in it.
  std::vector<int> arena_ranks_;
};

Setup::Setup(Backend* backend, const dw_setup_info& info)
    : SetupExchange(kCommunicator, info),
      backend_(backend),
      tuning_(backend->tuning),
      comm_(std::make_unique<Comm>(backend)) {
  comm_->rank = info.rank;
  comm_->size = info.size;
}

Header Setup::header() const {
  Header header = {};
  header.magic = kSegmentMagic;
  header.nonce = nonce_;
  header.uid = uid();
  header.epoch = epoch();
  header.size = static_cast<uint64_t>(comm_->size);
  header.stage_bytes = backend_->stage_bytes;
  header.tuning = tuning_;
  return header;
}

void make_ready(Comm* comm, const std::vector<Word>& words) {
  Processors all = words.front().processors;
  for (const Word& word : words) all.add(word.processors);
  comm->oversubscribed = comm->size > all.count();
  // An awaited rank may be waiting for this rank's processor.
  comm->looks = comm->oversubscribed ? 2 : 200;
  comm->consumed = comm->ticket - 1;
  comm->stage.use(kSmallStage, comm->ticket - 1);
  comm->distances.attach(*comm->host, comm->rank, comm->room.pulses(),
                         &comm->room.mine().writes_past);
  comm->pair_part = pair_part(*comm);
  comm->tuning = comm->room.arena()->tuning();
  comm->room.arena()->heap().add(&comm->lease);
  comm->messages.attach(comm);
}

// The new group's ranks in the parent's segment; empty when not all have one.
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
                 "shm: the system gives no random numbers");
}

void Setup::tell_place() {
  word_.area = comm_->room.place();
  word_.processors = comm_->room.arena()->processors();
  say_object(word_);
}

int32_t Setup::begin(const dw_setup_info& info, dw_error* error) {
  const int32_t code = prepare(info, error);
  say_object(word_);
  return code;
}

int32_t Setup::prepare(const dw_setup_info& info, dw_error* error) {
  if (int32_t code = read_tuning(
          dw_find_hint(info.hints, info.n_hints, kHints[0]), &tuning_, error))
    return code;
  if (comm_->size == 1) return DW_OK;
  uint64_t random[2];
  if (!fill_random(random, sizeof random)) return fail_random(error);
  word_.token = random[0];
  word_.key = random[1];
  if (info.parent != nullptr)
    arena_ranks_ = ranks_in(of(info.parent)->room, info);
  if (!arena_ranks_.empty()) {
    const std::shared_ptr<Arena>& arena = of(info.parent)->room.arena();
    word_.nonce = arena->nonce();
    if (int32_t code =
            comm_->room.enter(arena, comm_->size, word_.token, error))
      return code;
    tell_place();
    return DW_OK;
  }
  arena_ = std::make_shared<Arena>();
  if (comm_->rank != 0) return DW_OK;
  if (!fill_random(&word_.nonce, sizeof word_.nonce)) return fail_random(error);
  nonce_ = word_.nonce;
  if (int32_t code = arena_->create(header(), error)) return code;
  return host_.listen(comm_->size, &word_.name, error);
}

int32_t Setup::map_memory(dw_error* error) {
  if (comm_->rank != 0) {
    Descriptor memory;
    if (int32_t code = guest_.take(comm_->rank, comm_->size, &memory,
                                   &arena_->watch, error))
      return code;
    if (int32_t code = arena_->adopt(std::move(memory), header(), error))
      return code;
  }
  arena_->settle(comm_->rank);
  if (int32_t code = comm_->room.enter(arena_, comm_->size, word_.token, error))
    return code;
  tell_place();
  return DW_OK;
}

// All ranks have an area and tell its place. DW_DONE, or the error.
int32_t Setup::meet(const std::vector<Word>& words, dw_error* error) {
  std::vector<Arena::Member> members;
  for (const Word& word : words) {
    const size_t at = members.size();
    const int rank =
        arena_ranks_.empty() ? static_cast<int>(at) : arena_ranks_[at];
    members.push_back({rank, word.area, word.token});
    comm_->keys.push_back(word.key);
    comm_->pairs.emplace_back();
  }
  const int32_t code = comm_->room.meet(comm_->rank, std::move(members), error);
  if (code != DW_OK) return code;
  if (arena_ != nullptr) backend_->know(arena_);
  make_ready(comm_.get(), words);
  return DW_DONE;
}

int32_t Setup::meet_in_parent(const std::vector<Word>& words, dw_error* error) {
  for (size_t rank = 0; rank < words.size(); ++rank)
    if (words[rank].nonce != word_.nonce)
      return refuse(static_cast<int>(rank),
                    "a rank builds the group from another parent", error);
  return meet(words, error);
}

int32_t Setup::hear(uint32_t round, const Words& said, dw_error* error) {
  std::vector<Word> words;
  if (int32_t code = read(said, &words, error)) return code;
  if (comm_->size == 1) return DW_DONE;
  if (!arena_ranks_.empty()) return meet_in_parent(words, error);
  switch (round) {
    case 0:
      for (const Word& word : words) tokens_.push_back(word.token);
      nonce_ = words[0].nonce;
      return comm_->rank == 0
                 ? int32_t{DW_OK}
                 : guest_.call(words[0].name, comm_->rank, word_.token, error);
    case 1:
      return comm_->rank == 0
                 ? host_.serve(tokens_, arena_->fd(), &arena_->watch, error)
                 : int32_t{DW_OK};
    case 2:
      return map_memory(error);
    default:
      return meet(words, error);
  }
}

constexpr char kBuilding[] = "shm: a communicator or window";

}  // namespace

int32_t setup_begin(dw_backend* backend, const dw_setup_info* given,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info info;
  if (int32_t code =
          dw_read_setup(&info, given, kHints, std::size(kHints), error))
    return code;
  if (info.size > kMostRanks)
    return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0,
                   "shm: a group has 128 ranks at most");
  return dw_hostmem::begin_setup_exchange(
      kBuilding,
      [&](std::unique_ptr<SetupExchange>* made) {
        auto exchange = std::make_unique<Setup>(of(backend), info);
        const int32_t code = exchange->begin(info, error);
        *made = std::move(exchange);
        return code;
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
  if (!comm->room.is_open()) return DW_OK;
  comm->room.leave(State::kAborted);
  // A caller that alone waits for messages ends them itself.
  if (!comm->messages.is_shared()) return DW_OK;
  dw_error why = {};
  comm->failure.check(&why);
  comm->messages.fail_all(why);
  return DW_OK;
}

int32_t comm_destroy(dw_comm* given, int64_t /*deadline_ns*/,
                     dw_error* /*error*/) {
  Comm* const comm = of(given);
  comm->operation_thread.finish();
  if (comm->room.is_open()) {
    comm->room.arena()->heap().drop(&comm->lease);
    comm->room.leave(State::kClosed);
  }
  delete comm;
  return DW_OK;
}

}  // namespace shm_backend
