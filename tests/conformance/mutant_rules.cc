#include "distwrap/abi/blocks.h"
#include "host.h"
#include "mutants.h"
#include "perfect.h"
#include "sdk/fail.h"
#include "sdk/start.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace distwrap::conformance {
namespace {

const dw_backend_api& sound() { return perfect_table(); }

char* output(const dw_op* op) { return static_cast<char*>(op->out.data); }

int32_t writes_what_it_refuses(dw_comm* comm, const dw_op* op, dw_work* work,
                               dw_error* error) {
  const int32_t code = sound().submit(comm, op, work, error);
  if (code == DW_UNIMPLEMENTED && op->out.count > 0 && op->out.data != nullptr)
    output(op)[0] = 0x11;
  return code;
}

int32_t never_completes(dw_comm* comm, const dw_op* op, dw_work* work,
                        dw_error* error) {
  if (work == nullptr) return sound().submit(comm, op, work, error);
  static dw_work elsewhere;
  return sound().submit(comm, op, &elsewhere, error);
}

int32_t completes_twice(dw_comm* comm, const dw_op* op, dw_work* work,
                        dw_error* error) {
  const int32_t code = sound().submit(comm, op, work, error);
  if (work != nullptr && code == DW_OK)
    host_table().complete(work, DW_OK, nullptr);
  return code;
}

int32_t completes_what_is_done(dw_comm* comm, const dw_op* op, dw_work* work,
                               dw_error* error) {
  const int32_t code = sound().submit(comm, op, work, error);
  return work != nullptr && code == DW_OK ? DW_DONE : code;
}

int32_t pends_when_the_caller_waits(dw_comm* comm, const dw_op* op,
                                    dw_work* work, dw_error* error) {
  const int32_t code = sound().submit(comm, op, work, error);
  return code == DW_DONE ? DW_OK : code;
}

int32_t ignores_flags(dw_comm* comm, const dw_op* op, dw_work* work,
                      dw_error* error) {
  dw_op plain = *op;
  plain.flags &= DW_FLAG_CALLER_WAITS;
  return sound().submit(comm, &plain, work, error);
}

int32_t ignores_the_tail(dw_comm* comm, const dw_op* op, dw_work* work,
                         dw_error* error) {
  dw_op plain = *op;
  if (plain.struct_size > sizeof plain) plain.struct_size = sizeof plain;
  return sound().submit(comm, &plain, work, error);
}

int32_t says_nothing(dw_comm* comm, const dw_op* op, dw_error*) {
  return sound().query(comm, op, nullptr);
}

int32_t accepts_everything(dw_comm*, const dw_op*, dw_error*) { return DW_OK; }

int32_t ignores_abort(dw_comm*, const dw_error*) { return DW_OK; }

int32_t takes_any_setup(dw_backend* backend, const dw_setup_info* info,
                        dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info good = *info;
  good.struct_size = sizeof good;
  good.flags = DW_SETUP_COMMUNICATOR;
  good.rank = 0;
  good.size = 1;
  good.n_hints = 0;
  return sound().setup_begin(backend, &good, setup, out, error);
}

int32_t closes_slowly(dw_comm* comm, int64_t deadline_ns, dw_error* error) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock<std::mutex> lock(mutex);
  never.wait_for(lock, std::chrono::milliseconds(2100), [] { return false; });
  return sound().comm_destroy(comm, deadline_ns, error);
}

int32_t promises_nonsense(dw_backend* backend, const dw_caps_row** rows,
                          uint64_t* n, dw_error* error) {
  static const dw_caps_row kRow = {
      DW_BIT(DW_OP_ALL_REDUCE),
      DW_BIT(DW_DTYPE_F32),
      static_cast<uint32_t>(DW_BIT(DW_REDUCE_BAND)),
      DW_FLAG_CALLER_WAITS,
      DW_BIT(DW_DEVICE_CPU),
      0,
      0,
      0};
  sound().caps(backend, rows, n, error);
  *rows = &kRow;
  *n = 1;
  return DW_OK;
}

int32_t promises_less(dw_backend* backend, const dw_caps_row** rows,
                      uint64_t* n, dw_error* error) {
  const int32_t code = sound().caps(backend, rows, n, error);
  *n -= 4;
  return code;
}

int32_t loses_classes(dw_comm* comm, const dw_op* op, dw_work* work,
                      dw_error* error) {
  dw_op other = *op;
  other.tag &= UINT32_MAX;
  return sound().submit(comm, &other, work, error);
}

// Counts messages and collectives together, on every rank.
int32_t counts_messages(dw_comm* comm, const dw_op* op, dw_work* work,
                        dw_error* error) {
  thread_local uint64_t messages = 0;
  dw_op other = *op;
  if (op->kind == DW_OP_SEND || op->kind == DW_OP_RECV)
    ++messages;
  else
    other.seq += messages * 1000;
  return sound().submit(comm, &other, work, error);
}

int32_t takes_any_blobs(dw_setup* setup, const dw_blob* in, uint64_t n,
                        dw_blob* out, dw_setup_result* result,
                        dw_error* error) {
  const int32_t code = sound().setup_step(setup, in, n, out, result, error);
  return code > DW_OK ? DW_DONE : code;
}

int32_t loses_order(dw_comm* comm, const dw_op* op, dw_work* work,
                    dw_error* error) {
  // The second one of two equal receives matches first: they swap their memory.
  thread_local dw_op held = {};
  thread_local dw_work* held_work = nullptr;
  if (op->kind != DW_OP_RECV || op->tag != 7 || op->out.count != 50)
    return sound().submit(comm, op, work, error);
  if (held_work == nullptr) {
    held = *op;
    held_work = work;
    return DW_OK;
  }
  sound().submit(comm, op, work, error);
  const int32_t code = sound().submit(comm, &held, held_work, error);
  held_work = nullptr;
  return code;
}

int32_t receives_block(dw_comm* comm, const dw_op* op, dw_work* work,
                       dw_error* error) {
  if (op->kind != DW_OP_RECV || work == nullptr)
    return sound().submit(comm, op, work, error);
  dw_op blocking = *op;
  blocking.flags |= DW_FLAG_CALLER_WAITS;
  return sound().submit(comm, &blocking, nullptr, error);
}

int32_t sends_to_itself(dw_comm* comm, const dw_op* op, dw_work* work,
                        dw_error* error) {
  const int32_t code = sound().submit(comm, op, work, error);
  return code == DW_INVALID_ARGUMENT ? DW_DONE : code;
}

int32_t runs_groups_in_order(dw_backend*, const dw_group_item* items,
                             uint64_t n, dw_error* error) {
  int32_t all = DW_DONE;
  for (uint64_t i = 0; i < n; ++i) {
    const int32_t code =
        sound().submit(items[i].comm, items[i].op, items[i].work, error);
    if (code != DW_DONE) all = code;
    if (code > DW_OK) return code;
  }
  return all;
}

int32_t drops_items(dw_backend* backend, const dw_group_item* items, uint64_t n,
                    dw_error* error) {
  return sound().submit_group(backend, items, n > 1 ? n - 1 : n, error);
}

// A thread for every fiftieth operation; they end with the last one.
class Crowd {
 public:
  void join() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (++calls_ % 50 != 0) return;
    threads_.emplace_back([this] {
      std::unique_lock<std::mutex> here(mutex_);
      over_.wait(here, [this] { return is_over_; });
    });
  }
  ~Crowd() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_over_ = true;
    }
    over_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  int calls_ = 0;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

int32_t starts_threads(dw_comm* comm, const dw_op* op, dw_work* work,
                       dw_error* error) {
  static Crowd crowd;
  if (work != nullptr) crowd.join();
  return sound().submit(comm, op, work, error);
}

// As if another size or type were another message.
int32_t matches_by_size(dw_comm* comm, const dw_op* op, dw_work* work,
                        dw_error* error) {
  dw_op apart = *op;
  const dw_buf& buf = op->kind == DW_OP_SEND ? op->in : op->out;
  if (op->kind == DW_OP_SEND || op->kind == DW_OP_RECV)
    apart.tag = DW_TAG(op->tag >> 32,
                       static_cast<uint32_t>(op->tag * 64 + buf.dtype.code) ^
                           static_cast<uint32_t>(buf.count) << 16);
  return sound().submit(comm, &apart, work, error);
}

// Messages are bytes to it.
int32_t forgets_types(dw_comm* comm, const dw_op* op, dw_work* work,
                      dw_error* error) {
  dw_op bytes = *op;
  dw_buf& buf = op->kind == DW_OP_SEND ? bytes.in : bytes.out;
  if (op->kind == DW_OP_SEND || op->kind == DW_OP_RECV) {
    buf.count *= buf.dtype.bits / 8;
    buf.dtype = {1, 8, 1};
  }
  return sound().submit(comm, &bytes, work, error);
}

// ---- prepared operations ----

template <void (*kChange)(dw_start&)>
int32_t starts_changed(dw_plan* plan, const dw_start* start, dw_work* work,
                       dw_error* error) {
  dw_start other = *start;
  kChange(other);
  // The copy lacks what lies behind the known part.
  if (other.struct_size > sizeof other)
    return sound().plan_run(plan, start, work, error);
  return sound().plan_run(plan, &other, work, error);
}

void keeps_the_first_addresses(dw_start& start) {
  start.in = nullptr;
  start.out = nullptr;
}
void numbers_by_itself(dw_start& start) { start.seq = 1000; }
void ignores_start_tails(dw_start& start) { start.struct_size = sizeof start; }
void takes_any_start_flag(dw_start& start) {
  start.flags &= DW_FLAG_CALLER_WAITS;
}

constexpr auto starts_where_it_was_prepared =
    starts_changed<keeps_the_first_addresses>;
constexpr auto numbers_its_starts = starts_changed<numbers_by_itself>;
constexpr auto takes_any_start = starts_changed<ignores_start_tails>;
constexpr auto takes_any_flag = starts_changed<takes_any_start_flag>;

int32_t waits_for_no_start(dw_plan* plan, const dw_start* start, dw_work* work,
                           dw_error* error) {
  const int32_t code = sound().plan_run(plan, start, work, error);
  return work == nullptr && code == DW_DONE ? DW_OK : code;
}

int32_t prepares_the_first(dw_comm* comm, const dw_op* ops, uint64_t,
                           dw_plan** plan, dw_error* error) {
  return sound().plan_create(comm, ops, 1, plan, error);
}

// Keeps what is only lent.
struct BorrowingPlan {
  dw_comm* comm;
  dw_op op;
};
int32_t borrows_arrays(dw_comm* comm, const dw_op* ops, uint64_t n,
                       dw_plan** plan, dw_error* error) {
  dw_plan* good = nullptr;
  const int32_t code = sound().plan_create(comm, ops, n, &good, error);
  if (code != DW_OK) return code;
  sound().plan_destroy(good, nullptr);
  *plan = reinterpret_cast<dw_plan*>(new BorrowingPlan{comm, *ops});
  return DW_OK;
}
int32_t runs_the_borrowed(dw_plan* plan, const dw_start* start, dw_work* work,
                          dw_error* error) {
  const auto& kept = *reinterpret_cast<BorrowingPlan*>(plan);
  // The arrays of this rank's lists hold nonsense by now.
  for (const dw_buf* buf : {&kept.op.in, &kept.op.out})
    if ((buf->counts != nullptr && buf->counts[0] < 0) ||
        (buf->parts != nullptr && buf->parts[0] == nullptr))
      return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1,
                     0, "the arrays are gone");
  dw_op op = kept.op;
  dw_apply_start(start, &op);
  return sound().submit(kept.comm, &op, work, error);
}
int32_t ends_the_borrowed(dw_plan* plan, dw_error*) {
  delete reinterpret_cast<BorrowingPlan*>(plan);
  return DW_OK;
}

// A start of an ended group is done, as nobody waits for it.
int32_t starts_after_the_end(dw_plan* plan, const dw_start* start,
                             dw_work* work, dw_error* error) {
  const int32_t code = sound().plan_run(plan, start, work, error);
  return code == DW_ABORTED ? DW_DONE : code;
}

// ---- strided pieces ----

template <uint16_t kKind>
int32_t packs_blocks(dw_comm* comm, const dw_op* op, dw_work* work,
                     dw_error* error) {
  dw_op packed = *op;
  if (op->kind == kKind) packed.next = nullptr;
  return sound().submit(comm, &packed, work, error);
}

// Runs a little longer than they are.
template <uint16_t kKind>
int32_t fills_between_runs(dw_comm* comm, const dw_op* op, dw_work* work,
                           dw_error* error) {
  const int32_t code = sound().submit(comm, op, work, error);
  if (op->kind == kKind && op->next != nullptr && code == DW_DONE) {
    const auto& blocks = *reinterpret_cast<const dw_ext_blocks*>(op->next);
    output(op)[blocks.out[0].begin + blocks.out[0].run] = 0x11;
  }
  return code;
}

template <uint16_t kKind>
int32_t takes_any_block(dw_comm* comm, const dw_op* op, dw_error* error) {
  const int32_t code = sound().query(comm, op, error);
  return op->kind == kKind && code == DW_INVALID_ARGUMENT ? DW_OK : code;
}

constexpr auto packs_exchanged_blocks = packs_blocks<DW_OP_ALL_TO_ALL>;
constexpr auto packs_gathered_blocks = packs_blocks<DW_OP_ALL_GATHER>;
constexpr auto fills_between_exchanged_runs =
    fills_between_runs<DW_OP_ALL_TO_ALL>;
constexpr auto fills_between_gathered_runs =
    fills_between_runs<DW_OP_ALL_GATHER>;
constexpr auto takes_any_exchanged_block = takes_any_block<DW_OP_ALL_TO_ALL>;
constexpr auto takes_any_gathered_block = takes_any_block<DW_OP_ALL_GATHER>;

// Looks at the blocks of the output alone.
int32_t takes_any_gathered_input(dw_comm* comm, const dw_op* op,
                                 dw_error* error) {
  const int32_t code = sound().query(comm, op, error);
  if (op->kind != DW_OP_ALL_GATHER || op->next == nullptr ||
      code != DW_INVALID_ARGUMENT)
    return code;
  dw_ext_blocks blocks = *reinterpret_cast<const dw_ext_blocks*>(op->next);
  const dw_block fits = {0, static_cast<uint64_t>(op->in.count), {1, 1, 1}, {}};
  blocks.in = &fits;
  dw_op with_it = *op;
  with_it.next = &blocks.head;
  return sound().query(comm, &with_it, error);
}

// Reads no further than it knows.
int32_t takes_any_extent(dw_comm* comm, const dw_op* op, dw_error* error) {
  const int32_t code = sound().query(comm, op, error);
  return code == DW_INCOMPATIBLE ? DW_OK : code;
}

// ---- operations that a waiting thread runs ----

int32_t says_it_has_run(dw_comm*, uint64_t) { return DW_DONE; }

// Returns when there is an operation with this number, which may be never.
int32_t waits_for_any_number(dw_comm*, uint64_t seq) {
  if (seq > 1000) std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  return DW_OK;
}

constexpr char kHangs[] = "did not";

}  // namespace

#define SUBMITS(function, check, size, says)                \
  {                                                         \
#function, check, size, says,                           \
        [](dw_backend_api & api) { api.submit = function; } \
  }
#define SLOT(slot, function, check, size, says)           \
  {                                                       \
#function, check, size, says,                         \
        [](dw_backend_api & api) { api.slot = function; } \
  }

std::vector<Mutant> mutants_of_rules() {
  return {
      SUBMITS(pends_when_the_caller_waits, check_calls, 3, "pending, but"),
      SUBMITS(never_completes, check_calls, 3, kHangs),
      SUBMITS(completes_twice, check_calls, 1, "more than once"),
      SUBMITS(completes_what_is_done, check_calls, 1, "without being pending"),
      SUBMITS(writes_what_it_refuses, check_refusals, 1, "wrote into"),
      SUBMITS(ignores_flags, check_refusals, 1, "want code"),
      SUBMITS(ignores_the_tail, check_growth, 1, "want code"),
      SLOT(query, says_nothing, check_refusals, 1, "no detail"),
      SLOT(query, accepts_everything, check_refusals, 1, "query: want code"),
      SLOT(comm_abort, ignores_abort, check_abort, 1, "after an abort"),
      SLOT(setup_begin, takes_any_setup, check_open, 1, "setup_begin with"),
      SLOT(comm_destroy, closes_slowly, check_close, 1, "took long"),
      SLOT(caps, promises_nonsense, check_promises, 1, "does not exist"),
      SLOT(caps, promises_less, check_promises, 1, "does not promise"),
      SUBMITS(loses_classes, check_tags, 2, "the message is wrong"),
      SLOT(setup_step, takes_any_blobs, check_bad_blobs, 2, "were accepted"),
      {"counts_messages", check_subsets, 3, kHangs,
       [](dw_backend_api& api) {
         api.submit = counts_messages;
         api.submit_group = nullptr;
       }},
      SUBMITS(loses_order, check_messages, 2, "the message is wrong"),
      SUBMITS(matches_by_size, check_differing_messages, 2, kHangs),
      SUBMITS(forgets_types, check_differing_messages, 2,
              "the receive succeeded"),
      SUBMITS(receives_block, check_open_receives, 2, kHangs),
      SUBMITS(sends_to_itself, check_own_messages, 2, "a send to itself"),
      SUBMITS(starts_threads, check_open_works, 2, "threads"),
      {"waits_in_silence", check_under_way, 2, "has not said before",
       [](dw_backend_api& api) { api.flags |= DW_BACKEND_SAYS_UNDER_WAY; }},
      SLOT(submit_group, runs_groups_in_order, check_groups, 3, kHangs),
      SLOT(submit_group, drops_items, check_groups, 3, kHangs),
      SLOT(submit_group, runs_groups_in_order, check_refusals, 1,
           "an item completed"),
      SLOT(plan_run, starts_where_it_was_prepared, check_prepared, 2,
           "on other buffers: the output is wrong"),
      SLOT(plan_run, numbers_its_starts, check_prepared, 2, kHangs),
      SLOT(plan_run, takes_any_start, check_prepared, 1,
           "an unknown tail: want code"),
      SLOT(plan_run, takes_any_flag, check_prepared, 1,
           "a flag of the operation: want code"),
      SLOT(plan_run, waits_for_no_start, check_prepared, 1,
           "pending, but the caller waits"),
      SLOT(plan_create, prepares_the_first, check_prepared, 1,
           "of two operations: want code"),
      {"borrows_arrays", check_prepared, 2, "the arrays are gone",
       [](dw_backend_api& api) {
         api.plan_create = borrows_arrays;
         api.plan_run = runs_the_borrowed;
         api.plan_destroy = ends_the_borrowed;
       }},
      SLOT(plan_run, starts_after_the_end, check_prepared_abort, 2,
           "after an abort"),
      SLOT(run_queued, says_it_has_run, check_queued, 2, "has not ended"),
      SLOT(run_queued, says_it_has_run, check_queued, 2, "never submitted"),
      SLOT(run_queued, waits_for_any_number, check_queued, 2, kHangs),
      SUBMITS(packs_exchanged_blocks, check_blocks, 2,
              "blocks: a run is wrong"),
      SUBMITS(packs_gathered_blocks, check_blocks, 2,
              "gathered blocks: wrote between the runs"),
      SUBMITS(fills_between_exchanged_runs, check_blocks, 2,
              "blocks: wrote between the runs"),
      SUBMITS(fills_between_gathered_runs, check_blocks, 2,
              "gathered blocks: wrote between the runs"),
      SLOT(query, takes_any_exchanged_block, check_blocks, 2,
           "blocks: a block of the output"),
      SLOT(query, takes_any_gathered_block, check_blocks, 2,
           "gathered blocks: a block of the output"),
      SLOT(query, takes_any_gathered_input, check_blocks, 2,
           "gathered blocks: a block of the input"),
      SLOT(query, takes_any_extent, check_blocks, 2, "an unknown field"),
  };
}

}  // namespace distwrap::conformance
