#include "operation.h"

#include <thread>

namespace distwrap::conformance {
namespace {

using Clock = std::chrono::steady_clock;

// Submits again while the backend has no room.
template <typename Submit>
int32_t submitted(Member& member, Submit submit) {
  const Clock::time_point last = Clock::now() + member.limits.operation;
  int32_t code = submit();
  while (code == DW_AGAIN && Clock::now() < last) {
    if (member.api.progress != nullptr) member.api.progress(member.backend);
    std::this_thread::yield();
    code = submit();
  }
  return code;
}

}  // namespace

bool wait_for(Member& member, dw_work& work, std::chrono::milliseconds limit) {
  if (member.api.progress == nullptr) return work.wait(limit);
  const Clock::time_point last = Clock::now() + limit;
  while (!work.wait(std::chrono::milliseconds(0))) {
    if (member.api.progress(member.backend) == DW_UNIMPLEMENTED)
      return work.wait(limit);
    if (Clock::now() > last) return false;
    work.wait(std::chrono::milliseconds(1));
  }
  return true;
}

std::string Operation::begin(Member& member) {
  dw_error error = {};
  const int32_t code = submitted(member, [&] {
    return member.api.submit(comm_ != nullptr ? comm_ : member.comm, &op_,
                             caller_waits() ? nullptr : &work_, &error);
  });
  pending_ = code == DW_OK;
  if (pending_ && caller_waits()) return "pending, but the caller waits";
  if (!pending_ && code != DW_DONE) return "submit: " + error_text(code, error);
  return "";
}

std::string Operation::end(Member& member) {
  if (!pending_)
    return work_.completions() == 0 ? "" : "completed without being pending";
  if (!wait_for(member, work_, member.limits.operation)) {
    member.aborts();
    wait_for(member, work_, member.limits.operation);
    return "did not complete";
  }
  if (work_.completions() != 1) return "completed more than once";
  if (work_.code() != DW_OK)
    return "completed with " + error_text(work_.code(), work_.error());
  return "";
}

std::string begin_group(Member& member, const std::vector<Operation*>& all) {
  std::vector<dw_group_item> items;
  for (Operation* operation : all)
    items.push_back(
        {operation->comm_ != nullptr ? operation->comm_ : member.comm,
         &operation->op_,
         operation->caller_waits() ? nullptr : &operation->work_});
  dw_error error = {};
  const int32_t code = submitted(member, [&] {
    return member.api.submit_group(member.backend, items.data(), items.size(),
                                   &error);
  });
  const bool pending = code == DW_OK;
  if (!pending && code != DW_DONE) {
    // A faulty backend may nevertheless have started some operations.
    member.aborts();
    return "submit_group: " + error_text(code, error);
  }
  for (Operation* operation : all) {
    if (pending && operation->caller_waits())
      return "a group is pending, but the caller waits";
    operation->pending_ = pending;
  }
  return "";
}

}  // namespace distwrap::conformance
