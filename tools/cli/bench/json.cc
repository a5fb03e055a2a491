#include "bench/json.h"

#include <absl/strings/string_view.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace distwrap::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;

// Nanoseconds are what the clock tells; ratios and rates get four digits.
double digits(double value, double scale) {
  return std::round(value * scale) / scale;
}
double us(double value) { return digits(value, 1e4); }

std::string text(absl::string_view view) { return std::string(view); }

// The names that the protocol uses for element types.
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

Json row_json(const Row& row) {
  Json json = {
      {"peer", row.contestant},
      {"op", text(operation_name(row.spec.op))},
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
      {"lat_us_max", us(row.max_us)},
      {"first_call_us", us(row.first_us)},
      {"busbw_GBps", digits(row.busbw(), 1e5)},
      {"wrong", row.wrong},
      {"batch", row.batch},
      {"in_bytes", row.in_bytes},
      {"out_bytes", row.out_bytes},
  };
  if (reduces(row.spec.op))
    json["reduce"] = text(reduce_op_name(row.spec.reduce));
  if (row.spec.op == Operation::kBroadcast) json["root"] = row.spec.root;
  if (row.ratio) {
    json["ratio"] = {{"median", digits(row.ratio->median, 1e4)},
                     {"low", digits(row.ratio->low, 1e4)},
                     {"high", digits(row.ratio->high, 1e4)}};
  }
  Json rounds = Json::array();
  for (double p50 : row.round_p50_us) rounds.push_back(us(p50));
  json["rounds_lat_us_p50"] = std::move(rounds);
  return json;
}

// Paths and variables may hold bytes that are no UTF-8.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string json_line(const Row& row) { return dump(row_json(row), -1); }

std::string json_document(const Report& report) {
  const Machine& machine = report.machine;
  Json json = {
      {"schema", kSchema},
      {"tool", "distwrap bench"},
      {"date", machine.date},
      {"machine",
       {{"cpu", machine.cpu},
        {"cores", machine.cores},
        {"kernel", machine.kernel},
        {"load", machine.load}}},
      {"build",
       {{"version", machine.version},
        {"compiler", machine.compiler},
        {"type", machine.build_type}}},
      {"environment", machine.environment},
      {"options",
       {{"ranks", report.ranks},
        {"pinned", report.pinned},
        {"rounds", report.plan.rounds},
        {"seconds", report.plan.seconds},
        {"iterations", report.plan.iterations},
        {"check", report.plan.check},
        {"hints", report.hints}}},
      {"contestants", report.contestants},
      {"baseline", report.baseline},
      {"control", report.control},
  };
  Json rows = Json::array();
  for (const Row& row : report.rows) {
    if (row.measured) rows.push_back(row_json(row));
  }
  json["rows"] = std::move(rows);
  return dump(json, 1) + "\n";
}

}  // namespace distwrap::bench
