// Windows that are being made when a rank gives up.
#include "messages.h"
#include "team.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <fstream>
#include <set>
#include <string>
#include <sys/shm.h>
#include <vector>

namespace distwrap::ucx_test {
namespace {

using conformance::Findings;
using conformance::Limits;
using conformance::Member;

// One window of 8 numbers, which every rank brings if `brings`.
class WindowSetup {
 public:
  WindowSetup(Member& member, uint64_t uid, bool brings)
      : member_(member), numbers_(brings ? 8 : 0) {
    dw_setup_info info = conformance::setup_info(member, uid);
    info.flags = DW_SETUP_WINDOW;
    info.parent = member.comm;
    info.memory.dtype = {1, 64, 1};
    info.memory.count = 8;
    if (brings) info.memory.data = numbers_.data();
    info.signals = 1;
    code_ =
        member.api.window_create(member.comm, &info, &setup_, &out_, &error_);
  }
  ~WindowSetup() { give_up(); }
  WindowSetup(const WindowSetup&) = delete;
  WindowSetup& operator=(const WindowSetup&) = delete;

  std::vector<std::string> swap() {
    std::string mine;
    if (code_ == DW_OK)
      mine.assign(static_cast<const char*>(out_.data), out_.size);
    return member_.meeting.swap(member_.rank, mine);
  }
  void step(const std::vector<std::string>& texts) {
    if (code_ != DW_OK) return;
    std::vector<dw_blob> blobs;
    for (const std::string& text : texts)
      blobs.push_back({text.data(), text.size(), nullptr, 0});
    code_ = member_.api.setup_step(setup_, blobs.data(), blobs.size(), &out_,
                                   &result_, &error_);
  }
  void give_up() {
    if (code_ == DW_OK) member_.api.setup_cancel(setup_);
    if (code_ == DW_DONE)
      member_.api.window_destroy(result_.window, conformance::now_ns(),
                                 nullptr);
    code_ = DW_ABORTED;
  }
  bool goes_on() const { return code_ == DW_OK; }
  bool is_done() const { return code_ == DW_DONE; }
  std::string error() const { return conformance::error_text(code_, error_); }

 private:
  Member& member_;
  std::vector<uint64_t> numbers_;
  int32_t code_;
  dw_error error_ = {};
  dw_setup* setup_ = nullptr;
  dw_blob out_ = {};
  dw_setup_result result_ = {};
};

// The addresses at which memory of System V is attached to this process.
std::set<uintptr_t> attached() {
  std::set<uintptr_t> all;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/SYSV") != std::string::npos)
      all.insert(std::stoull(line, nullptr, 16));
  return all;
}

// Memory of the program, attached at an address where nothing else has come to
// lie meanwhile.
class Attached {
 public:
  explicit Attached(uintptr_t at) {
    const int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    if (shmat(id, reinterpret_cast<void*>(at), 0) ==
        reinterpret_cast<void*>(at))
      at_ = at;
    shmctl(id, IPC_RMID, nullptr);
  }
  ~Attached() {
    if (at_ != 0 && !is_lost()) shmdt(reinterpret_cast<void*>(at_));
  }
  // Whether somebody else has detached it.
  bool is_lost() const { return at_ != 0 && attached().count(at_) == 0; }

 private:
  uintptr_t at_ = 0;
};

// The part of a rank that has given up cannot be mapped. When UCX 1.13 was to
// map it, it detached what lay where it had mapped the part of an earlier
// window.
TEST(UcxWindowSetups, ARankThatGivesUpHarmsNobody) {
  Findings findings;
  conformance::run_team(ucx(), 2, Limits{}, findings, [](Member& member) {
    uint64_t uid = 100;
    for (const bool brings : {false, true})
      for (int keep = 0;; ++keep) {
        std::set<uintptr_t> given_back;
        {
          WindowSetup whole(member, ++uid, brings);
          while (whole.goes_on()) whole.step(whole.swap());
          if (!whole.is_done()) member.find(whole.error());
          given_back = attached();
          member.meeting.meet();
        }
        member.meeting.meet();
        std::deque<Attached> own;
        if (member.rank == 0) {
          for (const uintptr_t at : attached()) given_back.erase(at);
          for (const uintptr_t at : given_back) own.emplace_back(at);
        }
        member.meeting.meet();
        WindowSetup setup(member, ++uid, brings);
        for (int round = 0; round < keep && setup.goes_on(); ++round)
          setup.step(setup.swap());
        const bool goes_on = setup.goes_on();
        if (goes_on) {
          const std::vector<std::string> texts = setup.swap();
          if (member.rank == 1) setup.give_up();
          member.meeting.meet();
          if (member.rank == 0) setup.step(texts);
        }
        for (const Attached& one : own)
          if (one.is_lost()) member.find("memory of others was detached");
        member.meeting.meet();
        if (!goes_on) break;
      }
  });
  EXPECT_TRUE(findings.empty()) << findings.text();
}

}  // namespace
}  // namespace distwrap::ucx_test
