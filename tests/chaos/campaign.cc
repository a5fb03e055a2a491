#include "chaos/campaign.h"

#include "distwrap/abi/note.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <unistd.h>

namespace distwrap::chaos {
namespace {

#ifdef SHIFTED_CLOCK
constexpr const char* kShiftedClock = SHIFTED_CLOCK;
#else
constexpr const char* kShiftedClock = "";
#endif

std::string command_of(const Setting& setting) {
  return absl::StrCat(
      "chaos --case ", setting.name, " --backend ", setting.backend,
      " --ranks ", setting.ranks,
      setting.hosts > 1 ? absl::StrCat(" --hosts ", setting.hosts) : "",
      setting.rank_agents ? " --rank-agents" : "", " --seed ", setting.seed);
}

void judge_ends(const Case& which, const Setting& setting, Job& job,
                Findings& findings) {
  for (int rank = 0; rank < setting.ranks; ++rank) {
    const int end = job.end_of(rank);
    if (end < 0) continue;  // the process hangs
    const bool good = which.ends_well == nullptr
                          ? end == 0
                          : which.ends_well(setting, rank, end);
    if (!good) findings.bad(absl::StrCat("rank ", rank, " ended with ", end));
    const RankPage& page = job.page(rank);
    if (page.is_wrong.load())
      findings.bad(absl::StrCat("rank ", rank, ": ", page.wrong));
    for (const absl::string_view line :
         absl::StrSplit(job.said(rank), '\n', absl::SkipEmpty()))
      if (which.may_print == nullptr || !which.may_print(line))
        findings.bad(absl::StrCat("rank ", rank, " printed: ", line));
  }
}

Findings run_try(const Case& which, const Setting& setting,
                 const CampaignOptions& options,
                 const hosts_test::Hosts* hosts) {
  Findings findings;
  if (which.on_cable) hosts->cable().mend();
  Job job(setting, options.patience, which.preloads ? kShiftedClock : "",
          hosts);
  which.direct(setting, job, findings);
  if (!findings.skipped().empty()) return findings;
  if (!job.wait_for_all()) {
    findings.bad(absl::StrCat("a hang: ", job.who_hangs()));
    if (options.keeps_hung) {
      std::fprintf(stderr, "%s; seed %llu\n", findings.bad().back().c_str(),
                   static_cast<unsigned long long>(setting.seed));
      raise(SIGSTOP);
    }
  }
  judge_ends(which, setting, job, findings);
  for (const Findings::Took& took : findings.took())
    if (absl::Nanoseconds(took.ns) >
        which.measures[took.measure].most + options.slack)
      findings.bad(
          absl::StrCat(which.measures[took.measure].what, ": ",
                       absl::FormatDuration(absl::Nanoseconds(took.ns))));
  return findings;
}

// On a terminal a line that changes; otherwise a line now and then.
class Progress {
 public:
  Progress(const Setting& setting, int tries)
      : name_(absl::StrCat(setting.name, " over ", setting.backend,
                           setting.hosts > 1 ? " on several hosts" : "")),
        tries_(tries),
        is_terminal_(isatty(2) != 0) {}

  void say(const Tally& tally) {
    const Deadline now = Deadline::after(absl::ZeroDuration());
    const bool is_last = tally.tries + tally.skipped == tries_;
    if (!is_last && now.ns() < next_.ns()) return;
    next_ = Deadline::after(is_terminal_ ? absl::Milliseconds(200)
                                         : absl::Seconds(30));
    std::fprintf(stderr, "%s%s: %d of %d tries, %d bad%s",
                 is_terminal_ ? "\r" : "", name_.c_str(),
                 tally.tries + tally.skipped, tries_, tally.bad,
                 is_terminal_ && !is_last ? "" : "\n");
  }

 private:
  const std::string name_;
  const int tries_;
  const bool is_terminal_;
  Deadline next_ = Deadline::after(absl::Milliseconds(200));
};

}  // namespace

Tally run_tries(const Case& which, Setting setting, int tries,
                const CampaignOptions& options) {
  Tally tally;
  tally.which = &which;
  tally.setting = setting;
  tally.times.resize(which.measures.size());
  Progress progress(setting, tries);
  const int64_t began = Deadline::now_ns();
  if (which.only_plain && DW_SANITIZER != DW_SANITIZER_NONE) {
    tally.skipped = tries;
    tally.why_skipped = "not with a sanitizer";
    return tally;
  }
  if (which.needs_hosts() && setting.hosts == 1) {
    tally.skipped = tries;
    tally.why_skipped = "only with --hosts";
    return tally;
  }
  using hosts_test::Hosts;
  if (which.on_cable) {
    tally.why_skipped = hosts_test::Cable::why_not();
    if (!tally.why_skipped.empty()) {
      tally.skipped = tries;
      return tally;
    }
  }
  std::unique_ptr<Hosts> hosts;
  if (setting.hosts > 1)
    hosts = std::make_unique<Hosts>(setting.hosts, which.on_cable
                                                       ? Hosts::Wires::kCable
                                                       : Hosts::Wires::kBridge);
  for (int i = 0; i < tries; ++i, ++setting.seed) {
    if (options.says_plans)
      std::fprintf(stderr, "seed %llu: %s\n",
                   static_cast<unsigned long long>(setting.seed),
                   which.plan(setting).c_str());
    const Findings findings = run_try(which, setting, options, hosts.get());
    if (findings.skipped().empty()) {
      ++tally.tries;
    } else {
      ++tally.skipped;
      tally.why_skipped = findings.skipped();
    }
    tally.counted += findings.counted();
    for (const Findings::Took& took : findings.took())
      tally.times[took.measure].push_back(took.ns);
    if (!findings.bad().empty()) {
      ++tally.bad;
      std::fprintf(stderr, "\nbad: %s\n  what happened: %s\n  repeat: %s\n",
                   absl::StrJoin(findings.bad(), "\n     ").c_str(),
                   which.plan(setting).c_str(), command_of(setting).c_str());
    }
    progress.say(tally);
  }
  for (auto& times : tally.times) std::sort(times.begin(), times.end());
  tally.took = absl::Nanoseconds(Deadline::now_ns() - began);
  return tally;
}

}  // namespace distwrap::chaos
