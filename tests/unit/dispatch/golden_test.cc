// Outputs and gradients of programs that PyTorch has recorded, in
// tests/golden/autograd. Redistributions change layouts and no values, so dense
// tensors go through them unchanged.
#include "distwrap/autograd.h"
#include "distwrap/throwing.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace distwrap::autograd {
namespace {

using namespace throwing;  // NOLINT(google-build-using-namespace)
using Json = nlohmann::json;
using Inputs = std::vector<Tensor>;

// The programs by their text, without redistribute(); inputs in the order of
// the record.
const std::map<std::string, std::function<Tensor(const Inputs&)>>& programs() {
  static const auto* const all =
      new std::map<std::string, std::function<Tensor(const Inputs&)>>{
          {"bmm(x, w)", [](const Inputs& x) { return bmm(x[0], x[1]); }},
          {"cat([x, w], 0)", [](const Inputs& x) { return cat(x, 0); }},
          {"cross_entropy(x, t)",
           [](const Inputs& x) { return cross_entropy(x[0], x[1]); }},
          {"embedding(idx, w)",
           [](const Inputs& x) { return embedding(x[0], x[1]); }},
          {"exp(x) * x", [](const Inputs& x) { return exp(x[0]) * x[0]; }},
          {"gather(x, 1, idx)",
           [](const Inputs& x) { return gather(x[0], 1, x[1]); }},
          {"gelu(x)", [](const Inputs& x) { return gelu(x[0]); }},
          {"index_select(x, 0, idx)",
           [](const Inputs& x) { return embedding(x[0], x[1]); }},
          {"layer_norm(x, (8,), w, b)",
           [](const Inputs& x) { return layer_norm(x[0], &x[1], &x[2]); }},
          {"linear(x, w, b)",
           [](const Inputs& x) { return linear(x[0], x[1], &x[2]); }},
          {"log_softmax(x, 1)",
           [](const Inputs& x) { return log_softmax(x[0], 1); }},
          {"mm(x, w)", [](const Inputs& x) { return mm(x[0], x[1]); }},
          {"mm(relu(mm(x, a)), b)",
           [](const Inputs& x) { return mm(relu(mm(x[0], x[1])), x[2]); }},
          {"nll_loss(log_softmax(x, 1), t)",
           [](const Inputs& x) {
             return nll_loss(log_softmax(x[0], 1), x[1]);
           }},
          {"relu(mm(x, w))",
           [](const Inputs& x) { return relu(mm(x[0], x[1])); }},
          {"relu(x)", [](const Inputs& x) { return relu(x[0]); }},
          {"rms_norm(x, (8,), w)",
           [](const Inputs& x) { return rms_norm(x[0], &x[1]); }},
          {"softmax(x, 0)", [](const Inputs& x) { return softmax(x[0], 0); }},
          {"softmax(x, 1)", [](const Inputs& x) { return softmax(x[0], 1); }},
          {"tanh(x)", [](const Inputs& x) { return tanh(x[0]); }},
          {"x * b", [](const Inputs& x) { return x[0] * x[1]; }},
          {"x * w", [](const Inputs& x) { return x[0] * x[1]; }},
          {"x * x + mm(x, x)",
           [](const Inputs& x) { return x[0] * x[0] + mm(x[0], x[0]); }},
          {"x + b", [](const Inputs& x) { return x[0] + x[1]; }},
          {"x + w", [](const Inputs& x) { return x[0] + x[1]; }},
          {"x - w", [](const Inputs& x) { return x[0] - x[1]; }},
          {"x / w", [](const Inputs& x) { return x[0] / x[1]; }},
          {"x.amax(1)", [](const Inputs& x) { return amax(x[0], Ints({1})); }},
          {"x.expand(4, 8, 8)",
           [](const Inputs& x) {
             return expand(x[0], {4, 8, 8});
           }},
          {"x.mean()", [](const Inputs& x) { return mean(x[0]); }},
          {"x.mean(1)", [](const Inputs& x) { return mean(x[0], Ints({1})); }},
          {"x.sum()", [](const Inputs& x) { return sum(x[0]); }},
          {"x.sum(0)", [](const Inputs& x) { return sum(x[0], Ints({0})); }},
          {"x.t()", [](const Inputs& x) { return transpose(x[0], 0, 1); }},
          {"x.view(2, 4, 8)",
           [](const Inputs& x) {
             return view(x[0], {2, 4, 8});
           }},
          {"x[2:6]", [](const Inputs& x) { return slice(x[0], 0, 2, 6); }},
      };
  return *all;
}
// The program for which this library has no operator.
constexpr char kLeftOut[] = "cumsum(x, 0)";

// The text without "redistribute(" and its ", layout)".
std::string dense_text(std::string text) {
  const std::string call = "redistribute(";
  for (size_t at = text.rfind(call); at != std::string::npos;
       at = text.rfind(call)) {
    // The innermost call is the last one: its argument ends before ", ".
    int depth = 0;
    size_t end = at + call.size(), comma = std::string::npos;
    for (; end < text.size(); ++end) {
      if (text[end] == '(') ++depth;
      if (text[end] == ')' && depth-- == 0) break;
      if (text[end] == ',' && depth == 0) comma = end;
    }
    text = text.substr(0, at) +
           text.substr(at + call.size(), comma - at - call.size()) +
           text.substr(end + 1);
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

Tensor tensor_of(const Json& record, DType dtype) {
  Dims sizes;
  for (const Json& size : record["shape"]) sizes.push_back(size);
  Tensor tensor = *Tensor::empty(sizes, dtype);
  for (size_t i = 0; i < record["vals"].size(); ++i) {
    if (dtype == DType::kI64) {
      tensor.data<int64_t>()[i] = record["vals"][i].get<int64_t>();
    } else {
      tensor.data<double>()[i] = record["vals"][i].get<double>();
    }
  }
  return tensor;
}

void expect_near(const Tensor& tensor, const Json& wanted,
                 const std::string& what) {
  const Tensor dense = contiguous(tensor);
  ASSERT_EQ(static_cast<size_t>(dense.count()), wanted.size()) << what;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double value = wanted[i].get<double>();
    // PyTorch computed in f32.
    ASSERT_NEAR(dense.data<double>()[i], value, 2e-4 + 2e-3 * std::abs(value))
        << what << ", element " << i;
  }
}

TEST(Golden, OutputsAndGradientsAreThoseThatPyTorchRecorded) {
  std::ifstream file(GOLDEN_VALUES);
  int compared = 0, left_out = 0;
  for (std::string line; std::getline(file, line);) {
    const Json record = Json::parse(line);
    const std::string text = dense_text(record["expr"]);
    if (text == kLeftOut) {
      ++left_out;
      continue;
    }
    const auto program = programs().find(text);
    ASSERT_NE(program, programs().end()) << record["expr"] << " is " << text;
    Inputs inputs;
    for (size_t i = 0; i < record["inputs"].size(); ++i) {
      // A record without a gradient is an input of indices.
      const bool index =
          record["grads"].size() <= i || record["grads"][i].is_null();
      inputs.push_back(
          tensor_of(record["inputs"][i], index ? DType::kI64 : DType::kF64));
      if (!index) check(inputs.back().set_requires_grad());
    }
    const Tensor output = program->second(inputs);
    expect_near(output, record["output"]["vals"], text);
    if (record["seed"] == "sum") {
      check(backward({sum(output)}));
    } else {
      Json cotangent = record["cotangent"];
      if (!cotangent.is_object()) {
        cotangent = {{"shape", record["output"]["shape"]}, {"vals", cotangent}};
      }
      check(backward({output}, {tensor_of(cotangent, DType::kF64)}));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].requires_grad()) continue;
      ASSERT_TRUE(inputs[i].grad().defined()) << text;
      expect_near(inputs[i].grad(), record["grads"][i],
                  text + ", gradient " + std::to_string(i));
    }
    ++compared;
  }
  EXPECT_EQ(compared, 84);
  EXPECT_EQ(left_out, 2);
}

}  // namespace
}  // namespace distwrap::autograd
