#include "errors/fault.h"

#include "base/error.h"

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace distwrap::faults {
namespace {

using nlohmann::json;

const char* doing_name(RankSeen::Doing doing) {
  switch (doing) {
    case RankSeen::Doing::kNothing:
      return "nothing";
    case RankSeen::Doing::kInside:
      return "inside";
    case RankSeen::Doing::kDone:
      return "done";
    case RankSeen::Doing::kLeft:
      return "left";
  }
  return "?";
}

double seconds(absl::Duration duration) {
  return absl::ToDoubleSeconds(duration);
}

json expected_json(const Expected& expected) {
  json out = {{"reason", reason_name(expected.reason)},
              {"what", expected.what},
              {"next", expected.next}};
  if (expected.where.has_value())
    out["where"] = {{"op", expected.where->op},
                    {"group", expected.where->group},
                    {"rank", expected.where->rank},
                    {"numbered", expected.where->numbered}};
  if (expected.who.has_value())
    out["who"] = {{"ranks", expected.who->ranks},
                  {"pids", expected.who->pids},
                  {"seen", expected.who->seen}};
  if (expected.how_long.has_value())
    out["how_long"] = {{"limit", seconds(expected.how_long->limit)},
                       {"setting", expected.how_long->setting},
                       {"has_passed", expected.how_long->has_passed}};
  return out;
}

}  // namespace

json error_json(const absl::Status& status) {
  const ErrorInfo info = error_info(status).value_or(ErrorInfo{});
  json seen = json::array();
  for (const RankSeen& one : info.seen)
    seen.push_back({{"rank", one.rank},
                    {"pid", one.pid},
                    {"host", one.host},
                    {"doing", doing_name(one.doing)},
                    {"call", one.call}});
  return {{"ok", status.ok()},
          {"text", std::string(status.message())},
          {"reason", reason_name(info.reason)},
          {"page", error_page(info.reason)},
          {"what", info.what},
          {"op", info.op},
          {"group", info.group},
          {"seq", info.seq},
          {"my_rank", info.my_rank},
          {"group_size", info.group_size},
          {"ranks", info.ranks},
          {"elapsed", seconds(info.elapsed)},
          {"limit", seconds(info.deadline)},
          {"setting", info.setting},
          {"expected", info.expected},
          {"actual", info.actual},
          {"cause", info.cause},
          {"next_step", info.next_step},
          {"seen", seen}};
}

void report(const std::string& fault, const json& error,
            const Expected& expected) {
  static std::mutex mutex;
  const std::string line =
      json{{"fault", fault},
           {"error", error},
           {"expected", expected_json(expected)}}
          .dump(-1, ' ', false, json::error_handler_t::replace);
  std::lock_guard lock(mutex);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void report(const std::string& fault, const absl::Status& status,
            const Expected& expected) {
  report(fault, error_json(status), expected);
}

void on_ranks(int n, const InitOptions& options,
              const std::function<void(const Session&)>& body) {
  const std::shared_ptr<Store> store = Store::in_memory();
  std::barrier done(n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      InitOptions mine = options;
      mine.rank = rank;
      mine.world_size = n;
      mine.store = store;
      const absl::StatusOr<Session> session = Session::create(mine);
      if (!session.ok()) {
        std::fprintf(stderr, "%s\n", session.status().ToString().c_str());
        std::abort();
      }
      bind_session(*session);
      body(*session);
      bind_session({});
      // A rank that leaves would take data with it that others have yet to
      // read.
      done.arrive_and_wait();
      session->close(absl::ZeroDuration()).IgnoreError();
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace distwrap::faults
