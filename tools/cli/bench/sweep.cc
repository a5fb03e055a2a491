#include "bench/sweep.h"

#include "bench/distwrap_contestant.h"
#include "bench/help.h"
#include "bench/size.h"
#include "bench/table_contestant.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace distwrap::bench {
namespace {

const ContestantKind* find_kind(const std::vector<ContestantKind>& kinds,
                                const std::string& name) {
  for (const ContestantKind& kind : kinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

}  // namespace

absl::Status check_kinds(const Options& options,
                         const std::vector<ContestantKind>& kinds) {
  for (const std::string& name : options.vs) {
    const ContestantKind* const kind = find_kind(kinds, name);
    if (kind != nullptr && kind->missing.empty()) continue;
    std::vector<std::string> known;
    for (const ContestantKind& one : kinds) known.push_back(one.name);
    return absl::InvalidArgumentError(absl::StrCat(
        kind == nullptr
            ? absl::StrCat("--vs: there is no '", name, "'; did you mean ",
                           nearest(name, known), "? Known:\n")
            : absl::StrCat("--vs: ", name, " is not here: ", kind->missing,
                           "; known:\n"),
        list_of(kinds)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Field> make_field(const Options& options,
                                 const std::vector<ContestantKind>& kinds,
                                 std::shared_ptr<Store> store,
                                 SideChannel& side) {
  Setup setup;
  setup.rank = side.rank();
  setup.ranks = side.ranks();
  setup.store = std::move(store);
  setup.timeout = absl::Seconds(options.timeout);

  Field field;
  const auto add = [&](const std::string& name,
                       const auto& make) -> absl::Status {
    setup.name = name;
    auto made = make(setup);
    absl::Status status = side.agree(made.status());
    if (status.ok()) field.contestants.push_back(*std::move(made));
    return status;
  };
  const auto add_backend = [&](const std::string& backend,
                               absl::string_view mark) {
    setup.hints = options.hints;
    setup.shared_memory = options.shared_memory;
    return add(absl::StrCat("distwrap/", backend, mark), [&](const Setup& s) {
      return make_distwrap_contestant(backend, s);
    });
  };
  const auto add_peer = [&](const std::string& name, absl::string_view mark) {
    setup.hints = options.hints;
    return add(absl::StrCat(name, mark), find_kind(kinds, name)->make);
  };

  absl::Status status = check_kinds(options, kinds);
  if (options.plan.overhead) {
    // The two contestants use the only backend whose calls have no other cost.
    const std::string backend = options.backends[0];
    status = add_backend(backend, "");
    if (status.ok()) {
      status = add(absl::StrCat("table/", backend), [&](const Setup& s) {
        return make_table_contestant(backend, s);
      });
    }
    field.baseline = 1;
    if (!status.ok()) return status;
    return field;
  }
  for (const std::string& backend : options.backends) {
    if (status.ok()) status = add_backend(backend, "");
  }
  field.baseline = options.vs.empty() ? 0 : options.backends.size();
  for (const std::string& name : options.vs) {
    if (status.ok()) status = add_peer(name, "");
  }
  field.control = options.control;
  if (status.ok() && options.control) {
    status = options.vs.empty() ? add_backend(options.backends[0], "#2")
                                : add_peer(options.vs[0], "#2");
  }
  if (!status.ok()) return status;
  return field;
}

Report blank_report(const Options& options, const Field& field, int ranks) {
  Report report;
  report.machine = this_machine();
  report.ranks = ranks;
  report.pinned = options.pin;
  report.plan = options.plan;
  report.dtype = options.dtype;
  report.reduce = options.reduce;
  report.root = options.root;
  report.depth = options.depth;
  report.pattern = options.pattern.name();
  report.hints = options.hints;
  for (const auto& contestant : field.contestants) {
    report.contestants.push_back(contestant->name());
  }
  report.baseline = report.contestants[field.baseline];
  if (field.control) report.control = report.contestants.back();
  return report;
}

absl::StatusOr<Report> sweep(const Options& options, const Field& field,
                             SideChannel& side, const Observer& observer,
                             LimitProbe* limits) {
  Report report = blank_report(options, field, side.ranks());
  if (limits != nullptr) report.latency = limits->latency();
  std::vector<Contestant*> contestants;
  for (const auto& contestant : field.contestants) {
    contestants.push_back(contestant.get());
  }
  std::vector<Spec> specs;
  for (Operation op : options.ops) {
    Spec spec{op,
              side.rank(),
              side.ranks(),
              0,
              options.dtype,
              options.reduce,
              options.root,
              options.pattern,
              options.depth};
    if (op == Operation::kBarrier) {
      specs.push_back(spec);
      continue;
    }
    for (int64_t bytes : options.sizes) {
      spec.bytes = bytes;
      specs.push_back(spec);
    }
  }

  for (size_t i = 0; i < specs.size(); ++i) {
    std::string name(operation_name(specs[i].op));
    if (specs[i].bytes > 0) {
      absl::StrAppend(&name, " ", format_size(specs[i].bytes));
    }
    if (observer.on_case) observer.on_case(name, i + 1, specs.size());
    auto c = Case::make(specs[i]);
    const absl::Status status = side.agree(c.status());
    if (!status.ok()) return status;
    absl::StatusOr<double> limit = 0.0;
    if (limits != nullptr) limit = limits->limit_us(specs[i]);
    if (!limit.ok()) return limit.status();
    auto rows = measure(*c, contestants, field.baseline, side, options.plan);
    if (!rows.ok()) return rows.status();
    for (Row& row : *rows) {
      if (row.measured) row.limit_us = *limit;
    }
    if (observer.on_rows) observer.on_rows(*rows);
    report.rows.insert(report.rows.end(), rows->begin(), rows->end());
    if (i + 1 == specs.size() || specs[i + 1].op != specs[i].op) {
      if (observer.on_operation) observer.on_operation(report, specs[i].op);
    }
  }
  return report;
}

}  // namespace distwrap::bench
