#include "bench/rank.h"

#include "bench/ascii_plot.h"
#include "bench/core_speed.h"
#include "bench/csv.h"
#include "bench/json.h"
#include "bench/nccl_text.h"
#include "bench/overhead.h"
#include "bench/plot.h"
#include "bench/progress.h"
#include "bench/side_channel.h"
#include "bench/sweep.h"
#include "bench/table.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <string>
#include <unistd.h>
#include <utility>

namespace distwrap::bench {
namespace {

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
  add(options.plot, options.plot == "-" ? ascii_plot : plot);
  return status;
}

// Prints all results of rank 0 as they come.
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
  } else if (!options.quiet() && !options.plan.overhead) {
    const auto text = options.nccl ? nccl_text : table;
    observer.on_operation = [&progress, text](const Report& report,
                                              Operation op) {
      progress.clear();
      print(text(report, op));
    };
  }
  return observer;
}

}  // namespace

bool pin(int local_rank) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return false;
  int left = local_rank % CPU_COUNT(&mine);
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

absl::StatusOr<std::optional<OldRun>> read_old_run(const Options& options) {
  std::optional<OldRun> none;
  if (options.compare.empty()) return none;
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("--compare ", options.compare, ": ", why));
  };
  std::ifstream in(options.compare, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) return bad(std::strerror(errno));
  auto old = parse_document(text);
  if (!old.ok()) return bad(old.status().message());
  Report report;
  report.machine = this_machine();
  report.ranks = options.ranks;
  report.pinned = options.pin;
  if (options.cold) report.plan.evictor = std::make_shared<Evictor>(0);
  const absl::Status status = comparable(*old, report);
  if (!status.ok()) return bad(status.message());
  for (const OldRow& row : old->rows) {
    const auto op = parse_operation(row.op);
    if (op.ok() && std::find(options.ops.begin(), options.ops.end(), *op) !=
                       options.ops.end()) {
      return std::optional<OldRun>(*std::move(old));
    }
  }
  return bad("it has none of the operations that are to be measured");
}

absl::Status run_rank(const Options& options,
                      const std::vector<ContestantKind>& kinds,
                      const Place& place, const std::optional<OldRun>& old,
                      const std::function<void(const absl::Status&)>& failed) {
  // Backends whose engine lets SIGPIPE through guard each call against it; raw
  // engines do not. Ignoring the signal makes all contestants equal.
  std::signal(SIGPIPE, SIG_IGN);
  Options own = options;
  const Machine machine = this_machine();  // read before this process is bound
                                           // to a core
  // An operation that hangs ends before the side channel's timeout, so that its
  // error is the one that is reported.
  SideChannel side(place.store, "bench", place.rank, place.ranks,
                   absl::Seconds(2 * options.timeout + 60));
  std::optional<LimitProbe> limits;
  if (options.limit) {
    auto made = LimitProbe::make(side);  // measured before this process is
                                         // bound to a core
    if (!made.ok()) return made.status();
    limits = *made;
  }
  if (options.cold) {
    own.plan.evictor = std::make_shared<Evictor>(largest_cache_bytes());
  }
  own.pin = options.pin && pin(place.local_rank);
  // All ranks time equally many calls at once.
  std::vector<double> least = {
      Plan::least_timed_us(place.local_ranks > machine.cores)};
  if (absl::Status status = side.max(least); !status.ok()) return status;
  own.plan.timed_us = least[0];
  if (CoreSpeed::tells_of_others()) {
    own.plan.slowdown = [speed = CoreSpeed()]() mutable {
      return speed.slowdown();
    };
  }
  const bool tells = place.rank == 0;
  if (tells && options.pin && !own.pin)
    std::fprintf(stderr, "distwrap bench: not pinned: the system refuses\n");

  auto field = make_field(own, kinds, place.store, side);
  if (!field.ok()) return field.status();

  const Progress progress;
  Observer observer;
  if (tells) {
    observer = teller(options, progress);
    Report report = blank_report(own, *field, place.ranks);
    report.machine = machine;
    if (limits) report.latency = limits->latency();
    if (options.json) {
      print(json_header(report) + "\n");
    } else if (!options.quiet()) {
      print(options.nccl ? nccl_heading(report) : heading(report));
    }
  }
  const NoiseMeter meter;
  auto report = sweep(own, *field, side, observer, limits ? &*limits : nullptr);
  if (!report.ok()) {
    failed(report.status());
    return report.status();
  }
  report->machine = machine;
  report->noise = meter.read();
  absl::Status status;
  int slower = 0;
  if (tells) {
    progress.clear();
    if (!options.quiet() && options.plan.overhead) {
      print(overhead_table(*report));
    }
    if (!options.quiet()) {
      print(options.nccl ? nccl_summary(*report) : summary(*report));
    }
    if (old) {
      const Comparison comparison = compare(*old, *report, options.threshold);
      slower = comparison.slower();
      const std::string text = comparison_text(comparison);
      if (!options.quiet() && !options.nccl) print(text);
      if (options.quiet() || options.nccl) std::fputs(text.c_str(), stderr);
      if (comparison.rows.empty()) {
        status = absl::FailedPreconditionError(
            absl::StrCat("--compare ", options.compare,
                         ": the two runs have no row in common"));
      }
    }
    const absl::Status written = write_files(options, *report);
    if (status.ok()) status = written;
  }
  // No rank closes while another one still measures.
  status = side.agree(status);
  if (!status.ok()) return status;
  if (report->wrong() > 0) {
    return absl::DataLossError(
        absl::StrCat(report->wrong(), " elements were wrong"));
  }
  const auto regressions = side.sum(slower);
  if (!regressions.ok()) return regressions.status();
  if (*regressions > 0) {
    return absl::DataLossError(
        absl::StrCat(*regressions, " rows became slower"));
  }
  return absl::OkStatus();
}

}  // namespace distwrap::bench
