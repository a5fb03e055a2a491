// The operations that pass `submit` equal the calls: the decorator `record`,
// below the host and above the backend, sees the operations that the recorder
// saw above.
#include "host_backends.h"
#include "ranks/facade_ranks.h"
#include "ranks/recordings_folder.h"
#include "recordings/recording.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdlib.h>
#include <string>
#include <vector>

namespace distwrap::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// An operation as a line of a trace.
std::string traced(const cli::RecordedOp& op) {
  std::string text = absl::StrCat("\"op\": \"", op.op, "\"");
  if (op.seq != 0) absl::StrAppend(&text, ", \"seq\": ", op.seq);
  if (!op.dtype.empty())
    absl::StrAppend(&text, ", \"dtype\": \"", op.dtype, "\"");
  if (!op.reduce.empty())
    absl::StrAppend(&text, ", \"reduce\": \"", op.reduce, "\"");
  if (op.op == "send" || op.op == "recv")
    absl::StrAppend(&text, ", \"peer\": ", op.peer, ", \"tag\": ", op.tag);
  else if (op.peer >= 0)
    absl::StrAppend(&text, ", \"root\": ", op.peer);
  absl::StrAppend(&text, ", \"in\": ", op.in, ", \"out\": ", op.out, ",");
  return text;
}

class Traces : public ::testing::TestWithParam<const char*> {
 protected:
  Traces() { setenv("DISTWRAP_TRACE", folder_.path().c_str(), 1); }
  ~Traces() override { unsetenv("DISTWRAP_TRACE"); }

  const testing::RecordingsFolder folder_;
};

// Every kind of call, synchronous and asynchronous, alone and in a batch.
void call_all(int rank, int n, const Group& group) {
  const OpOptions how{.group = group};
  const OpOptions begun{.group = group, .async = true};
  const int64_t size = n;
  std::vector<float> x(64, 1), y(64), z(64);
  const auto a = [&](int64_t count) { return TensorView(x.data(), count); };
  const auto b = [&](int64_t count) { return TensorView(y.data(), count); };
  finish(barrier(how));
  finish(all_reduce(a(8), ReduceOp::kSum, how));
  finish(all_reduce(b(8), a(8), ReduceOp::kMax, begun));
  finish(broadcast(a(5), Peer::group(n - 1), begun));
  finish(reduce(b(3), a(3), Peer::group(0), ReduceOp::kSum, how));
  finish(all_gather_into_tensor(b(2 * size), a(2), how));
  finish(reduce_scatter_tensor(b(2), a(2 * size), ReduceOp::kSum, how));
  finish(all_to_all_single(b(size), a(size), {}, {}, begun));
  finish(gather_into_tensor(b(size), a(1), Peer::group(0), {}, how));
  finish(scatter_tensor(b(1), a(size), Peer::group(0), {}, how));
  std::vector<int64_t> counts;
  std::vector<TensorView> outs;
  int64_t all = 0;
  for (int r = 0; r < n; ++r) {
    counts.push_back(r + 1);
    outs.push_back(TensorView(z.data() + all, r + 1));
    all += r + 1;
  }
  finish(all_gather_v(b(all), a(rank + 1), counts, how));
  finish(all_gather(outs, a(rank + 1), how));
  finish(scan(b(2), a(2), ReduceOp::kSum, how));
  Batch batch;
  batch.send(a(4), Peer::group((rank + 1) % n), 7, how);
  batch.recv(b(4), Peer::group((rank + n - 1) % n), 7, how);
  batch.all_reduce(TensorView(z.data(), 1), ReduceOp::kSum, how);
  finish(batch.submit());
  const auto sent = isend(a(6), Peer::group((rank + 1) % n), 9, how);
  ASSERT_TRUE(sent.ok()) << sent.status();
  ASSERT_TRUE(recv(b(6), Peer::group((rank + n - 1) % n), 9, how).ok());
  ASSERT_TRUE(sent->wait().ok());
  ASSERT_TRUE(all_gather_object(Object(rank), how).ok());
}

TEST_P(Traces, HoldWhatTheRecorderSaw) {
  const int n = GetParam() == std::string("loopback") ? 1 : 3;
  run_ranks(n, {.backend = GetParam(), .timeout = absl::Seconds(60)},
            [&](Session& session) {
              bind_session(session);
              call_all(session.rank(), n, session.world());
              const auto group = new_group({.group_desc = "again"});
              ASSERT_TRUE(group.ok()) << group.status();
              call_all(session.rank(), n, *group);
              // A refused call does not reach the backend.
              EXPECT_FALSE(
                  all_reduce(TensorView(static_cast<float*>(nullptr), 4)).ok());
              ASSERT_TRUE(session.save_recording().ok());
              bind_session({});
            });
  const auto job = cli::read_recordings(folder_.path());
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(job->ranks.size(), static_cast<size_t>(n));
  for (const cli::RankRecording& rank : job->ranks) {
    std::map<int64_t, std::string> uids;
    for (const cli::RecordedMember& group : rank.groups)
      uids[group.group] = group.uid;
    std::map<std::string, std::string> comms;  // "comm": N to its uid
    size_t i = 0;
    for (const std::string& line : lines_of(
             absl::StrCat(folder_.path(), "/rank-", rank.rank, "-0.jsonl"))) {
      const std::vector<std::string> parts =
          absl::StrSplit(line, absl::ByAnyChar("{,}"), absl::SkipEmpty());
      if (line.find("\"group\"") != std::string::npos) {
        comms[std::string(absl::StripAsciiWhitespace(parts[1]))] = parts[0];
        continue;
      }
      ASSERT_LT(i, rank.operations.size()) << line;
      const cli::RecordedOp& op = rank.operations[i++];
      EXPECT_THAT(line, HasSubstr(traced(op)));
      EXPECT_THAT(comms[parts[0]], HasSubstr(uids[op.group])) << line;
    }
    EXPECT_EQ(i, rank.operations.size());
    EXPECT_GT(i, 30u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Backends, Traces,
    ::testing::ValuesIn(testing::host_backends({"loopback"})));

TEST(Trace, AFolderThatIsNotThereIsNamed) {
  setenv("DISTWRAP_TRACE", "/proc/nowhere", 1);
  const auto session = Session::create({.rank = 0, .world_size = 1});
  unsetenv("DISTWRAP_TRACE");
  EXPECT_EQ(error_reason(session.status()), Reason::kRunDirectory);
  EXPECT_THAT(std::string(session.status().message()),
              HasSubstr("/proc/nowhere/rank-0-0.jsonl"));
}

}  // namespace
}  // namespace distwrap::testing
