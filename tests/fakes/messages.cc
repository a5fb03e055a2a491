#include "messages.h"

#include "distwrap/abi/read.h"
#include "sdk/dtype.h"
#include "sdk/fail.h"
#include "sdk/message_mismatch.h"
#include "sdk/open.h"
#include "sdk/read_op.h"
#include "sdk/shapes.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::fakes {
namespace {

std::atomic<uint64_t> sent_bytes{0};

struct Style {
  const char* name;
  uint64_t dtypes;
  bool waits;
  bool polled;
};

constexpr Style kStyles[] = {
    {"messages", DW_BIT(DW_DTYPE_U8), true, false},
    {"messages_async",
     DW_BIT(DW_DTYPE_U8) | DW_BIT(DW_DTYPE_U16) | DW_BIT(DW_DTYPE_F32) |
         DW_BIT(DW_DTYPE_I64),
     false, false},
    {"messages_polled", dw_sdk::kEveryType, false, true},
};

struct Backend {
  const dw_host_api* host;
  const Style& style;
  dw_caps_row row;
  std::mutex mutex;
  // Operations that have ended and that `progress` has yet to report.
  std::deque<std::pair<dw_work*, dw_error>> ended;
};

// A pending message or receive, and the way to notify its owner.
struct Pending {
  uint64_t tag;
  dw_sdk::MessageEnd what;
  void* data;
  Backend* owner;
  dw_work* work;     // NULL: the owner waits in `submit`
  dw_error* waited;  // receives the result
  bool* waiter_done;
};

struct Room {
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int gone = -1;  // the rank that aborted
  // by sender and receiver
  std::map<std::pair<int, int>, std::deque<Pending>> sends, receives;
};

struct Comm {
  Backend& backend;
  std::shared_ptr<Room> room;
  int rank, size;
  uint64_t submits = 0, waiting_submits = 0;
};

struct Blob {
  char magic[8];
  uint64_t uid, epoch;
  int32_t rank, size;
};
constexpr char kMagic[8] = {'m', 'e', 's', 's', 'a', 'g', 'e', 's'};

struct Setup {
  Backend& backend;
  Blob mine;
};

std::shared_ptr<Room> room_of(const Blob& blob) {
  static std::mutex mutex;
  static std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<Room>> rooms;
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<Room>& known = rooms[{blob.uid, blob.epoch}];
  std::shared_ptr<Room> room = known.lock();
  if (room == nullptr) {
    room.reset(new Room{blob.size, {}, {}, -1, {}, {}});
    known = room;
  }
  return room;
}

Backend* backend_of(dw_backend* b) { return reinterpret_cast<Backend*>(b); }
Comm* comm_of(dw_comm* c) { return reinterpret_cast<Comm*>(c); }

int32_t refuse(dw_error* error, const char* text) {
  return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1, 0,
                 text);
}

int32_t unsupported(dw_error* error, const char* text) {
  return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0, text);
}

template <int kStyle>
int32_t open(const dw_host_api* host, const dw_open_info* info,
             dw_backend** backend, dw_error* error) {
  dw_open_info read;
  if (int32_t code =
          dw_read_struct(&read, sizeof read, info, DW_OPEN_INFO_SIZE_1_0))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the open info is not known");
  if (read.device_type != DW_DEVICE_CPU)
    return unsupported(error, "only host memory");
  if (read.n_hints != 0) return refuse(error, "there are no hints");
  const Style& style = kStyles[kStyle];
  auto* const made = new Backend{host, style, {}, {}, {}};
  made->row = {DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV),
               style.dtypes,
               DW_BIT(DW_REDUCE_NONE),
               style.waits ? uint32_t{DW_FLAG_CALLER_WAITS} : 0,
               DW_BIT(DW_DEVICE_CPU),
               0,
               0,
               0};
  *backend = reinterpret_cast<dw_backend*>(made);
  return DW_OK;
}

void close(dw_backend* backend) { delete backend_of(backend); }

int32_t caps(dw_backend* backend, const dw_caps_row** rows, uint64_t* n,
             dw_error*) {
  *rows = &backend_of(backend)->row;
  *n = 1;
  return DW_OK;
}

int32_t setup_begin(dw_backend* backend, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info read;
  if (int32_t code = dw_read_setup(&read, info, nullptr, 0, error)) return code;
  auto* const made = new Setup{*backend_of(backend), {}};
  std::memcpy(made->mine.magic, kMagic, sizeof kMagic);
  made->mine.uid = read.uid;
  made->mine.epoch = read.epoch;
  made->mine.rank = read.rank;
  made->mine.size = read.size;
  *setup = reinterpret_cast<dw_setup*>(made);
  *out = {&made->mine, sizeof(Blob), nullptr, 0};
  return DW_OK;
}

int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error) {
  const std::unique_ptr<Setup> step(reinterpret_cast<Setup*>(setup));
  const Blob& mine = step->mine;
  if (n != static_cast<uint64_t>(mine.size))
    return refuse(error, "not as many blobs as ranks");
  for (uint64_t r = 0; r < n; ++r) {
    Blob blob;
    if (in[r].size != sizeof blob) return refuse(error, "a blob's size");
    std::memcpy(&blob, in[r].data, sizeof blob);
    Blob want = mine;
    want.rank = static_cast<int32_t>(r);
    if (std::memcmp(&blob, &want, sizeof blob) != 0)
      return refuse(error, "a blob of another group or rank");
  }
  *out = {};
  *result = {reinterpret_cast<dw_comm*>(
                 new Comm{step->backend, room_of(mine), mine.rank, mine.size}),
             nullptr};
  return DW_DONE;
}

void setup_cancel(dw_setup* setup) { delete reinterpret_cast<Setup*>(setup); }

// Notifies an owner that waits inside `submit`, under the room's lock.
void wake(const Pending& pending, const dw_error& end) {
  *pending.waited = end;
  *pending.waiter_done = true;
}

// Completes an asynchronous operation, without the room's lock.
void tell(const Pending& pending, const dw_error& end) {
  Backend& owner = *pending.owner;
  if (!owner.style.polled) {
    owner.host->complete(pending.work, end.code,
                         end.code == DW_OK ? nullptr : &end);
    return;
  }
  std::lock_guard<std::mutex> lock(owner.mutex);
  owner.ended.push_back({pending.work, end});
}

int32_t progress(dw_backend* backend) {
  Backend& owner = *backend_of(backend);
  // A few events at a time, since a number of events must not look like a
  // result code.
  constexpr size_t kMost = 8;
  std::vector<std::pair<dw_work*, dw_error>> ended;
  {
    std::lock_guard<std::mutex> lock(owner.mutex);
    while (!owner.ended.empty() && ended.size() < kMost) {
      ended.push_back(owner.ended.front());
      owner.ended.pop_front();
    }
  }
  for (const auto& end : ended)
    owner.host->complete(end.first, end.second.code,
                         end.second.code == DW_OK ? nullptr : &end.second);
  return static_cast<int32_t>(ended.size());
}

int32_t comm_abort(dw_comm* comm, const dw_error*) {
  Comm& me = *comm_of(comm);
  Room& room = *me.room;
  std::vector<Pending> ending;
  dw_error end = {};
  {
    std::lock_guard<std::mutex> lock(room.mutex);
    if (room.gone < 0) room.gone = me.rank;
    dw_fail(&end, DW_ABORTED, DW_REASON_ABORTED, room.gone, 0,
            "a rank aborted the group");
    for (auto* lists : {&room.sends, &room.receives})
      for (auto& list : *lists) {
        for (const Pending& pending : list.second)
          if (pending.work == nullptr)
            wake(pending, end);
          else
            ending.push_back(pending);
        list.second.clear();
      }
    room.changed.notify_all();
  }
  for (const Pending& pending : ending) tell(pending, end);
  return DW_OK;
}

int32_t comm_destroy(dw_comm* comm, int64_t, dw_error*) {
  delete comm_of(comm);
  return DW_OK;
}

int32_t check(const Comm& comm, const dw_op* op, dw_error* error) {
  const Style& style = comm.backend.style;
  if (op->kind != DW_OP_SEND && op->kind != DW_OP_RECV)
    return unsupported(error, "there are only messages");
  const uint32_t known = style.waits ? uint32_t{DW_FLAG_CALLER_WAITS} : 0;
  if (dw_unknown_flags(op->flags, known) != 0)
    return unsupported(error, "a flag is not supported");
  if (op->reduce != DW_REDUCE_NONE)
    return unsupported(error, "there are no reductions");
  if (dw_check_extensions(op->next) != DW_OK)
    return unsupported(error, "there are no extensions");
  if (op->stream.device_type != 0 && op->stream.device_type != DW_DEVICE_CPU)
    return unsupported(error, "only host memory");
  const dw_buf& buf = op->kind == DW_OP_SEND ? op->in : op->out;
  const int dtype = dw_dtype_index(buf.dtype);
  if (dtype < 0 || (style.dtypes >> dtype & 1) == 0)
    return unsupported(error, "this dtype is not supported");
  if (buf.counts != nullptr || buf.parts != nullptr)
    return unsupported(error, "buffers are one piece");
  if (op->peer == comm.rank)
    return refuse(error, "a message to oneself: this engine knows none");
  if (op->peer < 0 || op->peer >= comm.size)
    return refuse(error, "the peer is not a rank of the group");
  if (buf.count < 0 || (buf.count > 0 && buf.data == nullptr))
    return refuse(error, "the buffer has no memory");
  return DW_OK;
}

int32_t query(dw_comm* comm, const dw_op* given, dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the operation is not known");
  return check(*comm_of(comm), op, error);
}

int32_t submit(dw_comm* comm, const dw_op* given, dw_work* work,
               dw_error* error) {
  Comm& me = *comm_of(comm);
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the operation is not known");
  if (int32_t code = check(me, op, error)) return code;
  const bool polled = me.backend.style.polled;
  // Only one thread at a time, beside one that waits; otherwise this is a data
  // race.
  uint64_t& submits = work == nullptr ? me.waiting_submits : me.submits;
  if (++submits % 5 == 0 && polled) return DW_AGAIN;
  const bool sends = op->kind == DW_OP_SEND;
  const dw_buf& buf = sends ? op->in : op->out;
  const uint64_t bytes =
      static_cast<uint64_t>(buf.count) * dw_dtype_bytes(buf.dtype);
  bool done = false;
  dw_error end = {};
  Pending mine = {op->tag,  {me.rank, dw_dtype_index(buf.dtype), bytes},
                  buf.data, &me.backend,
                  work,     &end,
                  &done};
  Pending other = {};
  Room& room = *me.room;
  {
    std::unique_lock<std::mutex> lock(room.mutex);
    if (room.gone >= 0)
      return dw_fail(error, DW_ABORTED, DW_REASON_ABORTED, room.gone, 0,
                     "the group was aborted");
    if (sends) sent_bytes += bytes;
    const std::pair<int, int> way =
        sends ? std::pair(me.rank, op->peer) : std::pair(op->peer, me.rank);
    std::deque<Pending>& others = (sends ? room.receives : room.sends)[way];
    auto met = others.begin();
    while (met != others.end() && met->tag != mine.tag) ++met;
    if (met == others.end()) {
      (sends ? room.sends : room.receives)[way].push_back(mine);
      if (work != nullptr) return DW_OK;
      room.changed.wait(lock, [&] { return done; });
      if (end.code == DW_OK) return DW_DONE;
      if (error != nullptr) *error = end;
      return end.code;
    }
    other = *met;
    others.erase(met);
    if (other.what.bytes != bytes || other.what.type != mine.what.type)
      dw_sdk::fail_message_mismatch(sends ? other.what : mine.what,
                                    sends ? mine.what : other.what, mine.tag,
                                    &end);
    else if (bytes != 0)
      std::memcpy(sends ? other.data : mine.data,
                  sends ? mine.data : other.data, bytes);
    if (other.work == nullptr) {
      wake(other, end);
      room.changed.notify_all();
    }
  }
  if (other.work != nullptr) tell(other, end);
  if (end.code != DW_OK && !polled) {
    if (error != nullptr) *error = end;
    return end.code;
  }
  if (!polled) return DW_DONE;
  tell(mine, end);
  return DW_OK;
}

template <int kStyle>
const dw_backend_api* query_table(const dw_host_info* host) {
  static const dw_backend_api table = [] {
    const Style& style = kStyles[kStyle];
    dw_backend_api api = {};
    api.struct_size = sizeof(dw_backend_api);
    api.abi_major = DW_ABI_MAJOR;
    api.abi_minor = DW_ABI_MINOR;
    api.flags = DW_BACKEND_HOST_WATCHES | DW_BACKEND_SUBMIT_BESIDE;
    api.devices = DW_BIT(DW_DEVICE_CPU);
    api.name = {style.name, std::strlen(style.name)};
    api.version = {"1.0", 3};
    api.open = open<kStyle>;
    api.close = close;
    api.caps = caps;
    api.setup_begin = setup_begin;
    api.setup_step = setup_step;
    api.setup_cancel = setup_cancel;
    api.comm_abort = comm_abort;
    api.comm_destroy = comm_destroy;
    api.query = query;
    api.submit = submit;
    if (style.polled) api.progress = progress;
    return api;
  }();
  return host != nullptr && host->abi_major == DW_ABI_MAJOR ? &table : nullptr;
}

}  // namespace

uint64_t bytes_sent() { return sent_bytes; }

}  // namespace distwrap::fakes

extern "C" {
const dw_backend_api* dw_plugin_query_v1_messages(const dw_host_info* host) {
  return distwrap::fakes::query_table<0>(host);
}
const dw_backend_api* dw_plugin_query_v1_messages_async(
    const dw_host_info* host) {
  return distwrap::fakes::query_table<1>(host);
}
const dw_backend_api* dw_plugin_query_v1_messages_polled(
    const dw_host_info* host) {
  return distwrap::fakes::query_table<2>(host);
}
}
