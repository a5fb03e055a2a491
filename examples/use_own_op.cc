// Loads a library of operators, calls them, and unloads it.
//
//   use_own_op build/dev/bin/own_op.so
#include <distwrap/autograd.h>
#include <distwrap/registration.h>
#include <distwrap/throwing.h>

#include <iostream>

namespace dw = distwrap;
namespace d = distwrap::dispatch;
using dw::Tensor;
using namespace dw::throwing;

static double number(const Tensor& x) { return unwrap(x.item()).to<double>(); }

static void use() {
  const auto cube = d::find_op<Tensor(const Tensor&)>("demo::cube");
  const auto scale = d::find_op<Tensor(const Tensor&, double)>("demo::scale");
  const Tensor x = full({}, 2.0);
  check(x.set_requires_grad());
  const Tensor y = unwrap(cube.call(unwrap(scale.call(x, 3.0))));
  check(dw::autograd::backward({y}));
  std::cout << "(3 * 2)^3 = " << number(y) << ", its derivative "
            << number(x.grad()) << "\noperators of demo::cube:\n";
  const d::IncludeGuard logged{d::KeySet(d::kUser1)};
  check(cube.call(x).status());
}

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("use_own_op LIBRARY");
  const Tensor one = full({}, 1.0);
  const double before = number(gelu(one));
  check(d::load_library(argv[1]));
  use();
  std::cout << "gelu(1) by erf " << before << ", by tanh " << number(gelu(one))
            << "\n";
  check(d::unload_library(argv[1], dw::Deadline::after(absl::Seconds(10))));
  std::cout << "unloaded, gelu(1) = " << number(gelu(one)) << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
