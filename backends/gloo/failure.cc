#include "failure.h"

#include "backend.h"
#include "sdk/fail.h"
#include "sdk/guard.h"

#include <exception>
#include <new>
#include <string>
#include <vector>

namespace gloo_backend {
namespace {

std::string list(const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks)
    text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

// Removes the place in Gloo's source with which Gloo's texts begin.
std::string without_place(const std::string& cause) {
  const size_t end = cause.find("] ");
  return cause.size() > 0 && cause[0] == '[' && end != std::string::npos
             ? cause.substr(end + 2)
             : cause;
}

}  // namespace

int32_t fail(dw_comm* comm, const char* cause, dw_error* error) {
  if (int32_t code = comm->failure.check(error)) return code;
  const std::vector<int> gone = comm->sockets.closed();
  dw_error why;
  if (gone.empty())
    dw_fail(&why, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, 0,
            ("gloo: " + without_place(cause)).c_str());
  else
    dw_fail(&why, DW_UNAVAILABLE, DW_REASON_PEER_LOST, gone[0], 0,
            ("gloo: connection closed by rank " + list(gone) + ": " +
             without_place(cause))
                .c_str());
  return comm->failure.fail(why, error);
}

int32_t fail_by_exception(dw_comm* comm, dw_error* error) {
  dw_error why = {};
  const int32_t code = dw_sdk::guarded("gloo: an operation", &why, [&] {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& exception) {
      return fail(comm, exception.what(), error);
    }
  });
  return why.code == DW_OK ? code : comm->failure.fail(why, error);
}

}  // namespace gloo_backend
