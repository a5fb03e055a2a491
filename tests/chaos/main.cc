// Faults on purpose, each determined by a number.
//
//   chaos --set sample                       a few tries of each case
//   chaos --case F1 --tries 200 --seed 7     tries of one case
//   chaos --case F1 --seed 31                one try again
//   chaos --set long --judge                 times held to the promises
//
// Exit code: 0 when no try was bad (and, with --judge, no promise was broken),
// 1 otherwise, 2 for bad options, 77 without network namespaces for --hosts.
#include "chaos/campaign.h"
#include "chaos/cases.h"
#include "chaos/sets.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

namespace distwrap::chaos {
namespace {

constexpr int kSkipped = 77;

constexpr char kUsage[] =
    R"(usage: chaos --set sample|long|full|hosts|hosts_alone [OPTION]...
       chaos --case NAME [--tries N] [OPTION]...
       chaos --list

  --seed N        of the first try; the next ones follow. Default: random
  --backend NAME  gloo, shm or ucx; several with commas. Default: gloo,shm
  --ranks N       3 to 16. Default: 4
  --hosts N       spread over so many network namespaces, each a host. Default: 1
  --rank-agents   with --hosts: a rank of each other host than the first is its
                  agent, not the director
  --tries N       of a case; default 1
  --slack SEC     how late something may be before its try is bad. Default: 5
  --patience SEC  after this a try counts as a hang. Default: 30
  --judge         for a quiet machine: end with 1 also when the p99 of 100 times
                  or more, or the longest time, is above what is promised
  --json FILE     the figures as JSON as well, after each case those so far
  --plans         say of each try what happens in it, before it does
  --keep-hung     stop at a hang, for a debugger
)";

struct Options {
  std::string set, name, json;
  std::vector<std::string> backends = {"gloo", "shm"};
  int ranks = 4, hosts = 1, tries = 1, rank = -1, ledger = -1;
  uint64_t seed = std::random_device()() % 1'000'000'000;
  bool lists = false, judges = false, rank_agents = false;
  CampaignOptions campaign;
};

bool read(int argc, char** argv, Options* o) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--list") {
      o->lists = true;
    } else if (name == "--judge") {
      o->judges = true;
    } else if (name == "--plans") {
      o->campaign.says_plans = true;
    } else if (name == "--rank-agents") {
      o->rank_agents = true;
    } else if (name == "--keep-hung") {
      o->campaign.keeps_hung = true;
    } else {
      if (++i == argc) return false;
      const std::string value = argv[i];
      double seconds = 0;
      if (name == "--set") {
        o->set = value;
      } else if (name == "--case") {
        o->name = value;
      } else if (name == "--json") {
        o->json = value;
      } else if (name == "--backend") {
        o->backends = absl::StrSplit(value, ',');
      } else if (name == "--slack" && absl::SimpleAtod(value, &seconds)) {
        o->campaign.slack = absl::Seconds(seconds);
      } else if (name == "--patience" && absl::SimpleAtod(value, &seconds)) {
        o->campaign.patience = absl::Seconds(seconds);
      } else if (!(name == "--seed" && absl::SimpleAtoi(value, &o->seed)) &&
                 !(name == "--ranks" && absl::SimpleAtoi(value, &o->ranks)) &&
                 !(name == "--hosts" && absl::SimpleAtoi(value, &o->hosts)) &&
                 !(name == "--tries" && absl::SimpleAtoi(value, &o->tries)) &&
                 !(name == "--rank" && absl::SimpleAtoi(value, &o->rank)) &&
                 !(name == "--ledger" && absl::SimpleAtoi(value, &o->ledger))) {
        return false;
      }
    }
  }
  return o->lists || (o->ranks >= 3 && o->ranks <= int{kMostRanks} &&
                      o->tries > 0 && o->hosts > 0 && o->hosts <= o->ranks &&
                      o->set.empty() != o->name.empty());
}

// Runs in the process of a rank.
int be_rank(const Case& which, const Options& o) {
  const LedgerMemory memory(o.ledger);
  const Setting setting{o.name,  o.backends.front(), o.ranks,
                        o.hosts, o.rank_agents,      o.seed};
  Ledger& ledger = *memory;
  const Self self{setting, o.rank, ledger,
                  ledger.ranks[static_cast<size_t>(o.rank)]};
  which.rank(self);
  self.page.ready.store(true);
  self.page.finished.store(true);
  return 0;
}

int direct(const Options& o, const std::vector<Share>& shares) {
  std::vector<Tally> tallies;
  int bad = 0;
  for (const Share& share : shares)
    for (const std::string& backend : o.backends) {
      const Setting setting{share.which->name,
                            backend,
                            o.ranks,
                            o.hosts,
                            o.rank_agents || share.which->rank_agents,
                            o.seed};
      tallies.push_back(
          run_tries(*share.which, setting, share.tries, o.campaign));
      bad += tallies.back().bad;
      // Written after each case, so that results remain if a long run is
      // stopped.
      if (!o.json.empty()) std::ofstream(o.json) << json_of(tallies);
    }
  std::printf("%s", table_of(tallies).c_str());
  if (o.judges)
    for (const std::string& broken : broken_promises(tallies)) {
      std::printf("broken: %s\n", broken.c_str());
      ++bad;
    }
  return bad == 0 ? 0 : 1;
}

int run(int argc, char** argv) {
  Options o;
  if (!read(argc, argv, &o)) {
    std::fprintf(stderr, "%s", kUsage);
    return 2;
  }
  if (o.lists) {
    for (const Case* const one : all_cases())
      std::printf("%-4s %s (%d tries in all)\n", one->name, one->what,
                  one->full);
    return 0;
  }
  std::vector<Share> shares;
  if (!o.set.empty()) {
    shares = shares_of(o.set);
  } else if (const Case* const which = find_case(o.name); which != nullptr) {
    if (o.rank >= 0) return be_rank(*which, o);
    shares.push_back({which, o.tries});
  }
  if (shares.empty()) {
    std::fprintf(stderr,
                 "chaos: no such case or set; --list shows the cases\n");
    return 2;
  }
  if (o.hosts > 1)
    if (const std::string why = hosts_test::Hosts::why_not(); !why.empty()) {
      std::fprintf(stderr, "chaos: skipped: %s\n", why.c_str());
      return kSkipped;
    }
  std::fprintf(stderr, "chaos: from seed %llu on\n",
               static_cast<unsigned long long>(o.seed));
  return direct(o, shares);
}

}  // namespace
}  // namespace distwrap::chaos

int main(int argc, char** argv) { return distwrap::chaos::run(argc, argv); }
