#include "bench/plot.h"

#include "bench/axis.h"
#include "bench/svg.h"
#include "bench/text_table.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <vector>

namespace distwrap::bench {
namespace {

// Sizes of the page.
constexpr double kWidth = 1040;
constexpr double kEdge = 28;       // left of all text
constexpr double kPanelLeft = 92;  // left of the first panel's frame
constexpr double kPanelWidth = 400;
constexpr double kPanelHeight = 210;
constexpr double kPanelGap = 108;   // between the two frames
constexpr double kRowHeight = 310;  // height of one operation

// Colours that people with colour blindness can distinguish (Okabe and Ito);
// markers differ as well.
constexpr const char* kColors[] = {"#0072b2", "#d55e00", "#009e73",
                                   "#cc79a7", "#e69f00", "#56b4e9"};
constexpr Marker kMarkers[] = {Marker::kCircle, Marker::kSquare,
                               Marker::kDiamond, Marker::kTriangle,
                               Marker::kCross};

constexpr absl::string_view kTitle =
    "font-size=\"19\" font-weight=\"600\" fill=\"#1a1a1a\"";
constexpr absl::string_view kHead =
    "font-size=\"15\" font-weight=\"600\" fill=\"#1a1a1a\"";
constexpr absl::string_view kSmall = "font-size=\"12\" fill=\"#555\"";
constexpr absl::string_view kLegend = "font-size=\"13\" fill=\"#1a1a1a\"";

struct Series {
  std::string name;
  const char* color;
  Marker marker;
  bool first;    // drawn over the others, filled
  bool control;  // dashed
};

std::vector<Series> series_of(const Report& report) {
  std::vector<Series> all;
  for (size_t i = 0; i < report.contestants.size(); ++i) {
    all.push_back({report.contestants[i], kColors[i % std::size(kColors)],
                   kMarkers[i % std::size(kMarkers)], i == 0,
                   report.contestants[i] == report.control});
  }
  return all;
}

struct Sample {
  double bytes;
  double value;
};
using Value = std::function<double(const Row&)>;

std::vector<Sample> samples(const std::vector<Row>& rows,
                            const std::string& contestant, const Value& value) {
  std::vector<Sample> some;
  for (const Row& row : rows) {
    if (row.contestant != contestant || !row.measured) continue;
    if (row.spec.bytes > 0 && value(row) > 0) {
      some.push_back({static_cast<double>(row.spec.bytes), value(row)});
    }
  }
  std::sort(some.begin(), some.end(),
            [](const Sample& a, const Sample& b) { return a.bytes < b.bytes; });
  return some;
}

std::string curve_style(const Series& series) {
  return absl::StrCat("fill=\"none\" stroke=\"", series.color,
                      "\" stroke-width=\"", series.first ? "2.2" : "1.6",
                      "\" stroke-linejoin=\"round\"",
                      series.control ? " stroke-dasharray=\"5 4\"" : "");
}

void draw_frame(Svg& svg, Point corner, const LogAxis& x, const LogAxis& y) {
  const auto line_style = [](const Tick& tick) {
    return tick.label.empty() ? "stroke=\"#f0f0f0\"" : "stroke=\"#d4d4d4\"";
  };
  const double bottom = corner.y + kPanelHeight;
  for (const bool labelled : {false, true}) {  // faint lines lie below
    for (const Tick& tick : x.ticks()) {
      if (tick.label.empty() == labelled) continue;
      const double at = corner.x + x.place(tick.value) * kPanelWidth;
      svg.line({at, corner.y}, {at, bottom}, line_style(tick));
      if (labelled) {
        svg.text({at, bottom + 17}, tick.label,
                 absl::StrCat(kSmall, " text-anchor=\"middle\""));
      }
    }
    for (const Tick& tick : y.ticks()) {
      if (tick.label.empty() == labelled) continue;
      const double at = bottom - y.place(tick.value) * kPanelHeight;
      svg.line({corner.x, at}, {corner.x + kPanelWidth, at}, line_style(tick));
      if (labelled) {
        svg.text({corner.x - 8, at + 4}, tick.label,
                 absl::StrCat(kSmall, " text-anchor=\"end\""));
      }
    }
  }
  svg.rectangle(corner, kPanelWidth, kPanelHeight,
                "fill=\"none\" stroke=\"#8a8a8a\"");
  svg.text({corner.x + kPanelWidth / 2, bottom + 36}, "bytes",
           absl::StrCat(kSmall, " text-anchor=\"middle\""));
}

void draw_panel(Svg& svg, Point corner, absl::string_view title,
                const std::vector<Series>& all, const std::vector<Row>& rows,
                const Value& value, LogAxis (*make_y)(double, double)) {
  svg.text({corner.x, corner.y - 9}, title, kSmall);
  std::vector<Sample> every;
  for (const Series& series : all) {
    const auto some = samples(rows, series.name, value);
    every.insert(every.end(), some.begin(), some.end());
  }
  if (every.empty()) return;
  const auto [small, large] = std::minmax_element(
      every.begin(), every.end(),
      [](const Sample& a, const Sample& b) { return a.bytes < b.bytes; });
  const auto [low, high] = std::minmax_element(
      every.begin(), every.end(),
      [](const Sample& a, const Sample& b) { return a.value < b.value; });
  const LogAxis x = byte_axis(small->bytes, large->bytes);
  const LogAxis y = make_y(low->value, high->value);
  draw_frame(svg, corner, x, y);

  for (auto series = all.rbegin(); series != all.rend(); ++series) {
    std::vector<Point> points;
    for (const Sample& sample : samples(rows, series->name, value)) {
      points.push_back({corner.x + x.place(sample.bytes) * kPanelWidth,
                        corner.y + (1 - y.place(sample.value)) * kPanelHeight});
    }
    svg.path(points, curve_style(*series));
    for (Point point : points) {
      svg.marker(series->marker, point, series->color, series->first);
    }
  }
}

// The time of a barrier, which has no sizes, as a line of text; "" when it was
// not measured.
std::string barrier_text(const Report& report) {
  std::string text;
  for (const Row& row : report.of(Operation::kBarrier)) {
    if (!row.measured) continue;
    absl::StrAppend(&text, text.empty() ? "barrier, p50: " : ", ",
                    row.contestant, " ", format_number(row.p50_us), " \u00b5s");
  }
  return text;
}

// The number of lines of the legend; draws it when `svg` is given.
int legend(Svg* svg, double top, const std::vector<Series>& all) {
  double x = kEdge;
  int lines = 1;
  for (const Series& series : all) {
    const double wide = 62 + 7.6 * static_cast<double>(series.name.size());
    if (x + wide > kWidth - kEdge && x > kEdge) {
      x = kEdge;
      ++lines;
    }
    const double y = top + (lines - 1) * 22;
    if (svg != nullptr) {
      svg->path({{x, y}, {x + 30, y}}, curve_style(series));
      svg->marker(series.marker, {x + 15, y}, series.color, series.first);
      svg->text({x + 38, y + 4.5}, series.name, kLegend);
    }
    x += wide;
  }
  return lines;
}

}  // namespace

std::string plot(const Report& report) {
  const std::vector<Series> all = series_of(report);
  std::vector<Operation> ops = report.ops();
  ops.erase(std::remove(ops.begin(), ops.end(), Operation::kBarrier),
            ops.end());
  const std::string barrier = barrier_text(report);
  const double legend_top = 92;
  const double barrier_top = legend_top + 22 * legend(nullptr, 0, all) + 10;
  const double rows_top = barrier_top + (barrier.empty() ? 0 : 26);
  const double height =
      rows_top + kRowHeight * static_cast<double>(ops.size()) + 12;

  Svg svg(kWidth, height);
  svg.rectangle({0, 0}, kWidth, height, "fill=\"#ffffff\"");
  svg.text({kEdge, 34},
           absl::StrCat("distwrap bench: ", report.ranks, " rank",
                        report.ranks == 1 ? "" : "s", ", ",
                        std::string(dtype_name(report.dtype)),
                        report.pinned ? ", pinned" : ""),
           kTitle);
  const Machine& machine = report.machine;
  svg.text({kEdge, 55}, absl::StrCat(describe(machine), ", ", machine.date),
           kSmall);
  svg.text({kEdge, 72},
           "p50 over all iterations; an iteration takes as long as its "
           "slowest rank",
           kSmall);
  legend(&svg, legend_top, all);
  if (!barrier.empty()) svg.text({kEdge, barrier_top + 6}, barrier, kLegend);

  double top = rows_top;
  for (Operation op : ops) {
    std::string name(operation_name(op));
    if (reduces(op)) {
      absl::StrAppend(&name, " (", std::string(reduce_op_name(report.reduce)),
                      ")");
    }
    svg.text({kEdge, top + 22}, name, kHead);
    const std::vector<Row> rows = report.of(op);
    const double frame = top + 54;
    draw_panel(
        svg, {kPanelLeft, frame}, "latency", all, rows,
        [](const Row& row) { return row.p50_us; }, time_axis);
    draw_panel(
        svg, {kPanelLeft + kPanelWidth + kPanelGap, frame},
        "bandwidth (bytes / latency)", all, rows,
        [](const Row& row) { return row.algbw(); }, rate_axis);
    top += kRowHeight;
  }
  return svg.document();
}

}  // namespace distwrap::bench
