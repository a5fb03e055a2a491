#include "bench_dispatch_command.h"

#include "tensor_tool.h"

namespace distwrap::cli {
namespace {

constexpr OptionRow kOptions[] = {
    {"--python", "PYTHON",
     "An interpreter that has PyTorch, for the cost of torch.add (default "
     "python3)"},
    {"--json", nullptr, "As JSON"},
};

constexpr CommandRow kDispatch = {
    "bench dispatch",
    "Measures what calls of operators cost, without arithmetic.", kOptions,
    "Times are medians of 101 blocks on one thread.\n\n"
    "Example:\n"
    "  distwrap bench dispatch\n\n"
    "Exit code: 0; 1 when distwrap was built without the tensor library; 2 for "
    "bad options."};

}  // namespace

CommandText bench_dispatch_text() { return text_of(kDispatch); }

int bench_dispatch_command(const Words& words) {
  Typed typed;
  if (const auto code = parse(kDispatch, words, &typed)) return *code;
  Words arguments = {"dispatch"};
  if (typed.has("--json")) arguments.emplace_back("--json");
  if (const auto python = typed.value("--python")) {
    arguments.insert(arguments.end(), {"--python", *python});
  }
  return run_tensor_tool("distwrap bench dispatch", arguments);
}

}  // namespace distwrap::cli
