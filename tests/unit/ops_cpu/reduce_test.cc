// sum, amax, mm and bmm against plain loops in f64.
#include "cpu/kernels.h"
#include "samples.h"

#include <cmath>
#include <limits>
#include <thread>

namespace distwrap::cpu {
namespace {

struct Reduced {
  Dims sizes;
  Values sums, largest;
};

// Reduces the dimensions whose bits are set.
Reduced reduce(const Tensor& x, unsigned bits, bool keep) {
  Reduced result;
  Dims kept;
  for (int d = 0; d < x.dims(); ++d) {
    if ((bits >> d & 1) == 0) kept.push_back(x.size(d));
    if ((bits >> d & 1) == 0) {
      result.sizes.push_back(x.size(d));
    } else if (keep) {
      result.sizes.push_back(1);
    }
  }
  int64_t count = 1;
  for (const int64_t size : kept) count *= size;
  result.sums.assign(static_cast<size_t>(count), 0);
  result.largest.assign(static_cast<size_t>(count),
                        -std::numeric_limits<double>::infinity());
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t rest = i, place = 0, step = 1;
    for (int d = x.dims(); d-- > 0;) {
      const int64_t index = rest % x.size(d);
      rest /= x.size(d);
      if ((bits >> d & 1) != 0) continue;
      place += index * step;
      step *= x.size(d);
    }
    const double value = element(x, i);
    double& sum = result.sums[static_cast<size_t>(place)];
    double& most = result.largest[static_cast<size_t>(place)];
    sum += value;
    most = std::isnan(value) || value > most ? value : most;
  }
  return result;
}

TEST(Reduce, EveryTypeLayoutAndDimension) {
  for (const DType dtype : all_types()) {
    for (const Dims& sizes : {Dims{}, Dims{5}, Dims{3, 5, 4}, Dims{7, 130},
                              Dims{130, 7}, Dims{2, 3, 2, 5}}) {
      const Tensor base = sample(sizes, dtype);
      const auto dims = static_cast<unsigned>(sizes.size());
      const std::vector<Tensor> all = layouts(base);
      for (unsigned bits = 0; bits < 1u << dims; ++bits) {
        Dims named;
        for (unsigned d = 0; d < dims; ++d) {
          if ((bits >> d & 1) != 0)
            named.push_back(d % 2 != 0
                                ? static_cast<int>(d)
                                : static_cast<int>(d) - static_cast<int>(dims));
        }
        const bool keep = bits % 2 != 0;
        const Reduced expected = reduce(base, bits, keep);
        Tensor first;
        for (const Tensor& x : all) {
          const std::string what = x.text() + " over " + std::to_string(bits);
          const Tensor out = ok(sum(x, Ints(named), keep));
          expect_near(out, expected.sums, std::max(precision(dtype), 0.0) * 4,
                      "sum " + what);
          EXPECT_EQ(out.sizes(), expected.sizes);
          EXPECT_EQ(out.dtype(), precision(dtype) > 0 || dtype == DType::kU64
                                     ? dtype
                                     : DType::kI64);
          // The order of additions does not depend on the layout.
          if (first.defined()) expect_same_bits(first, out, what);
          first = out;
          const Tensor most = ok(amax(x, Ints(named), keep));
          expect_near(most, expected.largest, 0, "amax " + what);
          EXPECT_EQ(most.dtype(), dtype);
        }
      }
      expect_near(ok(sum(base, {}, false)),
                  reduce(base, (1u << dims) - 1, false).sums,
                  precision(dtype) * 10, "all");
    }
  }
}

TEST(Reduce, LongSumsAreExactAndIndependentOfLayout) {
  const Tensor x = sample({3, 70001}, DType::kF32);
  const Reduced expected = reduce(x, 2, false);
  const Tensor rows = ok(sum(x, Ints({1}), false));
  expect_near(rows, expected.sums, 1e-5, "rows");
  for (const Tensor& other : layouts(x)) {
    expect_same_bits(rows, ok(sum(other, Ints({1}), false)), "layout");
  }
  const Tensor columns = ok(clone(swapped(x)));
  expect_same_bits(rows, ok(sum(columns, Ints({0}), false)), "columns");
  const Tensor halves = ok(full(Dims{100000}, 1, DType::kBF16, kCpu));
  EXPECT_EQ(element(ok(sum(halves, {}, false)), 0),
            rounded(DType::kBF16, 100000));
}

TEST(Reduce, WideColumns) {
  const Tensor x = sample({2100, 5, 300}, DType::kF32);
  expect_near(ok(sum(x, Ints({0}), false)), reduce(x, 1, false).sums, 1e-5,
              "columns");
  expect_near(ok(amax(x, Ints({0, 1}), false)), reduce(x, 3, false).largest, 0,
              "columns");
  expect_near(ok(sum(x, Ints({0, 1}), false)), reduce(x, 3, false).sums, 1e-5,
              "columns");
}

TEST(Reduce, EmptyAndSpecial) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_near(ok(sum(sample({0, 3}), Ints({0}), false)), {0, 0, 0}, 0, "empty");
  expect_near(ok(sum(sample({3, 0}), Ints({1}), false)), {0, 0, 0}, 0, "empty");
  EXPECT_EQ(ok(amax(sample({0, 3}), Ints({1}), false)).count(), 0);
  const Tensor x = tensor_of({2, 3}, {1, nan, inf, -inf, -inf, -inf});
  expect_near(ok(amax(x, Ints({1}), false)), {nan, -inf}, 0, "amax");
  expect_near(ok(amax(x, Ints({0}), false)), {1, nan, inf}, 0, "amax");
  expect_near(ok(sum(x, Ints({1}), false)), {nan, -inf}, 0, "sum");
  // A repeated element counts each time.
  expect_near(ok(sum(expanded(tensor_of({1}, {2}), {3, 4}), {}, false)), {24},
              0, "expanded");
}

Values products(const Tensor& a, const Tensor& b) {
  Values out;
  const int64_t n = a.size(-2), k = a.size(-1), m = b.size(-1);
  const int64_t batch = a.dims() == 3 ? a.size(0) : 1;
  for (int64_t t = 0; t < batch; ++t) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < m; ++j) {
        double total = 0;
        for (int64_t p = 0; p < k; ++p)
          total +=
              element(a, (t * n + i) * k + p) * element(b, (t * k + p) * m + j);
        out.push_back(total);
      }
    }
  }
  return out;
}

TEST(Products, EveryTypeAndLayout) {
  for (const DType dtype : kFloats) {
    for (const auto& [n, k, m] : {std::tuple{3, 5, 4},
                                  {1, 7, 1},
                                  {5, 1, 3},
                                  {0, 3, 2},
                                  {2, 0, 3},
                                  {33, 40, 17}}) {
      const Tensor a = sample({n, k}, dtype, 1), b = sample({k, m}, dtype, 2);
      const Values expected = products(a, b);
      for (const Tensor& x : layouts(a)) {
        for (const Tensor& y : layouts(b)) {
          expect_near(ok(mm(x, y)), expected, precision(dtype) * 20, x.text());
        }
      }
      const Tensor at = ok(clone(swapped(a))), bt = ok(clone(swapped(b)));
      expect_near(ok(mm(swapped(at), swapped(bt))), expected,
                  precision(dtype) * 20, "transposed");
    }
    const Tensor a = sample({3, 4, 5}, dtype, 1);
    const Tensor b = sample({3, 5, 2}, dtype, 2);
    for (const Tensor& x : layouts(a)) {
      for (const Tensor& y : layouts(b))
        expect_near(ok(bmm(x, y)), products(a, b), precision(dtype) * 20,
                    "bmm");
    }
    const Tensor one = expanded(sample({4, 5}, dtype, 3), {3, 4, 5});
    expect_near(ok(bmm(one, b)), products(one, b), precision(dtype) * 20,
                "expanded");
  }
  for (const DType dtype : {DType::kI64, DType::kI32, DType::kI16}) {
    const Tensor a = sample({3, 5}, dtype, 1), b = sample({5, 4}, dtype, 2);
    expect_near(ok(mm(layouts(a)[1], layouts(b)[3])), products(a, b), 0,
                "integers");
  }
}

TEST(Products, NanAndInfinityPassThrough) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor a = tensor_of({1, 2}, {inf, 0}), b = tensor_of({2, 1}, {1, inf});
  EXPECT_TRUE(std::isnan(element(ok(mm(a, b)), 0)));
}

// Whether the library of products is safe in many threads at once.
TEST(Products, EightThreadsAtOnce) {
  const Tensor a = sample({150, 170}), b = sample({170, 130});
  const Tensor expected = ok(mm(a, b));
  std::vector<std::thread> threads;
  std::vector<int> wrong(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        absl::StatusOr<Tensor> out = mm(a, b);
        if (!out.ok() ||
            std::memcmp(out->data(), expected.data(),
                        static_cast<size_t>(out->count()) * 4) != 0) {
          ++wrong[static_cast<size_t>(t)];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8));
}

}  // namespace
}  // namespace distwrap::cpu
