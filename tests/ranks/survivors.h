// Ranks that are processes of the program `survivor`, which are killed.
#ifndef DISTWRAP_TESTS_RANKS_SURVIVORS_H_
#define DISTWRAP_TESTS_RANKS_SURVIVORS_H_

#include "base/settings.h"
#include "store/run_directory.h"
#include "store/server_thread.h"
#include "unit/cli/process.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace distwrap::testing {

// N processes that meet at a store of this test.
class Job {
 public:
  Job(int ranks, const std::vector<std::string>& arguments,
      const std::string& timeout_s, const std::string& heartbeat_s = "5",
      const std::string& straggler_s = "0")
      : directory_(*store::RunDirectory::make(base::Environment::of_process())),
        server_(*store::ServerThread::start(directory_.path() + "/store")) {
    std::vector<std::string> argv = {SURVIVOR};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    for (int rank = 0; rank < ranks; ++rank)
      ranks_.push_back(std::make_unique<cli::Process>(
          argv, cli::Process::Options{
                    .env = {{"DISTWRAP_RANK", std::to_string(rank)},
                            {"DISTWRAP_WORLD_SIZE", std::to_string(ranks)},
                            {"DISTWRAP_STORE", server_->address()},
                            {"DISTWRAP_TIMEOUT", timeout_s},
                            {"DISTWRAP_HEARTBEAT", heartbeat_s},
                            {"DISTWRAP_STRAGGLER", straggler_s}}}));
  }

  cli::Process& rank(size_t r) { return *ranks_[r]; }
  size_t size() const { return ranks_.size(); }

  // Ends the store: nothing answers there any more.
  void end_store() { server_.reset(); }

  void wait_until_working() {
    for (const auto& rank : ranks_)
      ASSERT_TRUE(rank->read_until("ready\n", 1)) << rank->out();
  }

 private:
  store::RunDirectory directory_;
  std::unique_ptr<store::ServerThread> server_;
  std::vector<std::unique_ptr<cli::Process>> ranks_;
};

inline std::string line_with(const std::string& text,
                             const std::string& start) {
  const size_t at = text.find(start);
  return at == std::string::npos ? ""
                                 : text.substr(at, text.find('\n', at) - at);
}

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_SURVIVORS_H_
