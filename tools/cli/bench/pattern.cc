#include "bench/pattern.h"

#include "bench/operation.h"

#include <absl/status/status.h>
#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <system_error>
#include <utility>

namespace distwrap::bench {
namespace {

// Products with the elements of a buffer stay exact enough.
constexpr int64_t kMostWeight = int64_t{1} << 40;
constexpr size_t kMostFile = 64 << 20;

template <class Make>
Pattern by_receiver(const std::string& name, int ranks, Make make) {
  std::vector<double> row;
  for (int rank = 0; rank < ranks; ++rank) row.push_back(make(rank));
  return Pattern::of_weights(
      name, std::vector<std::vector<double>>(static_cast<size_t>(ranks), row));
}

absl::Status bad(absl::string_view why) {
  return absl::InvalidArgumentError(why);
}

absl::StatusOr<Pattern> named(absl::string_view kind, absl::string_view value,
                              int ranks) {
  if (kind == "linear" && value.empty()) return Pattern();
  if (kind == "uniform" && value.empty()) {
    return by_receiver("uniform", ranks, [](int) { return 1.0; });
  }
  if (kind == "zipf") {
    double exponent = 1;
    if (!value.empty() && (!absl::SimpleAtod(value, &exponent) ||
                           !(exponent >= 0) || exponent > 10)) {
      return bad(absl::StrCat("'", value, "' is not an exponent from 0 to 10"));
    }
    return by_receiver(absl::StrCat("zipf:", exponent), ranks,
                       [&](int rank) { return std::pow(rank + 1, -exponent); });
  }
  if (kind == "one-hot") {
    int hot = 0;
    if (!value.empty() &&
        (!absl::SimpleAtoi(value, &hot) || hot < 0 || hot >= ranks)) {
      return bad(absl::StrCat("there is no rank '", value, "' among ", ranks));
    }
    return by_receiver(absl::StrCat("one-hot:", hot), ranks,
                       [&](int rank) { return rank == hot ? 1.0 : 0.0; });
  }
  return bad(absl::StrCat("'", kind, "' takes no value"));
}

// A number in a line and the column where it starts, counted from 1.
struct Word {
  absl::string_view text;
  size_t column;
};

std::vector<Word> words_of(absl::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<Word> words;
  for (size_t at = 0; at < line.size();) {
    if (absl::ascii_isspace(static_cast<unsigned char>(line[at])) ||
        line[at] == ',') {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < line.size() && line[end] != ',' &&
           !absl::ascii_isspace(static_cast<unsigned char>(line[end]))) {
      ++end;
    }
    words.push_back({line.substr(at, end - at), at + 1});
    at = end;
  }
  return words;
}

}  // namespace

Pattern Pattern::of_weights(std::string name,
                            std::vector<std::vector<double>> weights) {
  Pattern pattern;
  pattern.name_ = std::move(name);
  pattern.weights_ = std::move(weights);
  return pattern;
}

bool Pattern::same_for_all() const {
  return std::all_of(weights_.begin(), weights_.end(),
                     [&](const auto& row) { return row == weights_.front(); });
}

Matrix Pattern::counts(int ranks, int64_t elements) const {
  const auto n = static_cast<size_t>(ranks);
  std::vector<double> linear(n);
  for (size_t i = 0; i < n; ++i) linear[i] = static_cast<double>(n - i);
  std::vector<double> totals;
  for (size_t i = 0; i < n; ++i) {
    const auto& row = weights_.empty() ? linear : weights_[i];
    totals.push_back(std::accumulate(row.begin(), row.end(), 0.0));
  }
  const double most = *std::max_element(totals.begin(), totals.end());
  Matrix all;
  for (size_t i = 0; i < n; ++i) {
    const auto& row = weights_.empty() ? linear : weights_[i];
    std::vector<int64_t> mine;
    for (double weight : row) {
      mine.push_back(static_cast<int64_t>(
          std::floor(static_cast<double>(elements) * weight / most)));
    }
    // The total of this sender, minus the elements that rounding has assigned
    // already.
    const auto whole = static_cast<int64_t>(
        std::floor(static_cast<double>(elements) * totals[i] / most));
    const int64_t given = std::accumulate(mine.begin(), mine.end(), int64_t{0});
    const auto largest = std::max_element(row.begin(), row.end());
    mine[static_cast<size_t>(largest - row.begin())] += whole - given;
    all.push_back(std::move(mine));
  }
  return all;
}

std::vector<int64_t> Pattern::list(int ranks, int64_t elements) const {
  return counts(ranks, elements).front();
}

absl::StatusOr<Pattern> parse_pattern(absl::string_view word, int ranks) {
  const std::vector<std::string> known = {"linear", "uniform", "zipf",
                                          "one-hot"};
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(word, absl::MaxSplits(':', 1));
  if (std::find(known.begin(), known.end(), parts.first) != known.end()) {
    if (absl::EndsWith(word, ":")) {
      return bad(absl::StrCat("'", word, "' lacks its value"));
    }
    return named(parts.first, parts.second, ranks);
  }
  const std::string path(word);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return bad(absl::StrCat(
        "'", word, "' is neither a pattern nor a file; did you mean ",
        nearest(parts.first, known),
        "? Known: linear uniform zipf[:exponent] one-hot[:rank] FILE"));
  }
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (std::filesystem::file_size(path, error) > kMostFile) {
    return bad(absl::StrCat(path, " is larger than 64 MiB"));
  }
  text.assign(std::istreambuf_iterator<char>(in), {});
  if (!in) {
    return bad(
        absl::StrCat("cannot read '", path, "': ", std::strerror(errno)));
  }
  return parse_matrix(text, path, ranks);
}

absl::StatusOr<Pattern> parse_matrix(absl::string_view text,
                                     const std::string& file, int ranks) {
  const auto wanted = static_cast<size_t>(ranks);
  std::vector<std::vector<double>> rows;
  size_t number = 0;
  bool any = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::vector<Word> words = words_of(line);
    if (words.empty()) continue;
    const auto at = [&](size_t column) {
      return absl::StrCat(file, ":", number, ":", column, ": ");
    };
    if (rows.size() == wanted) {
      return bad(absl::StrCat(at(words[0].column), "more lines than the ",
                              ranks, " ranks"));
    }
    std::vector<double> row;
    for (const Word& word : words) {
      int64_t weight = 0;
      if (!absl::SimpleAtoi(word.text, &weight) || weight < 0 ||
          weight > kMostWeight) {
        return bad(absl::StrCat(at(word.column), "'", word.text,
                                "' is not an integer from 0 to ", kMostWeight));
      }
      if (row.size() == wanted) {
        return bad(absl::StrCat(at(word.column), "more numbers than the ",
                                ranks, " ranks"));
      }
      any = any || weight > 0;
      row.push_back(static_cast<double>(weight));
    }
    if (row.size() < wanted) {
      return bad(absl::StrCat(at(line.size() + 1), row.size(), " numbers for ",
                              ranks, " ranks"));
    }
    rows.push_back(std::move(row));
  }
  if (rows.size() < wanted) {
    return bad(absl::StrCat(file, ":", number, ":1: ", rows.size(),
                            " lines of numbers for ", ranks, " ranks"));
  }
  if (!any) return bad(absl::StrCat(file, ": all numbers are 0"));
  return Pattern::of_weights(file, std::move(rows));
}

}  // namespace distwrap::bench
