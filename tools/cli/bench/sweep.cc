#include "bench/sweep.h"

#include "bench/distwrap_contestant.h"
#include "bench/size.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

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
  std::vector<std::string> known;
  known.reserve(kinds.size());
  for (const ContestantKind& kind : kinds) known.push_back(kind.name);
  for (const std::string& name : options.vs) {
    if (find_kind(kinds, name) != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--vs: there is no '", name, "' in this program; ",
        known.empty() ? "it compares backends only (--backend A,B); "
                        "distwrap-bench-peers of the build tree has more"
                      : absl::StrCat("known: ", absl::StrJoin(known, " "))));
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
    return add(absl::StrCat("distwrap/", backend, mark), [&](const Setup& s) {
      return make_distwrap_contestant(backend, s);
    });
  };
  const auto add_peer = [&](const std::string& name, absl::string_view mark) {
    setup.hints = {};
    return add(absl::StrCat(name, mark), find_kind(kinds, name)->make);
  };

  absl::Status status = check_kinds(options, kinds);
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
  report.hints = options.hints;
  for (const auto& contestant : field.contestants) {
    report.contestants.push_back(contestant->name());
  }
  report.baseline = report.contestants[field.baseline];
  if (field.control) report.control = report.contestants.back();
  return report;
}

absl::StatusOr<Report> sweep(const Options& options, const Field& field,
                             SideChannel& side, const Observer& observer) {
  Report report = blank_report(options, field, side.ranks());
  std::vector<Contestant*> contestants;
  for (const auto& contestant : field.contestants) {
    contestants.push_back(contestant.get());
  }
  std::vector<Spec> specs;
  for (Operation op : options.ops) {
    Spec spec{op,          side.rank(),   side.ranks(),
              0,           options.dtype, options.reduce,
              options.root};
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
    auto rows = measure(*c, contestants, field.baseline, side, options.plan);
    if (!rows.ok()) return rows.status();
    if (observer.on_rows) observer.on_rows(*rows);
    report.rows.insert(report.rows.end(), rows->begin(), rows->end());
    if (i + 1 == specs.size() || specs[i + 1].op != specs[i].op) {
      if (observer.on_operation) observer.on_operation(report, specs[i].op);
    }
  }
  return report;
}

}  // namespace distwrap::bench
