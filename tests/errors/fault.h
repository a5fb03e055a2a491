// Faults that are provoked on purpose, each with the facts that its error has
// to state.
//
// A fault is a name, the error that a rank got, and the facts that have to be
// in it: the five things that every error owes its reader, as far as they
// apply. They are printed as lines of JSON, which grade.py judges.
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

// The place of the error. For a failed start the operation is "init".
struct Where {
  std::string op;
  std::string group = "world";  // empty: no group
  int rank = -1;                // the rank that got the error; -1: not known to
                                // it
  bool numbered = false;        // whether it names a collective, which has a
                                // number
};

// The culprits: ranks of the group, and their processes.
struct Who {
  std::vector<int> ranks;
  std::vector<int64_t> pids = {};
  bool seen = false;  // whether it states their last calls
};

struct HowLong {
  absl::Duration limit;    // the limit in force
  std::string setting;     // part of the setting that changes it
  bool has_passed = true;  // the error came at the limit
};

// The facts that the error has to state; facts that do not apply are left out.
// `what` lists words of the text besides the reason.
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

// Runs `body` on ranks that are threads, each with a session bound to it.
void on_ranks(int n, const InitOptions& options,
              const std::function<void(const Session&)>& body);

// The families of faults.
void of_arguments(Choices& choices);
void of_objects(Choices& choices);
void of_handles(Choices& choices);
void of_c(Choices& choices);
void of_backends(Choices& choices);
void of_the_start(Choices& choices);
void of_mismatches(Choices& choices);
void of_absence(Choices& choices);
void of_processes(Choices& choices);

// The body of a process of `of_processes`.
int rank_main(const std::string& scenario);

}  // namespace distwrap::faults

#endif  // DISTWRAP_TESTS_ERRORS_FAULT_H_
