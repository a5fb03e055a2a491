// The amount that each rank gives to each other rank in an operation with
// counts.
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
  // Rank d gets a share proportional to ranks - d, as in other measuring
  // programs.
  Pattern() = default;
  // Rows are senders, columns receivers; only the proportions matter.
  static Pattern of_weights(std::string name,
                            std::vector<std::vector<double>> weights);

  // The name as typed: "linear", "zipf:1.2".
  const std::string& name() const { return name_; }
  // Whether all senders give equal shares, so that operations with one list of
  // counts can follow the pattern.
  bool same_for_all() const;

  // Elements by sender and receiver. The largest sender gives `elements`; the
  // remainder of rounding goes to the receiver with the largest share.
  Matrix counts(int ranks, int64_t elements) const;
  // The counts of the first sender.
  std::vector<int64_t> list(int ranks, int64_t elements) const;

 private:
  std::string name_ = "linear";
  std::vector<std::vector<double>> weights_ = {};  // empty: linear
};

// Parses linear, uniform, zipf[:exponent], one-hot[:rank], or a file with a
// line for each sender and a number for each receiver; # starts a comment.
// Errors name line and column of a file.
absl::StatusOr<Pattern> parse_pattern(absl::string_view word, int ranks);

// Parses the text of such a file; `file` is its name in errors.
absl::StatusOr<Pattern> parse_matrix(absl::string_view text,
                                     const std::string& file, int ranks);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_PATTERN_H_
