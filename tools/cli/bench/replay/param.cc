// Traces of PARAM.
#include "bench/replay/read.h"
#include "comm/op_shape.h"
#include "distwrap/abi/types.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace distwrap::bench {
namespace {

using Json = nlohmann::json;

absl::Status refuse(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

std::optional<uint16_t> kind_of_param(absl::string_view name) {
  static const std::map<std::string, uint16_t, std::less<>> kKinds = {
      {"all_reduce", DW_OP_ALL_REDUCE},
      {"allreduce", DW_OP_ALL_REDUCE},
      {"all_gather", DW_OP_ALL_GATHER},
      {"allgather", DW_OP_ALL_GATHER},
      {"all_gather_base", DW_OP_ALL_GATHER},
      {"_allgather_base", DW_OP_ALL_GATHER},
      {"all_gather_into_tensor_coalesced", DW_OP_ALL_GATHER},
      {"reduce_scatter", DW_OP_REDUCE_SCATTER},
      {"reduce_scatter_base", DW_OP_REDUCE_SCATTER},
      {"_reduce_scatter_base", DW_OP_REDUCE_SCATTER},
      {"all_to_all", DW_OP_ALL_TO_ALL},
      {"alltoall", DW_OP_ALL_TO_ALL},
      {"alltoall_base", DW_OP_ALL_TO_ALL},
      {"all_to_all_single", DW_OP_ALL_TO_ALL},
      {"all_to_allv", DW_OP_ALL_TO_ALL},
      {"broadcast", DW_OP_BROADCAST},
      {"reduce", DW_OP_REDUCE},
      {"gather", DW_OP_GATHER},
      {"scatter", DW_OP_SCATTER},
      {"barrier", DW_OP_BARRIER},
      {"send", DW_OP_SEND},
      {"isend", DW_OP_SEND},
      {"recv", DW_OP_RECV},
      {"irecv", DW_OP_RECV}};
  const auto found = kKinds.find(name);
  if (found == kKinds.end()) return std::nullopt;
  return found->second;
}

std::optional<DType> dtype_of_param(absl::string_view name) {
  static const std::map<std::string, DType, std::less<>> kTypes = {
      {"float", DType::kF32},   {"float32", DType::kF32},
      {"double", DType::kF64},  {"half", DType::kF16},
      {"float16", DType::kF16}, {"bfloat16", DType::kBF16},
      {"int", DType::kI32},     {"int32", DType::kI32},
      {"long", DType::kI64},    {"int64", DType::kI64},
      {"char", DType::kI8},     {"byte", DType::kU8},
      {"bool", DType::kBool}};
  const auto found = kTypes.find(name);
  if (found == kTypes.end()) return std::nullopt;
  return found->second;
}

int64_t number_in(const Json& object, const char* name, int64_t otherwise) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer()
             ? found->get<int64_t>()
             : otherwise;
}

std::string text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string()
             ? absl::AsciiStrToLower(found->get<std::string>())
             : std::string();
}

std::vector<int64_t> numbers_in(const Json& object, const char* name) {
  std::vector<int64_t> numbers;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return numbers;
  for (const Json& one : *found)
    numbers.push_back(one.is_number_integer() ? one.get<int64_t>() : -1);
  return numbers;
}

// The trace of one rank.
class Trace {
 public:
  Trace(ReplayScript* script, std::map<int64_t, size_t>* groups, int rank)
      : script_(*script), groups_(*groups), rank_(rank) {}

  absl::Status read(const std::string& text) {
    const Json json = Json::parse(text.begin(), text.end(), nullptr,
                                  /*allow_exceptions=*/false);
    if (json.is_discarded() || !json.is_array())
      return refuse("it is not a JSON array, or was cut short");
    for (size_t i = 0; i < json.size(); ++i) {
      if (!json[i].is_object()) return refuse(at(i, "is not an object"));
      if (calls().size() > kMostReplayCalls)
        return refuse("it has too many calls");
      if (absl::Status status = entry(i, json[i]); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  size_t computes() const { return computes_; }

 private:
  std::vector<ReplayCall>& calls() {
    return script_.ranks[static_cast<size_t>(rank_)];
  }
  static std::string at(size_t i, const std::string& what) {
    return absl::StrCat("entry ", i, " ", what);
  }

  absl::Status entry(size_t i, const Json& json) {
    const std::string name = text_in(json, "comms");
    if (name.empty()) {
      if (!json.contains("compute"))
        return refuse(at(i, "is neither comms nor compute"));
      ++computes_;
      return absl::OkStatus();
    }
    // An entry that marks a batch around other entries.
    if (name == "batch_isend_irecv") return absl::OkStatus();
    if (name == "init") return make_group(i, json);
    const int64_t request = number_in(json, "req", -1);
    if (name == "wait") {
      const auto begun = open_.find(request);
      if (begun == open_.end()) return absl::OkStatus();  // a synchronous call
      calls()[begun->second].async = true;
      waits_.push_back(begun->second);
      open_.erase(begun);
      return absl::OkStatus();
    }
    const auto kind = kind_of_param(name);
    if (!kind.has_value()) return refuse(at(i, "is of no known kind: " + name));
    ReplayCall call;
    call.kind = *kind;
    const absl::StatusOr<size_t> group = group_of(i, json);
    if (!group.ok()) return group.status();
    call.group = *group;
    if (*kind != DW_OP_BARRIER)
      if (absl::Status status = sizes(i, json, &call); !status.ok())
        return status;
    if (absl::Status status = whom(i, json, &call); !status.ok()) return status;
    call.awaits = std::exchange(waits_, {});
    if (request >= 0) open_[request] = calls().size();
    calls().push_back(std::move(call));
    return absl::OkStatus();
  }

  absl::Status make_group(size_t i, const Json& json) {
    const int64_t id = number_in(json, "pg_id", -1);
    std::vector<int> ranks;
    for (const int64_t rank : numbers_in(json, "global_ranks")) {
      if (rank < 0 || rank >= script_.size())
        return refuse(
            at(i, absl::StrCat("names rank ", rank, " of ", script_.size())));
      ranks.push_back(static_cast<int>(rank));
    }
    if (id < 0 || ranks.empty()) return absl::OkStatus();  // the world
    const auto known = groups_.find(id);
    if (known == groups_.end()) {
      groups_[id] = script_.groups.size();
      script_.groups.push_back({absl::StrCat("pg ", id), std::move(ranks)});
    } else if (script_.groups[known->second].ranks != ranks) {
      return refuse(at(i, absl::StrCat("gives process group ", id,
                                       " other ranks than before")));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> group_of(size_t i, const Json& json) const {
    const auto known = groups_.find(number_in(json, "pg_id", -1));
    if (known == groups_.end()) return size_t{0};
    const std::vector<int>& ranks = script_.groups[known->second].ranks;
    if (std::find(ranks.begin(), ranks.end(), rank_) == ranks.end())
      return refuse(at(i, "is made on a group without its rank"));
    return known->second;
  }

  absl::Status sizes(size_t i, const Json& json, ReplayCall* call) {
    const auto dtype = dtype_of_param(text_in(json, "dtype"));
    if (!dtype.has_value())
      return refuse(
          at(i, "has no known dtype: '" + text_in(json, "dtype") + "'"));
    call->dtype = *dtype;
    call->in = number_in(json, "in_msg_size", -1);
    call->out = number_in(json, "out_msg_size", -1);
    if (call->in < 0 || call->out < 0)
      return refuse(at(i, "has no in_msg_size and out_msg_size"));
    if (call->kind == DW_OP_SEND) call->out = 0;
    if (call->kind == DW_OP_RECV) call->in = 0;
    if (call->kind == DW_OP_ALL_REDUCE) call->out = call->in;
    call->in_pieces = numbers_in(json, "in_split");
    call->out_pieces = numbers_in(json, "out_split");
    if (call->kind != DW_OP_ALL_TO_ALL) {
      call->in_pieces.clear();
      call->out_pieces.clear();
    }
    return absl::OkStatus();
  }

  absl::Status whom(size_t i, const Json& json, ReplayCall* call) {
    const comm::OpShape& shape = comm::op_shape(call->kind);
    if (shape.peer == comm::PeerRole::NO) return absl::OkStatus();
    const std::vector<int>& ranks = script_.groups[call->group].ranks;
    int64_t rank = number_in(json, "root", ranks[0]);
    if (call->kind == DW_OP_SEND) rank = number_in(json, "dst_rank", -1);
    if (call->kind == DW_OP_RECV) rank = number_in(json, "src_rank", -1);
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    if (found == ranks.end())
      return refuse(at(
          i, absl::StrCat("names rank ", rank, ", which is not in its group")));
    call->peer = static_cast<int>(found - ranks.begin());
    // Traces have input and output sizes on every rank.
    const bool is_root = *found == rank_;
    if (!is_root &&
        (call->kind == DW_OP_BROADCAST || call->kind == DW_OP_SCATTER))
      call->in = 0;
    if (!is_root && (call->kind == DW_OP_REDUCE || call->kind == DW_OP_GATHER))
      call->out = 0;
    return absl::OkStatus();
  }

  ReplayScript& script_;
  std::map<int64_t, size_t>& groups_;
  const int rank_;
  std::map<int64_t, size_t> open_;  // request id to call
  std::vector<size_t> waits_;
  size_t computes_ = 0;
};

int64_t world_size_of(const std::string& text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  int64_t most = 0;
  if (json.is_array())
    for (const Json& entry : json)
      if (entry.is_object())
        most = std::max(most, number_in(entry, "world_size", 0));
  return most;
}

}  // namespace

absl::StatusOr<ReplayScript> script_of_param(
    const std::vector<std::string>& texts) {
  const int64_t size = texts.size() == 1
                           ? std::max<int64_t>(world_size_of(texts[0]), 1)
                           : static_cast<int64_t>(texts.size());
  if (size > kMostReplayRanks || texts.empty())
    return refuse(absl::StrCat("a job of ", size, " ranks; 1 to ",
                               kMostReplayRanks, " can be replayed"));
  ReplayScript script;
  script.source = "PARAM trace";
  script.ranks.resize(static_cast<size_t>(size));
  script.groups.push_back({"world", std::vector<int>(script.ranks.size())});
  std::iota(script.groups[0].ranks.begin(), script.groups[0].ranks.end(), 0);
  std::map<int64_t, size_t> groups;
  size_t computes = 0;
  for (int rank = 0; rank < script.size(); ++rank) {
    Trace trace(&script, &groups, rank);
    const absl::Status status = trace.read(
        texts.size() == 1 ? texts[0] : texts[static_cast<size_t>(rank)]);
    if (!status.ok())
      return refuse(
          absl::StrCat("the trace of rank ", rank, ": ", status.message()));
    computes += trace.computes();
  }
  if (computes > 0)
    script.notes.push_back(
        absl::StrCat(computes, " compute entries are left out"));
  return script;
}

}  // namespace distwrap::bench
