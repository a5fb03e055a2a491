// Somebody writes nonsense into the shared memory: operations may fail or give
// wrong results, but they end, and touch nothing that is not theirs.
#include "distwrap/abi/blocks.h"
#include "distwrap/abi/note.h"
#include "distwrap/abi/plugin.h"
#include "host.h"
#include "layout.h"
#include "sdk/moe_rows.h"
#include "thread_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace distwrap::conformance {
namespace {

struct Mapping {
  char* at;
  size_t bytes;
};

// The mappings of the rank regions; memory for callers is mapped later.
std::vector<Mapping> mappings() {
  std::vector<Mapping> found;
  std::ifstream in("/proc/self/maps");
  for (std::string line; std::getline(in, line);) {
    if (line.find("memfd:distwrap-shm") == std::string::npos) continue;
    const size_t dash = line.find('-');
    const uintptr_t begin = std::stoull(line.substr(0, dash), nullptr, 16);
    const uintptr_t end = std::stoull(line.substr(dash + 1), nullptr, 16);
    found.push_back(
        {reinterpret_cast<char*>(begin), static_cast<size_t>(end - begin)});
  }
  return found;
}

// Writes over the memory of two ranks until it ends: words that make sense at
// some place among random ones, mostly where the control areas are.
class Vandal {
 public:
  explicit Vandal(uint64_t seed)
      : all_(mappings()), thread_([this, seed] { scribble(seed); }) {}
  ~Vandal() {
    over_ = true;
    thread_.join();
  }
  Vandal(const Vandal&) = delete;
  Vandal& operator=(const Vandal&) = delete;
  bool has_memory() const { return !all_.empty(); }

 private:
  void scribble(uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!over_ && !all_.empty()) {
      const Mapping& one = all_[random() % all_.size()];
      constexpr size_t kSpans[] = {12 << 10, 12 << 10, 160 << 10, 4 << 20};
      const size_t plot = (one.bytes - shm_backend::kPage) / 2;
      const size_t at = random() % 2 * plot + random() % kSpans[random() % 4];
      const uint64_t words[] = {0,         1,
                                2,         ~0ull,
                                random(),  random() % 256,
                                at,        random() % plot,
                                at + 128,  ~0ull << 20,
                                1ull << 20};
      auto* const word = reinterpret_cast<std::atomic<uint64_t>*>(
          one.at + shm_backend::kPage + at / 8 * 8);
      word->store(words[random() % std::size(words)],
                  std::memory_order_relaxed);
      const uint64_t rest = random() % 300;
      for (uint64_t i = 0; i < rest && !over_; ++i) std::this_thread::yield();
    }
  }

  std::atomic<bool> over_ = false;
  const std::vector<Mapping> all_;
  std::thread thread_;
};

constexpr size_t kGuard = 64;

// Between guards, of the process or of the backend.
class Buffer {
 public:
  Buffer(Member& member, bool shared, int64_t count)
      : api_(member.api),
        count_(count),
        bytes_(static_cast<size_t>(count) + 2 * kGuard) {
    void* data = nullptr;
    if (shared && api_.mem_alloc(member.backend, bytes_, &memory_, &data,
                                 nullptr) == DW_OK) {
      data_ = static_cast<unsigned char*>(data);
    } else {
      own_ = std::make_unique<unsigned char[]>(bytes_);
      data_ = own_.get();
    }
    std::fill_n(data_, bytes_, static_cast<unsigned char>(0xa5));
  }
  ~Buffer() {
    if (memory_ == nullptr) return;
    dw_error error = {};
    EXPECT_EQ(api_.mem_release(nullptr, memory_, &error), DW_OK) << error.text;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  dw_buf view() const {
    dw_buf buf = {};
    buf.data = data_ + kGuard;
    buf.count = count_;
    buf.dtype = {1, 8, 1};
    return buf;
  }
  bool intact() const {
    const auto is_guard = [](unsigned char byte) { return byte == 0xa5; };
    return std::all_of(data_, data_ + kGuard, is_guard) &&
           std::all_of(data_ + bytes_ - kGuard, data_ + bytes_, is_guard);
  }

 private:
  const dw_backend_api& api_;
  const int64_t count_;
  const size_t bytes_;
  dw_mem* memory_ = nullptr;
  std::unique_ptr<unsigned char[]> own_;
  unsigned char* data_ = nullptr;
};

// The blocks of two ranks in a buffer of both, runs of which take turns.
struct Blocks {
  Blocks(uint64_t count, uint64_t run) {
    for (uint64_t r = 0; r < 2; ++r)
      each[r] = {r * run, run, {1, 1, count / run}, {0, 0, 2 * run}};
    extension = {{sizeof extension,
                  DW_EXT_REQUIRED,
                  {DW_EXT_BLOCKS, sizeof DW_EXT_BLOCKS - 1},
                  nullptr},
                 each,
                 each};
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  dw_block each[2];
  dw_ext_blocks extension = {};
};

// The pieces of two ranks as rows of eight bytes, one of which is added up.
struct Rows {
  Rows(const dw_buf& in, const dw_buf& out, int rank, int64_t count, bool adds)
      : channel{in.data, out.data, kRow, nullptr} {
    for (int64_t r = 0; r < 2; ++r) {
      each[r] = adds && r == rank ? 0 : count / 8 * 8;
      first[r] = adds ? 0 : r * (count / 8);
      all += each[r];
    }
    for (int64_t i = 0; i < each[1 - rank] / 8; ++i) {
      terms.push_back({static_cast<int32_t>(i), DW_MOE_FROM_RANKS, 2, 0, 0});
      term_first.push_back(i + 1);
    }
    lists.head = {sizeof lists, DW_EXT_REQUIRED, dw_sdk::kMoeId,
                  adds ? &sums.head : nullptr};
    lists.channels = &channel;
    lists.n_channels = 1;
    lists.give_first = lists.get_first = first;
    sums.head = {sizeof sums, DW_EXT_REQUIRED, dw_sdk::kMoeSumId, nullptr};
    sums.in = sums.wire = sums.out = {2, 32, 1};
    sums.width = 2;
    sums.results = {term_first.data(), terms.data(), nullptr, terms.size()};
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  void put(dw_buf* buf) const {
    buf->data = nullptr;
    buf->displs = nullptr;
    buf->counts = each;
    buf->count = all;
  }
  static constexpr uint64_t kRow = 8;
  int64_t each[2], first[2], all = 0;
  std::vector<dw_moe_term> terms;
  std::vector<int64_t> term_first = {0};
  dw_moe_channel channel;
  dw_ext_moe lists = {};
  dw_ext_moe_sum sums = {};
};

// Prepares an operation, starts it twice and ends it.
int32_t start_twice(Member& member, dw_comm* comm, dw_op op, uint64_t* seq,
                    dw_error* error) {
  dw_start start = {};
  start.struct_size = sizeof start;
  start.flags = DW_FLAG_CALLER_WAITS;
  start.timeout_ns = op.timeout_ns;
  op.flags &= ~static_cast<uint32_t>(DW_FLAG_CALLER_WAITS);
  op.seq = 0;
  op.timeout_ns = 0;
  dw_plan* plan = nullptr;
  int32_t code = member.api.plan_create(comm, &op, 1, &plan, error);
  EXPECT_EQ(code, DW_OK) << error->text;
  if (code != DW_OK) return code;
  for (int turn = 0; turn < 2 && code <= DW_OK; ++turn) {
    start.seq = (*seq)++;
    code = member.api.plan_run(plan, &start, nullptr, error);
  }
  --*seq;
  member.api.plan_destroy(plan, nullptr);
  return code;
}

// One operation after the other until one fails, or some have gone.
void work(Member& member, dw_comm* comm, uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr uint16_t kKinds[] = {
      DW_OP_ALL_REDUCE,     DW_OP_ALL_GATHER, DW_OP_ALL_TO_ALL,
      DW_OP_BROADCAST,      DW_OP_SEND,       DW_OP_GATHER,
      DW_OP_REDUCE_SCATTER, DW_OP_SCATTER,    DW_OP_ALL_TO_ALL};
  constexpr int64_t kCounts[] = {2, 40, 3000, 200000};
  for (uint64_t seq = 1; seq < 40; ++seq) {
    const uint16_t kind = kKinds[random() % std::size(kKinds)];
    const int64_t count = kCounts[random() % 4];
    const int64_t wide = count * 2;
    const Buffer in(member, random() % 2 == 0, wide);
    const Buffer out(member, random() % 2 == 0, wide);
    const int64_t counts[] = {count, count}, displs[] = {0, count};
    dw_op op = {};
    op.struct_size = sizeof op;
    op.kind = kind;
    const bool reduces =
        kind == DW_OP_ALL_REDUCE || kind == DW_OP_REDUCE_SCATTER;
    op.reduce = reduces ? DW_REDUCE_SUM : DW_REDUCE_NONE;
    op.flags = DW_FLAG_CALLER_WAITS;
    op.peer =
        kind == DW_OP_BROADCAST || kind == DW_OP_GATHER || kind == DW_OP_SCATTER
            ? 0
            : -1;
    op.in = in.view();
    op.out = out.view();
    if (kind == DW_OP_ALL_GATHER || kind == DW_OP_GATHER) op.in.count = count;
    if (kind == DW_OP_SCATTER || kind == DW_OP_REDUCE_SCATTER)
      op.out.count = count;
    if (kind == DW_OP_ALL_TO_ALL && random() % 2 == 0) {
      op.flags |= DW_FLAG_PER_RANK;
      op.in.counts = op.out.counts = counts;
      op.in.displs = op.out.displs = displs;
    }
    const Blocks blocks(static_cast<uint64_t>(count),
                        random() % 2 == 0 ? 2 : static_cast<uint64_t>(count));
    const bool gathers = kind == DW_OP_ALL_GATHER;
    if ((op.in.displs != nullptr || gathers) && random() % 2 == 0) {
      if (gathers) {
        op.flags |= DW_FLAG_PER_RANK;
        op.out.counts = counts;
      }
      op.in.displs = op.out.displs = nullptr;
      op.next = &blocks.extension.head;
      EXPECT_EQ(member.api.query(comm, &op, nullptr), DW_OK);
    }
    const Rows rows(in.view(), out.view(), member.rank, count,
                    random() % 2 == 0);
    if (op.in.displs != nullptr && random() % 2 == 0) {
      rows.put(&op.in);
      rows.put(&op.out);
      op.next = &rows.lists.head;
      EXPECT_EQ(member.api.query(comm, &op, nullptr), DW_OK);
    }
    if (kind == DW_OP_SEND) {
      op.kind = member.rank == 0 ? DW_OP_SEND : DW_OP_RECV;
      op.peer = 1 - member.rank;
    }
    op.seq = seq;
    op.timeout_ns = 50'000'000;
    dw_error error = {};
    const bool is_prepared = kind != DW_OP_SEND && random() % 3 == 0;
    const int32_t code = is_prepared
                             ? start_twice(member, comm, op, &seq, &error)
                             : member.api.submit(comm, &op, nullptr, &error);
    EXPECT_TRUE(in.intact() && out.intact()) << "wrote outside of its buffers";
    if (code == DW_DONE) continue;
    EXPECT_GT(code, DW_OK);
    EXPECT_NE(error.text[0], '\0') << "an error without a name";
    member.api.comm_abort(comm, &error);
    return;
  }
}

// A group of both ranks out of the member's; NULL when either could not.
dw_comm* split(Member& member, uint64_t uid) {
  const int32_t ranks[] = {0, 1};
  dw_setup_info info = setup_info(member, uid);
  info.parent = member.comm;
  info.parent_rank = ranks;
  dw_setup* setup = nullptr;
  dw_setup_result result = {};
  dw_blob out = {};
  dw_error error = {};
  int32_t code =
      member.api.setup_begin(member.backend, &info, &setup, &out, &error);
  for (;;) {
    const std::vector<std::string> codes =
        member.meeting.swap(member.rank, std::to_string(code));
    const std::vector<std::string> texts = member.meeting.swap(
        member.rank,
        code == DW_OK
            ? std::string(static_cast<const char*>(out.data), out.size)
            : std::string());
    if (codes[0] == codes[1] && code == DW_DONE) return result.comm;
    if (codes[0] != codes[1] || code != DW_OK) {
      if (code == DW_OK) member.api.setup_cancel(setup);
      if (code == DW_DONE) member.api.comm_destroy(result.comm, 0, nullptr);
      EXPECT_TRUE(code <= DW_OK || error.text[0] != '\0');
      return nullptr;
    }
    std::vector<dw_blob> in;
    for (const std::string& text : texts)
      in.push_back({text.data(), text.size(), nullptr, 0});
    code = member.api.setup_step(setup, in.data(), in.size(), &out, &result,
                                 &error);
  }
}

void suffer(uint64_t seed) {
  shm_test::run_threads(2, [seed](Member& member) {
    std::unique_ptr<Vandal> vandal;
    member.meeting.meet();
    if (member.rank == 0) {
      vandal = std::make_unique<Vandal>(seed);
      EXPECT_TRUE(vandal->has_memory());
    }
    for (uint64_t turn = 1; turn <= 6; ++turn) {
      dw_comm* const comm = split(member, seed << 32 | turn);
      if (comm == nullptr) continue;
      work(member, comm, seed * 8 + turn);
      member.meeting.meet();
      member.api.comm_destroy(comm, 0, nullptr);
    }
    work(member, member.comm, seed);
    member.meeting.meet();
  });
}

TEST(ShmDamage, OperationsEndInTheirBuffers) {
  if (DW_SANITIZER == DW_SANITIZER_THREAD)
    GTEST_SKIP() << "the damage is a race by design";
  const char* const seeds = std::getenv("SHM_DAMAGE_SEEDS");
  const uint64_t last = seeds == nullptr ? 8 : std::stoull(seeds);
  for (uint64_t seed = 1; seed <= last; ++seed) suffer(seed);
}

}  // namespace
}  // namespace distwrap::conformance
