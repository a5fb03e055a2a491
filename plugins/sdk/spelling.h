// How far two names are apart, for "did you mean". C++ only.
//
// Threads: a pure function.
#ifndef DISTWRAP_PLUGINS_SDK_SPELLING_H_
#define DISTWRAP_PLUGINS_SDK_SPELLING_H_

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <vector>

namespace dw_sdk {

// The number of letters to insert, delete or change (Levenshtein).
inline size_t edit_distance(std::string_view a, std::string_view b) {
  // One row of the table: the edits from the letters of `a` so far to each
  // prefix of `b`.
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_SPELLING_H_
