// The options of a combine, from the arguments of Python.
//
// Threads: with the GIL.
#ifndef DISTWRAP_PYTHON_SRC_MOE_COMBINE_H_
#define DISTWRAP_PYTHON_SRC_MOE_COMBINE_H_

#include "call.h"

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap_python {

// The number of a word among those that a field takes.
template <size_t N>
int32_t choice(const char* call, const char* field, const std::string& word,
               const char* const (&words)[N]) {
  std::string all;
  for (size_t i = 0; i < N; ++i) {
    if (word == words[i]) return static_cast<int32_t>(i);
    all += (i == 0 ? "" : ", ") + std::string(words[i]);
  }
  raise_value(call, std::string(field) + " is " + word, "give one of " + all);
}

// Uses the tensors of `call`, which outlives it.
class MoeCombine {
 public:
  MoeCombine(const char* name, OperationCall& call,
             const std::string& weighting, nanobind::handle weights,
             nanobind::handle bias, const std::string& order, bool reproducible,
             nanobind::handle returns);
  const distwrap_moe_combine_options* get() const { return &options_; }

 private:
  distwrap_moe_combine_options options_ = {};
  std::vector<const distwrap_tensor*> bias_;
  std::vector<distwrap_moe_return> returns_;
};

}  // namespace distwrap_python

#endif  // DISTWRAP_PYTHON_SRC_MOE_COMBINE_H_
