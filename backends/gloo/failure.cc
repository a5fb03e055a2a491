#include "failure.h"

#include "backend.h"
#include "sdk/fail.h"

#include <string>
#include <vector>

namespace gloo_backend {
namespace {

int32_t fail_aborted(dw_error* error) {
  return dw_fail(error, DW_ABORTED, DW_REASON_ABORTED, -1, 0,
                 "gloo: the group was aborted");
}

std::string list(const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks)
    text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

// Gloo's texts begin with the place in its source.
std::string without_place(const std::string& cause) {
  const size_t end = cause.find("] ");
  return cause.size() > 0 && cause[0] == '[' && end != std::string::npos
             ? cause.substr(end + 2)
             : cause;
}

}  // namespace

int32_t FirstFailure::fail(dw_comm* comm, const char* cause, dw_error* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!broken_.load()) {
    const std::vector<int> gone = comm->sockets.closed();
    if (comm->aborted.load())
      fail_aborted(&first_);
    else if (gone.empty())
      dw_fail(&first_, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, 0,
              ("gloo: " + without_place(cause)).c_str());
    else
      dw_fail(&first_, DW_UNAVAILABLE, DW_REASON_PEER_LOST, gone[0], 0,
              ("gloo: connection closed by rank " + list(gone) + ": " +
               without_place(cause))
                  .c_str());
    broken_.store(true);
  }
  if (error != nullptr) *error = first_;
  return first_.code;
}

int32_t FirstFailure::check(const dw_comm* comm, dw_error* error) {
  if (comm->aborted.load(std::memory_order_relaxed)) return fail_aborted(error);
  if (!broken_.load(std::memory_order_relaxed)) return DW_OK;
  std::lock_guard<std::mutex> lock(mutex_);
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_GROUP_BROKEN,
                 first_.peer, 0, first_.text);
}

}  // namespace gloo_backend
