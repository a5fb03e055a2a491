// Byte counts as people write and read them.
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

// What one buffer may have: more is a slip of the pen.
inline constexpr int64_t kMaxBytes = int64_t{1} << 40;

// Digits, then K, M or G (also KB, KiB ...; all mean powers of 1024).
absl::StatusOr<int64_t> parse_size(absl::string_view text);

// "8,4K,1M".
absl::StatusOr<std::vector<int64_t>> parse_sizes(absl::string_view list);

// From `least` to at most `most`, each `factor` times the last, or `step` more
// when that is not 0.
absl::StatusOr<std::vector<int64_t>> size_range(int64_t least, int64_t most,
                                                int64_t factor, int64_t step);

// "8 B", "4 KiB", "1.5 MiB".
std::string format_size(int64_t bytes);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_SIZE_H_
