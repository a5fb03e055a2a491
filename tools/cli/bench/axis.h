// Logarithmic axes: their range and the places of their lines.
//
//   LogAxis axis = byte_axis(8, 16 << 20);
//   axis.place(1024);  // 0 ... 1 along the axis
#ifndef DISTWRAP_TOOLS_CLI_BENCH_AXIS_H_
#define DISTWRAP_TOOLS_CLI_BENCH_AXIS_H_

#include <string>
#include <vector>

namespace distwrap::bench {

struct Tick {
  double value = 0;
  std::string label = {};  // empty: a faint line between labelled ones
};

class LogAxis {
 public:
  // Precondition: 0 < low < high.
  LogAxis(double low, double high, std::vector<Tick> ticks);

  double place(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  double low_, high_;
  std::vector<Tick> ticks_;
};

// An axis of powers of two with at most nine labels: "8 B", "4 KiB".
LogAxis byte_axis(double least, double most);
// An axis of decades, with 2 and 5 when there are few: "20 us", "1 ms".
LogAxis time_axis(double least_us, double most_us);
// An axis of rates: "50 MB/s", "1 GB/s".
LogAxis rate_axis(double least_gb, double most_gb);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_AXIS_H_
