#include "bench/svg.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

namespace distwrap::bench {
namespace {

std::string pair(Point p) { return absl::StrFormat("%.1f,%.1f", p.x, p.y); }

// Escapes the text for XML and drops control characters, which XML forbids.
std::string escaped(absl::string_view text) {
  std::string clean;
  for (char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20) clean.push_back(c);
  }
  return absl::StrReplaceAll(
      clean, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// The corners of a marker of size 1 around the origin.
std::vector<Point> corners(Marker kind) {
  switch (kind) {
    case Marker::kSquare:
      return {{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}};
    case Marker::kTriangle:
      return {{0, -1.2}, {1.1, 0.8}, {-1.1, 0.8}};
    default:
      return {{0, -1.25}, {1.25, 0}, {0, 1.25}, {-1.25, 0}};
  }
}

}  // namespace

void Svg::line(Point from, Point to, absl::string_view style) {
  absl::StrAppendFormat(
      &body_, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n",
      from.x, from.y, to.x, to.y, style);
}

void Svg::rectangle(Point corner, double width, double height,
                    absl::string_view style) {
  absl::StrAppendFormat(
      &body_,
      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" %s/>\n",
      corner.x, corner.y, width, height, style);
}

void Svg::path(const std::vector<Point>& points, absl::string_view style) {
  absl::StrAppend(&body_, "<polyline points=\"",
                  absl::StrJoin(points, " ",
                                [](std::string* out, Point p) {
                                  absl::StrAppend(out, pair(p));
                                }),
                  "\" ", style, "/>\n");
}

void Svg::marker(Marker kind, Point at, absl::string_view color, bool filled) {
  const double size = filled ? 3.2 : 5;
  const std::string style =
      absl::StrCat("stroke=\"", color, "\" stroke-width=\"1.6\" fill=\"",
                   filled ? color : absl::string_view("none"), "\"");
  if (kind == Marker::kCircle) {
    absl::StrAppendFormat(&body_,
                          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" %s/>\n",
                          at.x, at.y, size, style);
    return;
  }
  if (kind == Marker::kCross) {
    line({at.x - size, at.y - size}, {at.x + size, at.y + size}, style);
    line({at.x - size, at.y + size}, {at.x + size, at.y - size}, style);
    return;
  }
  const std::string points =
      absl::StrJoin(corners(kind), " ", [&](std::string* out, Point p) {
        absl::StrAppend(out, pair({at.x + size * p.x, at.y + size * p.y}));
      });
  absl::StrAppend(&body_, "<polygon points=\"", points, "\" ", style, "/>\n");
}

void Svg::text(Point at, absl::string_view text, absl::string_view style) {
  absl::StrAppendFormat(&body_, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n",
                        at.x, at.y, style, escaped(text));
}

std::string Svg::document() const {
  return absl::StrCat(
      absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" "
                      "width=\"%.0f\" height=\"%.0f\" "
                      "viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, "
                      "Arial, DejaVu Sans, sans-serif\">\n",
                      width_, height_, width_, height_),
      body_, "</svg>\n");
}

}  // namespace distwrap::bench
