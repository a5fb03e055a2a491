// The facade's collectives in every form, between ranks. Each test also checks
// that inputs stay unchanged and that nothing is written beside the outputs.
#include "ranks/facade_ranks.h"

#include <map>
#include <numeric>

namespace distwrap::testing {
namespace {

class FacadeCollectives : public FacadeRanks {};

constexpr int64_t kCount = 1024;

TEST_P(FacadeCollectives, FromOneToAllAndBack) {
  run([this](int me) {
    const float mine = static_cast<float>(me + 1);
    Padded in(kCount, mine), out(kCount);
    finish(all_reduce(out.view(), in.view(), ReduceOp::kSum, how()));
    out.expect(triangle());
    in.expect(mine);
    finish(all_reduce(out.view(), ReduceOp::kMax, how()));
    out.expect(triangle());

    Padded news(kCount, me == 0 ? 42.0f : mine);
    finish(broadcast(news.view(), Peer::global(0)));
    news.expect(42);
    Padded other(kCount, 99);
    OpOptions async = how();
    async.async = true;
    finish(broadcast(out.view(), other.view(), Peer::group(n() - 1), async));
    out.expect(99);
    other.expect(99);

    Padded result(kCount);
    finish(reduce(result.view(), in.view(), Peer::group(0), ReduceOp::kSum,
                  how()));
    result.expect(me == 0 ? triangle() : kSentinel);
    in.expect(mine);
    finish(reduce(in.view(), Peer::global(n() - 1), ReduceOp::kSum, how()));
    in.expect(me == n() - 1 ? triangle() : mine);
    finish(barrier(how()));
  });
}

TEST_P(FacadeCollectives, AllGather) {
  run([this](int me) {
    const float mine = static_cast<float>(me + 1);
    Padded in(kCount, mine), all(n() * kCount);
    std::vector<Padded> parts(static_cast<size_t>(n()), Padded(kCount));
    std::vector<TensorView> outs;
    for (Padded& part : parts) outs.push_back(part.view());
    finish(all_gather(outs, in.view(), how()));
    finish(all_gather_into_tensor(all.view(), in.view(), how()));
    for (int r = 0; r < n(); ++r) {
      parts[static_cast<size_t>(r)].expect(static_cast<float>(r + 1));
      all.expect(static_cast<float>(r + 1), r * kCount, kCount);
    }
    in.expect(mine);
    // In place, in both forms.
    std::vector<Padded> own(static_cast<size_t>(n()), Padded(kCount));
    Padded whole(n() * kCount);
    outs.clear();
    for (Padded& part : own) outs.push_back(part.view());
    for (int64_t i = 0; i < kCount; ++i)
      own[static_cast<size_t>(me)][i] = whole[me * kCount + i] = mine;
    finish(all_gather(outs, outs[static_cast<size_t>(me)], how()));
    finish(all_gather_into_tensor(whole.view(), whole.part(me * kCount, kCount),
                                  how()));
    for (int r = 0; r < n(); ++r) {
      own[static_cast<size_t>(r)].expect(static_cast<float>(r + 1));
      whole.expect(static_cast<float>(r + 1), r * kCount, kCount);
    }
  });
}

// Rank i has (i + 1) * 256 elements, in a list and packed; two calls at once.
TEST_P(FacadeCollectives, UnevenAllGathers) {
  run([this](int me) {
    Counts counts;
    for (int r = 0; r < n(); ++r) counts.push_back((r + 1) * 256);
    const int64_t total =
        std::accumulate(counts.begin(), counts.end(), int64_t{0});
    Padded in((me + 1) * 256, static_cast<float>(me + 1));
    Padded twice((me + 1) * 256, static_cast<float>(2 * me + 2));
    Padded packed(total);
    std::vector<Padded> parts, doubles;
    std::vector<TensorView> outs, more;
    for (const int64_t count : counts) {
      parts.emplace_back(count);
      doubles.emplace_back(count);
    }
    for (Padded& part : parts) outs.push_back(part.view());
    for (Padded& part : doubles) more.push_back(part.view());
    const auto first = all_gather(outs, in.view(), how());
    const auto second = all_gather(more, twice.view(), how());
    const auto third = all_gather_v(packed.view(), in.view(), counts, how());
    finish(third);
    finish(second);
    finish(first);
    int64_t at = 0;
    for (int r = 0; r < n(); ++r) {
      const auto i = static_cast<size_t>(r);
      parts[i].expect(static_cast<float>(r + 1));
      doubles[i].expect(static_cast<float>(2 * r + 2));
      packed.expect(static_cast<float>(r + 1), at, counts[i]);
      at += counts[i];
    }
    in.expect(static_cast<float>(me + 1));
  });
}

TEST_P(FacadeCollectives, ReduceScatter) {
  run([this](int me) {
    const float mine = static_cast<float>(me + 1);
    Padded whole(n() * kCount, mine), out(kCount), listed(kCount);
    std::vector<Padded> parts(static_cast<size_t>(n()), Padded(kCount, mine));
    std::vector<TensorView> ins;
    for (Padded& part : parts) ins.push_back(part.view());
    finish(reduce_scatter(listed.view(), ins, ReduceOp::kSum, how()));
    finish(
        reduce_scatter_tensor(out.view(), whole.view(), ReduceOp::kSum, how()));
    out.expect(triangle());
    listed.expect(triangle());
    whole.expect(mine);
    for (Padded& part : parts) part.expect(mine);
    finish(reduce_scatter(ins[static_cast<size_t>(me)], ins, ReduceOp::kMax,
                          how()));
    parts[static_cast<size_t>(me)].expect(static_cast<float>(n()));

    // Uneven, in a list and packed.
    Counts counts;
    for (int r = 0; r < n(); ++r) counts.push_back((r + 1) * 256);
    const int64_t total =
        std::accumulate(counts.begin(), counts.end(), int64_t{0});
    Padded packed(total, mine), piece((me + 1) * 256), again((me + 1) * 256);
    finish(reduce_scatter_v(piece.view(), packed.view(), counts, ReduceOp::kSum,
                            how()));
    piece.expect(triangle());
    ins.clear();
    int64_t at = 0;
    for (const int64_t count : counts) {
      ins.push_back(packed.part(at, count));
      at += count;
    }
    finish(reduce_scatter(again.view(), ins, ReduceOp::kSum, how()));
    again.expect(triangle());
    packed.expect(mine);
  });
}

TEST_P(FacadeCollectives, AllToAll) {
  run([this](int me) {
    const auto value = [](int from, int to) {
      return static_cast<float>(100 * from + to);
    };
    Padded in(n() * kCount), out(n() * kCount);
    std::vector<Padded> given, taken;
    std::vector<TensorView> ins, outs;
    Counts in_splits, out_splits;
    for (int r = 0; r < n(); ++r) {
      for (int64_t i = 0; i < kCount; ++i) in[r * kCount + i] = value(me, r);
      in_splits.push_back((r + 1) * 128);
      out_splits.push_back((me + 1) * 128);
      given.emplace_back(in_splits.back(), value(me, r));
      taken.emplace_back(out_splits.back());
    }
    finish(all_to_all_single(out.view(), in.view(), {}, {}, how()));
    for (int r = 0; r < n(); ++r) out.expect(value(r, me), r * kCount, kCount);
    for (Padded& part : given) ins.push_back(part.view());
    for (Padded& part : taken) outs.push_back(part.view());
    finish(all_to_all(outs, ins, how()));
    for (int r = 0; r < n(); ++r) {
      taken[static_cast<size_t>(r)].expect(value(r, me));
      given[static_cast<size_t>(r)].expect(value(me, r));
    }
    // The output is divided equally, so its splits may stay unset.
    Padded packed(128 * n() * (n() + 1) / 2);
    int64_t at = 0;
    for (int r = 0; r < n(); ++r)
      for (int64_t i = 0; i < in_splits[static_cast<size_t>(r)]; ++i)
        packed[at++] = value(me, r);
    for (const bool one_sided : {false, true}) {
      Padded got(n() * (me + 1) * 128);
      finish(all_to_all_single(got.view(), packed.view(),
                               one_sided ? Splits() : Splits(out_splits),
                               in_splits, how()));
      for (int r = 0; r < n(); ++r)
        got.expect(value(r, me), r * (me + 1) * 128, (me + 1) * 128);
    }
  });
}

// Some ranks get nothing, and some rows belong to no split.
TEST_P(FacadeCollectives, SplitsOfNothingAndShortOnes) {
  run([this](int me) {
    Counts to(static_cast<size_t>(n()), 0), from(static_cast<size_t>(n()), 0);
    to[static_cast<size_t>((me + 1) % n())] = 3;
    from[static_cast<size_t>((me + n() - 1) % n())] = 3;
    Padded in(10, static_cast<float>(me + 1)), out(7);
    finish(all_to_all_single(out.view(), in.view(), from, to, how()));
    out.expect(static_cast<float>((me + n() - 1) % n() + 1), 0, 3);
    out.expect(kSentinel, 3, 4);
    in.expect(static_cast<float>(me + 1));
    const Counts none(static_cast<size_t>(n()), 0);
    Padded untouched(5);
    finish(all_to_all_single(untouched.view(), in.view(), none, none, how()));
    untouched.expect(kSentinel);
    finish(all_gather_v(untouched.view(), in.part(0, 0), none, how()));
    untouched.expect(kSentinel);
  });
}

// Counts and splits are in rows, whatever the size of a row.
TEST_P(FacadeCollectives, RowsOfThree) {
  run([this](int me) {
    const auto rows = [](Padded& all, const int64_t(&shape)[2]) {
      return TensorView(all.data(), shape);
    };
    const int64_t total = n() * (n() + 1) / 2;
    const int64_t whole_shape[] = {total, 3}, mine[] = {me + 1, 3},
                  got_shape[] = {n() * (me + 1), 3};
    Counts counts;
    for (int r = 0; r < n(); ++r) counts.push_back(r + 1);
    Padded whole(3 * total), part(3 * (me + 1), static_cast<float>(me));
    finish(all_gather_v(rows(whole, whole_shape), rows(part, mine), counts,
                        how()));
    int64_t at = 0;
    for (int r = 0; r < n(); ++r) {
      whole.expect(static_cast<float>(r), at, 3 * (r + 1));
      at += 3 * (r + 1);
    }
    Padded got(3 * n() * (me + 1));
    finish(all_to_all_single(rows(got, got_shape), rows(whole, whole_shape), {},
                             counts, how()));
    got.expect(static_cast<float>(me));
    Padded sum(3 * (me + 1));
    finish(reduce_scatter_v(rows(sum, mine), rows(whole, whole_shape), counts,
                            ReduceOp::kSum, how()));
    sum.expect(static_cast<float>(n() * me));
    finish(scatter_tensor(rows(part, mine), rows(whole, whole_shape), {},
                          counts, how()));
    part.expect(static_cast<float>(me));
    Padded back(3 * total);
    finish(gather_into_tensor(rows(back, whole_shape), rows(part, mine), {},
                              counts, how()));
    for (int64_t i = 0; i < 3 * total; ++i)
      ASSERT_EQ(back[i], me == 0 ? whole[i] : kSentinel);
    // 2 * R - 1 rows cannot be split, though their elements could.
    if (n() == 1) return;
    const int64_t odd[] = {2 * n() - 1, n()};
    Padded in(n() * (2 * n() - 1), 1.0f), out(n() * (2 * n() - 1));
    EXPECT_EQ(
        error_reason(all_to_all_single(rows(out, odd), rows(in, odd)).status()),
        Reason::kSplitMismatch);
  });
}

TEST_P(FacadeCollectives, ScatterAndGather) {
  run([this](int me) {
    for (const bool unset : {false, true})
      for (int root = 0; root < (unset ? 1 : n()); ++root) {
        const Peer peer = unset ? Peer() : Peer::global(root);
        std::vector<Padded> parts, got;
        std::vector<TensorView> ins, outs;
        Counts counts;
        for (int r = 0; r < n(); ++r) {
          counts.push_back(8 * r + 1);
          parts.emplace_back(kCount + r, static_cast<float>(r + 1));
          got.emplace_back(kCount + r);
        }
        if (me == root) {  // other ranks have no list
          for (Padded& part : parts) ins.push_back(part.view());
          for (Padded& part : got) outs.push_back(part.view());
        }
        Padded out(kCount + me);
        finish(scatter(out.view(), ins, peer, how()));
        out.expect(static_cast<float>(me + 1));
        finish(gather(outs, out.view(), peer, how()));
        for (int r = 0; r < n(); ++r)
          got[static_cast<size_t>(r)].expect(
              me == root ? static_cast<float>(r + 1) : kSentinel);

        const int64_t total =
            std::accumulate(counts.begin(), counts.end(), int64_t{0});
        Padded packed(total), back(total), even(n() * 16), evens(n() * 16);
        int64_t at = 0;
        for (int r = 0; r < n(); ++r) {
          for (int64_t i = 0; i < counts[static_cast<size_t>(r)]; ++i)
            packed[at++] = static_cast<float>(r);
          for (int64_t i = 0; i < 16; ++i)
            even[r * 16 + i] = static_cast<float>(r);
        }
        Padded piece(8 * me + 1), block(16);
        finish(
            scatter_tensor(piece.view(), packed.view(), peer, counts, how()));
        piece.expect(static_cast<float>(me));
        finish(
            gather_into_tensor(back.view(), piece.view(), peer, counts, how()));
        finish(scatter_tensor(block.view(), even.view(), peer, {}, how()));
        block.expect(static_cast<float>(me));
        finish(gather_into_tensor(evens.view(), block.view(), peer, {}, how()));
        if (me != root) {
          back.expect(kSentinel);
          evens.expect(kSentinel);
          continue;
        }
        for (int64_t i = 0; i < total; ++i) ASSERT_EQ(back[i], packed[i]);
        for (int64_t i = 0; i < n() * 16; ++i) ASSERT_EQ(evens[i], even[i]);
      }
  });
}

TEST_P(FacadeCollectives, Scans) {
  run([this](int me) {
    Padded in(kCount, static_cast<float>(me + 1)), out(kCount), before(kCount);
    finish(scan(out.view(), in.view(), ReduceOp::kSum, how()));
    out.expect(static_cast<float>((me + 1) * (me + 2)) / 2);
    finish(exscan(before.view(), in.view(), ReduceOp::kSum, how()));
    before.expect(me == 0 ? kSentinel : static_cast<float>(me * (me + 1)) / 2);
    in.expect(static_cast<float>(me + 1));
  });
}

// Two factors exist at once, one of them a tensor and one different on each
// rank.
TEST_P(FacadeCollectives, PremulSum) {
  run([this](int me) {
    const float mine = static_cast<float>(me + 1);
    Padded in(kCount, mine), half(kCount), quarter(kCount), own(kCount);
    float factor = 0.25f;
    const ReduceOp by_half = ReduceOp::premul_sum(0.5);
    const ReduceOp by_quarter = ReduceOp::premul_sum(TensorView(&factor, 1));
    const auto a = all_reduce(half.view(), in.view(), by_half, how());
    const auto b = all_reduce(quarter.view(), in.view(), by_quarter, how());
    const auto c = all_reduce(own.view(), in.view(),
                              ReduceOp::premul_sum(1.0 / mine), how());
    finish(c);
    finish(b);
    finish(a);
    half.expect(0.5f * triangle());
    quarter.expect(0.25f * triangle());
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_NEAR(own[i], static_cast<float>(n()), 1e-5);
    in.expect(mine);
    EXPECT_EQ(by_half, ReduceOp::premul_sum(0.5));
    EXPECT_FALSE(by_half == ReduceOp::premul_sum(2.0));
    OpOptions async = how();
    async.async = true;
    finish(
        all_reduce(half.view(), in.view(), ReduceOp::premul_sum(2.0), async));
    half.expect(2 * triangle());
    Padded whole(n() * kCount, mine), part(kCount);
    finish(reduce_scatter_tensor(part.view(), whole.view(), by_half, how()));
    part.expect(0.5f * triangle());
    std::vector<TensorView> ins(static_cast<size_t>(n()), in.view());
    finish(reduce_scatter(part.view(), ins, by_quarter, how()));
    part.expect(0.25f * triangle());
    in.expect(mine);
    whole.expect(mine);
  });
}

// The wrapped sum divided by R, toward zero; 16-bit floats round once.
TEST_P(FacadeCollectives, AveragesOfIntegersAndSumsOfHalves) {
  run([this](int me) {
    // -1 from each rank and one -1 more: -1 - 1 / R.
    std::vector<int32_t> x(5, me == 0 ? -2 : -1), avg(5);
    finish(all_reduce(TensorView(avg), TensorView(x), ReduceOp::kAvg, how()));
    EXPECT_EQ(avg, std::vector<int32_t>(5, n() == 1 ? -2 : -1));
    EXPECT_EQ(x[0], me == 0 ? -2 : -1);
    // 256 + 1 + 1 is no bf16 after each step, but 256 + 2 is one in the end.
    std::vector<uint16_t> half(3, me == 0 ? 0x4380 : 0x3f80);  // 256, else 1
    const TensorView halves(half.data(), 3, DType::kBF16);
    finish(all_reduce(halves, ReduceOp::kSum, how()));
    const std::map<int, uint16_t> sums = {{1, 0x4380}, {2, 0x4380},
                                          {3, 0x4381}, {4, 0x4382},
                                          {5, 0x4382}, {8, 0x4384}};
    EXPECT_EQ(half, std::vector<uint16_t>(3, sums.at(n())));
  });
}

// Empty buffers are legal, and still make a call.
TEST_P(FacadeCollectives, EmptyBuffers) {
  run([this](int) {
    const TensorView none(static_cast<float*>(nullptr), 0);
    const std::vector<TensorView> list(static_cast<size_t>(n()), none);
    finish(all_reduce(none, ReduceOp::kSum, how()));
    finish(all_gather(list, none, how()));
    finish(reduce_scatter(none, list, ReduceOp::kSum, how()));
    finish(all_to_all(list, list, how()));
    finish(gather(list, none, {}, how()));
    finish(scatter(none, list, {}, how()));
    Padded in(4, 1.0f);
    finish(all_reduce(in.view(), ReduceOp::kSum, how()));
    in.expect(static_cast<float>(n()));
  });
}

DISTWRAP_FACADE_SIZES(FacadeCollectives);

}  // namespace
}  // namespace distwrap::testing
