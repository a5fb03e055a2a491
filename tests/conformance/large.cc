#include "large.h"

#include "data.h"
#include "operation.h"
#include "promises.h"
#include "sdk/dtype.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

namespace distwrap::conformance {
namespace {

// Slightly more bytes than a signed 32-bit number can express.
constexpr size_t kBytes = (size_t{1} << 31) + (size_t{1} << 20) + 40;
constexpr int kType = DW_DTYPE_U32;
constexpr size_t kElement = 4;
constexpr size_t kElements = kBytes / kElement;

// Whether the elements are those of a period from `phase` on.
bool holds(const char* data, size_t elements, const std::string& period,
           size_t phase) {
  std::string doubled(2 * kPeriod * kElement, '\0');
  tile(period, kElement, phase, 2 * kPeriod, doubled.data());
  for (size_t at = 0; at < elements; at += kPeriod) {
    const size_t part = std::min(kPeriod, elements - at);
    if (std::memcmp(data + at * kElement, doubled.data(), part * kElement) != 0)
      return false;
  }
  return true;
}

struct LargeCall {
  Member& member;
  std::unique_ptr<char[]> memory{new char[kBytes]};
  dw_op op = {};

  LargeCall(Member& whose, uint16_t kind, uint16_t reduce) : member(whose) {
    op.struct_size = sizeof op;
    op.kind = kind;
    op.reduce = reduce;
    op.flags = DW_FLAG_CALLER_WAITS | DW_FLAG_IN_PLACE;
    op.peer = -1;
    op.in.dtype = dw_dtype_of(kType);
    op.in.data = memory.get();
    op.in.count = static_cast<int64_t>(kElements);
    op.out = op.in;
  }

  bool is_promised() const {
    return promises_of(member).has(op.kind, kType, op.reduce, op.flags);
  }

  void run() {
    op.seq = member.next_seq++;
    Operation operation(op);
    const std::string wrong = operation.begin(member);
    if (!wrong.empty()) member.find("a large call: " + wrong);
  }
};

}  // namespace

void check_large_broadcast(const dw_backend_api& api, int size,
                           const Limits& limits, Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    LargeCall call(member, DW_OP_BROADCAST, DW_REDUCE_NONE);
    const Period data = values(kType, DW_REDUCE_NONE, 0);
    call.op.peer = 0;
    if (!call.is_promised()) return;
    if (member.rank == 0) {
      tile(*data, kElement, 3, kElements, call.memory.get());
    } else {
      call.op.flags &= ~DW_FLAG_IN_PLACE;
      call.op.in = {};
    }
    call.run();
    if (!holds(call.memory.get(), kElements, *data, 3))
      member.find("a large broadcast gives other data");
  });
}

void check_large_all_reduce(const dw_backend_api& api, int size,
                            const Limits& limits, Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    LargeCall call(member, DW_OP_ALL_REDUCE, DW_REDUCE_SUM);
    if (!call.is_promised()) return;
    tile(*values(kType, DW_REDUCE_SUM, member.rank), kElement, 5, kElements,
         call.memory.get());
    call.run();
    if (!holds(call.memory.get(), kElements,
               *reduced_values(kType, DW_REDUCE_SUM, member.size), 5))
      member.find("a large all_reduce gives other data");
  });
}

void check_large_all_gather(const dw_backend_api& api, int size,
                            const Limits& limits, Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    LargeCall call(member, DW_OP_ALL_GATHER, DW_REDUCE_NONE);
    if (!call.is_promised()) return;
    const size_t each = kElements / static_cast<size_t>(member.size);
    const auto piece = [&](int rank) {
      return call.memory.get() + static_cast<size_t>(rank) * each * kElement;
    };
    call.op.out.count =
        static_cast<int64_t>(each * static_cast<size_t>(member.size));
    call.op.in.data = piece(member.rank);
    call.op.in.count = static_cast<int64_t>(each);
    tile(*values(kType, DW_REDUCE_NONE, member.rank), kElement, 7, each,
         piece(member.rank));
    call.run();
    for (int rank = 0; rank < member.size; ++rank)
      if (!holds(piece(rank), each, *values(kType, DW_REDUCE_NONE, rank), 7))
        member.find("a large all_gather gives other data of rank " +
                    std::to_string(rank));
  });
}

bool has_memory_for_large() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (size_t kib = 0; file >> key >> kib; std::getline(file, unit))
    // Two ranks' buffers, as much again for the engine, and a reserve.
    if (key == "MemAvailable:") return kib / 1024 > 4 * (kBytes >> 20) + 2048;
  return false;
}

}  // namespace distwrap::conformance
