#include "recordings/recording.h"

#include <absl/strings/str_cat.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

namespace distwrap::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr uintmax_t kMostBytes = 64 << 20;

// Reads a member of the right type; a member of another type counts as missing.
int64_t number_in(const Json& object, const char* name, int64_t otherwise = 0) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer()
             ? found->get<int64_t>()
             : otherwise;
}

std::string text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
}

const Json& array_in(const Json& object, const char* name) {
  static const Json kNone = Json::array();
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : kNone;
}

RecordedMember member_of(const Json& json) {
  RecordedMember member{.group = number_in(json, "group"),
                        .uid = text_in(json, "uid"),
                        .name = text_in(json, "name"),
                        .backend = text_in(json, "backend"),
                        .rank = number_in(json, "rank"),
                        .size = number_in(json, "size"),
                        .ranks = {}};
  for (const Json& rank : array_in(json, "ranks"))
    if (rank.is_number_integer()) member.ranks.push_back(rank.get<int64_t>());
  return member;
}

RecordedOp operation_of(const Json& json) {
  return {.number = number_in(json, "number"),
          .group = number_in(json, "group"),
          .op = text_in(json, "op"),
          .dtype = text_in(json, "dtype"),
          .reduce = text_in(json, "reduce"),
          .label = text_in(json, "label"),
          .state = text_in(json, "state"),
          .seq = number_in(json, "seq"),
          .tag = number_in(json, "tag"),
          .peer = number_in(json, "peer", number_in(json, "root", -1)),
          .in = number_in(json, "in"),
          .out = number_in(json, "out"),
          .async = json.value("async", Json(false)) == Json(true),
          .submitted_ns = number_in(json, "submitted_ns"),
          .started_ns = number_in(json, "started_ns"),
          .ended_ns = number_in(json, "ended_ns")};
}

// Sequence numbers order the operations of a group. Times order operations of
// different groups; they are made monotonic within a group first, because the
// clocks of processors may differ by a tick.
void put_in_order(std::vector<RecordedOp>& operations) {
  std::map<int64_t, int64_t> latest;  // latest time by group
  std::vector<std::pair<int64_t, RecordedOp>> timed;
  for (RecordedOp& operation : operations) {
    int64_t& time = latest[operation.group];
    time = std::max(time, operation.submitted_ns);
    timed.emplace_back(time, std::move(operation));
  }
  std::stable_sort(
      timed.begin(), timed.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < timed.size(); ++i)
    operations[i] = std::move(timed[i].second);
}

absl::StatusOr<std::string> read_file(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) return absl::NotFoundError(error.message());
  if (size > kMostBytes)
    return absl::InvalidArgumentError("it is larger than 64 MiB");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return absl::NotFoundError("it cannot be read");
  return text.str();
}

}  // namespace

absl::StatusOr<RankRecording> parse_recording(absl::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr,
                                /*allow_exceptions=*/false);
  if (json.is_discarded())
    return absl::InvalidArgumentError("it is not JSON, or was cut short");
  if (!json.is_object() || text_in(json, "format") != "distwrap recording")
    return absl::InvalidArgumentError("it is not a recording");
  if (const int64_t version = number_in(json, "version"); version != 1)
    return absl::InvalidArgumentError(
        absl::StrCat("it is of version ", version, "; this command reads 1"));
  RankRecording recording{.path = {},
                          .job = text_in(json, "job"),
                          .host = text_in(json, "host"),
                          .cause = text_in(json, "cause"),
                          .rank = number_in(json, "rank"),
                          .world_size = number_in(json, "world_size"),
                          .pid = number_in(json, "pid"),
                          .time_ns = number_in(json, "time_ns"),
                          .overwritten = number_in(json, "overwritten"),
                          .groups = {},
                          .operations = {}};
  for (const Json& group : array_in(json, "groups"))
    if (group.is_object()) recording.groups.push_back(member_of(group));
  for (const Json& operation : array_in(json, "operations"))
    if (operation.is_object())
      recording.operations.push_back(operation_of(operation));
  put_in_order(recording.operations);
  return recording;
}

absl::StatusOr<JobRecording> read_recordings(const std::string& folder) {
  std::error_code error;
  fs::recursive_directory_iterator files(
      folder, fs::directory_options::skip_permission_denied, error);
  if (error)
    return absl::NotFoundError(
        absl::StrCat(folder, " cannot be read: ", error.message()));
  JobRecording job;
  std::vector<RankRecording> all;
  for (const fs::directory_entry& file : files) {
    if (file.path().extension() != ".json") continue;
    absl::StatusOr<std::string> text = read_file(file.path());
    absl::StatusOr<RankRecording> recording =
        text.ok() ? parse_recording(*text) : text.status();
    if (!recording.ok()) {
      job.left_out.push_back(
          absl::StrCat(file.path().lexically_relative(folder).string(), ": ",
                       recording.status().message()));
      continue;
    }
    recording->path = file.path();
    all.push_back(*std::move(recording));
  }
  if (all.empty())
    return absl::NotFoundError(
        absl::StrCat(folder, " has no recording",
                     job.left_out.empty() ? "" : "; " + job.left_out.front()));
  const auto newest = std::max_element(
      all.begin(), all.end(),
      [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  const std::string chosen = newest->job;
  // A rank's newest recording comes first.
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(a.rank, -a.time_ns) < std::pair(b.rank, -b.time_ns);
  });
  for (RankRecording& recording : all) {
    const auto leave_out = [&](absl::string_view why) {
      job.left_out.push_back(absl::StrCat(
          fs::path(recording.path).lexically_relative(folder).string(), ": ",
          why));
    };
    if (recording.job != chosen)
      leave_out(absl::StrCat("of an earlier job, ", recording.job));
    else if (!job.ranks.empty() && job.ranks.back().rank == recording.rank)
      leave_out("an earlier recording of the same rank");
    else
      job.ranks.push_back(std::move(recording));
  }
  std::sort(job.left_out.begin(), job.left_out.end());
  return job;
}

}  // namespace distwrap::cli
