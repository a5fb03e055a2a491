// Rows over a backend that does not know them: the same exchange below, memory
// of the caller, and several at a time. The conformance suite has the rest.
#include "calls.h"
#include "checks.h"
#include "perfect.h"
#include "sdk/moe_rows.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace distwrap::conformance {
namespace {

// Two rows for each rank, to every second place.
struct Rows {
  Rows(const Member& member, int32_t value)
      : in(2 * static_cast<size_t>(member.size)),
        out(4 * static_cast<size_t>(member.size), -1) {
    for (int r = 0; r < member.size; ++r)
      for (int i = 0; i < 2; ++i) {
        const int32_t row = 2 * r + i;
        in[static_cast<size_t>(row)] = value + 100 * member.rank + row;
        give.push_back(row);
        place.push_back(2 * row);
        if (i == 0) first.push_back(row);
      }
    counts.assign(first.size(), 8);
    channel = {in.data(), out.data(), 4, nullptr};
    lists.head = {sizeof lists, DW_EXT_REQUIRED, dw_sdk::kMoeId, nullptr};
    lists.channels = &channel;
    lists.n_channels = 1;
    lists.give_first = lists.get_first = first.data();
    lists.give = give.data();
    lists.place = place.data();
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  dw_op op(Member& member) const {
    dw_op op = op_of(DW_OP_ALL_TO_ALL);
    op.flags = DW_FLAG_PER_RANK;
    op.seq = member.next_seq++;
    op.in.dtype = op.out.dtype = {1, 8, 1};
    op.in.counts = op.out.counts = counts.data();
    op.in.count = op.out.count = 8 * static_cast<int64_t>(counts.size());
    op.next = &lists.head;
    return op;
  }
  bool right(const Member& member, int32_t value) const {
    for (int32_t i = 0; i < static_cast<int32_t>(out.size()); ++i) {
      const int32_t from = i / 4, row = 2 * member.rank + i / 2 % 2;
      if (out[static_cast<size_t>(i)] !=
          (i % 2 == 0 ? value + 100 * from + row : -1))
        return false;
    }
    return true;
  }

  std::vector<int32_t> in, out, give, place;
  std::vector<int64_t> first, counts;
  dw_moe_channel channel;
  dw_ext_moe lists = {};
};

class RowsTest : public testing::TestWithParam<const dw_backend_api& (*)()> {};
INSTANTIATE_TEST_SUITE_P(Styles, RowsTest,
                         testing::Values(kMessages, kAsync, kPolled,
                                         compose_over<perfect_table>));

// The descriptor is borrowed for the call, also where the exchange runs later;
// other collectives stay in order with it.
TEST_P(RowsTest, AsynchronousOnesKeepTheirLists) {
  on_ranks(GetParam()(), 3, [](Member& member) {
    std::vector<std::unique_ptr<Rows>> all;
    std::vector<std::unique_ptr<Started>> works;
    std::vector<int32_t> one(3, 1), sum(3);
    for (int32_t i = 0; i < 8; ++i) {
      all.push_back(std::make_unique<Rows>(member, 1000 * i));
      Rows& rows = *all.back();
      works.push_back(start(member, rows.op(member)));
      rows.lists = {};
      if (i == 3)
        call_well(member, collective(member, DW_OP_ALL_REDUCE, one, sum));
    }
    for (const auto& work : works) finish_well(member, *work);
    for (int32_t i = 0; i < 8; ++i)
      if (!all[static_cast<size_t>(i)]->right(member, 1000 * i))
        member.find("a wrong row");
    if (sum != std::vector<int32_t>(3, 3)) member.find("a wrong sum");
  });
}

// Rows that the caller has memory for need none of the host's.
TEST(ComposeRowsTest, RowsGoThroughTheCallersMemory) {
  on_ranks(kMessages(), 2, [](Member& member) {
    Rows rows(member, 5);
    std::vector<int32_t> scratch(8, -7);
    rows.lists.scratch = scratch.data();
    rows.lists.scratch_bytes = 32;
    call_well(member, rows.op(member));
    if (!rows.right(member, 5)) member.find("a wrong row");
    if (scratch[0] == -7 || scratch[4] != -7)
      member.find("the rows of the other rank go through the memory");
  });
}

// A backend that knows rows is given them; `query` tells which it is.
TEST(ComposeRowsTest, TheBackendBelowMovesThemIfItCan) {
  for (const bool native : {true, false})
    on_ranks(native ? compose_over<perfect_table>() : kMessages(), 2,
             [native](Member& member) {
               Rows rows(member, 5);
               std::vector<int32_t> scratch(8, -7);
               rows.lists.scratch = scratch.data();
               rows.lists.scratch_bytes = 32;
               const dw_op op = rows.op(member);
               if (member.api.query(member.comm, &op, nullptr) !=
                   (native ? DW_OK : DW_DONE))
                 member.find("another answer");
               call_well(member, op);
               if (!rows.right(member, 5)) member.find("a wrong row");
               if ((scratch[0] == -7) != native)
                 member.find("the other way was taken");
             });
}

// A backend that moves rows and does not add them up.
const dw_backend_api& perfect_without_sums() {
  static const dw_backend_api api = [] {
    dw_backend_api table = perfect_table();
    table.query = [](dw_comm* comm, const dw_op* op, dw_error* error) {
      return dw_sdk::moe_sum_extension_of(*op) != nullptr
                 ? dw_unsupported(error, "no sums")
                 : perfect_table().query(comm, op, error);
    };
    table.submit = [](dw_comm* comm, const dw_op* op, dw_work* work,
                      dw_error* error) {
      return dw_sdk::moe_sum_extension_of(*op) != nullptr
                 ? dw_unsupported(error, "no sums")
                 : perfect_table().submit(comm, op, work, error);
    };
    return table;
  }();
  return api;
}

// Sums are made over it, and its rows stay native.
TEST(ComposeRowsTest, SumsAreMadeOverABackendThatOnlyMovesRows) {
  const dw_backend_api& api = compose_over<perfect_without_sums>();
  Findings findings;
  check_row_sums(api, 3, {}, findings);
  check_rows(api, 3, {}, findings);
  EXPECT_TRUE(findings.empty()) << findings.text();
  on_ranks(api, 2, [](Member& member) {
    Rows rows(member, 5);
    dw_op op = rows.op(member);
    EXPECT_EQ(member.api.query(member.comm, &op, nullptr), DW_OK);
    dw_ext_moe_sum sums = {};
    const std::vector<int64_t> first(3), counts(2);
    sums.head = {sizeof sums, DW_EXT_REQUIRED, dw_sdk::kMoeSumId, nullptr};
    sums.in = sums.wire = sums.out = {2, 32, 1};
    sums.width = 1;
    sums.results.first = first.data();
    sums.results.n = 2;
    rows.lists.place = nullptr;
    rows.lists.head.next = &sums.head;
    op.in.counts = op.out.counts = counts.data();
    op.in.count = op.out.count = 0;
    EXPECT_EQ(member.api.query(member.comm, &op, nullptr), DW_DONE);
  });
}

}  // namespace
}  // namespace distwrap::conformance
