// A line through points, by gradients: y = 3 x - 1.
#include <distwrap/autograd.h>
#include <distwrap/throwing.h>

#include <iostream>

namespace dw = distwrap;
using dw::Tensor;
using namespace dw::throwing;  // operators and their signs

int main() try {
  dw::manual_seed(1);
  const Tensor x = randn({64, 1});
  const Tensor y = x * 3.0 - 1.0;
  const Tensor slope = zeros({1, 1}), offset = zeros({1});
  check(slope.set_requires_grad());
  check(offset.set_requires_grad());
  for (int step = 0; step < 100; ++step) {
    const Tensor off = mm(x, slope) + offset - y;
    check(dw::autograd::backward({mean(off * off)}));
    const dw::autograd::NoGradGuard no_grad;
    for (const Tensor& parameter : {slope, offset}) {
      sgd_(parameter, parameter.grad(), 0.1);
      parameter.set_grad({});
    }
  }
  std::cout << "y = " << unwrap(slope.item()).to<float>() << " x + "
            << unwrap(offset.item()).to<float>() << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
