#include "bench/groups/show.h"

#include "bench/axis.h"
#include "bench/json.h"
#include "bench/svg.h"
#include "bench/text_table.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace distwrap::bench {
namespace {

constexpr char kNone[] = "-";
constexpr int kSchema = 1;

double each(int64_t all, int ranks) {
  return static_cast<double>(all) / static_cast<double>(ranks);
}

std::string time_or_none(double us) {
  return us < 0 ? kNone : format_number(us);
}

cli::JsonValue time_json(double us) {
  return us < 0 ? cli::JsonValue() : cli::JsonValue(us);
}

cli::JsonObject traffic_json(const StoreTraffic& traffic) {
  return {{"requests", traffic.requests}, {"bytes", traffic.bytes}};
}

// The row of distwrap with as many ranks, to which other rows are compared.
const MakingRow* yardstick(const GroupsReport& report, const MakingRow& row) {
  for (const MakingRow& other : report.making)
    if (other.ranks == row.ranks) return &other == &row ? nullptr : &other;
  return nullptr;
}

std::string over(double theirs, double ours) {
  return theirs < 0 || ours <= 0
             ? kNone
             : absl::StrCat(format_number(theirs / ours), "x");
}

}  // namespace

std::string show_planning(const GroupsReport& report) {
  std::vector<std::vector<std::string>> lines = {
      {"ranks", "own group", "all lists", "requests", "bytes", "requests",
       "bytes"}};
  for (const PlanningRow& row : report.planning)
    lines.push_back({absl::StrCat(row.ranks), format_number(row.own_us),
                     format_number(row.lists_us),
                     format_number(each(row.split.requests, row.ranks)),
                     format_number(each(row.split.bytes, row.ranks)),
                     format_number(each(row.by_color.requests, row.ranks)),
                     format_number(each(row.by_color.bytes, row.ranks))});
  return absl::StrCat(
      describe(report.machine),
      "\n\nPlanning in one thread, us; what a rank asks of the store, on "
      "average\n",
      text_table(
          {{"", 1}, {"us", 2}, {"split_group", 2}, {"split_group_by_color", 2}},
          lines));
}

std::string show_making(const GroupsReport& report) {
  std::vector<std::vector<std::string>> lines = {
      {"engine", "ranks", "split_group", "new_group", "destroy", "rounds",
       "new_group", "destroy"}};
  for (const MakingRow& row : report.making) {
    const MakingRow* const ours = yardstick(report, row);
    lines.push_back(
        {row.engine, absl::StrCat(row.ranks), time_or_none(row.split_us),
         time_or_none(row.new_us), time_or_none(row.destroy_us),
         absl::StrCat(row.rounds),
         ours == nullptr ? kNone : over(row.new_us, ours->new_us),
         ours == nullptr ? kNone : over(row.destroy_us, ours->destroy_us)});
  }
  return absl::StrCat(
      "\nGroups of all ranks, between processes: medians of rank 0\n",
      text_table({{"", 1}, {"", 1}, {"us", 3}, {"", 1}, {"/ distwrap", 2}},
                 lines));
}

std::string groups_json(const GroupsReport& report) {
  cli::JsonArray planning, making;
  for (const PlanningRow& row : report.planning)
    planning.emplace_back(
        cli::JsonObject{{"ranks", row.ranks},
                        {"own_group_us", row.own_us},
                        {"all_lists_us", row.lists_us},
                        {"split_group", traffic_json(row.split)},
                        {"split_group_by_color", traffic_json(row.by_color)}});
  for (const MakingRow& row : report.making)
    making.emplace_back(
        cli::JsonObject{{"engine", row.engine},
                        {"ranks", row.ranks},
                        {"split_group_us", time_json(row.split_us)},
                        {"new_group_us", time_json(row.new_us)},
                        {"destroy_us", time_json(row.destroy_us)},
                        {"rounds", row.rounds}});
  return json_text(cli::JsonObject{{"schema", kSchema},
                                   {"machine", describe(report.machine)},
                                   {"planning", std::move(planning)},
                                   {"making", std::move(making)}});
}

std::string plot_planning(const GroupsReport& report) {
  constexpr double kWidth = 620, kHeight = 360;
  constexpr double kLeft = 90, kTop = 60, kWide = 480, kHigh = 220;
  constexpr absl::string_view kText = "font-size=\"12\" fill=\"#555\"";
  struct Curve {
    const char* name;
    double PlanningRow::*value;
    const char* color;
    Marker marker;
  };
  constexpr Curve kCurves[] = {{"own group of all ranks", &PlanningRow::own_us,
                                "#0072b2", Marker::kCircle},
                               {"all lists of eights", &PlanningRow::lists_us,
                                "#d55e00", Marker::kSquare}};

  double least = report.planning.front().own_us, most = least;
  std::vector<Tick> ticks;
  for (const PlanningRow& row : report.planning) {
    for (const Curve& curve : kCurves) {
      least = std::min(least, row.*curve.value);
      most = std::max(most, row.*curve.value);
    }
    ticks.push_back({static_cast<double>(row.ranks), absl::StrCat(row.ranks)});
  }
  const LogAxis x(1, 2 * ticks.back().value, ticks);
  const LogAxis y = time_axis(std::max(least, 1e-3), std::max(most, 2e-3));
  const auto place = [&](double ranks, double us) {
    return Point{kLeft + x.place(ranks) * kWide,
                 kTop + kHigh - y.place(std::max(us, y.low())) * kHigh};
  };
  Svg svg(kWidth, kHeight);
  svg.text({28, 30}, "Planning a group, of one rank",
           "font-size=\"19\" font-weight=\"600\" fill=\"#1a1a1a\"");
  for (const Tick& tick : y.ticks()) {
    const double at = place(1, tick.value).y;
    svg.line({kLeft, at}, {kLeft + kWide, at}, "stroke=\"#d4d4d4\"");
    svg.text({kLeft - 8, at + 4}, tick.label,
             absl::StrCat(kText, " text-anchor=\"end\""));
  }
  for (const Tick& tick : x.ticks())
    svg.text({place(tick.value, 1).x, kTop + kHigh + 17}, tick.label,
             absl::StrCat(kText, " text-anchor=\"middle\""));
  svg.text({kLeft + kWide / 2, kTop + kHigh + 36}, "ranks",
           absl::StrCat(kText, " text-anchor=\"middle\""));
  svg.rectangle({kLeft, kTop}, kWide, kHigh,
                "fill=\"none\" stroke=\"#8a8a8a\"");
  double legend = kTop + 20;
  for (const Curve& curve : kCurves) {
    std::vector<Point> points;
    for (const PlanningRow& row : report.planning)
      points.push_back(place(row.ranks, row.*curve.value));
    svg.path(points, absl::StrCat("fill=\"none\" stroke=\"", curve.color,
                                  "\" stroke-width=\"2\""));
    for (const Point& point : points)
      svg.marker(curve.marker, point, curve.color, true);
    svg.marker(curve.marker, {kLeft + 16, legend - 4}, curve.color, true);
    svg.text({kLeft + 28, legend}, curve.name,
             "font-size=\"13\" fill=\"#1a1a1a\"");
    legend += 20;
  }
  return svg.document();
}

}  // namespace distwrap::bench
