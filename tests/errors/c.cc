// Mistakes that only C programs can make.
#include "distwrap/c.h"

#include "errors/fault.h"

namespace distwrap::faults {
namespace {

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

nlohmann::json json_of(distwrap_error error) {
  distwrap_error_info info = {};
  info.struct_size = sizeof info;
  distwrap_error_read(error, &info);
  nlohmann::json out =
      error_json(absl::OkStatus());  // the fields of an empty error
  out["ok"] = info.code == DW_OK;
  out["text"] = text_of(info.text);
  out["reason"] = reason_name(static_cast<Reason>(info.reason));
  out["page"] = text_of(info.page);
  out["what"] = text_of(info.what);
  out["op"] = text_of(info.op);
  out["group"] = text_of(info.group);
  out["my_rank"] = info.my_rank;
  out["group_size"] = info.group_size;
  out["expected"] = text_of(info.expected);
  out["actual"] = text_of(info.actual);
  out["next_step"] = text_of(info.next_step);
  distwrap_error_free(error);
  return out;
}

}  // namespace

void of_c(Choices& choices) {
  distwrap_error error = nullptr;
  distwrap_init_options options = {};
  options.struct_size = static_cast<uint32_t>(1 + choices.below(3));
  distwrap_init_process_group(&options, nullptr, &error);
  report("struct_of_a_wrong_size", json_of(error),
         {.reason = Reason::kInvalidArgument,
          .what = {"struct_size is " + std::to_string(options.struct_size),
                   std::to_string(sizeof options)},
          .where = Where{.op = "init_process_group", .group = ""},
          .next = "size of the struct"});

  options = {};
  options.struct_size = sizeof options;
  options.has_rank = 1;
  options.world_size = 1;
  options.backend = "loopback";
  distwrap_session session = nullptr;
  distwrap_init_process_group(&options, &session, &error);
  float x[4] = {};
  int64_t count = 4;
  distwrap_tensor tensor = {};
  tensor.data = x;
  tensor.device = {DW_DEVICE_CPU, 0};
  tensor.ndim = 1;
  tensor.dtype = distwrap_dtype(DW_DTYPE_F32);
  tensor.shape = &count;
  distwrap_all_reduce(&tensor, nullptr, DW_REDUCE_SUM, nullptr, nullptr,
                      &error);
  report("null_argument", json_of(error),
         {.reason = Reason::kInvalidArgument,
          .what = {"NULL"},
          .where = Where{.op = "all_reduce", .group = ""},
          .next = "give"});
  distwrap_all_reduce(&tensor, &tensor, 99, nullptr, nullptr, &error);
  report("unknown_reduction_in_c", json_of(error),
         {.reason = Reason::kReduceOp,
          .what = {"99"},
          .where = Where{.op = "all_reduce", .group = ""},
          .next = "DW_REDUCE_"});
  distwrap_tensor odd = tensor;
  odd.dtype.bits = 7;
  distwrap_all_reduce(&odd, &odd, DW_REDUCE_SUM, nullptr, nullptr, &error);
  report("unknown_dtype_in_c", json_of(error),
         {.reason = Reason::kInvalidArgument,
          .what = {"type"},
          .where = Where{.op = "all_reduce", .group = ""},
          .next = "convert it"});
  distwrap_group group = nullptr;
  distwrap_world(&group, nullptr);
  distwrap_group_free(group);
  distwrap_op_options how = {};
  how.struct_size = sizeof how;
  how.group = group;
  distwrap_barrier(&how, nullptr, &error);
  report("freed_handle", json_of(error),
         {.reason = Reason::kInvalidArgument,
          .what = {"freed"},
          .where = Where{.op = "barrier", .group = ""},
          .next = "group that lives"});
  distwrap_destroy_process_group(nullptr, nullptr);
  distwrap_session_free(session);
}

}  // namespace distwrap::faults
