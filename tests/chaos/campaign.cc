#include "chaos/campaign.h"

#include "distwrap/abi/note.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <unistd.h>

namespace distwrap::chaos {
namespace {

#ifdef SHIFTED_CLOCK
constexpr const char* kShiftedClock = SHIFTED_CLOCK;
#else
constexpr const char* kShiftedClock = "";
#endif

std::string command_of(const Setting& setting) {
  return absl::StrCat("chaos --case ", setting.name, " --backend ",
                      setting.backend, " --ranks ", setting.ranks, " --seed ",
                      setting.seed);
}

void judge_ends(const Case& which, const Setting& setting, Job& job,
                Findings& findings) {
  for (int rank = 0; rank < setting.ranks; ++rank) {
    const int end = job.end_of(rank);
    if (end < 0) continue;  // it hangs
    const bool good = which.ends_well == nullptr
                          ? end == 0
                          : which.ends_well(setting, rank, end);
    if (!good) findings.bad(absl::StrCat("rank ", rank, " ended with ", end));
    const RankPage& page = job.page(rank);
    if (page.is_wrong.load())
      findings.bad(absl::StrCat("rank ", rank, ": ", page.wrong));
    if (const std::string said = job.said(rank); !said.empty())
      findings.bad(absl::StrCat("rank ", rank, " printed: ", said));
  }
}

Findings run_try(const Case& which, const Setting& setting,
                 const CampaignOptions& options) {
  Findings findings;
  Job job(setting, options.patience, which.preloads ? kShiftedClock : "");
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

// On a terminal a line that changes, else one now and then.
class Progress {
 public:
  Progress(const Setting& setting, int tries)
      : name_(absl::StrCat(setting.name, " over ", setting.backend)),
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

std::string ms(int64_t ns) {
  return absl::StrFormat("%.1f", static_cast<double>(ns) / 1e6);
}

// Of quoted text.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '"' || c == '\\') safe += '\\';
    safe += c >= ' ' ? c : ' ';
  }
  return safe;
}

}  // namespace

int64_t Tally::late(size_t measure) const {
  const int64_t most = absl::ToInt64Nanoseconds(which->measures[measure].most);
  return std::count_if(times[measure].begin(), times[measure].end(),
                       [&](int64_t ns) { return ns > most; });
}

int64_t Tally::at(size_t measure, double part) const {
  const auto& all = times[measure];
  const auto place =
      static_cast<size_t>(std::ceil(part * static_cast<double>(all.size())));
  return all[std::min(std::max<size_t>(place, 1), all.size()) - 1];
}

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
  for (int i = 0; i < tries; ++i, ++setting.seed) {
    if (options.says_plans)
      std::fprintf(stderr, "seed %llu: %s\n",
                   static_cast<unsigned long long>(setting.seed),
                   which.plan(setting).c_str());
    const Findings findings = run_try(which, setting, options);
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

std::string table_of(const std::vector<Tally>& tallies) {
  std::string text =
      "| case | backend | tries | bad | time, ms | p50 | p99 | most | promised "
      "| late |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- "
      "|\n";
  for (const Tally& tally : tallies) {
    std::string head =
        absl::StrCat("| ", tally.which->name, " | ", tally.setting.backend,
                     " | ", tally.tries, " | ", tally.bad, " | ");
    bool any = false;
    for (size_t m = 0; m < tally.times.size(); ++m) {
      if (tally.times[m].empty()) continue;
      const Measure& measure = tally.which->measures[m];
      absl::StrAppend(&text, head, measure.what, " | ", ms(tally.at(m, 0.5)),
                      " | ", ms(tally.at(m, 0.99)), " | ", ms(tally.at(m, 1)),
                      " | ", ms(absl::ToInt64Nanoseconds(measure.most)), " | ",
                      tally.late(m), " of ", tally.times[m].size(), " |\n");
      head = "| | | | | ";
      any = true;
    }
    if (!any) absl::StrAppend(&text, head, "| | | | | |\n");
    if (tally.skipped > 0)
      absl::StrAppend(&text, "| | | ", tally.skipped, " skipped | | ",
                      tally.why_skipped, " | | | | | |\n");
  }
  return text;
}

std::string json_of(const std::vector<Tally>& tallies) {
  std::vector<std::string> cases;
  for (const Tally& tally : tallies) {
    std::vector<std::string> measures;
    for (size_t m = 0; m < tally.times.size(); ++m) {
      if (tally.times[m].empty()) continue;
      const Measure& measure = tally.which->measures[m];
      measures.push_back(absl::StrCat(
          "{\"what\": \"", escaped(measure.what), "\", \"times\": ",
          tally.times[m].size(), ", \"p50_ms\": ", ms(tally.at(m, 0.5)),
          ", \"p99_ms\": ", ms(tally.at(m, 0.99)),
          ", \"most_ms\": ", ms(tally.at(m, 1)),
          ", \"promised_ms\": ", ms(absl::ToInt64Nanoseconds(measure.most)),
          ", \"late\": ", tally.late(m), "}"));
    }
    cases.push_back(absl::StrCat(
        "  {\"case\": \"", tally.which->name, "\", \"backend\": \"",
        escaped(tally.setting.backend), "\", \"ranks\": ", tally.setting.ranks,
        ", \"seed\": ", tally.setting.seed, ", \"tries\": ", tally.tries,
        ", \"bad\": ", tally.bad, ", \"skipped\": ", tally.skipped,
        ", \"why_skipped\": \"", escaped(tally.why_skipped),
        "\", \"counted\": ", tally.counted,
        ", \"seconds\": ", absl::ToInt64Seconds(tally.took),
        ", \"measures\": [", absl::StrJoin(measures, ", "), "]}"));
  }
  return absl::StrCat("[\n", absl::StrJoin(cases, ",\n"), "\n]\n");
}

}  // namespace distwrap::chaos
