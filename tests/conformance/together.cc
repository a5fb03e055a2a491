#include "call.h"
#include "checks.h"
#include "operation.h"
#include "promises.h"
#include "sample.h"

#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>

namespace distwrap::conformance {
namespace {

// A call that is in flight beside others.
class Running {
 public:
  Running(Member& member, const Case& c)
      : member_(member),
        name_(c.name() + " among others"),
        call_(c, member),
        operation_(numbered(call_.op(), member.next_seq++)) {}

  void begin() { note(operation_.begin(member_)); }
  void end() {
    note(operation_.end(member_));
    if (good_) note(call_.wrong_result());
  }

 private:
  static dw_op numbered(dw_op op, uint64_t seq) {
    op.seq = seq;
    return op;
  }
  void note(const std::string& wrong) {
    if (wrong.empty()) return;
    if (good_) member_.find(name_ + ": " + wrong);
    good_ = false;
  }

  Member& member_;
  const std::string name_;
  Call call_;
  Operation operation_;
  bool good_ = true;
};

std::vector<Case> concurrent_cases(const Promises& promises) {
  std::vector<Case> cases;
  for (const Case& c : one_of_each(promises, 1023, Calling::kAsync))
    if (c.form == Form::kPlain || c.form == Form::kCounts) cases.push_back(c);
  return cases;
}

void run_together(Member& member, const std::vector<Case>& cases) {
  std::vector<std::unique_ptr<Running>> all;
  for (const Case& c : cases)
    all.push_back(std::make_unique<Running>(member, c));
  for (const auto& running : all) running->begin();
  for (const auto& running : all) running->end();
}

size_t threads_of_process() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                    std::filesystem::directory_iterator()));
}

// Starts and ends that many works, none of which can end before rank 0 comes;
// meanwhile rank 0 counts threads.
void keep_open(Member& member, const Case& c, int works, size_t* threads) {
  std::vector<std::unique_ptr<Running>> all;
  for (int i = 0; i < works; ++i)
    all.push_back(std::make_unique<Running>(member, c));
  if (member.rank != 0)
    for (const auto& running : all) running->begin();
  member.meeting.meet();
  if (member.rank == 0) {
    *threads = threads_of_process();
    for (const auto& running : all) running->begin();
  }
  member.meeting.meet();
  for (const auto& running : all) running->end();
}

}  // namespace

// Two operations of any two kinds at a time, also of one kind; then all at
// once.
void check_pairs(const dw_backend_api& api, int size, const Limits& limits,
                 Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    const std::vector<Case> cases = concurrent_cases(promises_of(member));
    for (size_t i = 0; i < cases.size(); ++i)
      for (size_t k = i; k < cases.size(); ++k) {
        Case second = cases[k];
        second.salt += 100;
        run_together(member, {cases[i], second});
      }
    run_together(member, cases);
  });
}

void check_open_works(const dw_backend_api& api, int size, const Limits& limits,
                      Findings& findings) {
  constexpr int kWorks = 1000;
  if (size == 1) return;  // nothing stays open
  run_team(api, size, limits, findings, [](Member& member) {
    std::vector<Case> cases =
        one_of_each(promises_of(member), 8, Calling::kAsync);
    std::erase_if(cases, [](const Case& c) {
      return c.kind != DW_OP_ALL_REDUCE && c.kind != DW_OP_BARRIER;
    });
    member.meeting.meet();  // the threads of all ranks exist
    const size_t before = threads_of_process();
    member.meeting.meet();
    for (const Case& c : cases) {
      size_t with_many = 0;
      keep_open(member, c, kWorks, &with_many);
      const size_t allowed =
          before + static_cast<size_t>(member.limits.threads * member.size);
      if (with_many > allowed)
        member.find(c.name() + ": " + std::to_string(kWorks) +
                    " open works have " + std::to_string(with_many - before) +
                    " threads");
    }
  });
}

void check_many_communicators(const dw_backend_api& api, int size,
                              const Limits& limits, Findings& findings) {
  constexpr int kTeams = 4;
  std::vector<std::thread> teams;
  for (int team = 0; team < kTeams; ++team)
    teams.emplace_back([&, team] {
      run_team(api, size, limits, findings, [&](Member& member) {
        for (Case c :
             one_of_each(promises_of(member), 1023,
                         team % 2 == 0 ? Calling::kWaits : Calling::kAsync)) {
          c.salt += static_cast<size_t>(team) * 100;
          c.root = team;
          make_call(member, c);
        }
      });
    });
  for (std::thread& team : teams) team.join();
}

}  // namespace distwrap::conformance
