#include "bench/json.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <utility>
#include <vector>

namespace distwrap::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 2;
constexpr char kTool[] = "distwrap bench";

// Times have the clock's precision of a nanosecond, ratios and rates four
// digits.
double digits(double value, double scale) {
  return std::round(value * scale) / scale;
}
double us(double value) { return digits(value, 1e4); }
// Four significant digits, for values that may be far below one.
double four_digits(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  return digits(value,
                std::pow(10.0, 3 - std::floor(std::log10(std::abs(value)))));
}

std::string text(absl::string_view view) { return std::string(view); }

// The names that other tools use for element types.
std::string protocol_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kF64:
      return "float64";
    default: {
      const std::string name = text(dtype_name(dtype));
      return (name[0] == 'u' ? "uint" : "int") + name.substr(1);
    }
  }
}

// The bytes that each rank sends, receives and keeps. busbw counts the larger
// of sent and received bytes of the busiest rank, without its own part.
void add_traffic(const Row& row, Json& json) {
  json["pattern"] = row.spec.pattern.name();
  Json sent = Json::array(), received = Json::array(), self = Json::array();
  for (const Traffic& one : traffic_of(row.spec)) {
    sent.push_back(one.sent);
    received.push_back(one.received);
    self.push_back(one.self);
  }
  json["sent_bytes"] = std::move(sent);
  json["received_bytes"] = std::move(received);
  json["self_bytes"] = std::move(self);
  json["bus_bytes_without_self"] = std::llround(bus_bytes(row.spec));
}

// The element type of such a name.
std::string dtype_of_protocol(const std::string& name) {
  if (name.rfind("float", 0) == 0) return absl::StrCat("f", name.substr(5));
  if (name.rfind("uint", 0) == 0) return absl::StrCat("u", name.substr(4));
  if (name.rfind("int", 0) == 0) return absl::StrCat("i", name.substr(3));
  return name;
}

Json row_json(const Row& row) {
  Json json = {
      {"peer", row.contestant},
      {"op", text(protocol_name(row.spec.op))},
      {"ranks", row.spec.ranks},
      {"bytes", row.spec.bytes},
      {"dtype", protocol_dtype(row.spec.dtype)},
      {"lat_us_min", us(row.min_us)},
      {"lat_us_p50", us(row.p50_us)},
      {"lat_us_p99", us(row.p99_us)},
      {"algbw_GBps", digits(row.algbw(), 1e5)},
      {"iters", row.iterations},
      {"correct", row.wrong == 0},
      {"lat_us_p90", us(row.p90_us)},
      {"lat_us_p99.9", us(row.p999_us)},
      {"lat_us_max", us(row.max_us)},
      {"lat_us_p50_interval",
       {us(row.p50_interval.low), us(row.p50_interval.high)}},
      {"first_call_us", us(row.first_us)},
      {"busbw_GBps", digits(row.busbw(), 1e5)},
      {"wrong", row.wrong},
      {"batch", row.batch},
      {"in_bytes", row.in_bytes},
      {"out_bytes", row.out_bytes},
  };
  if (reduces(row.spec.op))
    json["reduce"] = text(reduce_op_name(row.spec.reduce));
  if (has_root(row.spec.op)) json["root"] = row.spec.root;
  if (row.spec.op == Operation::kWinPutRate) json["depth"] = row.spec.depth;
  if (has_counts(row.spec.op)) add_traffic(row, json);
  if (row.limit_us > 0) {
    json["limit_us"] = us(row.limit_us);
    json["limit_reached"] = four_digits(row.reached());
  }
  if (row.ratio) {
    json["ratio"] = {{"median", four_digits(row.ratio->median)},
                     {"low", four_digits(row.ratio->low)},
                     {"high", four_digits(row.ratio->high)}};
  }
  if (row.overhead_ns) {
    json["overhead_ns"] = {{"median", digits(row.overhead_ns->median, 10)},
                           {"low", digits(row.overhead_ns->low, 10)},
                           {"high", digits(row.overhead_ns->high, 10)}};
  }
  Json rounds = Json::array();
  for (double p50 : row.round_p50_us) rounds.push_back(us(p50));
  json["rounds_lat_us_p50"] = std::move(rounds);
  json["blocks_repeated"] = row.repeated;
  json["rounds_disturbed"] = row.disturbed;
  return json;
}

// Paths and variables may contain bytes that are no UTF-8.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json json_of(const cli::JsonValue& value) {
  if (const auto* array = std::get_if<cli::JsonArray>(&value.value)) {
    Json json = Json::array();
    for (const cli::JsonValue& item : *array) json.push_back(json_of(item));
    return json;
  }
  if (const auto* object = std::get_if<cli::JsonObject>(&value.value)) {
    Json json = Json::object();
    for (const auto& [key, item] : *object) json[key] = json_of(item);
    return json;
  }
  if (const auto* b = std::get_if<bool>(&value.value)) return *b;
  if (const auto* n = std::get_if<int64_t>(&value.value)) return *n;
  if (const auto* x = std::get_if<double>(&value.value)) return *x;
  if (const auto* s = std::get_if<std::string>(&value.value)) return *s;
  return nullptr;
}

Json caches_json(const Machine& machine) {
  Json all = Json::array();
  for (const Cache& cache : machine.caches) {
    all.push_back(
        {{"level", cache.level}, {"type", cache.type}, {"bytes", cache.bytes}});
  }
  return all;
}

Json header(const Report& report) {
  const Machine& machine = report.machine;
  Json json = {
      {"schema", kSchema},
      {"tool", kTool},
      {"date", machine.date},
      {"machine",
       {{"cpu", machine.cpu},
        {"cores", machine.cores},
        {"caches", caches_json(machine)},
        {"memory_bytes", machine.memory_bytes},
        {"kernel", machine.kernel},
        {"load", machine.load}}},
      {"build",
       {{"version", machine.version},
        {"commit", machine.commit},
        {"compiler", machine.compiler},
        {"flags", machine.flags},
        {"type", machine.build_type}}},
      {"environment", machine.environment},
      {"options",
       {{"ranks", report.ranks},
        {"pinned", report.pinned},
        {"cold", report.cold()},
        {"rounds", report.plan.rounds},
        {"seconds", report.plan.seconds},
        {"precision", report.plan.precision},
        {"iterations", report.plan.iterations},
        {"check", report.plan.check},
        {"pattern", report.pattern},
        {"hints", report.hints}}},
      {"contestants", report.contestants},
      {"baseline", report.baseline},
      {"control", report.control},
  };
  if (report.latency) {
    json["limits"] = {{"hand_over_us", us(report.latency->hand_over_us)},
                      {"wake_up_us", us(report.latency->wake_up_us)}};
  }
  return json;
}

OldRow old_row(const Json& json) {
  OldRow row;
  row.contestant = json.at("peer");
  row.op = json.at("op");
  row.dtype = dtype_of_protocol(json.at("dtype"));
  row.reduce = json.value("reduce", "");
  row.pattern = json.value("pattern", "");
  row.bytes = json.at("bytes");
  row.root = json.value("root", 0);
  row.depth = json.value("depth", kMostDepth);
  row.p50_us = json.at("lat_us_p50");
  row.round_p50_us = json.at("rounds_lat_us_p50").get<std::vector<double>>();
  return row;
}

OldRun old_run(const Json& json) {
  const Json& machine = json.at("machine");
  const Json& build = json.at("build");
  const Json& options = json.at("options");
  OldRun run;
  run.machine.date = json.at("date");
  run.machine.cpu = machine.at("cpu");
  run.machine.cores = machine.at("cores");
  run.machine.version = build.at("version");
  run.machine.commit = build.at("commit");
  run.machine.compiler = build.at("compiler");
  run.machine.flags = build.at("flags");
  run.machine.build_type = build.at("type");
  run.ranks = options.at("ranks");
  run.pinned = options.at("pinned");
  run.cold = options.at("cold");
  for (const Json& row : json.at("rows")) run.rows.push_back(old_row(row));
  return run;
}

}  // namespace

std::string json_text(const cli::JsonValue& value) {
  return dump(json_of(value), 1) + "\n";
}

std::string json_line(const Row& row) { return dump(row_json(row), -1); }

std::string json_header(const Report& report) {
  return absl::StrCat(" ", dump(header(report), -1));
}

std::string json_document(const Report& report) {
  Json json = header(report);
  json["noise"] = {{"steal_percent", digits(report.noise.steal_percent, 100)},
                   {"involuntary_switches", report.noise.involuntary_switches}};
  Json rows = Json::array();
  for (const Row& row : report.rows) {
    if (row.measured) rows.push_back(row_json(row));
  }
  json["rows"] = std::move(rows);
  return dump(json, 1) + "\n";
}

absl::StatusOr<OldRun> parse_document(absl::string_view text) {
  const auto bad = [](absl::string_view why) {
    return absl::InvalidArgumentError(why);
  };
  try {
    const Json json = Json::parse(text.begin(), text.end());
    if (!json.is_object() || json.value("tool", "") != kTool) {
      return bad("it was not written by --json-file of distwrap bench");
    }
    if (json.at("schema") != kSchema) {
      return bad("its schema is " + json.at("schema").dump() + ", known is " +
                 std::to_string(kSchema) + "; measure it anew");
    }
    return old_run(json);
  } catch (const Json::exception& error) {
    return bad(std::string("it cannot be read: ") + error.what());
  }
}

}  // namespace distwrap::bench
