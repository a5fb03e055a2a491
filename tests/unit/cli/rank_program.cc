// The ranks of the tests of `distwrap run`: rank_program MODE ...
#include "distwrap/status.h"
#include "distwrap/store.h"
#include "store/exchange.h"
#include "store/launch_info.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sched.h>
#include <signal.h>
#include <string>
#include <unistd.h>

namespace {

using distwrap::Deadline;
using distwrap::Store;

int my_rank() { return std::atoi(std::getenv("DISTWRAP_RANK")); }

void say(const std::string& text) {
  std::cout << text << std::endl;  // flushed: a test waits for it
}

[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}

// exchange SECONDS: rank 1 dies first if SECONDS is not 0
int exchange_ranks(const std::string& seconds) {
  const auto launch =
      distwrap::store::detect_launch(distwrap::base::Environment::of_process());
  if (!launch.ok()) return 10;
  double limit = std::atof(seconds.c_str());
  if (limit > 0 && launch->rank == 1) return 3;
  if (limit == 0) limit = 20;
  const Deadline deadline = Deadline::after(absl::Seconds(limit));
  const auto store = Store::connect(launch->store_address, deadline);
  if (!store.ok()) return 11;
  const auto all = distwrap::store::exchange(
      **store, "names", launch->rank, launch->world_size,
      absl::StrCat("rank", launch->rank), deadline);
  if (!all.ok()) {
    say(std::string(all.status().message()));
    return 12;
  }
  say(absl::StrCat(absl::StrJoin(*all, " "), " of job ", launch->job_id));
  return 0;
}

int await_signal() {
  sigset_t set;
  sigfillset(&set);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  say("ready");
  int number = 0;
  sigwait(&set, &number);
  say(absl::StrCat("got ", number));
  return 7;
}

// deaf: ends by nothing but SIGKILL
[[noreturn]] void be_deaf() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
  say("ready");
  sleep_for_ever();
}

// A process of the rank's group that would stay.
int leave_a_child() {
  if (fork() == 0) sleep_for_ever();
  say("left");
  return 0;
}

int show_signals() {
  std::string text = "ignored:";
  for (int i = 1; i < 32; ++i) {
    struct sigaction action = {};
    sigaction(i, nullptr, &action);
    if (action.sa_handler == SIG_IGN) absl::StrAppend(&text, " ", i);
  }
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  absl::StrAppend(&text, "; blocked:");
  for (int i = 1; i < 32; ++i)
    if (sigismember(&blocked, i) == 1) absl::StrAppend(&text, " ", i);
  say(text);
  return 0;
}

int show_core() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  std::string text = "cores:";
  for (size_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) absl::StrAppend(&text, " ", i);
  say(text);
  return 0;
}

int flood(int lines) {
  const std::string tail(90, 'x');
  for (int i = 0; i < lines; ++i) std::cout << i << ' ' << tail << '\n';
  std::cout.flush();
  return 0;
}

int repeat_input() {
  std::string line;
  int n = 0;
  for (; std::getline(std::cin, line); ++n) say("read " + line);
  say(absl::StrCat(n, " lines"));
  return 0;
}

// fail RANK CODE: that rank exits, the others stay
int fail(int rank, int code) {
  if (my_rank() == rank) return code;
  sleep_for_ever();
}

// die RANK SIGNAL
int die(int rank, int number) {
  if (my_rank() != rank) sleep_for_ever();
  signal(number, SIG_DFL);
  raise(number);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return i < argc ? std::atoi(argv[i]) : 0; };
  if (mode == "exchange") return exchange_ranks(argc > 2 ? argv[2] : "0");
  if (mode == "await-signal") return await_signal();
  if (mode == "deaf") be_deaf();
  if (mode == "fail-among-deaf" && my_rank() != number(2)) be_deaf();
  if (mode == "fail-among-deaf") return number(3);
  if (mode == "leave-child") return leave_a_child();
  if (mode == "show-signals") return show_signals();
  if (mode == "show-core") return show_core();
  if (mode == "flood") return flood(number(2));
  if (mode == "repeat-input") return repeat_input();
  if (mode == "fail") return fail(number(2), number(3));
  if (mode == "die") return die(number(2), number(3));
  if (mode == "exit-as-rank") return my_rank();
  std::fprintf(stderr, "unknown mode '%s'\n", mode.c_str());
  return 98;
}
