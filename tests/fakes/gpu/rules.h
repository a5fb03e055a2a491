// The discipline that the fakes of CUDA and NCCL ask for. A program that breaks
// a rule ends, with the rule's name; a test of the rules collects them instead.
#ifndef DISTWRAP_TESTS_FAKES_GPU_RULES_H_
#define DISTWRAP_TESTS_FAKES_GPU_RULES_H_

#include <string>
#include <vector>

#define FAKE_EXPORT __attribute__((visibility("default")))

namespace fakes::gpu {

// A rule was broken. Ends the process, unless they are collected.
FAKE_EXPORT void broken(const std::string& rule, const std::string& how);

// While one lives, broken rules are collected by name. One at a time.
class FAKE_EXPORT Collected {
 public:
  Collected();
  ~Collected();
  Collected(const Collected&) = delete;
  Collected& operator=(const Collected&) = delete;

  std::vector<std::string> rules() const;
};

// The sorts of calls of NCCL of which one can be planned to fail or to hang:
// those that end a communicator, questions for asynchronous errors, and all
// others but ncclGetVersion and those for texts.
enum class Calls { kOthers, kDestroy, kAbort, kRevoke, kQuestion };

// Makes the `nth` call of a sort from now on, counted from 1, or each one,
// answer `result` without doing anything else; 0 switches it off.
inline constexpr int kEach = -1;
FAKE_EXPORT void fail_call(int nth, int result, Calls sort = Calls::kOthers);
// Whether the failure has happened.
FAKE_EXPORT bool has_failed();
// Makes the `nth` call of a sort from now on return only when `let_go` is
// called; 0 switches it off. Whether a call hangs now.
FAKE_EXPORT void hang_call(int nth, Calls sort = Calls::kOthers);
FAKE_EXPORT bool call_hangs();
FAKE_EXPORT void let_go();
// For the fake of NCCL: the answer that this call has to give, 0 for its own.
FAKE_EXPORT int planned_failure(Calls sort = Calls::kOthers);
// Makes every communicator in use report `result` as its asynchronous error.
FAKE_EXPORT void fail_asynchronously(int result);
FAKE_EXPORT int asynchronous_failure();
// Aborts and destroys of NCCL do not return while this is on.
FAKE_EXPORT void hang_ends(bool on);
FAKE_EXPORT bool ends_hang();

// Makes the `nth` call of the driver from now on answer `result` without doing
// anything else; 0 switches it off. Counted are those that retain a context,
// allocate, make streams and events, record, and put waits into streams.
FAKE_EXPORT void fail_driver_call(int nth, int result);
FAKE_EXPORT bool has_driver_failed();
// For the fake driver: the answer that this call has to give, 0 for its own.
FAKE_EXPORT int planned_driver_failure();

// The communicators that were begun and not ended.
FAKE_EXPORT int communicators_in_use();
// For the fake of NCCL: so many more.
FAKE_EXPORT void add_communicators(int more);

// Notes of the fake NCCL about its calls, for tests of hints: "minCTAs=4".
FAKE_EXPORT void note(const std::string& text);
FAKE_EXPORT std::vector<std::string> take_notes();

}  // namespace fakes::gpu

#endif  // DISTWRAP_TESTS_FAKES_GPU_RULES_H_
