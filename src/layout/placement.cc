// Placements and layouts as text.
#include "base/error.h"
#include "distwrap/layout.h"
#include "layout/partials.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace distwrap {
namespace {

constexpr std::pair<absl::string_view, PartialOp> kOps[] = {
    {"sum", PartialOp::kSum},         {"avg", PartialOp::kAvg},
    {"min", PartialOp::kMin},         {"max", PartialOp::kMax},
    {"product", PartialOp::kProduct}, {"band", PartialOp::kBand},
    {"bor", PartialOp::kBor},         {"bxor", PartialOp::kBxor},
    {"norm", PartialOp::kNorm},
};

absl::Status no_placement(absl::string_view text) {
  return base::make_error(
      {.reason = Reason::kPlacement,
       .what = absl::StrCat("\"", text.substr(0, 40), "\" is no placement"),
       .expected = "R, R^, S(dim), SS(dim,factor) or P(op)",
       .next_step = absl::StrCat(
           "write one placement for each axis, such as R,S(0); op is one of ",
           absl::StrJoin(kOps, ", ",
                         [](std::string* out, const auto& op) {
                           absl::StrAppend(out, op.first);
                         }),
           " with its p, such as norm2")});
}

absl::Status no_order(absl::string_view text) {
  return base::make_error(
      {.reason = Reason::kPlacement,
       .what = absl::StrCat("\"", text.substr(0, 40),
                            "\" is no order of the axes that cut a dimension"),
       .expected = "a dimension and its axes, outermost cut first: 0:[1,0]",
       .next_step =
           "write it after the placements, such as S(0),S(0) order=0:[1,0]"});
}

// The text between `open` and the parenthesis at the end.
std::optional<absl::string_view> inside(absl::string_view text,
                                        absl::string_view open) {
  if (!absl::ConsumePrefix(&text, open) || !absl::ConsumeSuffix(&text, ")"))
    return std::nullopt;
  return text;
}

// Splits at the commas that no parenthesis or bracket encloses.
std::vector<absl::string_view> split_outside(absl::string_view text) {
  std::vector<absl::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] == '(' || text[i] == '[')) ++depth;
    if (i < text.size() && (text[i] == ')' || text[i] == ']')) --depth;
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      parts.push_back(
          absl::StripAsciiWhitespace(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  return parts;
}

// Reads "0:[1,0],2:[3,1]".
absl::StatusOr<ShardOrder> parse_order(absl::string_view text) {
  ShardOrder order;
  for (const absl::string_view part : split_outside(text)) {
    const std::vector<absl::string_view> two =
        absl::StrSplit(part, absl::MaxSplits(":[", 1));
    int dim = 0;
    if (two.size() != 2 || !absl::SimpleAtoi(two[0], &dim) ||
        !absl::EndsWith(two[1], "]") || order.contains(dim))
      return no_order(part);
    std::vector<int>& axes = order[dim];
    for (const absl::string_view axis :
         absl::StrSplit(absl::StripSuffix(two[1], "]"), ','))
      if (!absl::SimpleAtoi(axis, &axes.emplace_back())) return no_order(part);
  }
  return order;
}

}  // namespace

absl::string_view partial_op_name(PartialOp op) {
  return kOps[static_cast<size_t>(op)].first;
}

std::string layout::partial_text(PartialOp op, double norm) {
  std::string text(partial_op_name(op));
  if (op != PartialOp::kNorm) return text;
  // The shortest digits that read back as this number.
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, norm).ptr;
  return text.append(digits, end);
}

std::string placement_text(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::kShard:
      return placement.factor == 1 ? absl::StrCat("S(", placement.dim, ")")
                                   : absl::StrCat("SS(", placement.dim, ",",
                                                  placement.factor, ")");
    case Placement::Kind::kPartial:
      return absl::StrCat(
          "P(", layout::partial_text(placement.op, placement.norm), ")");
    case Placement::Kind::kReplicate:
      break;
  }
  return placement.reduced ? "R^" : "R";
}

absl::StatusOr<Placement> parse_placement(absl::string_view text) {
  const absl::string_view whole = text;
  if (text == "R") return Placement::replicate();
  if (text == "R^")
    return Placement{.kind = Placement::Kind::kReplicate, .reduced = true};
  if (text == "P") return Placement::partial();
  int dim = 0;
  if (const auto name = inside(text, "P(")) {
    for (const auto& [known, op] : kOps)
      if (*name == known && op != PartialOp::kNorm)
        return Placement::partial(op);
    absl::string_view digits = *name;
    double p = 0;
    if (absl::ConsumePrefix(&digits, "norm") && !digits.empty() &&
        absl::ascii_isdigit(static_cast<unsigned char>(digits[0])) &&
        absl::SimpleAtod(digits, &p))
      return Placement::partial_norm(p);
  } else if (const auto number = inside(text, "S(")) {
    if (absl::SimpleAtoi(*number, &dim)) return Placement::shard(dim);
  } else if (const auto two = inside(text, "SS(")) {
    const std::vector<absl::string_view> parts = absl::StrSplit(*two, ',');
    int64_t factor = 0;
    if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &dim) &&
        absl::SimpleAtoi(parts[1], &factor))
      return Placement::shard(dim, factor);
  }
  return no_placement(whole);
}

absl::StatusOr<const Layout*> Layout::parse(const MeshShape& mesh,
                                            absl::string_view text) {
  const std::vector<absl::string_view> two =
      absl::StrSplit(text, absl::MaxSplits(" order=", 1));
  absl::StatusOr<ShardOrder> order = ShardOrder();
  if (two.size() == 2) order = parse_order(two[1]);
  if (!order.ok()) return order.status();
  text = absl::StripAsciiWhitespace(two[0]);
  if (text.size() >= 2 && text.front() == '(' && text.back() == ')')
    text = text.substr(1, text.size() - 2);
  std::vector<Placement> placements;
  for (const absl::string_view part : split_outside(text)) {
    const absl::StatusOr<Placement> one = parse_placement(part);
    if (!one.ok()) return one.status();
    placements.push_back(*one);
  }
  return make(mesh, placements, *order);
}

std::string Layout::text() const {
  std::string text = absl::StrCat(
      "(",
      absl::StrJoin(placements_, ",",
                    [](std::string* out, const Placement& placement) {
                      absl::StrAppend(out, placement_text(placement));
                    }),
      ")");
  const ShardOrder different = order();
  if (different.empty()) return text;
  return absl::StrCat(
      text, " order=",
      absl::StrJoin(different, ",", [](std::string* out, const auto& one) {
        absl::StrAppend(out, one.first, ":[", absl::StrJoin(one.second, ","),
                        "]");
      }));
}

}  // namespace distwrap
