// Runs a program on one rank.
#ifndef DISTWRAP_TESTS_PROGRAMS_PLAYER_H_
#define DISTWRAP_TESTS_PROGRAMS_PLAYER_H_

#include "distwrap/distwrap.h"
#include "program.h"

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace distwrap::programs {

class Call;

class Player {
 public:
  // Runs in the thread that is bound to `session`. `delays`: pause now and
  // then.
  Player(const Program& program, Session session, bool delays);
  ~Player();

  // "" or the first mistake.
  std::string play();

 private:
  std::string take(const Step& step);
  std::string operate(const Step& step);
  std::string make_groups(const Step& step);
  std::string end(const Step& step);
  // Waits for operations in flight until `most` are left, in any order.
  std::string settle(size_t most);
  void dawdle();
  bool is_member(int group) const;

  const Program& program_;
  const Session session_;
  const bool delays_;
  std::mt19937_64 random_;
  std::map<int, Group> groups_;
  std::vector<std::unique_ptr<Call>> running_;
};

}  // namespace distwrap::programs

#endif  // DISTWRAP_TESTS_PROGRAMS_PLAYER_H_
