// Elementwise kernels against plain loops in f64.
#include "cpu/kernels.h"
#include "samples.h"

#include <cmath>
#include <limits>

namespace distwrap::cpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

struct Unary {
  const char* name;
  absl::StatusOr<Tensor> (*kernel)(const Tensor&);
  double (*value)(double);
  bool floats;
  double units = 1;  // as a multiple of precision()
};

double sigmoid_value(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_value(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2)); }
double sign_value(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

const Unary kUnary[] = {
    {"neg", &neg, [](double x) { return -x; }, false},
    {"abs", &abs, [](double x) { return std::abs(x); }, false},
    {"sign", &sign, &sign_value, false},
    {"relu", &relu, [](double x) { return x <= 0 ? 0 : x; }, false},
    {"exp", &exp, [](double x) { return std::exp(x); }, true},
    {"log", &log, [](double x) { return std::log(x); }, true},
    {"sqrt", &sqrt, [](double x) { return std::sqrt(x); }, true},
    {"rsqrt", &rsqrt, [](double x) { return 1 / std::sqrt(x); }, true},
    {"sin", &sin, [](double x) { return std::sin(x); }, true},
    {"cos", &cos, [](double x) { return std::cos(x); }, true},
    {"tanh", &tanh, [](double x) { return std::tanh(x); }, true},
    {"sigmoid", &sigmoid, &sigmoid_value, true},
    {"gelu", &gelu, &gelu_value, true},
    {"silu", &silu, [](double x) { return x * sigmoid_value(x); }, true},
};

TEST(Elementwise, OneTensorInEveryTypeAndLayout) {
  for (const Unary& op : kUnary) {
    for (const DType dtype : op.floats ? kFloats : numbers()) {
      for (const Dims& sizes :
           {Dims{}, Dims{0, 3}, Dims{7}, Dims{3, 5, 4}, Dims{2, 1100}}) {
        const Tensor base = sample(sizes, dtype);
        Values expected;
        for (const double x : values_of(base)) expected.push_back(op.value(x));
        if (dtype == DType::kU8 || dtype == DType::kU16 ||
            dtype == DType::kU32 || dtype == DType::kU64) {
          if (std::string(op.name) == "neg") continue;  // wraps, below
        }
        for (const Tensor& x : layouts(base)) {
          const Values before = values_of(x);
          const Tensor out = ok(op.kernel(x));
          expect_near(out, expected, precision(dtype),
                      std::string(op.name) + " " + x.text());
          EXPECT_TRUE(out.is_contiguous());
          EXPECT_EQ(out.dtype(), dtype);
          EXPECT_EQ(before, values_of(x));
        }
      }
    }
  }
}

TEST(Elementwise, SpecialValues) {
  const Values special = {kNan, kInf,  -kInf, 0.0,    -0.0, 1e-40,
                          3e38, -3e38, 88.0,  -104.0, 20.0};
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Tensor x = tensor_of({11}, special, dtype);
    for (const Unary& op : kUnary) {
      const std::string name = op.name;
      // The sine of a huge number is no more exact than the number.
      if (name == "sin" || name == "cos") continue;
      Values expected;
      for (const double value : values_of(x)) {
        double y = op.value(value);
        if (name == "silu" || name == "gelu") {
          if (value == -kInf) y = kNan;  // -infinity * 0
        }
        expected.push_back(dtype == DType::kF32 ? static_cast<float>(y) : y);
      }
      expect_near(ok(op.kernel(x)), expected, 2e-6, name);
    }
  }
}

TEST(Elementwise, GeluOfLargeNegativeNumbers) {
  for (const double x : {-3.0, -5.0, -8.0, -12.0}) {
    const double y = element(ok(gelu(tensor_of({1}, {x}))), 0);
    EXPECT_NEAR(y / gelu_value(x), 1, 1e-5) << x;
  }
}

TEST(Elementwise, IntegersWrap) {
  const Tensor least = tensor_of({1}, {-128}, DType::kI8);
  EXPECT_EQ(element(ok(neg(least)), 0), -128);
  EXPECT_EQ(element(ok(abs(least)), 0), -128);
  EXPECT_EQ(element(ok(neg(tensor_of({1}, {1}, DType::kU16))), 0), 65535);
  EXPECT_EQ(element(ok(add(tensor_of({1}, {250}, DType::kU8),
                           tensor_of({1}, {10}, DType::kU8), 1)),
                    0),
            4);
  EXPECT_EQ(element(ok(mul(tensor_of({1}, {65535}, DType::kU16),
                           tensor_of({1}, {65535}, DType::kU16))),
                    0),
            1);
  EXPECT_EQ(element(ok(mul(tensor_of({1}, {-2147483648.0}, DType::kI32),
                           tensor_of({1}, {-1}, DType::kI32))),
                    0),
            -2147483648.0);
}

struct Binary {
  const char* name;
  absl::StatusOr<Tensor> (*kernel)(const Tensor&, const Tensor&);
  double (*value)(double, double);
  std::vector<DType> types;
  bool compares = false;
};

double larger(double x, double y) {
  return std::isnan(x) || std::isnan(y) ? kNan : std::max(x, y);
}

const Binary kBinary[] = {
    {"add", [](const Tensor& x, const Tensor& y) { return add(x, y, 1); },
     [](double x, double y) { return x + y; }, numbers()},
    {"add twice", [](const Tensor& x, const Tensor& y) { return add(x, y, 2); },
     [](double x, double y) { return x + 2 * y; }, numbers()},
    {"sub",
     [](const Tensor& x, const Tensor& y) { return sub(x, y, 1); },
     [](double x, double y) { return x - y; },
     {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI64,
      DType::kI32, DType::kI16, DType::kI8}},
    {"mul", [](const Tensor& x, const Tensor& y) { return mul(x, y); },
     [](double x, double y) { return x * y; }, all_types()},
    {"div", [](const Tensor& x, const Tensor& y) { return div(x, y); },
     [](double x, double y) { return x / y; }, kFloats},
    {"maximum", &maximum, &larger, all_types()},
    {"eq", [](const Tensor& x, const Tensor& y) { return eq(x, y); },
     [](double x, double y) { return x == y ? 1.0 : 0.0; }, all_types(), true},
    {"lt", [](const Tensor& x, const Tensor& y) { return lt(x, y); },
     [](double x, double y) { return x < y ? 1.0 : 0.0; }, all_types(), true},
};

TEST(Elementwise, TwoTensorsInEveryTypeAndLayout) {
  const std::pair<Dims, Dims> sizes[] = {
      {{3, 5, 4}, {3, 5, 4}}, {{3, 5, 4}, {4}}, {{3, 5, 4}, {5, 1}},
      {{1, 5, 1}, {3, 1, 4}}, {{}, {6}},        {{0, 4}, {4}},
      {{2, 1100}, {2, 1}},    {{}, {}}};
  for (const Binary& op : kBinary) {
    for (const DType dtype : op.types) {
      for (const auto& [left, right] : sizes) {
        const Tensor a = sample(left, dtype, 1), b = sample(right, dtype, 2);
        const auto dims = std::max(left.size(), right.size());
        Dims both(dims, 1);
        for (const Dims* one : {&left, &right}) {
          for (size_t d = 0; d < one->size(); ++d) {
            int64_t& size = both[dims - one->size() + d];
            if ((*one)[d] != 1) size = (*one)[d];
          }
        }
        const Values xs = values_of(expanded(a, both));
        const Values ys = values_of(expanded(b, both));
        Values expected;
        for (size_t i = 0; i < xs.size(); ++i)
          expected.push_back(op.value(xs[i], ys[i]));
        const std::vector<Tensor> as = layouts(a), bs = layouts(b);
        for (size_t i = 0; i < as.size(); ++i) {
          for (size_t j = 0; j < bs.size(); ++j) {
            if (i != j && i != 0 && j != 0) continue;
            const Tensor out = ok(op.kernel(as[i], bs[j]));
            expect_near(out, expected, precision(dtype),
                        std::string(op.name) + " " + a.text() + b.text());
            EXPECT_EQ(out.dtype(), op.compares ? DType::kBool : dtype);
            EXPECT_EQ(out.sizes(), both);
          }
        }
        EXPECT_EQ(values_of(expanded(a, both)), xs);
      }
    }
  }
}

TEST(Elementwise, NanWins) {
  const Tensor x = tensor_of({4}, {kNan, 1, kInf, -0.0});
  const Tensor y = tensor_of({4}, {1, kNan, kNan, 0.0});
  expect_near(ok(maximum(x, y)), {kNan, kNan, kNan, 0}, 0, "maximum");
  expect_near(ok(eq(x, x)), {0, 1, 1, 1}, 0, "eq");
  expect_near(ok(lt(x, y)), {0, 0, 0, 0}, 0, "lt");
  expect_near(ok(div(y, tensor_of({4}, {0, 1, 2, 0}))),
              {kInf, kNan, kNan, kNan}, 0, "div");
}

TEST(Elementwise, BoolTakesEveryByteButZeroForTrue) {
  Tensor x = tensor_of({4}, {0, 0, 1, 1}, DType::kBool);
  Tensor y = tensor_of({4}, {0, 1, 0, 1}, DType::kBool);
  x.data<uint8_t>()[2] = 7;
  y.data<uint8_t>()[3] = 9;
  expect_near(ok(add(x, y, 1)), {0, 1, 1, 1}, 0, "or");
  expect_near(ok(mul(x, y)), {0, 0, 0, 1}, 0, "and");
  expect_near(ok(eq(x, y)), {1, 0, 0, 1}, 0, "eq");
  EXPECT_EQ(ok(mul(x, y)).data<uint8_t>()[3], 1);
}

TEST(Elementwise, WhereInEveryTypeAndLayout) {
  for (const DType dtype : all_types()) {
    const Tensor condition = sample({3, 1, 4}, DType::kBool, 3);
    const Tensor a = sample({5, 4}, dtype, 1), b = sample({3, 5, 1}, dtype, 2);
    const Dims both = {3, 5, 4};
    const Values c = values_of(expanded(condition, both));
    const Values x = values_of(expanded(a, both));
    const Values y = values_of(expanded(b, both));
    Values expected;
    for (size_t i = 0; i < c.size(); ++i)
      expected.push_back(c[i] != 0 ? x[i] : y[i]);
    for (size_t i = 0; i < 4; ++i) {
      expect_near(ok(where(layouts(condition)[i], layouts(a)[i],
                           layouts(b)[(i + 1) % 4])),
                  expected, 0, "where");
    }
  }
}

TEST(Elementwise, GradientsOfActivations) {
  const auto slope = [](double (*f)(double), double x) {
    constexpr double h = 1e-5;
    return (f(x + h) - f(x - h)) / (2 * h);
  };
  double (*silu_value)(double) = [](double x) { return x * sigmoid_value(x); };
  for (const DType dtype : kFloats) {
    const Tensor x = sample({3, 400}, dtype, 1), g = sample({3, 400}, dtype, 2);
    Values gelu_expected, silu_expected;
    for (int64_t i = 0; i < x.count(); ++i) {
      gelu_expected.push_back(element(g, i) *
                              slope(&gelu_value, element(x, i)));
      silu_expected.push_back(element(g, i) * slope(silu_value, element(x, i)));
    }
    const double tolerance = std::max(precision(dtype), 1e-8);
    for (size_t i = 0; i < 4; ++i) {
      expect_near(ok(gelu_backward(layouts(g)[i], layouts(x)[3 - i])),
                  gelu_expected, tolerance, "gelu_backward");
      expect_near(ok(silu_backward(layouts(g)[i], layouts(x)[3 - i])),
                  silu_expected, tolerance, "silu_backward");
    }
  }
}

TEST(InPlace, WritesEveryLayout) {
  for (const DType dtype : numbers()) {
    const Tensor a = sample({3, 5}, dtype, 1), b = sample({5}, dtype, 2);
    const Values xs = values_of(a), ys = values_of(expanded(b, {3, 5}));
    Values sums, products, copies;
    for (size_t i = 0; i < xs.size(); ++i) {
      sums.push_back(xs[i] + 2 * ys[i]);
      products.push_back(xs[i] * ys[i]);
    }
    for (const Tensor& x : layouts(a)) {
      const Tensor start = ok(clone(x));
      EXPECT_TRUE(add_(x, b, 2).ok());
      expect_near(x, sums, precision(dtype), "add_ " + x.text());
      EXPECT_TRUE(copy_(x, start).ok());
      EXPECT_TRUE(mul_(x, b).ok());
      expect_near(x, products, precision(dtype), "mul_ " + x.text());
      EXPECT_TRUE(copy_(x, b).ok());
      expect_near(x, ys, 0, "copy_ " + x.text());
      EXPECT_TRUE(fill_(x, 3).ok());
      expect_near(x, Values(15, 3), 0, "fill_ " + x.text());
    }
  }
}

TEST(InPlace, SourcesThatOverlapAreReadFirst) {
  Tensor x = tensor_of({3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_TRUE(copy_(x, swapped(x)).ok());
  expect_near(x, {0, 3, 6, 1, 4, 7, 2, 5, 8}, 0, "transpose");
  EXPECT_TRUE(add_(x, swapped(x), 1).ok());
  expect_near(x, {0, 4, 8, 4, 8, 12, 8, 12, 16}, 0, "sum");
  EXPECT_TRUE(mul_(x, x).ok());
  expect_near(x, {0, 16, 64, 16, 64, 144, 64, 144, 256}, 0, "square");
  Tensor line = tensor_of({6}, {0, 1, 2, 3, 4, 5});
  const Tensor head =
      *Tensor::of_storage(line.storage(), DType::kF32, Dims{5}, Dims{1}, 0);
  const Tensor tail =
      *Tensor::of_storage(line.storage(), DType::kF32, Dims{5}, Dims{1}, 1);
  EXPECT_TRUE(copy_(tail, head).ok());
  expect_near(line, {0, 0, 1, 2, 3, 4}, 0, "shifted");
  EXPECT_TRUE(add_(head, tail, 1).ok());
  expect_near(line, {0, 1, 3, 5, 7, 4}, 0, "shifted sum");
}

TEST(Copy, ConvertsEveryPairOfTypes) {
  for (const DType from : all_types()) {
    for (const DType to : all_types()) {
      Tensor x = sample({4, 3}, from);
      if (to == DType::kU8 || to == DType::kU16 || to == DType::kU32 ||
          to == DType::kU64) {
        x = ok(
            abs(from == DType::kBool ? ok(to_copy(x, DType::kI32, kCpu)) : x));
      }
      Values expected;
      for (const double value : values_of(x)) {
        expected.push_back(to == DType::kBool  ? value != 0
                           : precision(to) > 0 ? rounded(to, value)
                                               : std::trunc(value));
      }
      for (const Tensor& some : layouts(x)) {
        expect_near(ok(to_copy(some, to, kCpu)), expected, 0,
                    std::string(dtype_name(from)) + " to " +
                        std::string(dtype_name(to)));
      }
      for (const Tensor& out : layouts(sample({4, 3}, to, 5))) {
        EXPECT_TRUE(copy_(out, x).ok());
        expect_near(out, expected, 0, "copy_");
      }
    }
  }
}

TEST(Copy, RoundsOnce) {
  // Just above the middle of two f16: a detour over f32 would round to even.
  const double value = 1 + 0x1p-11 + 0x1p-40;
  const Tensor x = tensor_of({1}, {value}, DType::kF64);
  EXPECT_EQ(element(ok(to_copy(x, DType::kF16, kCpu)), 0), 1 + 0x1p-10);
  EXPECT_EQ(element(ok(to_copy(ok(neg(x)), DType::kF16, kCpu)), 0),
            -1 - 0x1p-10);
  const Tensor large = tensor_of({1}, {0}, DType::kI64);
  large.data<int64_t>()[0] = (int64_t{1} << 60) + (int64_t{1} << 52) + 1;
  EXPECT_EQ(element(ok(to_copy(large, DType::kBF16, kCpu)), 0),
            0x1p60 + 0x1p53);
  Tensor odd = tensor_of({5}, {kNan, kInf, -kInf, 300, -1}, DType::kF64);
  expect_near(ok(to_copy(odd, DType::kU8, kCpu)), {0, 255, 0, 44, 255}, 0,
              "integers");
}

TEST(Make, FullAndArange) {
  for (const DType dtype : all_types()) {
    expect_near(ok(full(Dims{2, 3}, 1, dtype, kCpu)), Values(6, 1), 0, "full");
    EXPECT_EQ(ok(full(Dims{0}, 1, dtype, kCpu)).count(), 0);
  }
  for (const DType dtype : numbers()) {
    expect_near(ok(arange(1, 8, 2, dtype, kCpu)), {1, 3, 5, 7}, 0, "arange");
    expect_near(ok(arange(3, 0, -1, dtype, kCpu)), {3, 2, 1}, 0, "down");
  }
  expect_near(ok(arange(0, 1, 0.25, DType::kF32, kCpu)), {0, .25, .5, .75}, 0,
              "floats");
  EXPECT_EQ(ok(arange(0, 5000, 1, DType::kI64, kCpu)).count(), 5000);
  EXPECT_EQ(ok(arange(2, 2, 1, DType::kI64, kCpu)).count(), 0);
}

}  // namespace
}  // namespace distwrap::cpu
