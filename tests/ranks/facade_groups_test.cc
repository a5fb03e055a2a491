// Facade calls in groups other than the world, and over more than one.
#include "distwrap/groups.h"
#include "ranks/facade_ranks.h"

namespace distwrap::testing {
namespace {

OpOptions in(const Group& group) {
  OpOptions options;
  options.group = group;
  return options;
}

// Four ranks; the members of {3, 1} continue with their group.
void with_three_and_one(const std::function<void(int, const Group&)>& body) {
  run_bound(4, [&](int me) {
    const absl::StatusOr<Group> pair = split_group({.split_ranks = {{3, 1}}});
    ASSERT_TRUE(pair.ok()) << pair.status();
    if (*pair) body(me, *pair);
    finish(barrier());
  });
}

TEST(FacadeGroups, RanksOfTheWorldAndOfTheGroup) {
  with_three_and_one([](int me, const Group& pair) {
    EXPECT_EQ(get_rank(pair), me == 3 ? 0 : 1);
    const float mine = static_cast<float>(me);
    Padded x(64, mine);
    finish(broadcast(x.view(), Peer::global(1), in(pair)));
    x.expect(1);
    Padded y(64, mine);
    finish(broadcast(y.view(), Peer::group(0), in(pair)));
    y.expect(3);
    Padded sum(64, mine);
    finish(reduce(sum.view(), Peer::global(1), ReduceOp::kSum, in(pair)));
    sum.expect(me == 1 ? 4 : 3);
    // An unset root is rank 0 of the group, which is global rank 3.
    std::vector<Padded> got(2, Padded(64));
    std::vector<TensorView> outs;
    if (me == 3) outs = {got[0].view(), got[1].view()};
    Padded part(64, mine);
    finish(gather(outs, part.view(), {}, in(pair)));
    got[0].expect(me == 3 ? 3 : kSentinel);
    got[1].expect(me == 3 ? 1 : kSentinel);
    Padded back(64);
    finish(scatter(back.view(), outs, {}, in(pair)));
    back.expect(mine);

    if (me == 3) {
      EXPECT_TRUE(send(part.view(), Peer::global(1), 4, in(pair)).ok());
    } else {
      const absl::StatusOr<int> source =
          recv(back.view(), Peer::group(0), 4, in(pair));
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_EQ(*source, 3) << "a rank of the world";
      back.expect(3);
    }
    expect_reason(broadcast(x.view(), Peer::global(0), in(pair)).status(),
                  Reason::kRankNotMember,
                  "Global rank 0 is not in process group");
  });
}

// Items of two groups in one batch, with one Work for all.
TEST(FacadeGroups, RanksOfOneHostHaveOneNumber) {
  with_three_and_one([](int, const Group& pair) {
    EXPECT_EQ(pair.host_of(), (std::vector<int32_t>{0, 0}));
    EXPECT_EQ(pair.parent().host_of(), (std::vector<int32_t>{0, 0, 0, 0}));
  });
}

TEST(FacadeGroups, ABatchOverTwoGroups) {
  with_three_and_one([](int me, const Group& pair) {
    const int other = 4 - me;
    Padded mine(64, static_cast<float>(me)), got(64), sum(64);
    Padded direct(64);
    Batch batch;
    batch.send(mine.view(), Peer::global(other), 0, in(pair));
    batch.send(mine.view(), Peer::global(other), 0);
    EXPECT_EQ(
        batch.all_reduce(sum.view(), mine.view(), ReduceOp::kSum, in(pair)), 2);
    batch.recv(got.view(), Peer::global(other), 0, in(pair));
    batch.recv(direct.view(), Peer::global(other), 0);
    const absl::StatusOr<Work> work = batch.submit();
    finish(work);
    ASSERT_EQ(batch.works().size(), 5u);
    for (const Work& item : batch.works())
      EXPECT_EQ(item.state(), WorkState::kDone);
    got.expect(static_cast<float>(other));
    direct.expect(static_cast<float>(other));
    sum.expect(4);
  });
}

TEST(FacadeGroups, ABatchNeedsNoNeighbour) {
  run_bound(1, [](int) {
    Batch empty;
    const absl::StatusOr<Work> work = empty.submit();
    ASSERT_TRUE(work.ok());
    EXPECT_EQ(work->state(), WorkState::kDone);
    EXPECT_TRUE(empty.works().empty());
  });
}

TEST(FacadeGroups, AMonitoredBarrierIsABarrier) {
  run_bound(3, [](int me) {
    const Peer next = Peer::group((me + 1) % 3),
               previous = Peer::group((me + 2) % 3);
    Padded out(8, static_cast<float>(me)), got(8);
    // A message in flight is not affected.
    const auto sent = isend(out.view(), next);
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<Work> met = monitored_barrier();
      ASSERT_TRUE(met.ok()) << met.status();
      EXPECT_EQ(met->state(), WorkState::kDone);
    }
    ASSERT_TRUE(recv(got.view(), previous).ok());
    finish(sent);
    got.expect(static_cast<float>((me + 2) % 3));
    expect_reason(monitored_barrier({.async = true}).status(),
                  Reason::kInvalidArgument);
    expect_reason(monitored_barrier({.timeout = absl::ZeroDuration()}).status(),
                  Reason::kInvalidArgument);
  });
}

// Each waiting rank learns which ranks did not come, and the group continues to
// work.
TEST(FacadeGroups, AMonitoredBarrierNamesWhoIsMissing) {
  run_bound(4, [](int me) {
    if (me == 1 || me == 3) {
      finish(barrier());  // after the others have given up
      return;
    }
    OpOptions options;
    options.timeout = absl::Milliseconds(300);
    options.label = "epoch";
    const absl::Status status = monitored_barrier(options).status();
    expect_reason(status, Reason::kTimedOut, "ranks 1, 3");
    expect_reason(status, Reason::kTimedOut, "monitored_barrier [epoch] on");
    const auto info = error_info(status);
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->ranks, (std::vector<int>{1, 3}));
    EXPECT_EQ(info->my_rank, me);
    finish(barrier());
  });
}

TEST(FacadeGroups, WithoutASessionThereIsNoBarrier) {
  expect_reason(monitored_barrier().status(), Reason::kNotInitialized,
                "monitored_barrier called before init_process_group");
  expect_reason(batch_isend_irecv({}).status(), Reason::kNotInitialized);
  Batch batch;
  batch.barrier();
  expect_reason(batch.submit().status(), Reason::kNotInitialized, "item 0");
}

}  // namespace
}  // namespace distwrap::testing
