#include "doctor_command.h"

#include "bench/json.h"
#include "doctor/report.h"

#include <cstdio>

namespace distwrap::cli {
namespace {

constexpr OptionRow kOptions[] = {
    {"-q,--quiet", nullptr, "Print only the problems"},
    {"--json", nullptr, "As JSON"},
};

constexpr CommandRow kDoctor = {
    "doctor",
    "Looks for problems that would break or slow a job on this host; each "
    "comes with its fix.",
    kOptions,
    "It makes a store and talks to it, loads every backend, and reads limits, "
    "shared memory,\naddresses, settings and the launcher's variables.\n\n"
    "Exit code: 0 when all is well or there are only warnings; 1 when a check "
    "fails; 2 for bad\noptions."};

}  // namespace

CommandText doctor_text() { return text_of(kDoctor); }

int doctor_command(const Words& words) {
  Typed typed;
  if (const auto code = parse(kDoctor, words, &typed)) return *code;
  const std::vector<Finding> findings =
      judge(gather(base::Environment::of_process()));
  const bool quiet = typed.has("--quiet");
  const std::string text = typed.has("--json")
                               ? bench::json_text(to_json(findings, quiet))
                               : to_text(findings, quiet);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    return kFailed;
  return worst(findings) == Health::kFail ? kFailed : 0;
}

}  // namespace distwrap::cli
