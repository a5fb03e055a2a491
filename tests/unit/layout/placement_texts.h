// Placements of all axes of a mesh, as texts, for tests of all pairs.
#ifndef DISTWRAP_TESTS_UNIT_LAYOUT_PLACEMENT_TEXTS_H_
#define DISTWRAP_TESTS_UNIT_LAYOUT_PLACEMENT_TEXTS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::layout {

// Every sequence of `count` of the placements, separated by commas.
inline std::vector<std::string> sequences(
    const std::vector<std::string>& placements, size_t count) {
  std::vector<std::string> all = {""};
  for (size_t i = 0; i < count; ++i) {
    std::vector<std::string> next;
    for (const std::string& head : all)
      for (const std::string& one : placements)
        next.push_back(head + (head.empty() ? "" : ",") + one);
    all = std::move(next);
  }
  return all;
}

}  // namespace distwrap::layout

#endif  // DISTWRAP_TESTS_UNIT_LAYOUT_PLACEMENT_TEXTS_H_
