// The refusals of the facade, in the words on which callers rely. A refused
// call has no effect: the next call matches as if it had not been made.
#include "ranks/facade_ranks.h"

namespace distwrap::testing {
namespace {

// Two ranks make the same wrong calls, then a right one.
void refused(const std::function<void(int)>& body) {
  run_bound(2, [&](int me) {
    body(me);
    Padded x(8, 1.0f);
    finish(all_reduce(x.view()));
    x.expect(2);
  });
}

TEST(FacadeErrors, RootsAndPeers) {
  refused([](int) {
    Padded x(8, 1.0f), y(8);
    expect_reason(broadcast(x.view(), Peer()).status(), Reason::kRootMissing,
                  "Either src or group_src must be specified");
    expect_reason(reduce(x.view(), Peer()).status(), Reason::kRootMissing,
                  "Either dst or group_dst must be specified");
    expect_reason(send(x.view(), Peer()), Reason::kRootMissing);
    expect_reason(isend(x.view(), Peer()).status(), Reason::kRootMissing);
    for (const absl::Status& status :
         {recv(y.view(), Peer()).status(), irecv(y.view(), Peer()).status()}) {
      expect_reason(status, Reason::kWildcard, "wildcard");
      expect_reason(status, Reason::kWildcard, "src=None");
    }
    expect_reason(send(x.view(), Peer::global(7)), Reason::kRankNotMember,
                  "Global rank 7 is not in process group");
    expect_reason(scatter(y.view(), {}, Peer::global(-1)).status(),
                  Reason::kRankNotMember, "Global rank -1 is not in");
    expect_reason(broadcast(x.view(), Peer::group(2)).status(),
                  Reason::kInvalidArgument, "0..1");
    expect_reason(recv(y.view(), Peer::group(-1)).status(),
                  Reason::kInvalidArgument);
    expect_reason(isend(x.view(), Peer::group(0), -1).status(),
                  Reason::kInvalidArgument, "tag");
    expect_reason(isend(x.view(), Peer::group(0), int64_t{1} << 31).status(),
                  Reason::kInvalidArgument, "tag");
    y.expect(kSentinel);
  });
}

TEST(FacadeErrors, APeerIsGivenOnce) {
  const absl::Status both = choose_peer(1, 0, "src").status();
  expect_reason(both, Reason::kRootBoth, "Cannot specify both");
  EXPECT_EQ(*choose_peer(1, std::nullopt, "src"), Peer::global(1));
  EXPECT_EQ(*choose_peer(std::nullopt, 0, "dst"), Peer::group(0));
  EXPECT_FALSE(choose_peer(std::nullopt, std::nullopt, "dst")->is_set());
}

TEST(FacadeErrors, Splits) {
  refused([](int) {
    Padded in(8, 1.0f), out(8);
    const auto with = [&](Splits out_splits, Splits in_splits) {
      return all_to_all_single(out.view(), in.view(), out_splits, in_splits)
          .status();
    };
    expect_reason(with({1, 2, 3}, {}), Reason::kSplitMismatch);
    expect_reason(with({}, {4}), Reason::kSplitMismatch);
    expect_reason(with({}, std::vector<int64_t>{}), Reason::kSplitMismatch);
    expect_reason(with({4, 5}, {4, 4}), Reason::kSplitMismatch, "[4, 5]");
    expect_reason(with({4, 4}, {9, 0}), Reason::kSplitMismatch);
    expect_reason(with({-1, 4}, {4, 4}), Reason::kSplitMismatch);
    expect_reason(with({INT64_MAX, INT64_MAX}, {4, 4}), Reason::kSplitMismatch);
    const int64_t counts[] = {4, 5};
    expect_reason(all_gather_v(out.view(), in.part(0, 4), counts).status(),
                  Reason::kSplitMismatch);
    expect_reason(reduce_scatter_v(out.part(0, 4), in.view(), counts).status(),
                  Reason::kSplitMismatch);
    // An unset side without equal parts.
    expect_reason(
        all_to_all_single(out.part(0, 7), in.view(), {}, {4, 4}).status(),
        Reason::kSplitMismatch);
    expect_reason(all_to_all_single(out.part(0, 7), in.part(0, 7)).status(),
                  Reason::kSplitMismatch);
    out.expect(kSentinel);
    in.expect(1);
  });
}

TEST(FacadeErrors, Lists) {
  refused([](int me) {
    Padded in(8, 1.0f), out(8), more(16);
    const std::vector<TensorView> one = {out.view()};
    const std::vector<TensorView> two = {more.part(0, 8), more.part(8, 8)};
    expect_reason(all_gather(one, in.view()).status(), Reason::kInvalidArgument,
                  "one tensor for each rank");
    expect_reason(all_gather({}, in.view()).status(), Reason::kInvalidArgument);
    expect_reason(all_to_all({}, {}).status(), Reason::kInvalidArgument);
    expect_reason(all_to_all(two, one).status(), Reason::kInvalidArgument);
    expect_reason(reduce_scatter(out.view(), one).status(),
                  Reason::kInvalidArgument);
    // An own part of another size, other types, overlaps.
    expect_reason(all_gather(two, in.part(0, 7)).status(),
                  Reason::kInvalidArgument, "different counts");
    std::vector<int32_t> numbers(8);
    const std::vector<TensorView> mixed = {more.part(0, 8),
                                           TensorView(numbers)};
    expect_reason(all_gather(mixed, in.view()).status(),
                  Reason::kInvalidArgument, "element types");
    const std::vector<TensorView> same = {more.part(0, 8), more.part(4, 8)};
    expect_reason(all_gather(same, in.view()).status(),
                  Reason::kInvalidArgument, "two outputs");
    expect_reason(all_gather(two, more.part(4, 8)).status(),
                  Reason::kInvalidArgument, "overlap");
    expect_reason(all_to_all(two, two).status(), Reason::kInvalidArgument,
                  "overlap");
    expect_reason(all_gather(two, two[static_cast<size_t>(1 - me)]).status(),
                  Reason::kInvalidArgument, "overlap");
    const std::vector<TensorView> lost = {
        more.part(0, 8), TensorView(static_cast<float*>(nullptr), 8)};
    expect_reason(all_gather(lost, in.view()).status(),
                  Reason::kInvalidArgument, "output 1");
    const Peer root = Peer::group(me);  // each rank names itself
    expect_reason(gather(one, in.view(), root).status(),
                  Reason::kInvalidArgument);
    expect_reason(scatter(out.view(), one, root).status(),
                  Reason::kInvalidArgument);
    more.expect(kSentinel);
    out.expect(kSentinel);
    in.expect(1);
  });
}

TEST(FacadeErrors, ReductionsAndTimeouts) {
  refused([](int) {
    Padded x(8, 1.0f), y(16);
    expect_reason(
        all_reduce(x.view(), static_cast<ReduceOp::Kind>(77)).status(),
        Reason::kReduceOp, "Unsupported ReduceOp");
    expect_reason(all_reduce(x.view(), ReduceOp::kPremulSum).status(),
                  Reason::kInvalidArgument);
    expect_reason(all_reduce(x.view(), ReduceOp::kBand).status(),
                  Reason::kInvalidArgument);
    expect_reason(scan(y.part(0, 8), x.view(), ReduceOp::kAvg).status(),
                  Reason::kInvalidArgument);
    OpOptions never;
    never.timeout = absl::ZeroDuration();
    never.label = "gradients";
    expect_reason(all_reduce(x.view(), ReduceOp::kSum, never).status(),
                  Reason::kInvalidArgument, "[gradients]");
    OpOptions streamed;
    streamed.stream.native = &never;
    expect_reason(barrier(streamed).status(), Reason::kUnsupported, "stream");
    TensorView elsewhere(x.data(), 8, DType::kF32, Device{2, 0});
    expect_reason(all_reduce(elsewhere).status(), Reason::kNoCommunicator);
    x.expect(1);
    y.expect(kSentinel);
  });
}

TEST(FacadeErrors, Batches) {
  refused([](int) {
    Padded x(8, 1.0f), y(8), z(8);
    Batch bad;
    EXPECT_EQ(bad.all_reduce(x.view()), 0);
    OpOptions named;
    named.label = "halo";
    EXPECT_EQ(bad.send(x.view(), Peer(), 0, named), 1);
    EXPECT_EQ(bad.send(x.view(), Peer::group(9)), 2);
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = bad.submit().status();
      expect_reason(status, Reason::kRootMissing, "item 1 of the batch");
      expect_reason(status, Reason::kRootMissing, "[halo]");
    }
    expect_reason(bad.item(0).status(), Reason::kInvalidArgument);
    Batch unknown;
    unknown.barrier();
    unknown.add({static_cast<P2POp::Kind>(9), x.view(), Peer::group(0)});
    expect_reason(unknown.submit().status(), Reason::kP2PUnknown,
                  "Unknown P2P operation");
    Batch twice;
    twice.recv(y.view(), Peer::group(0));
    twice.recv(y.part(4, 4), Peer::group(1));
    expect_reason(twice.submit().status(), Reason::kInvalidArgument,
                  "items 0 and 1");
    Batch lists;
    const std::vector<TensorView> outs = {y.view(), z.view()};
    lists.all_gather(outs, x.view());
    lists.recv(z.part(7, 1), Peer::group(0));
    expect_reason(lists.submit().status(), Reason::kInvalidArgument,
                  "items 0 and 1");
    Batch empty;
    EXPECT_TRUE(empty.submit().ok());
    expect_reason(empty.submit().status(), Reason::kAlreadySubmitted);
    {
      Batch dropped;
      dropped.barrier();
    }
    y.expect(kSentinel);
    z.expect(kSentinel);
  });
}

// A call that no other rank joins ends by its deadline, with its label, and
// returns the error again when asked again.
TEST(FacadeErrors, DeadlinesAndLabels) {
  for (const bool async : {false, true})
    run_over_each(2, {}, [&](Session& session) {
      if (session.rank() == 1) {
        // Waits until the first rank has given up.
        Padded x(8);
        const absl::Status status =
            recv(x.view(), Peer::group(0), 0, {.group = session.world()})
                .status();
        EXPECT_FALSE(status.ok());
        return;
      }
      Padded x(8);
      OpOptions options{.group = session.world(),
                        .async = async,
                        .timeout = absl::Milliseconds(200),
                        .label = "lonely"};
      absl::StatusOr<Work> work = all_reduce(x.view(), ReduceOp::kSum, options);
      const absl::Status first = work.ok() ? work->wait() : work.status();
      expect_reason(first, Reason::kTimedOut, "[lonely]");
      if (async) {
        ASSERT_TRUE(work.ok());
        expect_reason(work->wait(), Reason::kTimedOut, "[lonely]");
        expect_reason(work->status(), Reason::kTimedOut);
      }
      expect_reason(barrier({.group = session.world()}).status(),
                    Reason::kGroupBroken);
    });
}

}  // namespace
}  // namespace distwrap::testing
