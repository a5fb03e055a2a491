#include "fakes/gpu/rules.h"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace fakes::gpu {
namespace {

struct State {
  std::mutex mutex;
  bool collecting = false;
  std::vector<std::string> rules, notes;
  Calls counted_sort = Calls::kOthers;
  int fail_at = 0, fail_with = 0, counted = 0;
  bool failed = false;
  int hang_at = 0;
  bool hangs = false;
  std::condition_variable goes_on;
  std::atomic<int> asynchronous = 0, communicators = 0;
  std::atomic<bool> hang = false;
};
State& state() {
  static State* const kState = new State;
  return *kState;
}

}  // namespace

void broken(const std::string& rule, const std::string& how) {
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (state().collecting) {
      state().rules.push_back(rule);
      return;
    }
  }
  std::fprintf(stderr, "the fake GPU: broken rule \"%s\": %s\n", rule.c_str(),
               how.c_str());
  std::abort();
}

Collected::Collected() {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().collecting = true;
  state().rules.clear();
}

Collected::~Collected() {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().collecting = false;
}

std::vector<std::string> Collected::rules() const {
  std::lock_guard<std::mutex> lock(state().mutex);
  return state().rules;
}

void fail_call(int nth, int result, Calls sort) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().counted_sort = sort;
  state().fail_at = nth;
  state().fail_with = result;
  state().counted = 0;
  state().failed = false;
}

bool has_failed() {
  std::lock_guard<std::mutex> lock(state().mutex);
  return state().failed;
}

void hang_call(int nth, Calls sort) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().counted_sort = sort;
  state().hang_at = nth;
  state().counted = 0;
}

bool call_hangs() {
  std::lock_guard<std::mutex> lock(state().mutex);
  return state().hangs;
}

void let_go() {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().hang_at = 0;
  state().hangs = false;
  state().goes_on.notify_all();
}

int planned_failure(Calls sort) {
  std::unique_lock<std::mutex> lock(state().mutex);
  if (sort != state().counted_sort) return 0;
  ++state().counted;
  if (state().counted == state().hang_at) {
    state().hangs = true;
    state().goes_on.wait(lock, [] { return !state().hangs; });
    return 0;
  }
  if (state().fail_at != kEach && state().counted != state().fail_at) return 0;
  state().failed = true;
  return state().fail_with;
}

void fail_asynchronously(int result) { state().asynchronous = result; }
int asynchronous_failure() { return state().asynchronous; }
void hang_ends(bool on) { state().hang = on; }
bool ends_hang() { return state().hang; }

int communicators_in_use() { return state().communicators; }
void add_communicators(int more) { state().communicators += more; }

void note(const std::string& text) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().notes.push_back(text);
}

std::vector<std::string> take_notes() {
  std::lock_guard<std::mutex> lock(state().mutex);
  return std::exchange(state().notes, {});
}

namespace {
std::atomic<int> driver_fails_in = 0, driver_answer = 0;
}  // namespace

void fail_driver_call(int nth, int result) {
  driver_answer = result;
  driver_fails_in = nth;
}
bool has_driver_failed() { return driver_fails_in < 0; }
int planned_driver_failure() {
  int left = driver_fails_in;
  while (left > 0)
    if (driver_fails_in.compare_exchange_weak(left, left == 1 ? -1 : left - 1))
      return left == 1 ? driver_answer.load() : 0;
  return 0;
}

}  // namespace fakes::gpu
