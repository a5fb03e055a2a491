#include "bench_tune_command.h"

#include "bench/tune/report.h"
#include "ranks_bench.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace distwrap::cli {
namespace {

constexpr char kFile[] = "distwrap.tuning";

constexpr OptionRow kOptions[] = {
    {"--ranks", "N",
     "Ranks to start; other numbers have thresholds of their own (2)"},
    {"--file", "PATH", "The file to write (distwrap.tuning)"},
    {"--seconds", "S", "Approximate duration (60)"},
    {"--json", nullptr, "As JSON"},
};

constexpr CommandRow kTune = {
    "bench tune",
    "Measures the sizes from which other methods are faster here.", kOptions,
    "For each threshold of the backend shm that matters to this number of "
    "ranks, an\nall_reduce is measured at sizes around the threshold, in turns "
    "with the other method\nalways on and always off. Thresholds that shm "
    "finds itself while it runs need no\nmeasurement. A threshold moves from "
    "its default as far as all sizes on the way become\nclearly faster, by 3 % "
    "and by more than the noise. Other thresholds in the file stay.\nPrograms "
    "use the file through DISTWRAP_TUNING.\n\n"
    "Examples:\n"
    "  distwrap bench tune\n"
    "  distwrap bench tune --ranks 4 --file /etc/distwrap.tuning\n\n"
    "Exit code: 0; 1 when ranks failed or the file was not written; 2 for bad "
    "options."};

struct Options {
  int ranks = 2;
  double seconds = 60;
  std::string file;  // absolute
  bool json = false;
};

absl::Status refuse(absl::string_view option, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", why));
}

absl::StatusOr<Options> check(const Typed& typed) {
  Options options;
  absl::Status read =
      read_number(typed, "--ranks", 2, kMostRanks, &options.ranks);
  if (read.ok()) read = read_seconds(typed, &options.seconds);
  if (!read.ok()) return read;
  std::error_code error;
  options.file =
      std::filesystem::absolute(typed.value("--file").value_or(kFile), error)
          .string();
  if (error) return refuse("--file", error.message());
  options.json = typed.has("--json");
  return options;
}

absl::StatusOr<bench::Points> run_ranks(const Options& options) {
  const absl::StatusOr<std::string> told =
      ask_ranks(kTune, options.ranks, {absl::StrCat(options.seconds)});
  if (!told.ok()) return told.status();
  return bench::read_points(*told);
}

std::optional<absl::Status> measure(const Words& words) {
  double seconds = 0;
  if (words.size() != 2 || !absl::SimpleAtod(words[0], &seconds))
    return std::nullopt;
  return bench::measure_points(seconds, words[1]);
}

}  // namespace

CommandText bench_tune_text() { return text_of(kTune); }

int bench_tune_command(const Words& given) {
  Words words = given;
  if (take_as_rank(&words)) return end_rank(kTune, measure(words));
  Typed typed;
  if (const auto code = parse(kTune, words, &typed)) return *code;
  const absl::StatusOr<Options> options = check(typed);
  if (!options.ok()) return complain(kTune, options.status().message(), kUsage);
  if (const auto code = refuse_in_job(kTune)) return *code;
  const auto kept = bench::values_of(options->file);
  if (!kept.ok()) return complain(kTune, kept.status().message(), kUsage);
  if (absl::Status status = bench::check_writable(options->file); !status.ok())
    return complain(kTune, status.message(), kUsage);

  const bench::Machine machine = bench::this_machine();
  const auto points = run_ranks(*options);
  if (!points.ok()) return complain(kTune, points.status().message(), kFailed);
  const auto report = bench::tune_report(machine, options->ranks, *points);
  if (!report.ok()) return complain(kTune, report.status().message(), kFailed);
  if (absl::Status status = bench::replace_file(
          options->file, bench::tuning_text(*report, *kept));
      !status.ok())
    return complain(kTune, status.message(), kFailed);
  if (options->json)
    std::fputs(bench::tuning_json(*report, options->file).c_str(), stdout);
  else
    std::printf("%s\nTo use it:\n  export DISTWRAP_TUNING=%s\n",
                bench::show_tuning(*report).c_str(), options->file.c_str());
  return 0;
}

}  // namespace distwrap::cli
