// Writes a picture as SVG, shape by shape.
//
// Threads: as a plain object. Lengths are pixels from the top left corner.
//
//   Svg svg(100, 50);
//   svg.line({0, 0}, {100, 50}, "stroke=\"#888\"");
//   std::string file = svg.document();
#ifndef DISTWRAP_TOOLS_CLI_BENCH_SVG_H_
#define DISTWRAP_TOOLS_CLI_BENCH_SVG_H_

#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace distwrap::bench {

struct Point {
  double x = 0;
  double y = 0;
};

// The marker that distinguishes a contestant in addition to its colour.
enum class Marker { kCircle, kSquare, kTriangle, kDiamond, kCross };

class Svg {
 public:
  Svg(double width, double height) : width_(width), height_(height) {}

  // `style` holds attributes in SVG syntax.
  void line(Point from, Point to, absl::string_view style);
  void rectangle(Point corner, double width, double height,
                 absl::string_view style);
  void path(const std::vector<Point>& points, absl::string_view style);
  // A filled marker stands out. A hollow one is larger, so that both are
  // visible where they meet.
  void marker(Marker kind, Point at, absl::string_view color, bool filled);
  // The text is escaped.
  void text(Point at, absl::string_view text, absl::string_view style);

  std::string document() const;

 private:
  double width_, height_;
  std::string body_;
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_SVG_H_
