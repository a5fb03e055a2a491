// Faults that are provoked on purpose, each with what its error has to tell.
//
// A fault is a name, the error that a rank got, and what has to be in it: the
// five things that every error owes its reader, as far as they apply. They are
// printed as lines of JSON, which grade.py judges.
#ifndef DISTWRAP_TESTS_ERRORS_FAULT_H_
#define DISTWRAP_TESTS_ERRORS_FAULT_H_

#include "distwrap/distwrap.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace distwrap::faults {

// Where it happened. Of the start the operation is "init".
struct Where {
  std::string op;
  std::string group = "world";  // empty: of no group
  int rank = -1;                // whose error it is; -1: not known to it
  bool numbered = false;        // it is of a collective, which has a number
};

// Who is to blame: ranks of the group, and their processes.
struct Who {
  std::vector<int> ranks;
  std::vector<int64_t> pids = {};
  bool seen = false;  // it tells what they were doing
};

struct HowLong {
  absl::Duration limit;    // in force
  std::string setting;     // part of what changes it
  bool has_passed = true;  // the error came at the limit
};

// What the error has to tell; what does not apply is left out. `what` are words
// that are in the text besides the reason.
struct Expected {
  Reason reason;
  std::vector<std::string> what = {};
  std::optional<Where> where = std::nullopt;
  std::optional<Who> who = std::nullopt;
  std::optional<HowLong> how_long = std::nullopt;
  std::string next = {};  // a word of the next step
};

nlohmann::json error_json(const absl::Status& status);
// Prints one line.
void report(const std::string& fault, const nlohmann::json& error,
            const Expected& expected);
void report(const std::string& fault, const absl::Status& status,
            const Expected& expected);

// The random choices of a run.
class Choices {
 public:
  explicit Choices(uint64_t seed) : random_(seed) {}
  int below(int n) {
    return static_cast<int>(random_() % static_cast<uint64_t>(n));
  }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int>(list.size())))];
  }

 private:
  std::mt19937_64 random_;
};

// Ranks as threads, each with a session that is bound to it; `body` runs in
// all.
void on_ranks(int n, const InitOptions& options,
              const std::function<void(const Session&)>& body);

// The families.
void of_arguments(Choices& choices);
void of_objects(Choices& choices);
void of_handles(Choices& choices);
void of_c(Choices& choices);
void of_backends(Choices& choices);
void of_the_start(Choices& choices);
void of_mismatches(Choices& choices);
void of_absence(Choices& choices);
void of_processes(Choices& choices);

// What a process of `of_processes` does.
int rank_main(const std::string& scenario);

}  // namespace distwrap::faults

#endif  // DISTWRAP_TESTS_ERRORS_FAULT_H_
