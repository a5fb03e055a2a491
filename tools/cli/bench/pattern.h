// Who gives how much to whom in an operation with counts.
//
// Threads: a value.
//
//   Pattern pattern = *parse_pattern("zipf:1.2", 4);
//   pattern.counts(1000)[0];  // what rank 0 sends to each of four ranks
#ifndef DISTWRAP_TOOLS_CLI_BENCH_PATTERN_H_
#define DISTWRAP_TOOLS_CLI_BENCH_PATTERN_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::bench {

using Matrix = std::vector<std::vector<int64_t>>;

class Pattern {
 public:
  // Rank d is given a share that is proportional to ranks - d: what other
  // programs measure with.
  Pattern() = default;
  // Rows are senders, columns receivers; only proportions matter.
  static Pattern of_weights(std::string name,
                            std::vector<std::vector<double>> weights);

  // As it is to be typed: "linear", "zipf:1.2".
  const std::string& name() const { return name_; }
  // Whether every sender gives the same, so that operations with one list of
  // counts can follow it.
  bool same_for_all() const;

  // Elements by sender and receiver. The largest sender gives `elements`; what
  // rounding leaves over goes to the receiver with the largest share.
  Matrix counts(int ranks, int64_t elements) const;
  // The first sender's.
  std::vector<int64_t> list(int ranks, int64_t elements) const;

 private:
  std::string name_ = "linear";
  std::vector<std::vector<double>> weights_ = {};  // empty: linear
};

// linear, uniform, zipf[:exponent], one-hot[:rank], or a file: a line for each
// sender with a number for each receiver, # starts a comment. Errors name line
// and column of a file.
absl::StatusOr<Pattern> parse_pattern(absl::string_view word, int ranks);

// The text of such a file; `file` is what errors call it.
absl::StatusOr<Pattern> parse_matrix(absl::string_view text,
                                     const std::string& file, int ranks);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_PATTERN_H_
