// tensor_tool: what `distwrap info --ops` and `distwrap bench dispatch` run.
//
//   tensor_tool ops [--json | --markdown] [LIBRARY]
//   tensor_tool dispatch [--json] [--python PYTHON]
#include "distwrap/registration.h"
#include "tensor/dispatch_cost.h"
#include "tensor/operator_pages.h"

#include <cstdio>
#include <set>
#include <string>
#include <vector>

namespace {

int complain(const std::string& text, int code) {
  std::fprintf(stderr, "distwrap: %s\n", text.c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace distwrap::tools;  // NOLINT(google-build-using-namespace)
  Form form = Form::kText;
  // Rows of PyTorch stand beside where this interpreter has it.
  std::string python = "python3", library;
  const std::string command = argc > 1 ? argv[1] : "";
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json") {
      form = Form::kJson;
    } else if (word == "--markdown" && command == "ops") {
      form = Form::kMarkdown;
    } else if (word == "--python" && command == "dispatch" && i + 1 < argc) {
      python = argv[++i];
    } else if (command == "ops" && library.empty() && word[0] != '-') {
      library = word;
    } else {
      return complain("unknown option '" + word + "'", 2);
    }
  }
  if (const absl::Status status = distwrap::dispatch::registry_status();
      !status.ok()) {
    return complain(std::string(status.message()), 1);
  }
  std::string text;
  if (command == "ops") {
    // A library's page shows what the library brings and nothing else.
    std::set<std::string> hidden;
    if (!library.empty()) {
      for (const distwrap::dispatch::OpHandle& op :
           distwrap::dispatch::operators()) {
        hidden.insert(op.name());
      }
      const absl::Status status = distwrap::dispatch::load_library(library);
      if (!status.ok()) return complain(std::string(status.message()), 1);
    }
    text = operator_pages(form, hidden);
  } else if (command == "dispatch") {
    text = dispatch_cost(form, python);
  } else {
    return complain("tensor_tool ops | dispatch", 2);
  }
  return std::fputs(text.c_str(), stdout) < 0 ? 1 : 0;
}
