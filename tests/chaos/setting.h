// The setting of a try: everything in the try follows from it.
//
// Threads and ownership: values.
//
//   Draw draw(setting);
//   const int victim = draw.below(setting.ranks);
#ifndef DISTWRAP_TESTS_CHAOS_SETTING_H_
#define DISTWRAP_TESTS_CHAOS_SETTING_H_

#include <cstdint>
#include <random>
#include <string>

namespace distwrap::chaos {

struct Setting {
  std::string name;  // name of the case
  std::string backend = "gloo";
  int ranks = 4;
  int hosts = 1;  // the ranks are spread evenly over them
  // Whether on each host but the first a rank is the agent, as where another
  // program than `distwrap run` starts the ranks.
  bool rank_agents = false;
  uint64_t seed = 0;
};

inline int host_of(const Setting& setting, int rank) {
  return rank * setting.hosts / setting.ranks;
}

// Gives equal numbers in every process of a try, and in each repetition.
class Draw {
 public:
  explicit Draw(const Setting& setting) : random_(setting.seed) {}

  // From 0 to `limit` - 1.
  int below(int limit) {
    return static_cast<int>(random_() % static_cast<uint64_t>(limit));
  }
  bool coin() { return below(2) == 0; }
  // From 0 up to 1.
  double part() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  template <class List>
  auto one_of(const List& list) {
    return list[static_cast<size_t>(below(static_cast<int>(std::size(list))))];
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_SETTING_H_
