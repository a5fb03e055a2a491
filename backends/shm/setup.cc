// A communicator whose ranks are all in one that has memory already takes its
// own out of that, in one round: everybody tells where its area is, and looks
// at the others' tokens there.
//
// Else in four. The first tells where rank 0 listens, and everybody's token.
// Then the others call it; then it hands its memory over; then they map it and
// show their tokens there, which is the proof that all see the same memory. A
// rank steps when all have stepped, so nobody waits.
#include "backend.h"
#include "heads.h"
#include "meet.h"
#include "sdk/fail.h"
#include "sdk/open.h"
#include "wait.h"
#include "window.h"

#include <iterator>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace shm_backend {
namespace {

// What a rank says in every round.
struct Word {
  Head head;
  uint64_t key;           // random, this rank's; never in the memory
  Processors processors;  // this rank's, once it has an area
};

class Setup final : public Building {
 public:
  Setup(Backend* backend, const dw_setup_info& info);
  int32_t begin(const dw_setup_info& info, dw_error* error);
  dw_blob word() const override { return {&word_, sizeof word_, nullptr, 0}; }
  int32_t step(const dw_blob* in, uint64_t n, dw_error* error) override;
  dw_setup_result take() override {
    return {reinterpret_cast<dw_comm*>(comm_.release()), nullptr};
  }

 private:
  Header header() const;
  void tell_place();
  int32_t map_memory(dw_error* error);
  int32_t meet(const std::vector<Word>& words, dw_error* error);
  int32_t meet_in_parent(const std::vector<Word>& words, dw_error* error);

  Backend* const backend_;
  Tuning tuning_;  // of new memory
  Word word_ = {};
  Head& head_ = word_.head;
  std::unique_ptr<Comm> comm_;
  // Of those that make new memory.
  std::shared_ptr<Arena> arena_;
  Host host_;
  Guest guest_;
  std::vector<uint64_t> tokens_;  // after the first round
  uint64_t nonce_ = 0;
  // Of those that take it out of what is there: the ranks of its arena.
  std::vector<int> arena_ranks_;
};

Setup::Setup(Backend* backend, const dw_setup_info& info)
    : backend_(backend),
      tuning_(backend->tuning),
      comm_(std::make_unique<Comm>(backend)) {
  head_ = head_of(kCommunicatorMagic, info);
  comm_->rank = info.rank;
  comm_->size = info.size;
}

Header Setup::header() const {
  Header header = {};
  header.magic = kSegmentMagic;
  header.nonce = nonce_;
  header.uid = head_.uid;
  header.epoch = head_.epoch;
  header.size = static_cast<uint64_t>(head_.size);
  header.stage_bytes = backend_->stage_bytes;
  header.tuning = tuning_;
  return header;
}

void make_ready(Comm* comm, const std::vector<Word>& words) {
  Processors all = words.front().processors;
  for (const Word& word : words) all.add(word.processors);
  comm->crowded = comm->size > all.count();
  // Whom a rank waits for may be waiting for its processor.
  comm->looks = comm->crowded ? 2 : 200;
  comm->consumed = comm->ticket - 1;
  comm->stage.use(kSmallStage, comm->ticket - 1);
  comm->distances.attach(*comm->host, comm->rank, comm->room.pulses(),
                         &comm->room.mine().writes_past);
  comm->pair_part = pair_part(*comm);
  comm->tuning = comm->room.arena()->tuning();
  comm->room.arena()->heap().add(&comm->lease);
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

void Setup::tell_place() {
  head_.area = comm_->room.place();
  word_.processors = comm_->room.arena()->processors();
}

int32_t Setup::begin(const dw_setup_info& info, dw_error* error) {
  if (int32_t code = read_tuning(
          dw_find_hint(info.hints, info.n_hints, kHints[0]), &tuning_, error))
    return code;
  if (comm_->size == 1) return DW_OK;
  uint64_t random[2];
  if (!fill_random(random, sizeof random)) return fail_random(error);
  head_.token = random[0];
  word_.key = random[1];
  if (info.parent != nullptr)
    arena_ranks_ = ranks_in(of(info.parent)->room, info);
  if (!arena_ranks_.empty()) {
    const std::shared_ptr<Arena>& arena = of(info.parent)->room.arena();
    head_.nonce = arena->nonce();
    if (int32_t code =
            comm_->room.enter(arena, comm_->size, head_.token, error))
      return code;
    tell_place();
    return DW_OK;
  }
  arena_ = std::make_shared<Arena>();
  if (comm_->rank != 0) return DW_OK;
  if (!fill_random(&head_.nonce, sizeof head_.nonce)) return fail_random(error);
  nonce_ = head_.nonce;
  if (int32_t code = arena_->create(header(), error)) return code;
  return host_.listen(comm_->size, &head_.name, error);
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
  if (int32_t code = comm_->room.enter(arena_, comm_->size, head_.token, error))
    return code;
  tell_place();
  return DW_OK;
}

// All have an area, and say where. DW_DONE, or why it is none.
int32_t Setup::meet(const std::vector<Word>& words, dw_error* error) {
  std::vector<Arena::Member> members;
  for (const Word& word : words) {
    const int rank =
        arena_ranks_.empty() ? word.head.rank : arena_ranks_[members.size()];
    members.push_back({rank, word.head.area, word.head.token});
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
  for (const Word& word : words)
    if (word.head.nonce != head_.nonce)
      return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED,
                     word.head.rank, 0,
                     "shm: a rank builds the group from another parent");
  return meet(words, error);
}

int32_t Setup::step(const dw_blob* in, uint64_t n, dw_error* error) {
  std::vector<Word> words;
  if (int32_t code = read_words(word_, in, n, &words, error)) return code;
  if (comm_->size == 1) return DW_DONE;
  if (!arena_ranks_.empty()) return meet_in_parent(words, error);
  switch (head_.round++) {
    case 0:
      for (const Word& word : words) tokens_.push_back(word.head.token);
      nonce_ = words[0].head.nonce;
      return comm_->rank == 0 ? int32_t{DW_OK}
                              : guest_.call(words[0].head.name, comm_->rank,
                                            head_.token, error);
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

int32_t fail_memory(dw_error* error) {
  return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                 "shm: no memory for a communicator or window");
}

// `make` gives what is being built, begun.
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

int32_t setup_begin(dw_backend* backend, const dw_setup_info* given,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info info;
  if (int32_t code =
          dw_read_setup(&info, given, kHints, std::size(kHints), error))
    return code;
  if (info.size > kMostRanks)
    return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0,
                   "shm: a group has 128 ranks at most");
  return begin_building(
      [&](std::unique_ptr<Building>* made) {
        auto building = std::make_unique<Setup>(of(backend), info);
        const int32_t code = building->begin(info, error);
        *made = std::move(building);
        return code;
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
  auto* const setup = reinterpret_cast<Building*>(given);
  int32_t code;
  try {
    code = setup->step(in, n, error);
  } catch (const std::bad_alloc&) {
    code = fail_memory(error);
  }
  if (code == DW_OK) {
    *out = setup->word();
    return DW_OK;
  }
  *out = {};
  if (code == DW_DONE) *result = setup->take();
  delete setup;
  return code;
}

void setup_cancel(dw_setup* setup) {
  delete reinterpret_cast<Building*>(setup);
}

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
  if (comm->room.is_open()) {
    comm->room.arena()->heap().drop(&comm->lease);
    comm->room.leave(State::kClosed);
  }
  delete comm;
  return DW_OK;
}

}  // namespace shm_backend
