#include "info/capability_table.h"

#include "algo/compose/recipes.h"
#include "algo/windows/window.h"
#include "columns.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace distwrap::cli {
namespace {

using algo::compose::Recipes;

struct Name {
  unsigned value;
  const char* name;
};

constexpr Name kOps[] = {
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  {value, #text},
#include "distwrap/abi/ops.def"
};
constexpr Name kTypes[] = {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  {index, #text},
#include "distwrap/abi/dtypes.def"
};
constexpr Name kReductions[] = {
    {DW_REDUCE_NONE, ""},
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  {value, #text},
#include "distwrap/abi/reductions.def"
};
constexpr Name kForms[] = {{0, "plain"},
                           {DW_FLAG_IN_PLACE, "in place"},
                           {DW_FLAG_PER_RANK, "per rank"},
                           {DW_FLAG_PARTS, "parts"},
                           {DW_FLAG_EXCLUSIVE, "exclusive"}};

using Answer = std::pair<Recipes::How, std::string>;
// Indices into kTypes and kReductions.
using Pairs = std::set<std::pair<size_t, size_t>>;

// The pairs of an operation in one form, grouped by answer.
std::map<Answer, Pairs> answers(const Recipes& recipes, uint16_t kind,
                                uint32_t form) {
  std::map<Answer, Pairs> found;
  for (size_t t = 0; t < std::size(kTypes); ++t)
    for (size_t r = 0; r < std::size(kReductions); ++r) {
      const int dtype = static_cast<int>(kTypes[t].value);
      const auto reduce = static_cast<uint16_t>(kReductions[r].value);
      if (!Recipes::exists(kind, form, dtype, reduce)) continue;
      const Recipes::Answer answer = recipes.find(kind, form, dtype, reduce);
      found[{answer.how, std::string(answer.of)}].insert({t, r});
    }
  return found;
}

const char* how_name(Recipes::How how) {
  return how == Recipes::kIsNative   ? "native"
         : how == Recipes::kComposed ? "composed"
                                     : "refused";
}

// All pairs that exist for an operation, to recognise complete rows.
Pairs all_pairs(uint16_t kind, uint32_t form) {
  Pairs all;
  for (const auto& [answer, pairs] : answers(Recipes(), kind, form))
    all.insert(pairs.begin(), pairs.end());
  return all;
}

std::set<size_t> reductions_of(const Pairs& pairs, size_t dtype) {
  std::set<size_t> found;
  for (const auto& [t, r] : pairs)
    if (t == dtype) found.insert(r);
  return found;
}

// Adds the rows of one answer; types with equal reductions share a row.
void add_rows(const CapabilityRow& start, const Pairs& pairs, const Pairs& all,
              std::vector<CapabilityRow>* rows) {
  const bool has_buffer = start.op != "barrier";
  struct Types {
    std::vector<size_t> types;
    bool every_reduction;
    std::set<size_t> reductions;
  };
  std::vector<Types> groups;
  size_t existing = 0;
  for (size_t t = 0; t < std::size(kTypes); ++t) {
    const std::set<size_t> possible = reductions_of(all, t);
    if (!possible.empty()) ++existing;
    const std::set<size_t> here = reductions_of(pairs, t);
    if (here.empty()) continue;
    const bool every = here == possible;
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const Types& g) {
          return every ? g.every_reduction
                       : !g.every_reduction && g.reductions == here;
        });
    if (group == groups.end()) {
      groups.push_back({{t}, every, here});
    } else {
      group->types.push_back(t);
      group->reductions.insert(here.begin(), here.end());
    }
  }
  for (const Types& group : groups) {
    CapabilityRow row = start;
    row.every_dtype = group.types.size() == existing;
    row.every_reduction = group.every_reduction;
    if (has_buffer)
      for (const size_t t : group.types) row.dtypes.push_back(kTypes[t].name);
    for (const size_t r : group.reductions)
      if (kReductions[r].value != DW_REDUCE_NONE)
        row.reductions.push_back(kReductions[r].name);
    rows->push_back(std::move(row));
  }
}

void add_operation(const Recipes& recipes, const Name& op,
                   std::vector<CapabilityRow>* rows) {
  const auto kind = static_cast<uint16_t>(op.value);
  // Forms with the same pairs for one answer share its rows.
  struct Found {
    Answer answer;
    Pairs pairs, all;
    std::vector<std::string> forms;
  };
  std::vector<Found> found;
  size_t n_forms = 0;
  for (const Name& form : kForms) {
    if ((form.value & ~Recipes::flags_of(kind)) != 0) continue;
    ++n_forms;
    const Pairs all = all_pairs(kind, form.value);
    for (const auto& entry : answers(recipes, kind, form.value)) {
      const auto same =
          std::find_if(found.begin(), found.end(), [&](const Found& f) {
            return f.answer == entry.first && f.pairs == entry.second &&
                   f.all == all;
          });
      if (same == found.end())
        found.push_back({entry.first, entry.second, all, {form.name}});
      else
        same->forms.push_back(form.name);
    }
  }
  for (const Found& f : found) {
    CapabilityRow row;
    row.op = op.name;
    row.forms = f.forms;
    row.every_form = f.forms.size() == n_forms;
    row.how = how_name(f.answer.first);
    row.of = f.answer.second;
    add_rows(row, f.pairs, f.all, rows);
  }
}

bool promises(const dw_caps_row& row, const Name& op) {
  return (row.ops & DW_BIT(op.value)) != 0 &&
         (row.memory & DW_BIT(DW_DEVICE_CPU)) != 0;
}

// The pairs of an operation on windows.
Pairs pairs_of(absl::Span<const dw_caps_row> rows, const Name& op) {
  Pairs pairs;
  for (const dw_caps_row& row : rows)
    for (size_t t = 0; promises(row, op) && t < std::size(kTypes); ++t)
      for (size_t r = 0; r < std::size(kReductions); ++r)
        if ((row.dtypes & DW_BIT(kTypes[t].value)) != 0 &&
            (row.reductions >> kReductions[r].value & 1) != 0)
          pairs.insert({t, r});
  return pairs;
}

// Either all operations on windows are the backend's, or all are composed.
void add_window_operation(const Recipes& recipes,
                          absl::Span<const dw_caps_row> rows, const Name& op,
                          std::vector<CapabilityRow>* table) {
  std::vector<dw_caps_row> composed;
  algo::windows::append_rows(&composed);
  const Pairs all = pairs_of(composed, op);
  const bool native =
      std::any_of(rows.begin(), rows.end(),
                  [&](const dw_caps_row& row) { return promises(row, op); });
  const bool has_any =
      std::any_of(std::begin(kOps), std::end(kOps), [&](const Name& one) {
        return one.value >= Recipes::kKinds && !pairs_of(rows, one).empty();
      });
  CapabilityRow row;
  row.op = op.name;
  row.forms = {"plain"};
  row.every_form = true;
  if (native) {
    row.how = "native";
  } else if (has_any || !recipes.on_host()) {
    row.how = "refused";
  } else {
    row.how = "composed";
    row.of = recipes.message_carrier(DW_DTYPE_U8) >= 0
                 ? "send + recv"
                 : "a copy; of one rank only";
    rows = composed;
  }
  if (all.empty())
    table->push_back(row);
  else
    add_rows(row, native || !row.of.empty() ? pairs_of(rows, op) : all, all,
             table);
}

// Rows that lie apart are an all_to_all of bytes with counts, and so are those
// that are added up on their way.
CapabilityRow rows_of_experts(const Recipes& recipes, const char* op,
                              std::vector<std::string> dtypes, bool native) {
  const Recipes::Answer blocks = recipes.find(
      DW_OP_ALL_TO_ALL, DW_FLAG_PER_RANK, DW_DTYPE_U8, DW_REDUCE_NONE);
  CapabilityRow row;
  row.op = op;
  row.forms = {"per rank"};
  row.dtypes = std::move(dtypes);
  row.how = native                              ? "native"
            : blocks.how == Recipes::kIsRefused ? "refused"
                                                : "composed";
  if (row.how == "composed") row.of = "all_to_all";
  return row;
}

std::string cell(const std::vector<std::string>& names, bool every) {
  if (names.empty()) return "-";
  return every && names.size() > 1 ? "all" : absl::StrJoin(names, " ");
}

std::string form_cell(const CapabilityRow& row) {
  if (!row.every_form) return absl::StrJoin(row.forms, ", ");
  return row.forms.size() > 1 ? "all" : "-";
}

bool is_of_windows(absl::string_view op) {
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  if (op == #text) return value >= Recipes::kKinds;
#include "distwrap/abi/ops.def"
  return false;
}

std::vector<Row> cells(const CapabilityTable& table) {
  std::vector<Row> rows;
  bool has_windows = false;
  for (const CapabilityRow& row : table.rows) {
    if (is_of_windows(row.op) && row.how == "refused") {
      has_windows = true;
      continue;
    }
    rows.push_back(
        {row.op, form_cell(row), cell(row.dtypes, row.every_dtype),
         cell(row.reductions, row.every_reduction),
         row.of.empty() ? row.how : absl::StrCat(row.how, ": ", row.of)});
  }
  if (has_windows) rows.push_back({"on windows", "-", "-", "-", "refused"});
  return rows;
}

const Row& head() {
  static const Row* const kHead =
      new Row{"operation", "form", "element types", "reductions", "how"};
  return *kHead;
}

JsonArray array_of(const std::vector<std::string>& names) {
  return JsonArray(names.begin(), names.end());
}

}  // namespace

CapabilityTable capability_table(const std::string& backend,
                                 absl::Span<const dw_caps_row> promised,
                                 int device_type, bool moves_rows,
                                 bool adds_rows) {
  CapabilityTable table;
  table.backend = backend;
  // The rows for this memory, which is the host's from here on.
  std::vector<dw_caps_row> rows;
  for (const dw_caps_row& row : promised)
    if ((row.memory & DW_BIT(device_type)) != 0) {
      rows.push_back(row);
      rows.back().memory = DW_BIT(DW_DEVICE_CPU);
    }
  const Recipes recipes(rows, DW_DEVICE_CPU);
  for (const Name& op : kOps) {
    if (op.value < Recipes::kKinds) {
      add_operation(recipes, op, &table.rows);
      continue;
    }
    add_window_operation(recipes, rows, op, &table.rows);
  }
  table.rows.push_back(
      rows_of_experts(recipes, "moe rows", {"u8"}, moves_rows));
  table.rows.push_back(
      rows_of_experts(recipes, "moe sums",
                      {"f16", "bf16", "f32", "f64", "i32", "i64"}, adds_rows));
  // Nothing is composed of operations on the memory of a device.
  if (device_type != DW_DEVICE_CPU)
    for (CapabilityRow& row : table.rows)
      if (row.how == "composed") {
        row.how = "refused";
        row.of.clear();
      }
  return table;
}

std::string to_text(const CapabilityTable& table) {
  std::vector<Row> rows = cells(table);
  rows.insert(rows.begin(), head());
  return columns(rows, "  ");
}

std::string to_markdown(const CapabilityTable& table) {
  return markdown_table(head(), cells(table));
}

JsonArray to_json(const CapabilityTable& table) {
  JsonArray rows;
  for (const CapabilityRow& row : table.rows) {
    JsonObject object = {{"op", row.op},
                         {"forms", array_of(row.forms)},
                         {"dtypes", array_of(row.dtypes)},
                         {"reductions", array_of(row.reductions)},
                         {"how", row.how}};
    if (!row.of.empty()) object.emplace_back("of", row.of);
    rows.push_back(std::move(object));
  }
  return rows;
}

}  // namespace distwrap::cli
