#include "context.h"

#include "quiet.h"
#include "sdk/fail.h"
#include "sdk/thread.h"

#include <cstdlib>
#include <string_view>

namespace ucx_backend {
namespace {

// The default inside a host: everything over shared memory, with single copies
// by the kernel. Between hosts UCX chooses.
constexpr char kOneHost[] = "shm,self";

std::string transports_for(HostSpan span, const std::string& given) {
  if (!given.empty()) return given;
  // UCX reads this variable; a user who has set it overrides the default.
  const bool chosen = secure_getenv("UCX_TLS") != nullptr;
  return span == HostSpan::kOneHost && !chosen ? kOneHost : "";
}

}  // namespace

int32_t fail_ucx(const Library& library, const char* call, ucs_status_t status,
                 dw_error* error) {
  const std::string text =
      std::string("ucx: ") + call + ": " + library.ucs_status_string(status);
  if (status == UCS_ERR_NO_MEMORY)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1,
                   status, text.c_str());
  return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, status,
                 text.c_str());
}

bool Context::shares_memory(const std::string& given) {
  const char* const chosen = secure_getenv("UCX_TLS");
  std::string_view left =
      given.empty() && chosen != nullptr ? std::string_view(chosen) : given;
  if (left.empty()) return true;
  for (size_t comma = 0; comma != std::string_view::npos;) {
    comma = left.find(',');
    const std::string_view name = left.substr(0, comma);
    for (const std::string_view known :
         {"all", "shm", "sm", "mm", "posix", "sysv"})
      if (name == known) return true;
    if (comma != std::string_view::npos) left.remove_prefix(comma + 1);
  }
  return false;
}

int32_t Context::open(const Library& library, HostSpan span,
                      const std::string& given, const std::string& interface,
                      Use use, std::shared_ptr<Context>* context,
                      dw_error* error) {
  if (int32_t code = check_room(error)) return code;
  // UCX ends the process when its own thread cannot start.
  std::thread probe;
  if (int32_t code = dw_sdk::start_thread(
          &probe, "dw-ucx-probe", [] {}, error))
    return code;
  probe.join();
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status =
          library.ucp_config_read(nullptr, nullptr, &config);
      status != UCS_OK)
    return fail_ucx(library, "ucp_config_read", status, error);
  const std::string transports = transports_for(span, given);
  ucs_status_t status = UCS_OK;
  if (!transports.empty())
    status = library.ucp_config_modify(config, "TLS", transports.c_str());
  if (status == UCS_OK && span == HostSpan::kHosts && !interface.empty() &&
      secure_getenv("UCX_NET_DEVICES") == nullptr)
    status =
        library.ucp_config_modify(config, "NET_DEVICES", interface.c_str());
  // A thread that connects to a host which is gone would be stuck in the system
  // for minutes, whatever its deadline.
  if (status == UCS_OK && span == HostSpan::kHosts &&
      secure_getenv("UCX_TCP_CONN_NB") == nullptr)
    status = library.ucp_config_modify(config, "CONN_NB", "y");
  if (status != UCS_OK) {
    library.ucp_config_release(config);
    return fail_ucx(library, "ucp_config_modify", status, error);
  }
  ucp_params_t params = {};
  params.field_mask =
      UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  if (use == Use::kAccess) params.features |= UCP_FEATURE_RMA | UCP_FEATURE_AM;
  // Several groups have a worker each, used by any thread.
  params.mt_workers_shared = 1;
  ucp_context_h made = nullptr;
  {
    const dw_sdk::SignalsBlocked blocked;
    status = library.ucp_init_version(kLeastMajor, kLeastMinor, &params, config,
                                      &made);
  }
  library.ucp_config_release(config);
  if (status != UCS_OK) return fail_ucx(library, "ucp_init", status, error);
  context->reset(new Context(library, made));
  return DW_OK;
}

Context::~Context() { library_.ucp_cleanup(context_); }

}  // namespace ucx_backend
