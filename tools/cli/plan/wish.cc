#include "plan/wish.h"

#include "bench/size.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <optional>
#include <utility>

namespace distwrap::cli {
namespace {

absl::Status refuse(absl::string_view option, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", why));
}

// Numbers of at least `least`.
std::optional<std::vector<int64_t>> numbers(absl::string_view text,
                                            char separator, int64_t least) {
  std::vector<int64_t> all;
  if (text.empty()) return all;
  for (const absl::string_view word : absl::StrSplit(text, separator)) {
    if (!absl::SimpleAtoi(word, &all.emplace_back()) || all.back() < least)
      return std::nullopt;
  }
  return all;
}

absl::StatusOr<PlanMode> parse_mode(absl::string_view text) {
  for (const PlanMode mode :
       {PlanMode::kFastest, PlanMode::kFewestBytes, PlanMode::kPyTorch})
    if (text == plan_mode_name(mode)) return mode;
  return refuse(
      "--mode",
      absl::StrCat("'", text, "' is not fastest, fewest_bytes or pytorch"));
}

// "8x4" is 8 hosts of 4 ranks each.
absl::StatusOr<int64_t> ranks_per_host(absl::string_view text, int64_t ranks) {
  const auto two = numbers(text, 'x', 1);
  if (!two.has_value() || two->size() != 2)
    return refuse("--hosts",
                  absl::StrCat("'", text, "' is not HOSTSxRANKS, such as 8x4"));
  if ((*two)[0] > ranks || (*two)[0] * (*two)[1] != ranks)
    return refuse("--hosts", absl::StrCat(text, " are not the ", ranks,
                                          " ranks of the mesh"));
  return (*two)[1];
}

absl::StatusOr<const Layout*> layout_at(const Typed& typed,
                                        const std::string& option,
                                        const MeshShape& mesh) {
  const auto text = typed.value(option);
  if (!text.has_value()) return refuse(option, "is missing");
  auto layout = Layout::parse(mesh, *text);
  if (!layout.ok()) return refuse(option, layout.status().message());
  return layout;
}

}  // namespace

absl::StatusOr<MeshShape> parse_mesh(absl::string_view text) {
  MeshShape mesh;
  if (!absl::StrContains(text, '=')) {
    if (auto sizes = numbers(text, 'x', 1); sizes && !sizes->empty()) {
      mesh.sizes = *std::move(sizes);
      return mesh;
    }
  } else {
    for (const absl::string_view axis : absl::StrSplit(text, ',')) {
      const std::vector<absl::string_view> two = absl::StrSplit(axis, '=');
      int64_t size = 0;
      if (two.size() != 2 || two[0].empty() ||
          !absl::SimpleAtoi(two[1], &size) || size < 1)
        return refuse("--mesh", absl::StrCat("'", axis, "' is not NAME=SIZE"));
      mesh.names.emplace_back(two[0]);
      mesh.sizes.push_back(size);
    }
    return mesh;
  }
  return refuse("--mesh", absl::StrCat("'", text,
                                       "' is neither sizes such as 2x4 nor "
                                       "names with sizes such as dp=2,tp=4"));
}

absl::StatusOr<PlanWish> plan_wish(const Typed& typed) {
  PlanWish wish;
  const auto mesh_text = typed.value("--mesh");
  if (!mesh_text.has_value()) return refuse("--mesh", "is missing");
  const absl::StatusOr<MeshShape> mesh = parse_mesh(*mesh_text);
  if (!mesh.ok()) return mesh.status();
  const auto shape_text = typed.value("--shape");
  if (!shape_text.has_value()) return refuse("--shape", "is missing");
  const auto shape = numbers(*shape_text, ',', 0);
  if (!shape.has_value())
    return refuse("--shape", absl::StrCat("'", *shape_text,
                                          "' is no list of extents such as "
                                          "8,6"));
  wish.shape = *shape;
  for (const auto& [option, layout] :
       {std::pair("--from", &wish.from), {"--to", &wish.to}}) {
    const auto read = layout_at(typed, option, *mesh);
    if (!read.ok()) return read.status();
    *layout = *read;
  }
  if (const auto text = typed.value("--item");
      text.has_value() && (!absl::SimpleAtoi(*text, &wish.itemsize) ||
                           wish.itemsize < 1 || wish.itemsize > 16))
    return refuse("--item", absl::StrCat("'", *text, "' is not 1 to 16 bytes"));
  if (const auto text = typed.value("--mode")) {
    const auto mode = parse_mode(*text);
    if (!mode.ok()) return mode.status();
    wish.options.mode = *mode;
  }
  if (const auto text = typed.value("--hosts")) {
    const auto ranks = ranks_per_host(*text, wish.from->ranks());
    if (!ranks.ok()) return ranks.status();
    wish.options.ranks_per_host = *ranks;
  }
  if (const auto text = typed.value("--cap")) {
    const auto bytes = bench::parse_size(*text);
    if (!bytes.ok()) return refuse("--cap", bytes.status().message());
    wish.options.cap_bytes = *bytes;
  }
  if (const auto text = typed.value("--prices")) {
    const auto ns = numbers(*text, ',', 1);
    if (!ns.has_value() || ns->size() != 4)
      return refuse("--prices", absl::StrCat("'", *text,
                                             "' is no list such as "
                                             "1000,200,400,100"));
    wish.options.prices = {(*ns)[0], (*ns)[1], (*ns)[2], (*ns)[3]};
  }
  wish.backward = typed.has("--backward");
  return wish;
}

}  // namespace distwrap::cli
