// Operators that join, cut and index tensors.
#include "cpu/kernels.h"
#include "samples.h"

namespace distwrap::cpu {
namespace {

// The row-major position of an index.
int64_t position(const Tensor& tensor, const Dims& index) {
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d)
    at = at * tensor.sizes()[d] + index[d];
  return at;
}

Dims index_of(const Tensor& tensor, int64_t at) {
  Dims index(static_cast<size_t>(tensor.dims()));
  for (size_t d = index.size(); d-- > 0;) {
    index[d] = at % tensor.sizes()[d];
    at /= tensor.sizes()[d];
  }
  return index;
}

TEST(Join, Cat) {
  for (const DType dtype : all_types()) {
    for (int dim = 0; dim < 3; ++dim) {
      std::vector<Tensor> parts;
      for (int i = 0; i < 3; ++i) {
        Dims sizes = {2, 3, 4};
        sizes[static_cast<size_t>(dim)] = i;
        parts.push_back(
            layouts(sample(sizes, dtype, i))[static_cast<size_t>(1 + i)]);
      }
      const Tensor out = ok(cat(parts, dim - 3));
      EXPECT_EQ(out.size(dim), 3);
      for (int64_t i = 0; i < out.count(); ++i) {
        Dims index = index_of(out, i);
        int64_t& along = index[static_cast<size_t>(dim)];
        size_t part = 1;
        if (along >= 1) {
          along -= 1;
          part = 2;
        }
        EXPECT_EQ(element(out, i),
                  element(parts[part], position(parts[part], index)));
      }
    }
  }
}

TEST(Join, Pad) {
  for (const DType dtype : all_types()) {
    const Tensor base = sample({3, 4, 5}, dtype);
    for (const Dims& amounts :
         {Dims{}, Dims{1, 2}, Dims{-1, 2, 0, -3}, Dims{2, -2, 1, 1, -1, 0}}) {
      for (const Tensor& x : layouts(base)) {
        const Tensor out = ok(pad(x, amounts, 1));
        for (int64_t i = 0; i < out.count(); ++i) {
          Dims index = index_of(out, i);
          bool inside = true;
          for (size_t k = 0; k < amounts.size() / 2; ++k) {
            const size_t d = 2 - k;
            index[d] -= amounts[2 * k];
            inside &= index[d] >= 0 && index[d] < base.sizes()[d];
          }
          EXPECT_EQ(element(out, i),
                    inside ? element(base, position(base, index)) : 1);
        }
      }
    }
  }
}

TEST(Join, SliceScatter) {
  for (const DType dtype : all_types()) {
    const Tensor base = sample({7, 3}, dtype, 1);
    struct {
      int64_t start, end, step;
      std::vector<int64_t> rows;
    } const cases[] = {{1, 5, 2, {1, 3}},
                       {-2, 100, 1, {5, 6}},
                       {4, 2, 1, {}},
                       {-100, 3, 2, {0, 2}}};
    for (const auto& c : cases) {
      const Tensor src =
          sample({static_cast<int64_t>(c.rows.size()), 3}, dtype, 2);
      Values expected = values_of(base);
      for (size_t r = 0; r < c.rows.size(); ++r) {
        for (int64_t k = 0; k < 3; ++k)
          expected[static_cast<size_t>(c.rows[r] * 3 + k)] =
              element(src, static_cast<int64_t>(r) * 3 + k);
      }
      for (size_t i = 0; i < 4; ++i) {
        expect_near(ok(slice_scatter(layouts(base)[i], layouts(src)[3 - i], 0,
                                     c.start, c.end, c.step)),
                    expected, 0, "slice_scatter");
      }
    }
  }
}

TEST(Index, GatherAndScatterAdd) {
  for (const DType dtype : numbers()) {
    const Tensor base = sample({4, 5, 3}, dtype, 1);
    for (int dim = 0; dim < 3; ++dim) {
      Dims sizes = {3, 4, 2};
      sizes[static_cast<size_t>(dim)] = 6;
      Tensor index = *Tensor::empty(sizes, DType::kI64);
      for (int64_t i = 0; i < index.count(); ++i)
        set_element(index, i, static_cast<double>(i * 7 % base.size(dim)));
      if (dim == 1) index = ok(to_copy(index, DType::kI32, kCpu));
      const Tensor src = sample(sizes, dtype, 2);
      Values picked, sums = values_of(base);
      for (int64_t i = 0; i < index.count(); ++i) {
        Dims place = index_of(index, i);
        place[static_cast<size_t>(dim)] =
            static_cast<int64_t>(element(index, i));
        const int64_t at = position(base, place);
        picked.push_back(element(base, at));
        sums[static_cast<size_t>(at)] += element(src, i);
      }
      for (size_t i = 0; i < 4; ++i) {
        const Tensor x = layouts(base)[i], at = layouts(index)[3 - i];
        expect_near(ok(gather(x, dim, at)), picked, 0, "gather");
        expect_near(ok(scatter_add(x, dim, at, layouts(src)[i])), sums,
                    precision(dtype) * 2, "scatter_add");
        expect_near(x, values_of(base), 0, "unchanged");
      }
    }
  }
  const Tensor number = tensor_of({}, {3});
  expect_near(ok(gather(number, 0, tensor_of({}, {0}, DType::kI64))), {3}, 0,
              "0-d");
}

TEST(Index, IndexAdd) {
  for (const DType dtype : numbers()) {
    const Tensor base = sample({4, 5, 3}, dtype, 1);
    for (int dim = 0; dim < 3; ++dim) {
      const Tensor index = tensor_of({4}, {2, 0, 2, 1}, DType::kI64);
      Dims sizes = {4, 5, 3};
      sizes[static_cast<size_t>(dim)] = 4;
      const Tensor source = sample(sizes, dtype, 2);
      Values sums = values_of(base);
      for (int64_t i = 0; i < source.count(); ++i) {
        Dims place = index_of(source, i);
        int64_t& along = place[static_cast<size_t>(dim)];
        along = static_cast<int64_t>(element(index, along));
        sums[static_cast<size_t>(position(base, place))] += element(source, i);
      }
      for (size_t i = 0; i < 4; ++i) {
        expect_near(ok(index_add(layouts(base)[i], dim, layouts(index)[i],
                                 layouts(source)[3 - i])),
                    sums, precision(dtype) * 2, "index_add");
      }
    }
  }
}

TEST(Index, Embedding) {
  for (const DType dtype : all_types()) {
    const Tensor weight = sample({6, 4}, dtype);
    for (const DType type : {DType::kI64, DType::kI32}) {
      const Tensor index = tensor_of({2, 3}, {0, 5, 2, 2, 1, 4}, type);
      Values expected;
      for (int64_t i = 0; i < 6; ++i) {
        for (int64_t k = 0; k < 4; ++k)
          expected.push_back(
              element(weight, static_cast<int64_t>(element(index, i)) * 4 + k));
      }
      for (size_t i = 0; i < 4; ++i) {
        expect_near(ok(embedding(layouts(weight)[i], layouts(index)[i])),
                    expected, 0, "embedding");
      }
    }
    EXPECT_EQ(ok(embedding(weight, *Tensor::empty({0}, DType::kI64))).sizes(),
              (Dims{0, 4}));
  }
}

TEST(Index, AsStridedBackward) {
  for (const DType dtype : kFloats) {
    const Tensor grad = sample({3, 4}, dtype);
    // Windows of 4 elements that overlap by 2.
    Values expected(12);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 4; ++j)
        expected[static_cast<size_t>(1 + 2 * i + j)] +=
            element(grad, i * 4 + j);
    }
    for (const Tensor& g : layouts(grad)) {
      expect_near(ok(as_strided_backward(g, Ints({3, 4}), Ints({3, 4}),
                                         Ints({2, 1}), 1)),
                  expected, precision(dtype), "as_strided_backward");
    }
  }
}

}  // namespace
}  // namespace distwrap::cpu
