// Sends, receives and batches of them, between ranks.
#include "ranks/facade_ranks.h"

namespace distwrap::testing {
namespace {

class FacadeMessages : public FacadeRanks {
 protected:
  // The neighbour of an even or odd rank; the rank itself when there is none.
  int partner(int me) const {
    const int other = me % 2 == 0 ? me + 1 : me - 1;
    return other < n() ? other : me;
  }
};

constexpr int64_t kCount = 1024;

float of(int rank) { return static_cast<float>(rank + 1); }

TEST_P(FacadeMessages, PairsBlockingAndNot) {
  run([this](int me) {
    const int other = partner(me);
    Padded out(kCount, of(me)), in(kCount);
    if (other == me) return;
    const Peer peer = Peer::global(other);
    if (me % 2 == 0) {
      EXPECT_TRUE(send(out.view(), peer).ok());
      const absl::StatusOr<int> source = recv(in.view(), peer);
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_EQ(*source, other);
    } else {
      const absl::StatusOr<int> source = recv(in.view(), peer);
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_EQ(*source, other);
      EXPECT_TRUE(send(out.view(), peer).ok());
    }
    in.expect(of(other));
    // Messages in both directions at the same time.
    Padded more(kCount);
    const auto receiving = irecv(more.view(), peer, 3);
    const auto sending = isend(out.view(), peer, 3);
    finish(sending);
    finish(receiving);
    more.expect(of(other));
    out.expect(of(me));
  });
}

// The two ranks send first; two and four messages.
TEST_P(FacadeMessages, BatchIsendIrecv) {
  run([this](int me) {
    const int next = (me + 1) % n(), previous = (me + n() - 1) % n();
    Padded out(kCount, of(me)), left(kCount), right(kCount);
    const std::vector<P2POp> two = {
        {P2POp::Kind::kIsend, out.view(), Peer::group(next)},
        {P2POp::Kind::kIrecv, left.view(), Peer::group(previous)}};
    auto works = batch_isend_irecv(two);
    ASSERT_TRUE(works.ok()) << works.status();
    ASSERT_EQ(works->size(), 2u);
    for (const Work& work : *works) ASSERT_TRUE(work.wait().ok());
    left.expect(of(previous));
    const std::vector<P2POp> four = {
        {P2POp::Kind::kIsend, out.view(), Peer::group(next), {}, 1},
        {P2POp::Kind::kIsend, out.view(), Peer::global(previous), {}, 2},
        {P2POp::Kind::kIrecv, left.view(), Peer::global(previous), {}, 1},
        {P2POp::Kind::kIrecv, right.view(), Peer::group(next), {}, 2}};
    works = batch_isend_irecv(four);
    ASSERT_TRUE(works.ok()) << works.status();
    ASSERT_EQ(works->size(), 4u);
    for (const Work& work : *works) ASSERT_TRUE(work.wait().ok());
    left.expect(of(previous));
    right.expect(of(next));
    out.expect(of(me));
    works = batch_isend_irecv({});
    ASSERT_TRUE(works.ok());
    EXPECT_TRUE(works->empty());
  });
}

// A message of a batch matches plain messages.
TEST_P(FacadeMessages, BatchesMeetPlainMessages) {
  run([this](int me) {
    const int next = (me + 1) % n(), previous = (me + n() - 1) % n();
    Padded first(8, of(me)), second(8, -of(me)), a(8), b(8);
    const auto plain = irecv(a.view(), Peer::group(previous), 0);
    Batch batch;
    EXPECT_EQ(batch.send(first.view(), Peer::group(next)), 0);
    EXPECT_EQ(batch.recv(b.view(), Peer::group(previous), 5), 1);
    EXPECT_EQ(batch.size(), 2);
    const auto works = batch.submit();
    ASSERT_TRUE(works.ok()) << works.status();
    const auto last = isend(second.view(), Peer::group(next), 5);
    finish(plain);
    finish(last);
    finish(batch.item(0));
    finish(batch.item(1));
    a.expect(of(previous));
    b.expect(-of(previous));
  });
}

TEST_P(FacadeMessages, TagsNotOrderChoose) {
  run([this](int me) {
    const int next = (me + 1) % n(), previous = (me + n() - 1) % n();
    Padded one(8, of(me)), two(8, -of(me)), a(8), b(8);
    const auto second = irecv(b.view(), Peer::group(previous), 20);
    const auto first = irecv(a.view(), Peer::group(previous), 10);
    const auto sent = isend(one.view(), Peer::group(next), 10);
    const auto other = isend(two.view(), Peer::group(next), 20);
    for (const auto* work : {&first, &second, &sent, &other}) finish(*work);
    a.expect(of(previous));
    b.expect(-of(previous));
  });
}

// Messages of two ranks do not affect the collectives of all.
TEST_P(FacadeMessages, OfSomeThenABarrierOfAll) {
  run([this](int me) {
    Padded x(8, of(me));
    if (n() > 1 && me == 0) {
      EXPECT_TRUE(send(x.view(), Peer::group(1)).ok());
    }
    if (n() > 1 && me == 1) {
      EXPECT_TRUE(recv(x.view(), Peer::group(0)).ok());
      x.expect(of(0));
    }
    finish(barrier(how()));
    Padded sum(8, 1.0f);
    finish(all_reduce(sum.view(), ReduceOp::kSum, how()));
    sum.expect(static_cast<float>(n()));
  });
}

TEST_P(FacadeMessages, ToOneself) {
  run([](int me) {
    Padded out(8, of(me)), in(8);
    const Peer self = Peer::global(me);
    expect_reason(send(out.view(), self), Reason::kInvalidArgument);
    const auto receiving = irecv(in.view(), self);
    EXPECT_TRUE(send(out.view(), self).ok());
    finish(receiving);
    in.expect(of(me));
    Padded again(8);
    Batch batch;
    batch.send(out.view(), self);
    batch.recv(again.view(), self);
    ASSERT_TRUE(batch.submit().ok());
    finish(batch.item(0));
    finish(batch.item(1));
    again.expect(of(me));
  });
}

// Every kind of call in one batch, with the collectives in the same order on
// all ranks and the messages in another order on each.
TEST_P(FacadeMessages, ABatchOfEverything) {
  run([this](int me) {
    const int next = (me + 1) % n(), previous = (me + n() - 1) % n();
    const auto size = static_cast<size_t>(n());
    Padded mine(4, of(me)), left(4), news(4), sum(4), at_root(4), all(4 * n());
    Padded prefix(4), part(4), whole(4 * n(), of(me)), swapped(4 * n());
    std::vector<Padded> parts(size, Padded(4)), gathered(size, Padded(4));
    std::vector<TensorView> outs, ins, list;
    for (Padded& p : parts) outs.push_back(p.view());
    for (Padded& p : gathered) list.push_back(p.view());
    for (int r = 0; r < n(); ++r) ins.push_back(whole.part(4 * r, 4));
    Batch batch;
    if (me % 2 == 0) batch.send(mine.view(), Peer::group(next), 7);
    batch.broadcast(news.view(), mine.view(), Peer::group(n() - 1));
    batch.all_reduce(sum.view(), mine.view(), ReduceOp::kSum);
    batch.reduce(at_root.view(), mine.view(), Peer::group(0), ReduceOp::kMax);
    batch.recv(left.view(), Peer::group(previous), 7);
    batch.all_gather(outs, mine.view());
    batch.all_gather_into_tensor(all.view(), mine.view());
    batch.gather(me == 0 ? list : std::vector<TensorView>(), mine.view());
    batch.scan(prefix.view(), mine.view());
    batch.reduce_scatter(part.view(), ins);
    batch.all_to_all_single(swapped.view(), whole.view());
    batch.barrier();
    if (me % 2 != 0) batch.send(mine.view(), Peer::group(next), 7);
    // The batch copies the lists.
    ins.assign(size, TensorView());
    finish(batch.submit());
    for (int i = 0; i < batch.size(); ++i) finish(batch.item(i));
    left.expect(of(previous));
    news.expect(of(n() - 1));
    sum.expect(triangle());
    at_root.expect(me == 0 ? of(n() - 1) : kSentinel);
    prefix.expect(static_cast<float>((me + 1) * (me + 2)) / 2);
    part.expect(triangle());
    for (int r = 0; r < n(); ++r) {
      parts[static_cast<size_t>(r)].expect(of(r));
      all.expect(of(r), 4 * r, 4);
      swapped.expect(of(r), 4 * r, 4);
      gathered[static_cast<size_t>(r)].expect(me == 0 ? of(r) : kSentinel);
    }
    mine.expect(of(me));
    whole.expect(of(me));
    expect_reason(batch.submit().status(), Reason::kAlreadySubmitted);
  });
}

DISTWRAP_FACADE_SIZES(FacadeMessages);

// Lesson M6: more items than a tag could number, all to one peer and with one
// tag. A second start is an error.
TEST(FacadeBatches, AThousandAndOneToOnePeer) {
  constexpr size_t kMessages = 1001;
  run_bound(2, [](int me) {
    const Peer other = Peer::group(1 - me);
    std::vector<int64_t> out(kMessages), in(kMessages, -1);
    Batch batch;
    for (size_t i = 0; i < kMessages; ++i) {
      out[i] = static_cast<int64_t>(2 * i) + me;
      batch.send(TensorView(&out[i], 1), other);
      batch.recv(TensorView(&in[i], 1), other);
    }
    finish(batch.submit());
    for (size_t i = 0; i < kMessages; ++i)
      ASSERT_EQ(in[i], static_cast<int64_t>(2 * i) + 1 - me) << "in order";
    expect_reason(batch.submit().status(), Reason::kAlreadySubmitted);
    finish(barrier());
  });
}

}  // namespace
}  // namespace distwrap::testing
