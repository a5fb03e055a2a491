// Byte counts in the form that people write and read.
//
//   parse_size("4K");      // 4096
//   format_size(1 << 20);  // "1 MiB"
#ifndef DISTWRAP_TOOLS_CLI_BENCH_SIZE_H_
#define DISTWRAP_TOOLS_CLI_BENCH_SIZE_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::bench {

// The limit of one buffer; a larger number is a typing error.
inline constexpr int64_t kMaxBytes = int64_t{1} << 40;

// Digits, then K, M or G (also KB, KiB ...; all mean powers of 1024).
absl::StatusOr<int64_t> parse_size(absl::string_view text);

// Parses a list such as "8,4K,1M".
absl::StatusOr<std::vector<int64_t>> parse_sizes(absl::string_view list);

// Sizes from `least` to at most `most`. Each one is `factor` times the previous
// or, if `step` is not 0, larger by `step`.
absl::StatusOr<std::vector<int64_t>> size_range(int64_t least, int64_t most,
                                                int64_t factor, int64_t step);

// "8 B", "4 KiB", "1.5 MiB".
std::string format_size(int64_t bytes);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_SIZE_H_
