#include "bench/tune/report.h"

#include "bench/json.h"
#include "bench/size.h"
#include "bench/text_table.h"
#include "group/tuning_file.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace distwrap::bench {
namespace {

constexpr int kSchema = 1;

absl::Status cannot_write(const std::string& path, int why) {
  return absl::PermissionDeniedError(
      absl::StrCat("cannot write '", path, "': ", std::strerror(why)));
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

bool stays(const Tuned& one) { return one.found.bytes == one.experiment.usual; }

std::string gain_text(const Tuned& one) {
  return stays(one) ? "-" : absl::StrFormat("%.0f %%", 100 * one.found.gain);
}

std::string key_of(const Tuned& one) {
  return absl::StrCat("shm.", one.experiment.name);
}

bool write_all(int fd, const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return fsync(fd) == 0;
}

}  // namespace

absl::StatusOr<TuneReport> tune_report(const Machine& machine, int ranks,
                                       const Points& points) {
  TuneReport report{machine, ranks, {}};
  for (Experiment& one : experiments(ranks)) {
    const auto told = points.find(one.name);
    if (told == points.end() || told->second.size() != one.sizes().size())
      return absl::InternalError(
          absl::StrCat("the ranks reported nothing about shm.", one.name));
    const Found found = find_threshold(one.usual, told->second);
    report.tuned.push_back({std::move(one), told->second, found});
  }
  return report;
}

std::string show_tuning(const TuneReport& report) {
  std::vector<std::vector<std::string>> lines = {
      {"threshold", "default", "found", "gain between"}};
  for (const Tuned& one : report.tuned)
    lines.push_back({key_of(one), format_size(one.experiment.usual),
                     format_size(one.found.bytes), gain_text(one)});
  return absl::StrCat("# ", describe(report.machine), "\n# ", report.ranks,
                      " ranks\n", text_table({}, lines));
}

std::string tuning_json(const TuneReport& report, const std::string& path) {
  cli::JsonArray thresholds;
  for (const Tuned& one : report.tuned) {
    cli::JsonArray sizes;
    for (const SizeRatio& point : one.points)
      sizes.push_back(cli::JsonObject{{"bytes", point.size},
                                      {"ratio", point.ratio.median},
                                      {"low", point.ratio.low},
                                      {"high", point.ratio.high}});
    thresholds.push_back(cli::JsonObject{{"name", key_of(one)},
                                         {"default", one.experiment.usual},
                                         {"found", one.found.bytes},
                                         {"gain", one.found.gain},
                                         {"sizes", std::move(sizes)}});
  }
  return json_text(cli::JsonObject{{"schema", kSchema},
                                   {"file", path},
                                   {"cpu", report.machine.cpu},
                                   {"processors", report.machine.cores},
                                   {"date", report.machine.date},
                                   {"version", report.machine.version},
                                   {"ranks", report.ranks},
                                   {"thresholds", std::move(thresholds)}});
}

std::string tuning_text(const TuneReport& report, const KeptValues& kept) {
  std::string text = absl::StrCat(
      "# By `distwrap bench tune`, distwrap ", report.machine.version, ", ",
      report.machine.date, ".\n# ", report.machine.cpu, ", ",
      report.machine.cores, " processors; ", report.ranks, " ranks.\n");
  KeptValues others = kept;
  for (const Tuned& one : report.tuned) {
    others.erase(key_of(one));
    absl::StrAppend(&text, key_of(one), " = ", one.found.bytes,
                    stays(one)
                        ? "  # the default"
                        : absl::StrCat("  # default ", one.experiment.usual,
                                       "; ", gain_text(one), " faster between"),
                    "\n");
  }
  if (!others.empty()) absl::StrAppend(&text, "\n# From earlier runs.\n");
  for (const auto& [name, value] : others)
    absl::StrAppend(&text, name, " = ", value, "\n");
  return text;
}

absl::StatusOr<KeptValues> values_of(const std::string& path) {
  KeptValues values;
  if (!std::filesystem::exists(path)) return values;
  const auto file = group::TuningFile::read(path);
  if (!file.ok()) return file.status();
  for (const auto& [backend, hint] : file->hints())
    for (const absl::string_view part : absl::StrSplit(hint, ',')) {
      const std::pair<std::string, std::string> sides =
          absl::StrSplit(part, absl::MaxSplits('=', 1));
      values[absl::StrCat(backend, ".", sides.first)] = sides.second;
    }
  return values;
}

absl::Status check_writable(const std::string& path) {
  struct stat there;
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode))
    return cannot_write(path, S_ISDIR(there.st_mode) ? EISDIR : EINVAL);
  // Permissions do not tell everything, as in /proc; only an attempt does.
  std::string probe = absl::StrCat(folder_of(path), "/.distwrap-XXXXXX");
  const int fd = mkstemp(probe.data());
  if (fd < 0) return cannot_write(path, errno);
  close(fd);
  unlink(probe.c_str());
  return absl::OkStatus();
}

absl::Status replace_file(const std::string& path, const std::string& text) {
  std::string made = absl::StrCat(path, ".XXXXXX");
  const int fd = mkstemp(made.data());
  if (fd < 0) return cannot_write(path, errno);
  bool done = fchmod(fd, 0644) == 0 && write_all(fd, text);
  int why = errno;
  close(fd);
  if (done && std::rename(made.c_str(), path.c_str()) != 0) {
    done = false;
    why = errno;
  }
  if (done) return absl::OkStatus();
  unlink(made.c_str());
  return cannot_write(path, why);
}

}  // namespace distwrap::bench
