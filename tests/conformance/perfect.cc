#include "perfect.h"

#include "distwrap/abi/read.h"
#include "numbers.h"
#include "perfect_hub.h"
#include "sdk/blocks.h"
#include "sdk/dtype.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"
#include "sdk/start.h"

#include <algorithm>
#include <string>

namespace distwrap::conformance {
namespace {

struct Backend {
  const dw_host_api& host;
};
struct Setup {
  std::shared_ptr<Hub> hub;
  uint64_t uid;
  int rank, size;
  std::string blob;
};
struct Comm {
  std::shared_ptr<Hub> hub;
  int rank;
};

// Every backend of the program uses the names of the ABI's opaque types.
Comm* of(dw_comm* comm) { return reinterpret_cast<Comm*>(comm); }
Setup* of(dw_setup* setup) { return reinterpret_cast<Setup*>(setup); }
Backend* of(dw_backend* backend) { return reinterpret_cast<Backend*>(backend); }

int32_t fail(dw_error* error, int32_t code, const char* text) {
  const bool unknown = code == DW_UNIMPLEMENTED;
  return dw_fail(error, code,
                 unknown ? DW_REASON_UNSUPPORTED : DW_REASON_INVALID_ARGUMENT,
                 -1, 0, text);
}

int32_t open(const dw_host_api* host, const dw_open_info* info,
             dw_backend** backend, dw_error* error) {
  dw_open_info read;
  if (int32_t code =
          dw_read_struct(&read, sizeof read, info, DW_OPEN_INFO_SIZE_1_0))
    return fail(error, code, "perfect: unknown size");
  if (read.device_type != DW_DEVICE_CPU)
    return fail(error, DW_UNIMPLEMENTED, "perfect: host memory only");
  if (read.n_hints != 0)
    return fail(error, DW_INVALID_ARGUMENT, "perfect: there are no hints");
  *backend = reinterpret_cast<dw_backend*>(new Backend{*host});
  return DW_OK;
}

void close(dw_backend* backend) { delete of(backend); }

constexpr uint32_t kCommon = DW_FLAG_CALLER_WAITS | DW_FLAG_IN_PLACE;
constexpr uint32_t kPieces = DW_FLAG_PER_RANK | DW_FLAG_PARTS;

int32_t caps(dw_backend*, const dw_caps_row** rows, uint64_t* n, dw_error*) {
  static const std::vector<dw_caps_row> kRows = [] {
    constexpr uint32_t kHost = DW_BIT(DW_DEVICE_CPU);
    constexpr uint32_t kNone = DW_BIT(DW_REDUCE_NONE);
    constexpr uint64_t kAny = DW_BIT(kDtypes) - 1;
    std::vector<dw_caps_row> made = {
        {DW_BIT(DW_OP_BARRIER) | DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV), kAny,
         kNone, DW_FLAG_CALLER_WAITS, kHost, 0, 0, 0},
        {DW_BIT(DW_OP_BROADCAST), kAny, kNone, kCommon, kHost, 0, 0, 0},
        {DW_BIT(DW_OP_GATHER) | DW_BIT(DW_OP_SCATTER) |
             DW_BIT(DW_OP_ALL_GATHER),
         kAny, kNone, kCommon | kPieces, kHost, 0, 0, 0},
        {DW_BIT(DW_OP_ALL_TO_ALL), kAny, kNone, DW_FLAG_CALLER_WAITS | kPieces,
         kHost, 0, 0, 0}};
    for (uint16_t reduce = 1; reduce < kReductions; ++reduce) {
      uint64_t dtypes = 0;
      for (int dtype = 0; dtype < kDtypes; ++dtype)
        if (is_defined(reduce, dtype)) dtypes |= DW_BIT(dtype);
      const auto bit = static_cast<uint32_t>(DW_BIT(reduce));
      made.push_back({DW_BIT(DW_OP_REDUCE) | DW_BIT(DW_OP_ALL_REDUCE), dtypes,
                      bit, kCommon, kHost, 0, 0, 0});
      made.push_back({DW_BIT(DW_OP_REDUCE_SCATTER), dtypes, bit,
                      kCommon | kPieces, kHost, 0, 0, 0});
      if (reduce != DW_REDUCE_AVG)
        made.push_back({DW_BIT(DW_OP_SCAN), dtypes, bit,
                        kCommon | DW_FLAG_EXCLUSIVE, kHost, 0, 0, 0});
    }
    return made;
  }();
  *rows = kRows.data();
  *n = kRows.size();
  return DW_OK;
}

std::string blob_of(uint64_t uid, int rank, int size) {
  return "perfect " + std::to_string(uid) + " " + std::to_string(rank) +
         " of " + std::to_string(size) + ".";
}

int32_t setup_begin(dw_backend* backend, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  static std::mutex mutex;
  static std::map<uint64_t, std::weak_ptr<Hub>> hubs;
  dw_setup_info read;
  if (int32_t code =
          dw_read_struct(&read, sizeof read, info, DW_SETUP_INFO_SIZE_1_0))
    return fail(error, code, "perfect: unknown size");
  if ((read.flags & ~DW_FLAGS_OPTIONAL) != DW_SETUP_COMMUNICATOR)
    return fail(error, DW_UNIMPLEMENTED, "perfect: communicators only");
  if (read.size < 1 || read.rank < 0 || read.rank >= read.size ||
      read.n_hints != 0)
    return fail(error, DW_INVALID_ARGUMENT, "perfect: bad rank, size or hint");
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Hub> hub = hubs[read.uid].lock();
  if (hub == nullptr) {
    std::erase_if(hubs, [](const auto& one) { return one.second.expired(); });
    hub = std::make_shared<Hub>(read.size, of(backend)->host);
    hubs[read.uid] = hub;
  }
  auto* made = new Setup{hub, read.uid, read.rank, read.size,
                         blob_of(read.uid, read.rank, read.size)};
  *setup = reinterpret_cast<dw_setup*>(made);
  *out = {made->blob.data(), made->blob.size(), nullptr, 0};
  return DW_OK;
}

int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error) {
  const std::unique_ptr<Setup> mine(of(setup));
  bool good = n == static_cast<uint64_t>(mine->size);
  for (uint64_t i = 0; good && i < n; ++i)
    good = std::string(static_cast<const char*>(in[i].data), in[i].size) ==
           blob_of(mine->uid, static_cast<int>(i), mine->size);
  if (!good) return fail(error, DW_INVALID_ARGUMENT, "perfect: strange blobs");
  *out = {};
  *result = {reinterpret_cast<dw_comm*>(new Comm{mine->hub, mine->rank}),
             nullptr};
  return DW_DONE;
}

void setup_cancel(dw_setup* setup) { delete of(setup); }

int32_t comm_abort(dw_comm* comm, const dw_error*) {
  of(comm)->hub->abort();
  return DW_OK;
}

int32_t comm_destroy(dw_comm* comm, int64_t, dw_error*) {
  delete of(comm);
  return DW_OK;
}

bool is_promised(const dw_op& op) {
  const dw_caps_row* rows = nullptr;
  uint64_t n = 0;
  caps(nullptr, &rows, &n, nullptr);
  // A rank without an output has the type in its input, and vice versa.
  const dw_dtype dtype = op.kind == DW_OP_SEND || op.kind == DW_OP_REDUCE ||
                                 op.kind == DW_OP_GATHER
                             ? op.in.dtype
                             : op.out.dtype;
  const int index =
      op.kind == DW_OP_BARRIER ? DW_DTYPE_U8 : dw_dtype_index(dtype);
  return op.kind < 64 && op.reduce < 32 && index >= 0 &&
         std::any_of(rows, rows + n, [&](const dw_caps_row& row) {
           return (row.ops >> op.kind & 1) != 0 &&
                  (row.dtypes >> index & 1) != 0 &&
                  (row.reductions >> op.reduce & 1) != 0 &&
                  (op.flags & ~row.flags) == 0;
         });
}

constexpr dw_str kKnown[] = {dw_sdk::kMoeId, dw_sdk::kMoeSumId,
                             dw_sdk::kBlocksId};

int32_t read_blocks(const dw_op& op, int size) {
  const dw_ext* const found = dw_find_extension(op.next, dw_sdk::kBlocksId);
  if (found == nullptr) return DW_OK;
  dw_ext_blocks blocks;
  if (int32_t code =
          dw_read_struct(&blocks, sizeof blocks, found, DW_EXT_BLOCKS_SIZE_1_2))
    return code;
  const auto fits = [](const dw_block& block, int64_t count) {
    uint64_t bytes, end;
    return count == 0 || (dw_sdk::measure(block, &bytes, &end) &&
                          bytes == static_cast<uint64_t>(count));
  };
  const bool gathers = op.kind == DW_OP_ALL_GATHER;
  if (gathers && !fits(blocks.in[0], op.in.count)) return DW_INVALID_ARGUMENT;
  for (int r = 0; r < size; ++r)
    if ((!gathers && !fits(blocks.in[r], op.in.counts[r])) ||
        !fits(blocks.out[r], op.out.counts[r]))
      return DW_INVALID_ARGUMENT;
  return DW_OK;
}

int32_t query(dw_comm* comm, const dw_op* given, dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given))
    return fail(error, code, "perfect: unknown size");
  if (!is_promised(*op) ||
      dw_check_known_extensions(op->next, kKnown, 3) != DW_OK ||
      op->stream.device_type > DW_DEVICE_CPU)
    return fail(error, DW_UNIMPLEMENTED, "perfect: not supported");
  if (int32_t code = read_blocks(*op, of(comm)->hub->size()))
    return fail(error, code, "perfect: the blocks do not fit");
  if (dw_sdk::moe_extension_of(*op) != nullptr) {
    dw_sdk::MoeRows rows;
    const Comm& here = *of(comm);
    if (int32_t code = rows.read(*op, here.rank, here.hub->size(), error))
      return code;
  }
  if (of(comm)->hub->is_aborted())
    return dw_fail(error, DW_ABORTED, DW_REASON_ABORTED, -1, 0,
                   "perfect: the group was aborted");
  return DW_OK;
}

int32_t answer(int32_t code, const dw_error& why, dw_error* error) {
  if (code == DW_OK) return DW_DONE;
  if (error != nullptr) *error = why;
  return code;
}

int32_t submit(dw_comm* comm, const dw_op* given, dw_work* work,
               dw_error* error) {
  if (int32_t code = query(comm, given, error)) return code;
  dw_op space;
  const dw_op* op;
  dw_read_op(&space, &op, given);
  const Comm& here = *of(comm);
  if (work == nullptr && op->kind == DW_OP_SEND && op->peer == here.rank &&
      !here.hub->has_receive(*op, here.rank))
    return fail(error, DW_INVALID_ARGUMENT, "perfect: sends to itself");
  const auto held = here.hub->enter(*op, here.rank, work);
  if (work != nullptr) return DW_OK;
  const int32_t code = here.hub->wait(*held);
  return answer(code, held->error, error);
}

int32_t submit_group(dw_backend*, const dw_group_item* items, uint64_t n,
                     dw_error* error) {
  for (uint64_t i = 0; i < n; ++i)
    if (int32_t code = query(items[i].comm, items[i].op, error)) return code;
  bool waits = true;
  std::vector<std::pair<Hub*, std::shared_ptr<Held>>> all;
  for (uint64_t i = 0; i < n; ++i) {
    const Comm& comm = *of(items[i].comm);
    waits = waits && items[i].work == nullptr;
    all.emplace_back(comm.hub.get(),
                     comm.hub->enter(*items[i].op, comm.rank, items[i].work));
  }
  if (!waits) return DW_OK;
  int32_t code = DW_OK;
  dw_error why = {};
  for (const auto& [hub, held] : all) {
    if (hub->wait(*held) <= code) continue;
    code = held->code;
    why = held->error;
  }
  return answer(code, why, error);
}

// A prepared operation with copies of its arrays.
struct Plan {
  Plan(dw_comm* of_comm, const dw_op& given)
      : comm(of_comm),
        op(given),
        in(given.in, of(of_comm)->hub->size()),
        out(given.out, of(of_comm)->hub->size()) {
    op.in = lent(in, given.in);
    op.out = lent(out, given.out);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  static Plan* of_abi(dw_plan* plan) { return reinterpret_cast<Plan*>(plan); }

  dw_comm* const comm;
  dw_op op;

 private:
  // The buffer with this object's arrays.
  static dw_buf lent(const HeldBuffer& held, const dw_buf& given) {
    dw_buf buf = given;
    if (given.counts != nullptr) buf.counts = held.counts.data();
    if (given.displs != nullptr) buf.displs = held.displs.data();
    if (given.parts != nullptr) buf.parts = held.parts.data();
    return buf;
  }
  const HeldBuffer in, out;
};

int32_t plan_create(dw_comm* comm, const dw_op* ops, uint64_t n, dw_plan** plan,
                    dw_error* error) {
  if (n != 1)
    return fail(error, DW_UNIMPLEMENTED, "perfect: prepares one operation");
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, ops))
    return fail(error, code, "perfect: unknown size");
  if (int32_t code = query(comm, op, error)) return code;
  *plan = reinterpret_cast<dw_plan*>(new Plan(comm, *op));
  return DW_OK;
}

int32_t plan_run(dw_plan* plan, const dw_start* given, dw_work* work,
                 dw_error* error) {
  dw_start space;
  const dw_start* start;
  if (int32_t code = dw_read_start(&space, &start, given))
    return fail(error, code, "perfect: unknown size or flag of a start");
  dw_op op = Plan::of_abi(plan)->op;
  dw_apply_start(start, &op);
  return submit(Plan::of_abi(plan)->comm, &op, work, error);
}

int32_t plan_destroy(dw_plan* plan, dw_error*) {
  delete Plan::of_abi(plan);
  return DW_OK;
}

// Nothing waits for a thread here.
int32_t run_queued(dw_comm*, uint64_t) { return DW_OK; }

}  // namespace

const dw_backend_api& perfect_table() {
  static const dw_backend_api kTable = [] {
    dw_backend_api api = {};
    api.struct_size = sizeof api;
    api.abi_major = DW_ABI_MAJOR;
    api.abi_minor = DW_ABI_MINOR;
    api.flags = DW_BACKEND_HOST_WATCHES;
    api.devices = DW_BIT(DW_DEVICE_CPU);
    api.name = {"perfect", 7};
    api.version = {"1.0", 3};
    api.open = open;
    api.close = close;
    api.caps = caps;
    api.setup_begin = setup_begin;
    api.setup_step = setup_step;
    api.setup_cancel = setup_cancel;
    api.comm_abort = comm_abort;
    api.comm_destroy = comm_destroy;
    api.query = query;
    api.submit = submit;
    api.submit_group = submit_group;
    api.plan_create = plan_create;
    api.plan_run = plan_run;
    api.plan_destroy = plan_destroy;
    api.run_queued = run_queued;
    return api;
  }();
  return kTable;
}

}  // namespace distwrap::conformance
