#include "bench/rank.h"

#include "bench/csv.h"
#include "bench/json.h"
#include "bench/plot.h"
#include "bench/side_channel.h"
#include "bench/sweep.h"
#include "bench/table.h"

#include <absl/strings/str_cat.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sched.h>
#include <string>
#include <unistd.h>

namespace distwrap::bench {
namespace {

// One line that is written over and over, where somebody watches.
class Progress {
 public:
  Progress() : on_(isatty(STDERR_FILENO) == 1) {}
  void show(const std::string& text) const {
    if (on_) std::fprintf(stderr, "\r\033[K%s", text.c_str());
  }
  void clear() const { show(""); }

 private:
  bool on_;
};

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

absl::Status write(const std::string& path, const std::string& text) {
  if (path == "-") {
    print(text);
    return absl::OkStatus();
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("cannot write '", path, "': ", std::strerror(errno)));
}

absl::Status write_files(const Options& options, const Report& report) {
  absl::Status status;
  const auto add = [&](const std::string& path, auto&& make) {
    if (!path.empty() && status.ok()) status = write(path, make(report));
  };
  add(options.json_file, json_document);
  add(options.csv, csv);
  add(options.plot, plot);
  return status;
}

// Tells rank 0's user everything as it comes.
Observer teller(const Options& options, const Progress& progress) {
  Observer observer;
  observer.on_case = [&](const std::string& name, size_t at, size_t of) {
    progress.show(absl::StrCat("[", at, "/", of, "] ", name));
  };
  if (options.json) {
    observer.on_rows = [](const std::vector<Row>& rows) {
      for (const Row& row : rows) {
        if (row.measured) print(json_line(row) + "\n");
      }
    };
  } else if (!options.quiet()) {
    observer.on_operation = [&](const Report& report, Operation op) {
      progress.clear();
      print(table(report, op));
    };
  }
  return observer;
}

}  // namespace

bool pin(int local_rank, int local_ranks) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return false;
  if (local_ranks > CPU_COUNT(&mine)) return false;
  int left = local_rank;
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &mine) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
  }
  return false;
}

bool told_by_rank_0(const absl::Status& status) {
  return SideChannel::agreed(status) || absl::IsDataLoss(status);
}

absl::Status run_rank(const Options& options,
                      const std::vector<ContestantKind>& kinds,
                      const Place& place) {
  // Backends whose engine lets this signal come guard each call against it, raw
  // engines do not: without it all contestants do the same.
  std::signal(SIGPIPE, SIG_IGN);
  Options own = options;
  const Machine machine = this_machine();  // before it is narrowed to a core
  own.pin = options.pin && pin(place.local_rank, place.local_ranks);
  const bool tells = place.rank == 0;
  if (tells && options.pin && !own.pin) {
    std::fprintf(stderr, "distwrap bench: not pinned: %d ranks, %d cores\n",
                 place.local_ranks, machine.cores);
  }

  // An operation that hangs is ended first, so that its error is told.
  SideChannel side(place.store, "bench", place.rank, place.ranks,
                   absl::Seconds(2 * options.timeout + 60));
  auto field = make_field(own, kinds, place.store, side);
  if (!field.ok()) return field.status();

  const Progress progress;
  Observer observer;
  if (tells) {
    observer = teller(options, progress);
    Report report = blank_report(own, *field, place.ranks);
    report.machine = machine;
    if (!options.quiet()) print(heading(report));
  }
  auto report = sweep(own, *field, side, observer);
  if (!report.ok()) return report.status();
  report->machine = machine;
  absl::Status status;
  if (tells) {
    progress.clear();
    if (!options.quiet()) print(summary(*report));
    status = write_files(options, *report);
  }
  // Nobody closes while another still measures.
  status = side.agree(status);
  if (!status.ok()) return status;
  if (report->wrong() > 0) {
    return absl::DataLossError(
        absl::StrCat(report->wrong(), " elements were wrong"));
  }
  return absl::OkStatus();
}

}  // namespace distwrap::bench
