#include "bench/options.h"

#include "bench/size.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace distwrap::bench {
namespace {

constexpr int kMostRanks = 1024;

absl::Status refuse(absl::string_view option, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", why));
}

std::vector<std::string> listed(absl::string_view list) {
  return absl::StrSplit(list, ',', absl::SkipEmpty());
}

absl::Status check_ops(const Words& words, Options& options) {
  std::vector<std::string> names;
  for (const std::string& word : words.ops) {
    for (std::string& name : listed(word)) names.push_back(std::move(name));
  }
  if (names.empty()) names.emplace_back("all");
  for (const std::string& name : names) {
    std::vector<Operation> wanted;
    if (name == "all") {
      wanted = all_operations();
    } else if (measured_elsewhere(name) && words.json) {
      options.left_out.push_back(name);
    } else if (measured_elsewhere(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", name, "' is not measured here"));
    } else {
      const auto op = parse_operation(name);
      if (!op.ok()) return op.status();
      wanted.push_back(*op);
    }
    for (Operation op : wanted) {
      if (std::find(options.ops.begin(), options.ops.end(), op) ==
          options.ops.end()) {
        options.ops.push_back(op);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status check_sizes(const Words& words, Options& options) {
  if (!words.sizes.empty()) {
    auto sizes = parse_sizes(words.sizes);
    if (!sizes.ok()) return refuse("--sizes", sizes.status().message());
    options.sizes = *std::move(sizes);
    return absl::OkStatus();
  }
  const auto least = parse_size(words.min);
  if (!least.ok()) return refuse("--min", least.status().message());
  const auto most = parse_size(words.max);
  if (!most.ok()) return refuse("--max", most.status().message());
  const auto step = parse_size(words.step);
  if (!step.ok()) return refuse("--step", step.status().message());
  auto sizes = size_range(*least, *most, words.factor, *step);
  if (!sizes.ok()) return sizes.status();
  options.sizes = *std::move(sizes);
  return absl::OkStatus();
}

absl::Status check_plan(const Words& words, Plan& plan) {
  if (words.iterations == 0 || words.iterations < -1) {
    return refuse("--iters", "has to be 1 or more: nothing would be measured");
  }
  if (words.iterations > 1000000) return refuse("--iters", "is above 1000000");
  if (words.warmup < -1) return refuse("--warmup", "has to be 0 or more");
  if (words.check != 0 && words.check != 1) {
    return refuse("--check", "is 0 or 1");
  }
  if (!(words.seconds > 0) || words.seconds > 3600) {
    return refuse("--seconds", "has to be above 0 and at most 3600");
  }
  if (words.rounds != -1 && (words.rounds < 1 || words.rounds > 10000)) {
    return refuse("--rounds", "has to be 1 to 10000");
  }
  const double precision = words.precision == -1 ? 2 : words.precision;
  if (!(precision > 0) || precision > 100) {
    return refuse("--precision", "has to be above 0 and at most 100 percent");
  }
  if (words.precision != -1 && words.rounds != -1) {
    return refuse("--precision",
                  "cannot be combined with --rounds, which fixes their number");
  }
  plan.iterations = std::max<int64_t>(0, words.iterations);
  plan.warmup = words.warmup;
  plan.check = words.check == 1;
  plan.overhead = words.overhead;
  plan.seconds = words.seconds;
  plan.rounds = std::max(0, words.rounds);
  plan.precision = precision / 100;
  return absl::OkStatus();
}

absl::Status check_pattern(const Words& words, Options& options) {
  if (words.pattern.empty()) return absl::OkStatus();
  if (std::none_of(options.ops.begin(), options.ops.end(), has_counts)) {
    return refuse("--pattern",
                  "no operation here has counts; all_to_all_v has");
  }
  auto pattern = parse_pattern(words.pattern, words.ranks);
  if (!pattern.ok()) return refuse("--pattern", pattern.status().message());
  for (Operation op : options.ops) {
    if (!has_counts(op) || op == Operation::kAllToAllV) continue;
    if (pattern->same_for_all()) break;
    return refuse("--pattern",
                  absl::StrCat("the lines of ", pattern->name(),
                               " differ, which only all_to_all_v can follow; ",
                               operation_name(op), " has one list"));
  }
  options.pattern = *std::move(pattern);
  return absl::OkStatus();
}

absl::Status check_output(const Words& words, Options& options) {
  if (!(words.threshold >= 0) || words.threshold > 1000) {
    return refuse("--threshold", "has to be 0 to 1000 percent");
  }
  int on_stdout = 0;
  for (bool wants :
       {words.json, words.nccl, words.csv == "-", words.json_file == "-"}) {
    on_stdout += wants ? 1 : 0;
  }
  if (on_stdout > 1) {
    return refuse(
        "--csv, --json, --json-file, --nccl",
        "only one of them can write to stdout; give the others a file");
  }
  options.json = words.json;
  options.nccl = words.nccl;
  options.json_file = words.json_file;
  options.csv = words.csv;
  options.plot = words.plot;
  options.compare = words.compare;
  options.threshold = words.threshold / 100;
  options.limit = words.limit;
  options.cold = words.cold;
  return absl::OkStatus();
}

absl::Status check_contestants(const Words& words, Options& options) {
  if (words.overhead && words.ranks != 1) {
    return refuse("--overhead",
                  absl::StrCat("measures one rank, not ", words.ranks));
  }
  if (words.overhead && (!words.vs.empty() || words.control || words.nccl)) {
    return refuse("--overhead",
                  "cannot be combined with --vs, --control or --nccl");
  }
  if (words.backends != "none") options.backends = listed(words.backends);
  options.vs = listed(words.vs);
  if (options.backends.empty() && options.vs.empty()) {
    return refuse("--backend", "names no backend, and --vs names no library");
  }
  options.control = words.control;
  if (words.memory != "private" && words.memory != "shared") {
    return refuse("--memory", "has to be private or shared");
  }
  options.shared_memory = words.memory == "shared";
  for (const std::string& hint : words.hints) {
    const size_t equals = hint.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return refuse("--hint", absl::StrCat("'", hint, "' is not key=value"));
    }
    options.hints[hint.substr(0, equals)] = hint.substr(equals + 1);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DType> parse_dtype(absl::string_view name) {
  struct Alias {
    absl::string_view name;
    DType dtype;
  };
  static constexpr Alias kAliases[] = {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  {#text, DType::enumerator},
#include "distwrap/abi/dtypes.def"
      {"float", DType::kF32},   {"float32", DType::kF32},
      {"double", DType::kF64},  {"float64", DType::kF64},
      {"float16", DType::kF16}, {"bfloat16", DType::kBF16},
      {"int8", DType::kI8},     {"uint8", DType::kU8},
      {"int16", DType::kI16},   {"uint16", DType::kU16},
      {"int32", DType::kI32},   {"uint32", DType::kU32},
      {"int64", DType::kI64},   {"uint64", DType::kU64},
  };
  std::vector<std::string> known;
  for (const Alias& alias : kAliases) {
    if (!measurable(alias.dtype)) continue;
    if (alias.name == name) return alias.dtype;
    known.emplace_back(alias.name);
  }
  return refuse("--dtype", absl::StrCat("there is no '", name,
                                        "' to measure with; "
                                        "did you mean ",
                                        nearest(name, known), "? Known: ",
                                        absl::StrJoin(known, " ")));
}

absl::StatusOr<ReduceOp::Kind> parse_reduce(absl::string_view name) {
  std::vector<std::string> known;
  if (name == "prod") return ReduceOp::kProduct;
#define DW_REDUCTION(value, c_name, enumerator, text, takes, meaning) \
  if (measurable(ReduceOp::enumerator)) {                             \
    if (name == #text) return ReduceOp::enumerator;                   \
    known.emplace_back(#text);                                        \
  }
#include "distwrap/abi/reductions.def"
  return refuse("--reduce", absl::StrCat("there is no '", name,
                                         "' to measure with; "
                                         "did you mean ",
                                         nearest(name, known), "? Known: ",
                                         absl::StrJoin(known, " ")));
}

absl::StatusOr<Options> check(const Words& words) {
  Options options;
  absl::Status status = check_ops(words, options);
  if (status.ok()) status = check_sizes(words, options);
  if (status.ok()) status = check_plan(words, options.plan);
  if (status.ok()) status = check_contestants(words, options);
  if (!status.ok()) return status;
  if (words.ranks < 1 || words.ranks > kMostRanks) {
    return refuse("--ranks", absl::StrCat("has to be 1 to ", kMostRanks));
  }
  if (words.root < 0 || words.root >= words.ranks) {
    return refuse("--root", absl::StrCat("there is no rank ", words.root,
                                         " among ", words.ranks));
  }
  if (words.depth < 1 || words.depth > kMostDepth)
    return refuse("--depth", absl::StrCat("has to be 1 to ", kMostDepth));
  if (words.pin != 0 && words.pin != 1) return refuse("--pin", "is 0 or 1");
  if (!(words.timeout > 0) || words.timeout > 86400) {
    return refuse("--timeout", "has to be above 0 and at most 86400 seconds");
  }
  const auto dtype = parse_dtype(words.dtype);
  if (!dtype.ok()) return dtype.status();
  const auto reduce = parse_reduce(words.reduce);
  if (!reduce.ok()) return reduce.status();
  if (status = check_pattern(words, options); !status.ok()) return status;
  if (status = check_output(words, options); !status.ok()) return status;
  options.ranks = words.ranks;
  options.root = words.root;
  options.depth = words.depth;
  options.pin = words.pin == 1;
  options.timeout = words.timeout;
  options.dtype = *dtype;
  options.reduce = *reduce;
  return options;
}

std::vector<std::string> spell_out(const std::vector<std::string>& arguments) {
  std::vector<std::string> all;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word != "--pin" && word != "--csv" && word != "--plot") {
      all.push_back(word);
      continue;
    }
    const std::string next = i + 1 < arguments.size() ? arguments[i + 1] : "";
    const bool value = !next.empty() && (next == "-" || next[0] != '-') &&
                       next != "all" && !parse_operation(next).ok() &&
                       (word != "--pin" || next == "0" || next == "1");
    all.push_back(
        absl::StrCat(word, "=", value ? next : (word == "--pin" ? "1" : "-")));
    if (value) ++i;
  }
  return all;
}

}  // namespace distwrap::bench
