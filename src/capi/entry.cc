#include "capi/entry.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "capi/seen.h"

#include <absl/strings/str_cat.h>

#include <new>
#include <stdexcept>
#include <utility>

namespace distwrap::capi {
namespace {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kSession:
      return "session";
    case Kind::kGroup:
      return "group";
    case Kind::kWork:
      return "work";
    case Kind::kBatch:
      return "batch";
    case Kind::kStore:
      return "store";
    case Kind::kList:
      return "list";
    case Kind::kError:
      return "error";
    case Kind::kMemory:
      return "memory";
    case Kind::kWindow:
      return "window";
    case Kind::kHook:
      return "hook";
    case Kind::kPages:
      return "pages";
    case Kind::kWriter:
      return "writer";
    case Kind::kReader:
      return "reader";
    case Kind::kMesh:
      return "mesh";
    case Kind::kPlan:
      return "plan";
    case Kind::kMoePlan:
      return "MoE plan";
    case Kind::kMoePending:
      return "MoE pending";
    case Kind::kDedupRequest:
      return "dedup request";
    case Kind::kAllToAllV:
      return "prepared exchange";
    case Kind::kPrepared:
      return "prepared operation";
  }
  return nullptr;
}

}  // namespace

int32_t fail(const absl::Status& status, distwrap_error* error) {
  const auto code = static_cast<int32_t>(status.code());
  if (error == nullptr) return code;
  ErrorBox box{code, error_info(status).value_or(ErrorInfo{}),
               std::string(status.message())};
  box.page = error_page(box.info.reason);
  if (box.info.what.empty()) box.info.what = box.text;
  box.seen = seen_in_c(box.info.seen);
  *error = give<distwrap_error>(std::move(box));
  return code;
}

int32_t fail_of_exception(const char* call, distwrap_error* error) {
  try {
    try {
      throw;
    } catch (const std::length_error&) {
      return fail(refuse(call, "a size is impossible",
                         "give the number of things that there are"),
                  error);
    } catch (...) {
      return fail(base::error_of_exception(call), error);
    }
  } catch (const std::bad_alloc&) {
    return DW_RESOURCE_EXHAUSTED;  // there is not even memory for an error
  }
}

absl::Status refuse(const char* call, std::string what, std::string next_step) {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = std::move(what),
                           .op = call,
                           .next_step = std::move(next_step)});
}

absl::Status refuse_null(const char* call, const char* what) {
  return refuse(call, absl::StrCat(what, " is NULL"),
                absl::StrCat("give ", what));
}

absl::Status refuse_handle(const char* call, uint64_t handle, Kind wanted) {
  const char* const name = name_of(wanted);
  if (handle == 0)
    return refuse(call, absl::StrCat("the ", name, " handle is NULL"),
                  absl::StrCat("give a ", name));
  const Kind kind = kind_of(handle);
  if (kind == wanted)
    return refuse(call,
                  absl::StrCat("the ", name,
                               " handle is stale: it was freed, "
                               "or never given out"),
                  absl::StrCat("give a ", name, " that lives"));
  const char* const other = name_of(kind);
  return refuse(
      call,
      absl::StrCat("the handle is no ", name, "'s but ",
                   other == nullptr ? absl::StrCat("0x", absl::Hex(handle))
                                    : absl::StrCat("a ", other, "'s")),
      absl::StrCat("give a ", name));
}

absl::Status too_many_handles(const char* call) {
  return base::make_error({.reason = Reason::kResourceLimit,
                           .what = "there are 2^20 handles of this kind",
                           .op = call,
                           .next_step = "free handles that are not needed"});
}

absl::Status refuse_struct(const char* call, const char* what, uint32_t size,
                           uint32_t known) {
  return base::make_error(
      {.reason = Reason::kInvalidArgument,
       .what = absl::StrCat(what, "->struct_size is ", size,
                            size > known ? ", and what is behind the part "
                                           "known here is not zero"
                                         : ""),
       .op = call,
       .expected = absl::StrCat(known),
       .next_step = size > known
                        ? "use the header of the library that is loaded"
                        : "set it to the size of the struct"});
}

absl::StatusOr<Group> group_of(const char* call, distwrap_group handle) {
  if (handle == nullptr) return Group();
  auto found = held(call, handle);
  if (!found.ok()) return found.status();
  return **found;
}

absl::Status hand_out_group(const char* call, const Group& group,
                            distwrap_group* handle) {
  if (!group) return absl::OkStatus();
  return hand_out(call, group, handle);
}

absl::StatusOr<std::map<std::string, std::string>> pairs_of(
    const char* call, const distwrap_pair* pairs, uint64_t count) {
  if (pairs == nullptr && count != 0) return refuse_null(call, "hints");
  std::map<std::string, std::string> map;
  for (uint64_t i = 0; i < count; ++i) {
    if (pairs[i].key == nullptr || pairs[i].value == nullptr)
      return refuse_null(call, "the key or value of a hint");
    map[pairs[i].key] = pairs[i].value;
  }
  return map;
}

}  // namespace distwrap::capi
