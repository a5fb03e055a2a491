// The extension distwrap.blocks, where a backend has it: strided pieces of an
// exchange or a gather, whose runs differ on the two sides, come to where they
// belong and nowhere else.
#include "distwrap/abi/blocks.h"

#include "checks.h"
#include "operation.h"

#include <memory>
#include <string>
#include <vector>

namespace distwrap::conformance {
namespace {

constexpr uint64_t kRun = 24, kPlanes = 2, kPlane = 400;
constexpr uint64_t kRow = 40, kOutRow = 56;  // distances of runs
constexpr size_t kEach = 1024;               // bytes of the buffer for a rank
constexpr char kGap = 0x5a;

// Rows that a rank gives another one in each plane.
uint64_t rows(int from, int to, int salt) {
  return static_cast<uint64_t>((from * 3 + to * 2 + salt) % 5);
}
char value(int from, int to, uint64_t i, int salt) {
  return static_cast<char>(from * 71 + to * 37 + salt * 11 +
                           static_cast<int>(i));
}

// An exchange or a gather as one rank sees it.
class Strided {
 public:
  Strided(uint16_t kind, int rank, int size, int salt)
      : kind_(kind),
        in_(kEach * static_cast<size_t>(size), kGap),
        out_(in_),
        want_(in_) {
    // In a gather all ranks get what the first one would get in an exchange.
    const bool gathers = kind == DW_OP_ALL_GATHER;
    const int to = gathers ? 0 : rank;
    for (int r = 0; r < (gathers ? 1 : size); ++r) give(rank, r, salt);
    for (int r = 0; r < size; ++r) {
      const uint64_t base = kEach * static_cast<uint64_t>(r) + 8;
      const uint64_t takes = rows(r, to, salt);
      // Runs of half the length.
      out_blocks_.push_back({base,
                             kRun / 2,
                             {kPlanes, takes, 2},
                             {kPlane, kOutRow, kRun / 2 + 3}});
      out_counts_.push_back(static_cast<int64_t>(kRun * kPlanes * takes));
      uint64_t i = 0;
      for (uint64_t p = 0; p < kPlanes; ++p)
        for (uint64_t row = 0; row < takes; ++row)
          for (uint64_t half = 0; half < 2; ++half)
            for (uint64_t k = 0; k < kRun / 2; ++k)
              want_[base + p * kPlane + row * kOutRow + half * (kRun / 2 + 3) +
                    k] = value(r, to, i++, salt);
    }
    before_ = in_;
    static constexpr char kId[] = DW_EXT_BLOCKS;
    extension_ = {
        {sizeof extension_, DW_EXT_REQUIRED, {kId, sizeof kId - 1}, nullptr},
        in_blocks_.data(),
        out_blocks_.data()};
  }
  Strided(const Strided&) = delete;
  Strided& operator=(const Strided&) = delete;

  dw_op op(bool waits) {
    dw_op op = {};
    op.struct_size = sizeof op;
    op.kind = kind_;
    op.peer = -1;
    op.flags = DW_FLAG_PER_RANK | (waits ? DW_FLAG_CALLER_WAITS : 0);
    fill(&op.in, in_, in_counts_);
    fill(&op.out, out_, out_counts_);
    if (kind_ == DW_OP_ALL_GATHER) op.in.counts = nullptr;
    op.next = &extension_.head;
    return op;
  }
  dw_block& block_from(int rank) {
    return out_blocks_[static_cast<size_t>(rank)];
  }
  dw_block& first_given() { return in_blocks_[0]; }
  std::string wrong() const {
    if (in_ != before_) return "wrote into the input";
    for (size_t i = 0; i < out_.size(); ++i)
      if (out_[i] != want_[i])
        return (want_[i] == kGap ? "wrote between the runs, at byte "
                                 : "a run is wrong, at byte ") +
               std::to_string(i);
    return "";
  }

 private:
  // Lays out what the rank gives to rank `to`.
  void give(int rank, int to, int salt) {
    const uint64_t base = kEach * static_cast<uint64_t>(to) + 8;
    const uint64_t gives = rows(rank, to, salt);
    in_blocks_.push_back({base, kRun, {1, kPlanes, gives}, {0, kPlane, kRow}});
    in_counts_.push_back(static_cast<int64_t>(kRun * kPlanes * gives));
    uint64_t i = 0;
    for (uint64_t p = 0; p < kPlanes; ++p)
      for (uint64_t row = 0; row < gives; ++row)
        for (uint64_t k = 0; k < kRun; ++k)
          in_[base + p * kPlane + row * kRow + k] = value(rank, to, i++, salt);
  }
  static void fill(dw_buf* buf, std::vector<char>& bytes,
                   const std::vector<int64_t>& counts) {
    buf->data = bytes.data();
    buf->dtype = {1, 8, 1};
    buf->counts = counts.data();
    for (const int64_t count : counts) buf->count += count;
  }

  const uint16_t kind_;
  std::vector<char> in_, out_, want_, before_;
  std::vector<dw_block> in_blocks_, out_blocks_;
  std::vector<int64_t> in_counts_, out_counts_;
  dw_ext_blocks extension_ = {};
};

// "blocks" or "gathered blocks", for what is found.
std::string blocks_of(uint16_t kind) {
  return kind == DW_OP_ALL_GATHER ? "gathered blocks" : "blocks";
}

void move_once(Member& member, uint16_t kind, bool waits, int salt) {
  Strided strided(kind, member.rank, member.size, salt);
  dw_op op = strided.op(waits);
  op.seq = member.next_seq++;
  Operation operation(op);
  std::string wrong = operation.begin(member);
  if (wrong.empty()) wrong = operation.end(member);
  if (wrong.empty()) wrong = strided.wrong();
  if (!wrong.empty()) member.find(blocks_of(kind) + ": " + wrong);
}

// A prepared operation, whose blocks count from the addresses of each start.
void start(Member& member, uint16_t kind, bool waits) {
  if (member.api.plan_create == nullptr || member.api.plan_run == nullptr)
    return;
  Strided first(kind, member.rank, member.size, 1);
  const dw_op op = first.op(false);
  dw_plan* plan = nullptr;
  dw_error error = {};
  if (member.api.plan_create(member.comm, &op, 1, &plan, &error) != DW_OK)
    return member.find(blocks_of(kind) + ": plan_create: " + error.text);
  Strided second(kind, member.rank, member.size, 1);
  for (Strided* const on : {&first, &second}) {
    const dw_op at = on->op(waits);
    dw_start how = {};
    how.struct_size = sizeof how;
    how.flags = waits ? DW_FLAG_CALLER_WAITS : 0;
    how.seq = member.next_seq++;
    how.in = at.in.data;
    how.out = at.out.data;
    dw_work work;
    const int32_t code =
        member.api.plan_run(plan, &how, waits ? nullptr : &work, &error);
    if (code == DW_OK) wait_for(member, work, member.limits.operation);
    std::string wrong =
        code > DW_OK ? "plan_run: " + error_text(code, error) : on->wrong();
    if (!wrong.empty()) member.find(blocks_of(kind) + ", prepared: " + wrong);
  }
  member.api.plan_destroy(plan, nullptr);
}

void refuse(Member& member, uint16_t kind) {
  Strided strided(kind, member.rank, member.size, 1);
  const dw_op op = strided.op(true);
  const auto expect_refused = [&](dw_block& block, int64_t count,
                                  const char* side) {
    if (count == 0) return;
    block.run += 1;
    if (member.api.query(member.comm, &op, nullptr) != DW_INVALID_ARGUMENT)
      member.find(blocks_of(kind) + ": a block of the " + side +
                  " with more bytes than its count is taken");
    block.run -= 1;
  };
  const dw_buf& in = op.in;
  expect_refused(strided.first_given(),
                 in.counts == nullptr ? in.count : in.counts[0], "input");
  for (int from = 0; from < member.size; ++from)
    expect_refused(strided.block_from(from), op.out.counts[from], "output");
}

// Extensions of other versions: a struct that is too short, and a longer one.
void refuse_sizes(Member& member) {
  Strided strided(DW_OP_ALL_TO_ALL, member.rank, member.size, 1);
  dw_op op = strided.op(true);
  struct Longer {
    dw_ext_blocks known;
    uint64_t tail;
  } longer = {*reinterpret_cast<const dw_ext_blocks*>(op.next), 0};
  op.next = &longer.known.head;
  const auto expect = [&](uint32_t bytes, int32_t want, const char* what) {
    longer.known.head.struct_size = bytes;
    const int32_t code = member.api.query(member.comm, &op, nullptr);
    if (code != want)
      member.find("blocks with " + std::string(what) + ": want code " +
                  std::to_string(want) + ", got " + std::to_string(code));
  };
  expect(sizeof longer, DW_OK, "a tail of zeros");
  expect(DW_EXT_BLOCKS_SIZE_1_2 - 8, DW_INVALID_ARGUMENT,
         "less than their first version");
  longer.tail = 1;
  expect(sizeof longer, DW_INCOMPATIBLE, "an unknown field");
}

}  // namespace

void check_blocks(const dw_backend_api& api, int size, const Limits& limits,
                  Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    bool has_some = false;
    for (const uint16_t kind : {DW_OP_ALL_TO_ALL, DW_OP_ALL_GATHER}) {
      Strided strided(kind, member.rank, member.size, 0);
      const dw_op op = strided.op(true);
      if (member.api.query(member.comm, &op, nullptr) != DW_OK) continue;
      has_some = true;
      for (int salt = 0; salt < 5; ++salt)
        for (const bool waits : {true, false})
          move_once(member, kind, waits, salt);
      for (const bool waits : {true, false}) start(member, kind, waits);
      refuse(member, kind);
    }
    if (has_some) refuse_sizes(member);
  });
}

}  // namespace distwrap::conformance
