// The options of the command line: first as words, then checked.
//
//   Words words;
//   words.sizes = "8,4K";
//   absl::StatusOr<Options> options = check(words);
#ifndef DISTWRAP_TOOLS_CLI_BENCH_OPTIONS_H_
#define DISTWRAP_TOOLS_CLI_BENCH_OPTIONS_H_

#include "bench/measure.h"

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace distwrap::bench {

// The options as typed. --help shows the defaults.
struct Words {
  std::vector<std::string> ops = {};  // none: all
  int ranks = 2;
  std::string backends = "shm";
  std::string min = "8", max = "16M", sizes = {};
  int64_t factor = 8;
  std::string step = "0";
  int64_t iterations = -1;  // -1: by time
  int64_t warmup = -1;
  int check = 1;
  std::string dtype = "f32", reduce = "sum";
  int root = 0;
  int depth = kMostDepth;
  double seconds = 0.2;
  int rounds = -1;        // -1: as many as needed
  double precision = -1;  // percent; -1: 2, or 0 when rounds are given
  int pin = 0;
  double timeout = 60;
  std::string vs = {};
  bool control = false;
  bool overhead = false;
  bool limit = false, cold = false;
  std::string memory = "private";
  std::string pattern = {};
  std::string compare = {};
  double threshold = 5;  // percent
  bool json = false, nccl = false;
  std::string json_file = {}, csv = {}, plot = {};  // "-" is stdout
  std::vector<std::string> hints = {};
};

struct Options {
  std::vector<Operation> ops = {};
  // Operations that only other programs know: not measured, reported once.
  std::vector<std::string> left_out = {};
  int ranks = 2;
  std::vector<std::string> backends = {}, vs = {};
  std::vector<int64_t> sizes = {};
  DType dtype = DType::kF32;
  ReduceOp::Kind reduce = ReduceOp::kSum;
  int root = 0;
  int depth = kMostDepth;
  Plan plan = {};
  bool pin = false;
  double timeout = 60;  // seconds, for every operation
  bool control = false;
  bool limit = false, cold = false;
  bool shared_memory = false;
  Pattern pattern = {};
  std::string compare = {};  // the json_file of an earlier run
  double threshold = 0.05;
  bool json = false, nccl = false;
  std::string json_file = {}, csv = {}, plot = {};
  std::map<std::string, std::string> hints = {};

  // Whether stdout gets only results for programs.
  bool quiet() const { return json || csv == "-" || json_file == "-"; }
};

// kInvalidArgument names the option, the mistake and the known values.
absl::StatusOr<Options> check(const Words& words);

// Accepts "f32" and the spellings of other tools: float, int64 ...
absl::StatusOr<DType> parse_dtype(absl::string_view name);
absl::StatusOr<ReduceOp::Kind> parse_reduce(absl::string_view name);

// Adds the value of options that may be given without one: "--pin" becomes
// "--pin=1", "--csv" becomes "--csv=-". A following word that names an
// operation is not taken as the value.
std::vector<std::string> spell_out(const std::vector<std::string>& arguments);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_OPTIONS_H_
