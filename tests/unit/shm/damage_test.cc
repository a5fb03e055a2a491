// Somebody writes nonsense into the shared memory: operations may fail or give
// wrong results, but they end, and touch nothing that is not theirs.
#include "distwrap/abi/note.h"
#include "distwrap/abi/plugin.h"
#include "host.h"
#include "team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" const dw_backend_api* dw_plugin_query_v1_shm(const dw_host_info*);

namespace distwrap::conformance {
namespace {

struct Mapping {
  volatile unsigned char* at;
  size_t bytes;
};

std::vector<Mapping> mappings() {
  std::vector<Mapping> found;
  std::ifstream in("/proc/self/maps");
  for (std::string line; std::getline(in, line);) {
    if (line.find("memfd:distwrap-shm") == std::string::npos) continue;
    const size_t dash = line.find('-');
    const uintptr_t begin = std::stoull(line.substr(0, dash), nullptr, 16);
    const uintptr_t end = std::stoull(line.substr(dash + 1), nullptr, 16);
    found.push_back({reinterpret_cast<volatile unsigned char*>(begin),
                     static_cast<size_t>(end - begin)});
  }
  return found;
}

constexpr size_t kGuard = 64;

dw_buf view(std::vector<unsigned char>& bytes, int64_t count) {
  dw_buf buf = {};
  buf.data = bytes.data() + kGuard;
  buf.count = count;
  buf.dtype = {1, 8, 1};
  return buf;
}

bool intact(const std::vector<unsigned char>& bytes) {
  const auto is_guard = [](unsigned char byte) { return byte == 0xa5; };
  return std::all_of(bytes.begin(), bytes.begin() + kGuard, is_guard) &&
         std::all_of(bytes.end() - kGuard, bytes.end(), is_guard);
}

// One operation after the other until one fails, or some have gone.
void work(Member& member, uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr uint16_t kKinds[] = {DW_OP_ALL_REDUCE, DW_OP_ALL_GATHER,
                                 DW_OP_ALL_TO_ALL, DW_OP_BROADCAST, DW_OP_SEND};
  constexpr int64_t kCounts[] = {2, 40, 3000, 200000};
  for (uint64_t seq = 1; seq < 40; ++seq) {
    const uint16_t kind = kKinds[random() % 5];
    const int64_t count = kCounts[random() % 4];
    const int64_t wide = count * 2;
    const auto bytes = static_cast<size_t>(wide) + 2 * kGuard;
    std::vector<unsigned char> in(bytes, 0xa5), out(bytes, 0xa5);
    dw_op op = {};
    op.struct_size = sizeof op;
    op.kind = kind;
    op.reduce = kind == DW_OP_ALL_REDUCE ? DW_REDUCE_SUM : DW_REDUCE_NONE;
    op.flags = DW_FLAG_CALLER_WAITS;
    op.peer = kind == DW_OP_BROADCAST ? 0 : -1;
    op.in = view(in, wide);
    op.out = view(out, wide);
    if (kind == DW_OP_ALL_GATHER) op.in.count = count;
    if (kind == DW_OP_SEND) {
      op.kind = member.rank == 0 ? DW_OP_SEND : DW_OP_RECV;
      op.peer = 1 - member.rank;
    }
    op.seq = seq;
    op.timeout_ns = 300'000'000;
    dw_error error = {};
    const int32_t code = member.api.submit(member.comm, &op, nullptr, &error);
    EXPECT_TRUE(intact(in) && intact(out)) << "wrote outside of its buffers";
    if (code == DW_DONE) continue;
    EXPECT_GT(code, DW_OK);
    member.api.comm_abort(member.comm, &error);
    return;
  }
}

TEST(ShmDamage, OperationsEndInTheirBuffers) {
  if (DW_SANITIZER == DW_SANITIZER_THREAD)
    GTEST_SKIP() << "the damage is a race by design";
  static const dw_host_info host = {
      sizeof(dw_host_info), DW_ABI_MAJOR, DW_ABI_MINOR, 0, 0, {"test", 4}};
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Findings findings;
    run_team(*dw_plugin_query_v1_shm(&host), 2, Limits(), findings,
             [seed](Member& member) {
               std::atomic<bool> over = false;
               std::thread vandal;
               member.meeting.meet();
               const std::vector<Mapping> all = mappings();
               ASSERT_FALSE(all.empty());
               if (member.rank == 0)
                 vandal = std::thread([&over, &all, seed] {
                   std::mt19937_64 random(seed);
                   while (!over.load()) {
                     const Mapping& one = all[random() % all.size()];
                     // Mostly where the control words are.
                     const size_t span =
                         random() % 4 != 0 ? size_t{20} << 10 : one.bytes;
                     const size_t at =
                         4096 + random() % (std::min(span, one.bytes) - 4104);
                     one.at[at] = static_cast<unsigned char>(random());
                     for (int i = 0; i < 200; ++i) std::this_thread::yield();
                   }
                 });
               work(member, seed);
               member.meeting.meet();
               over = true;
               if (vandal.joinable()) vandal.join();
             });
    EXPECT_TRUE(findings.empty()) << findings.text();
  }
}

}  // namespace
}  // namespace distwrap::conformance
