#include "bench/plot.h"

#include "bench/svg.h"
#include "sample_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace distwrap::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

// Whether tags are nested and closed, quotes are balanced, and all special
// characters are escaped: enough for the output of the writer.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size();) {
    if (xml[at] == '&') {
      bool known = false;
      for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;"}) {
        known =
            known || xml.compare(at, std::string(entity).size(), entity) == 0;
      }
      if (!known) return false;
    }
    if (xml[at] != '<') {
      if (xml[at] == '>') return false;
      ++at;
      continue;
    }
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return false;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return false;
    const std::string name = tag.substr(0, tag.find(' '));
    if (name[0] == '/') {
      if (open.empty() || open.back() != name.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty();
}

TEST(Svg, TextIsEscaped) {
  Svg svg(10, 10);
  svg.text({1, 2}, "a<b>&\"\x01", "fill=\"red\"");
  EXPECT_THAT(svg.document(), HasSubstr(">a&lt;b&gt;&amp;&quot;</text>"));
  EXPECT_TRUE(well_formed(svg.document()));
}

TEST(Svg, MarkersOfEveryKind) {
  Svg svg(10, 10);
  for (Marker kind : {Marker::kCircle, Marker::kSquare, Marker::kTriangle,
                      Marker::kDiamond, Marker::kCross}) {
    svg.marker(kind, {5, 5}, "#000", true);
    svg.marker(kind, {5, 5}, "#000", false);
  }
  EXPECT_TRUE(well_formed(svg.document()));
}

TEST(Plot, IsAWellFormedPicture) {
  const std::string svg = plot(sample_report());
  EXPECT_TRUE(well_formed(svg)) << svg;
  EXPECT_THAT(svg, HasSubstr("xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, HasSubstr(">distwrap/gloo</text>"));
  EXPECT_THAT(svg, HasSubstr(">raw_gloo</text>"));
  EXPECT_THAT(svg, HasSubstr(">all_reduce (sum)</text>"));
  EXPECT_THAT(svg, HasSubstr(">16 MiB</text>"));
  EXPECT_THAT(svg, HasSubstr("2025-01-02"));
  EXPECT_THAT(svg, HasSubstr("barrier, p50: distwrap/gloo"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Plot, OneSizeAndNoneAreDrawnToo) {
  Report report = sample_report();
  report.rows.resize(4);  // barrier and one size
  EXPECT_TRUE(well_formed(plot(report)));
  EXPECT_THAT(plot(report), Not(HasSubstr("nan")));
  report.rows.clear();
  EXPECT_TRUE(well_formed(plot(report)));
}

TEST(Plot, WhatWasNotMeasuredIsNotDrawn) {
  Report report = sample_report();
  for (Row& row : report.rows) row.measured = false;
  EXPECT_TRUE(well_formed(plot(report)));
  EXPECT_THAT(plot(report), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace distwrap::bench
