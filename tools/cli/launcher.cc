#include "launcher.h"

#include "base/error.h"
#include "base/settings.h"
#include "child.h"
#include "job.h"

#include <absl/strings/str_cat.h>

#include <filesystem>
#include <string.h>
#include <system_error>
#include <unistd.h>

namespace distwrap::cli {
namespace {

constexpr int kMostRanks = 4096;

absl::Status invalid(absl::string_view what, absl::string_view expected,
                     absl::string_view actual) {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = std::string(what),
                           .op = "launch",
                           .expected = std::string(expected),
                           .actual = std::string(actual)});
}

absl::Status make_output_dir(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return invalid("the output folder cannot be made", "a folder",
                 absl::StrCat("'", path, "': ", error.message()));
}

// Prints why the program cannot run; returns the exit code.
int cannot_run(const std::string& program, int error) {
  const std::string text =
      error == ENOENT
          ? absl::StrCat(
                "distwrap: program '", program, "' is not found",
                program.find('/') == std::string::npos ? " in PATH\n" : "\n")
          : absl::StrCat("distwrap: program '", program,
                         "' cannot be executed: ", strerror(error), "\n");
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text.data(), text.size());
  return error == ENOENT ? kNotFound : kNotExecutable;
}

}  // namespace

absl::StatusOr<int> launch(const LaunchOptions& options) {
  if (options.ranks < 1 || options.ranks > kMostRanks)
    return invalid("the number of ranks is not usable",
                   absl::StrCat("1 to ", kMostRanks),
                   absl::StrCat(options.ranks));
  if (options.argv.empty() || options.argv.front().empty())
    return invalid("no program is given", "program [arguments]", "nothing");
  const Program program = find_program(options.argv.front());
  if (program.error != 0)
    return cannot_run(options.argv.front(), program.error);
  if (options.output == LaunchOptions::kFiles)
    if (absl::Status status = make_output_dir(options.output_dir); !status.ok())
      return status;
  fill_standard_descriptors();

  Job job(options);
  if (absl::Status status = job.start(program.path); !status.ok())
    return status;
  return job.run();
}

}  // namespace distwrap::cli
