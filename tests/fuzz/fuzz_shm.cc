// Arbitrary words that a neighbour writes to the memory that ranks share: setup
// and operations of a rank end, and touch nothing outside of their buffers.
//
// Two ranks run in one thread, one after the other, since no step of a setup
// waits. The neighbour makes the same calls in a thread of its own, so that
// code behind the comparisons is reached. The input is a list of words with
// their places in the memory of the two ranks, written before this rank looks.
//
// In the seeds blocks_* the word lies in the cell that the neighbour publishes
// for an exchange of blocks (backends/shm/blocks.cc), which is at byte 35456 of
// its region.
#include "backend.h"
#include "distwrap/abi/blocks.h"
#include "distwrap/abi/plugin.h"
#include "host.h"
#include "wait.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern "C" const dw_backend_api* dw_plugin_query_v1_shm(const dw_host_info*);

namespace {

using distwrap::conformance::host_table;

constexpr int64_t kPatienceNs = 3'000'000;
// For the neighbour to show its first part.
constexpr std::chrono::milliseconds kPatienceToShow(2);
// Control areas, staging and mailboxes of a first group.
constexpr size_t kSpan = 96 << 10;
constexpr size_t kGuard = 64;
constexpr char kFill = 0x5a;

void require(bool holds) {
  if (!holds) std::abort();
}

const dw_backend_api& api() {
  static const dw_host_info host = {
      sizeof(dw_host_info), DW_ABI_MAJOR, DW_ABI_MINOR, 0, 0, {"fuzz", 4}};
  return *dw_plugin_query_v1_shm(&host);
}

struct Pair {
  dw_comm* comms[2] = {};
};

// `spoil` may change the blobs of each round before they are delivered.
template <class Spoil>
Pair make(dw_backend* const (&backends)[2], const Pair& parent, uint64_t uid,
          const Spoil& spoil) {
  static const int32_t ranks[] = {0, 1};
  dw_setup* setups[2] = {};
  dw_blob out[2] = {};
  int32_t codes[2];
  Pair made;
  for (const int r : {0, 1}) {
    dw_setup_info info = {};
    info.struct_size = sizeof info;
    info.flags = DW_SETUP_COMMUNICATOR;
    info.rank = r;
    info.size = 2;
    info.uid = uid;
    info.parent = parent.comms[r];
    info.parent_rank = parent.comms[r] == nullptr ? nullptr : ranks;
    codes[r] =
        api().setup_begin(backends[r], &info, &setups[r], &out[r], nullptr);
    require(codes[r] >= DW_OK);
  }
  while (codes[0] == DW_OK && codes[1] == DW_OK) {
    std::string texts[2];
    for (const int r : {0, 1})
      texts[r].assign(static_cast<const char*>(out[r].data), out[r].size);
    spoil(texts[1]);
    dw_blob in[2];
    for (const int r : {0, 1})
      in[r] = {texts[r].data(), texts[r].size(), nullptr, 0};
    for (const int r : {1, 0}) {
      dw_setup_result result = {};
      codes[r] = api().setup_step(setups[r], in, 2, &out[r], &result, nullptr);
      made.comms[r] = result.comm;
    }
  }
  for (const int r : {0, 1})
    if (codes[r] == DW_OK) api().setup_cancel(setups[r]);
  return made;
}

void end(const Pair& pair) {
  for (dw_comm* const one : pair.comms) {
    if (one == nullptr) continue;
    api().comm_abort(one, nullptr);
    api().comm_destroy(one, 0, nullptr);
  }
}

class Data {
 public:
  Data(const uint8_t* data, size_t size) : at_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  template <class T>
  T take() {
    T value = {};
    const size_t n = std::min(left_, sizeof value);
    std::memcpy(&value, at_, n);
    at_ += n;
    left_ -= n;
    return value;
  }

 private:
  const uint8_t* at_;
  size_t left_;
};

// A buffer of the process, or at `there`, which has room for any buffer.
class Buffer {
 public:
  Buffer(size_t bytes, char* there)
      : size_(bytes + 2 * kGuard),
        own_(there == nullptr ? size_ : 0),
        at_(there == nullptr ? own_.data() : there) {
    std::memset(at_, kFill, size_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  char* data() { return at_ + kGuard; }
  void prove() const {
    for (size_t i = 0; i < kGuard; ++i)
      require(at_[i] == kFill && at_[size_ - 1 - i] == kFill);
  }

 private:
  const size_t size_;
  std::vector<char> own_;
  char* const at_;
};

struct Buffers {
  explicit Buffers(size_t bytes, char* in_there = nullptr,
                   char* out_there = nullptr)
      : in(bytes, in_there), out(bytes, out_there) {}
  void prove() const {
    in.prove();
    out.prove();
  }
  Buffer in, out;
};

// The blocks of the two ranks, runs of which take turns, in place of packed
// pieces.
void lay_out_in_blocks(dw_op* op, int64_t count) {
  static thread_local dw_block blocks[2];
  static thread_local dw_ext_blocks extension;
  constexpr uint64_t kRun = 2;
  for (uint64_t r = 0; r < 2; ++r)
    blocks[r] = {r * kRun,
                 kRun,
                 {1, 1, static_cast<uint64_t>(count) / kRun},
                 {0, 0, 2 * kRun}};
  extension = {{sizeof extension,
                DW_EXT_REQUIRED,
                {DW_EXT_BLOCKS, sizeof DW_EXT_BLOCKS - 1},
                nullptr},
               blocks,
               blocks};
  op->in.displs = op->out.displs = nullptr;
  op->next = &extension.head;
}

// Prepares the operation and starts it once, with the caller waiting.
int32_t start_prepared(dw_comm* comm, dw_op op, dw_error* error) {
  dw_start start = {};
  start.struct_size = sizeof start;
  start.flags = DW_FLAG_CALLER_WAITS;
  start.timeout_ns = std::exchange(op.timeout_ns, 0);
  dw_plan* plan = nullptr;
  require(api().plan_create(comm, &op, 1, &plan, error) == DW_OK);
  const int32_t code = api().plan_run(plan, &start, nullptr, error);
  api().plan_destroy(plan, nullptr);
  return code;
}

dw_op operation(Data& data, int rank, Buffers& buffers, int64_t count) {
  static constexpr uint16_t kKinds[] = {
      DW_OP_ALL_REDUCE,     DW_OP_ALL_GATHER, DW_OP_ALL_TO_ALL, DW_OP_BROADCAST,
      DW_OP_REDUCE_SCATTER, DW_OP_SEND,       DW_OP_GATHER,     DW_OP_SCATTER};
  static thread_local int64_t counts[2], displs[2];
  const auto which = data.take<uint8_t>();
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kKinds[which % 8];
  const bool rooted = op.kind == DW_OP_BROADCAST || op.kind == DW_OP_GATHER ||
                      op.kind == DW_OP_SCATTER;
  op.peer = rooted ? 1 : -1;
  const bool reduces =
      op.kind == DW_OP_ALL_REDUCE || op.kind == DW_OP_REDUCE_SCATTER;
  op.reduce = reduces ? DW_REDUCE_SUM : DW_REDUCE_NONE;
  op.in.data = buffers.in.data();
  op.out.data = buffers.out.data();
  op.in.count = op.out.count = 2 * count;
  op.in.dtype = op.out.dtype = {1, 8, 1};
  if (op.kind == DW_OP_ALL_GATHER || op.kind == DW_OP_GATHER)
    op.in.count = count;
  if (op.kind == DW_OP_SCATTER) op.out.count = count;
  if (op.kind == DW_OP_REDUCE_SCATTER) op.out.count = count;
  if (op.kind == DW_OP_ALL_TO_ALL && which >= 128) {
    counts[0] = counts[1] = displs[1] = count;
    op.flags |= DW_FLAG_PER_RANK;
    op.in.counts = op.out.counts = counts;
    op.in.displs = op.out.displs = displs;
    if (which >= 192) lay_out_in_blocks(&op, count);
  }
  if (op.kind == DW_OP_ALL_GATHER && which >= 192) {
    counts[0] = counts[1] = count;
    op.flags |= DW_FLAG_PER_RANK;
    op.out.counts = counts;
    lay_out_in_blocks(&op, count);
  }
  if (op.kind == DW_OP_SEND) {
    op.kind = rank == 1 ? DW_OP_SEND : DW_OP_RECV;
    op.peer = 1 - rank;
  }
  op.timeout_ns = kPatienceNs;
  return op;
}

class World {
 public:
  World() {
    for (dw_backend*& backend : backends_) {
      dw_open_info info = {};
      info.struct_size = sizeof info;
      info.device_type = DW_DEVICE_CPU;
      require(api().open(&host_table(), &info, &backend, nullptr) == DW_OK);
    }
    root_ = make(backends_, {}, 1, [](std::string&) {});
    require(root_.comms[0] != nullptr && root_.comms[1] != nullptr);
    for (const int r : {0, 1})
      for (const int which : {0, 1}) {
        void* data = nullptr;
        require(api().mem_alloc(backends_[r], kMost + 2 * kGuard,
                                &memory_[r][which], &data, nullptr) == DW_OK);
        allocated_[r][which] = static_cast<char*>(data);
      }
  }

  void run(Data data) {
    const auto shape = data.take<uint8_t>();
    const Pair pair = make(backends_, root_, ++uid_, [&](std::string& blob) {
      if (shape % 8 != 0) return;
      const auto at = data.take<uint16_t>();
      blob[at % blob.size()] = static_cast<char>(data.take<uint8_t>());
    });
    if (pair.comms[0] != nullptr && pair.comms[1] != nullptr)
      operate(pair, shape, data);
    end(pair);
  }

 private:
  void operate(const Pair& pair, uint8_t shape, Data& data) {
    static constexpr int64_t kCounts[] = {2, 20, 700, 9000, 40000};
    const int64_t count = kCounts[shape / 8 % 5];
    // The choice of buffers in memory of the backend.
    const auto shared = data.take<uint8_t>();
    const auto there = [&](int rank, int which) {
      return (shared >> (2 * rank + which) & 1) != 0 ? allocated_[rank][which]
                                                     : nullptr;
    };
    Data again = data;
    const size_t bytes = 2 * static_cast<size_t>(count);
    Buffers mine(bytes, there(0, 0), there(0, 1));
    Buffers theirs(bytes, there(1, 0), there(1, 1));
    const dw_op op = operation(data, 0, mine, count);
    require(api().query(pair.comms[0], &op, nullptr) == DW_OK);
    dw_op other = operation(again, 1, theirs, count);
    // At a second operation, the agreements of the first one exist.
    const bool second = shape >= 128;
    if (second) agree(pair);
    // Small ones have shown all there is when this returns; of others, the
    // first part.
    dw_work work;
    const bool started =
        api().submit(pair.comms[1], &other, &work, nullptr) == DW_OK;
    shm_backend::Comm* const comm = shm_backend::of(pair.comms[1]);
    const auto& first = comm->room.mine().posts[second ? 3 : 1].ticket;
    const auto begun = std::chrono::steady_clock::now();
    while (started && !comm->operation_thread.idle() && first.load() == 0 &&
           std::chrono::steady_clock::now() - begun < kPatienceToShow)
      std::this_thread::yield();
    scribble(*comm, data);
    dw_op called = op;
    called.flags |= DW_FLAG_CALLER_WAITS;
    dw_error error = {};
    const bool is_message = op.kind == DW_OP_SEND || op.kind == DW_OP_RECV;
    const int32_t code =
        shared >= 128 && !is_message
            ? start_prepared(pair.comms[0], op, &error)
            : api().submit(pair.comms[0], &called, nullptr, &error);
    require(code == DW_DONE || (code > DW_OK && error.text[0] != '\0'));
    mine.prove();
    api().comm_abort(pair.comms[1], nullptr);
    if (started) require(work.wait(std::chrono::seconds(20)));
    theirs.prove();
  }

  static void agree(const Pair& pair) {
    Buffers buffers[2] = {Buffers(8000), Buffers(8000)};
    dw_work work;
    for (const int r : {1, 0}) {
      dw_op op = {};
      op.struct_size = sizeof op;
      op.kind = DW_OP_BROADCAST;
      op.flags = r == 0 ? DW_FLAG_CALLER_WAITS : 0u;
      op.in.data = buffers[r].in.data();
      op.out.data = buffers[r].out.data();
      op.in.count = op.out.count = 8000;
      op.in.dtype = op.out.dtype = {1, 8, 1};
      op.timeout_ns = 20'000'000'000;
      const int32_t code = api().submit(pair.comms[r], &op, &work, nullptr);
      require(code == (r == 0 ? DW_DONE : DW_OK));
    }
    require(work.wait(std::chrono::seconds(20)));
  }

  static void scribble(const shm_backend::Comm& comm, Data& data) {
    const shm_backend::Room& room = comm.room;
    while (!data.empty()) {
      const auto where = data.take<uint16_t>();
      const auto word = data.take<uint64_t>();
      // Mostly in the neighbour's area; else anywhere of its plot, or ours.
      const int rank = where % 8 == 7 ? 0 : 1;
      char* base = reinterpret_cast<char*>(&room.area(rank));
      size_t span = shm_backend::area_bytes(2);
      if (where % 8 >= 5) {
        base = room.find(rank, 0, kSpan);
        span = kSpan;
      }
      reinterpret_cast<std::atomic<uint64_t>*>(base)[where / 8 % (span / 8)]
          .store(word, std::memory_order_relaxed);
    }
  }

  static constexpr size_t kMost = 80000;
  dw_backend* backends_[2] = {};
  dw_mem* memory_[2][2] = {};
  char* allocated_[2][2] = {};  // by rank: an input, an output
  Pair root_;
  uint64_t uid_ = 1;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World* const world = new World;
  world->run(Data(data, size));
  return 0;
}
