// Operators that are made of other operators: they serve every device, and
// their gradient is that of their parts.
#include "dispatch/fail.h"
#include "dispatch/geometry.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"
#include "distwrap/throwing.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <utility>

namespace distwrap::dispatch {
namespace {

using namespace throwing;  // NOLINT(google-build-using-namespace)

// A tensor of no dimensions with a number, of the type and device of `like`.
Tensor number(const Tensor& like, const Scalar& value) {
  return throwing::full({}, value, like.dtype(), like.device());
}

[[noreturn]] void refuse(absl::string_view op, std::string what,
                         std::string expected = "", std::string actual = "") {
  throw StatusError(bad_argument(op, std::move(what), std::move(expected),
                                 std::move(actual)));
}

int dim_of(absl::string_view op, int64_t dim, const Tensor& self) {
  return unwrap(outputs::check_dim(op, dim, self.dims()));
}

Tensor zeros_of(Ints size, DType dtype, Device device) {
  return throwing::full(size, 0, dtype, device);
}
Tensor ones_of(Ints size, DType dtype, Device device) {
  return throwing::full(size, 1, dtype, device);
}
Tensor full_like_of(const Tensor& self, const Scalar& number) {
  return throwing::full(self.sizes(), number, self.dtype(), self.device());
}

Tensor to_dtype(const Tensor& self, DType dtype) {
  return self.dtype() == dtype ? self
                               : throwing::to_copy(self, dtype, self.device());
}
Tensor to_device(const Tensor& self, Device device) {
  return self.device() == device
             ? self
             : throwing::to_copy(self, self.dtype(), device);
}
Tensor contiguous_of(const Tensor& self) {
  return self.is_contiguous() ? self : throwing::clone(self);
}

Tensor reshape_of(const Tensor& self, Ints size) {
  Dims wanted(size.begin(), size.end());
  const auto open = std::find(wanted.begin(), wanted.end(), -1);
  if (open != wanted.end()) {
    int64_t known = 1;
    for (const int64_t one : wanted) known *= one == -1 ? 1 : one;
    *open = known > 0 ? self.count() / known : 0;
  }
  const bool is_view =
      view_strides(self.sizes(), self.strides(), wanted).has_value();
  return throwing::view(is_view ? self : throwing::clone(self), wanted);
}

Tensor transpose_of(const Tensor& self, int64_t dim0, int64_t dim1) {
  const auto a = static_cast<size_t>(dim_of("dw::transpose", dim0, self));
  const auto b = static_cast<size_t>(dim_of("dw::transpose", dim1, self));
  Dims order;
  for (int d = 0; d < self.dims(); ++d) order.push_back(d);
  if (!order.empty()) std::swap(order[a], order[b]);
  return throwing::permute(self, order);
}

Tensor narrow_of(const Tensor& self, int64_t dim, int64_t start,
                 int64_t length) {
  const int d = dim_of("dw::narrow", dim, self);
  const int64_t extent = self.dims() == 0 ? 1 : self.size(d);
  if (start < 0) start += extent;
  if (start < 0 || length < 0 || length > extent - start) {
    refuse("dw::narrow", "the part is not within the dimension",
           absl::StrCat("0 to ", extent),
           absl::StrCat(length, " from ", start));
  }
  return throwing::slice(self, d, start, start + length);
}

std::vector<Tensor> unbind_of(const Tensor& self, int64_t dim) {
  const int d = dim_of("dw::unbind", dim, self);
  if (self.dims() == 0) refuse("dw::unbind", "the tensor has no dimensions");
  const std::vector<int64_t> ones(static_cast<size_t>(self.size(d)), 1);
  std::vector<Tensor> parts = throwing::split(self, ones, d);
  for (Tensor& part : parts) part = throwing::squeeze(part, d);
  return parts;
}

Tensor stack_of(TensorList tensors, int64_t dim) {
  std::vector<Tensor> rows;
  for (const Tensor& one : tensors) {
    rows.push_back(throwing::unsqueeze(one, dim));
  }
  return throwing::cat(rows, dim);
}

Tensor add_scalar(const Tensor& self, const Scalar& other) {
  return throwing::add(self, number(self, other));
}
Tensor sub_scalar(const Tensor& self, const Scalar& other) {
  return throwing::sub(self, number(self, other));
}
Tensor mul_scalar(const Tensor& self, const Scalar& other) {
  return throwing::mul(self, number(self, other));
}
Tensor div_scalar(const Tensor& self, const Scalar& other) {
  return throwing::div(self, number(self, other));
}
Tensor eq_scalar(const Tensor& self, const Scalar& other) {
  return throwing::eq(self, number(self, other));
}
Tensor lt_scalar(const Tensor& self, const Scalar& other) {
  return throwing::lt(self, number(self, other));
}

Tensor minimum_of(const Tensor& self, const Tensor& other) {
  return -throwing::maximum(-self, -other);
}
Tensor clamp_of(const Tensor& self, std::optional<Scalar> min,
                std::optional<Scalar> max) {
  Tensor result = self;
  if (min.has_value()) result = throwing::maximum(result, number(self, *min));
  if (max.has_value()) result = throwing::minimum(result, number(self, *max));
  return result.is_same(self) ? throwing::clone(self) : result;
}
Tensor masked_fill_of(const Tensor& self, const Tensor& mask,
                      const Scalar& fill) {
  return throwing::where(mask, number(self, fill), self);
}

// The number of elements that a reduction makes one of.
int64_t reduced_count(absl::string_view op, const Tensor& self,
                      std::optional<Ints> dim) {
  const uint64_t reduced = unwrap(outputs::reduced_dims(op, self.dims(), dim));
  int64_t count = 1;
  for (int d = 0; d < self.dims(); ++d) {
    if ((reduced >> d & 1) != 0) count *= self.size(d);
  }
  return count;
}

Tensor mean_of(const Tensor& self, std::optional<Ints> dim, bool keepdim) {
  check(outputs::check_type("dw::mean", self, outputs::Types::kFloats));
  const auto count = static_cast<double>(reduced_count("dw::mean", self, dim));
  return throwing::sum(self, dim, keepdim) / Scalar(count);
}
Tensor var_of(const Tensor& self, std::optional<Ints> dim, bool keepdim,
              int64_t correction) {
  const auto count = static_cast<double>(reduced_count("dw::var", self, dim));
  const Tensor off = self - throwing::mean(self, dim, true);
  return throwing::sum(off * off, dim, keepdim) /
         Scalar(std::max(count - static_cast<double>(correction), 0.0));
}
Tensor logsumexp_of(const Tensor& self, std::optional<Ints> dim, bool keepdim) {
  Tensor top = throwing::detach(throwing::amax(self, dim, true));
  // An infinite maximum would give NaN.
  const Scalar infinity = std::numeric_limits<double>::infinity();
  const Tensor zero = throwing::full_like(top, 0);
  top = throwing::where(throwing::eq(throwing::abs(top), number(top, infinity)),
                        zero, top);
  const Tensor sum = throwing::sum(throwing::exp(self - top), dim, keepdim);
  Tensor shape = top;
  if (!keepdim) shape = throwing::view(top, sum.sizes());
  return throwing::log(sum) + shape;
}

Tensor matmul_of(const Tensor& self, const Tensor& other) {
  if (self.dims() == 0 || other.dims() == 0) {
    refuse("dw::matmul", "an operand has no dimensions",
           "one dimension or more",
           absl::StrCat(self.text(), " and ", other.text()));
  }
  if (self.dims() == 1) {
    return throwing::squeeze(
        throwing::matmul(throwing::unsqueeze(self, 0), other),
        other.dims() == 1 ? 0 : -2);
  }
  if (other.dims() == 1) {
    return throwing::squeeze(
        throwing::matmul(self, throwing::unsqueeze(other, 1)), -1);
  }
  if (self.dims() == 2 && other.dims() == 2) return throwing::mm(self, other);
  const int64_t rows = self.size(-2), inner = self.size(-1),
                columns = other.size(-1);
  if (other.dims() == 2) {
    // One product of all rows.
    Dims sizes(self.sizes().begin(), self.sizes().end());
    const Tensor flat = throwing::reshape(
        self, {self.count() / std::max<int64_t>(inner, 1), inner});
    sizes.back() = columns;
    return throwing::view(throwing::mm(flat, other), sizes);
  }
  const Dims batch = unwrap(outputs::broadcast(
      "dw::matmul", self.sizes().first(self.sizes().size() - 2),
      other.sizes().first(other.sizes().size() - 2)));
  int64_t count = 1;
  for (const int64_t size : batch) count *= size;
  const auto batched = [&](const Tensor& tensor) {
    Dims sizes = batch;
    sizes.push_back(tensor.size(-2));
    sizes.push_back(tensor.size(-1));
    return throwing::reshape(throwing::expand(tensor, sizes),
                             {count, tensor.size(-2), tensor.size(-1)});
  };
  Dims sizes = batch;
  sizes.push_back(rows);
  sizes.push_back(columns);
  return throwing::view(throwing::bmm(batched(self), batched(other)), sizes);
}
Tensor addmm_of(const Tensor& self, const Tensor& mat1, const Tensor& mat2) {
  return self + throwing::mm(mat1, mat2);
}
Tensor linear_of(const Tensor& input, const Tensor& weight,
                 const Tensor* bias) {
  const Tensor product = throwing::matmul(input, throwing::transpose(weight));
  return bias == nullptr ? product : product + *bias;
}

// ---- einsum ----

// The operand with its dimensions in the order of `labels`; labels that it
// lacks are extents of 1.
Tensor arrange(const Tensor& tensor, const std::string& own,
               const std::string& labels) {
  Dims order;
  Dims sizes;
  for (const char label : labels) {
    const size_t at = own.find(label);
    if (at == std::string::npos) {
      sizes.push_back(1);
    } else {
      order.push_back(static_cast<int64_t>(at));
      sizes.push_back(tensor.size(static_cast<int>(at)));
    }
  }
  return throwing::reshape(throwing::permute(tensor, order), sizes);
}

struct Operand {
  Tensor tensor;
  std::string labels;
};

// Sums the labels that nobody needs.
Operand keep_labels(Operand operand, const std::string& needed) {
  Dims gone;
  std::string left;
  for (size_t i = 0; i < operand.labels.size(); ++i) {
    if (needed.find(operand.labels[i]) == std::string::npos) {
      gone.push_back(static_cast<int64_t>(i));
    } else {
      left += operand.labels[i];
    }
  }
  if (!gone.empty()) operand.tensor = throwing::sum(operand.tensor, Ints(gone));
  operand.labels = left;
  return operand;
}

Operand contract(Operand a, Operand b, const std::string& needed) {
  a = keep_labels(std::move(a), needed + b.labels);
  b = keep_labels(std::move(b), needed + a.labels);
  std::string batch, summed, left, right;
  for (const char label : a.labels) {
    const bool shared = b.labels.find(label) != std::string::npos;
    const bool wanted = needed.find(label) != std::string::npos;
    (!shared ? left : wanted ? batch : summed) += label;
  }
  for (const char label : b.labels) {
    if (a.labels.find(label) == std::string::npos) right += label;
  }
  Dims sizes;
  const auto count = [&](const std::string& labels, const Operand& of) {
    int64_t product = 1;
    for (const char label : labels) {
      product *= of.tensor.size(static_cast<int>(of.labels.find(label)));
    }
    return product;
  };
  for (const char label : batch + left) {
    sizes.push_back(a.tensor.size(static_cast<int>(a.labels.find(label))));
  }
  for (const char label : right) {
    sizes.push_back(b.tensor.size(static_cast<int>(b.labels.find(label))));
  }
  const int64_t batches = count(batch, a), inner = count(summed, a);
  const Tensor first =
      throwing::reshape(arrange(a.tensor, a.labels, batch + left + summed),
                        {batches, count(left, a), inner});
  const Tensor second =
      throwing::reshape(arrange(b.tensor, b.labels, batch + summed + right),
                        {batches, inner, count(right, b)});
  return {throwing::reshape(throwing::bmm(first, second), sizes),
          batch + left + right};
}

Tensor einsum_of(absl::string_view equation, TensorList tensors) {
  std::string text;
  for (const char c : equation) {
    if (c != ' ') text += c;
  }
  const size_t arrow = text.find("->");
  std::vector<std::string> inputs(1);
  std::string output;
  for (const char c : text.substr(0, arrow)) {
    if (c == ',') {
      inputs.emplace_back();
    } else {
      inputs.back() += c;
    }
  }
  std::map<char, int64_t> extents;
  std::map<char, int> uses;
  if (inputs.size() != tensors.size()) {
    refuse("dw::einsum", "another number of operands than in the equation",
           absl::StrCat(inputs.size()), absl::StrCat(tensors.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].size() != static_cast<size_t>(tensors[i].dims())) {
      refuse("dw::einsum",
             absl::StrCat("operand ", i + 1, " has other dimensions than '",
                          inputs[i], "'"),
             absl::StrCat(inputs[i].size()), tensors[i].text());
    }
    std::string seen;
    for (size_t d = 0; d < inputs[i].size(); ++d) {
      const char label = inputs[i][d];
      if (!std::isalpha(static_cast<unsigned char>(label))) {
        refuse("dw::einsum",
               absl::StrCat("'", std::string(1, label), "' is no label"),
               "letters, ',' and '->'", std::string(equation));
      }
      if (seen.find(label) != std::string::npos) {
        refuse("dw::einsum", "a label stands twice in one operand",
               "different labels in an operand", inputs[i]);
      }
      seen += label;
      const int64_t extent = tensors[i].size(static_cast<int>(d));
      if (const auto [there, added] = extents.emplace(label, extent);
          !added && there->second != extent) {
        refuse(
            "dw::einsum",
            absl::StrCat("label '", std::string(1, label), "' has two extents"),
            absl::StrCat(there->second), absl::StrCat(extent));
      }
      ++uses[label];
    }
  }
  if (arrow != std::string::npos) {
    output = text.substr(arrow + 2);
  } else {
    for (const auto& [label, count] : uses) {
      if (count == 1) output += label;
    }
  }
  for (size_t i = 0; i < output.size(); ++i) {
    if (!extents.contains(output[i]) ||
        output.find(output[i], i + 1) != std::string::npos) {
      refuse("dw::einsum", "a label of the result is in no operand, or twice",
             "labels of the operands, once each", output);
    }
  }
  Operand sum{tensors[0], inputs[0]};
  for (size_t i = 1; i < inputs.size(); ++i) {
    std::string needed = output;
    for (size_t later = i + 1; later < inputs.size(); ++later) {
      needed += inputs[later];
    }
    sum = contract(std::move(sum), {tensors[i], inputs[i]}, needed);
  }
  sum = keep_labels(std::move(sum), output);
  return arrange(sum.tensor, sum.labels, output);
}

Tensor attention_of(const Tensor& query, const Tensor& key, const Tensor& value,
                    const Tensor* mask, bool causal,
                    std::optional<double> scale) {
  return std::get<0>(
      throwing::attention_forward(query, key, value, mask, causal, scale));
}
Tensor cross_entropy_of(const Tensor& self, const Tensor& target,
                        int64_t ignore_index) {
  return throwing::nll_loss(throwing::log_softmax(self), target, ignore_index);
}
void sgd_of(const Tensor& self, const Tensor& grad, double lr) {
  throwing::add_(self, grad, -lr);
}

}  // namespace

DW_OPERATORS(lib) {
  lib.impl("dw::zeros", kCompositeImplicit, kernel<&zeros_of>());
  lib.impl("dw::ones", kCompositeImplicit, kernel<&ones_of>());
  lib.impl("dw::full_like", kCompositeImplicit, kernel<&full_like_of>());
  lib.impl("dw::to.dtype", kCompositeImplicit, kernel<&to_dtype>());
  lib.impl("dw::to.device", kCompositeImplicit, kernel<&to_device>());
  lib.impl("dw::contiguous", kCompositeImplicit, kernel<&contiguous_of>());
  lib.impl("dw::reshape", kCompositeImplicit, kernel<&reshape_of>());
  lib.impl("dw::transpose", kCompositeImplicit, kernel<&transpose_of>());
  lib.impl("dw::narrow", kCompositeImplicit, kernel<&narrow_of>());
  lib.impl("dw::unbind", kCompositeImplicit, kernel<&unbind_of>());
  lib.impl("dw::stack", kCompositeImplicit, kernel<&stack_of>());
  lib.impl("dw::add.Scalar", kCompositeImplicit, kernel<&add_scalar>());
  lib.impl("dw::sub.Scalar", kCompositeImplicit, kernel<&sub_scalar>());
  lib.impl("dw::mul.Scalar", kCompositeImplicit, kernel<&mul_scalar>());
  lib.impl("dw::div.Scalar", kCompositeImplicit, kernel<&div_scalar>());
  lib.impl("dw::eq.Scalar", kCompositeImplicit, kernel<&eq_scalar>());
  lib.impl("dw::lt.Scalar", kCompositeImplicit, kernel<&lt_scalar>());
  lib.impl("dw::minimum", kCompositeImplicit, kernel<&minimum_of>());
  lib.impl("dw::clamp", kCompositeImplicit, kernel<&clamp_of>());
  lib.impl("dw::masked_fill", kCompositeImplicit, kernel<&masked_fill_of>());
  lib.impl("dw::mean", kCompositeImplicit, kernel<&mean_of>());
  lib.impl("dw::var", kCompositeImplicit, kernel<&var_of>());
  lib.impl("dw::logsumexp", kCompositeImplicit, kernel<&logsumexp_of>());
  lib.impl("dw::matmul", kCompositeImplicit, kernel<&matmul_of>());
  lib.impl("dw::addmm", kCompositeImplicit, kernel<&addmm_of>());
  lib.impl("dw::linear", kCompositeImplicit, kernel<&linear_of>());
  lib.impl("dw::einsum", kCompositeImplicit, kernel<&einsum_of>());
  lib.impl("dw::attention", kCompositeImplicit, kernel<&attention_of>());
  lib.impl("dw::cross_entropy", kCompositeImplicit,
           kernel<&cross_entropy_of>());
  lib.impl("dw::sgd_", kCompositeImplicit, kernel<&sgd_of>());
}

}  // namespace distwrap::dispatch
