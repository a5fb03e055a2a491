#include "ucx_rank.h"

#include <absl/strings/str_cat.h>

namespace distwrap::peers {

absl::Status ucx_failed(const char* what, ucs_status_t status) {
  return absl::InternalError(
      absl::StrCat(what, ": ", ucs_status_string(status)));
}

Ucx::~Ucx() {
  for (ucp_ep_h endpoint : endpoints_) {
    if (endpoint == nullptr) continue;
    ucp_request_param_t now{};
    now.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    now.flags = UCP_EP_CLOSE_FLAG_FORCE;
    wait(ucp_ep_close_nbx(endpoint, &now)).IgnoreError();
  }
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

absl::Status Ucx::connect(const bench::Setup& setup,
                          const std::string& prefix) {
  if (absl::Status status = open(); !status.ok()) return status;
  ucp_address_t* address = nullptr;
  size_t length = 0;
  if (const ucs_status_t status =
          ucp_worker_get_address(worker_, &address, &length);
      status != UCS_OK)
    return ucx_failed("ucp_worker_get_address", status);
  const std::string mine(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker_, address);
  const Deadline deadline = Deadline::after(setup.timeout);
  if (absl::Status status =
          setup.store->set(absl::StrCat(prefix, setup.rank), mine, deadline);
      !status.ok())
    return status;
  for (int rank = 0; rank < setup.ranks; ++rank) {
    const absl::StatusOr<std::string> theirs =
        setup.store->get(absl::StrCat(prefix, rank), deadline);
    if (!theirs.ok()) return theirs.status();
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    if (watches_) {
      params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
      params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    }
    params.address = reinterpret_cast<const ucp_address_t*>(theirs->data());
    ucp_ep_h endpoint = nullptr;
    if (const ucs_status_t status = ucp_ep_create(worker_, &params, &endpoint);
        status != UCS_OK)
      return ucx_failed("ucp_ep_create", status);
    endpoints_.push_back(endpoint);
  }
  return absl::OkStatus();
}

absl::Status Ucx::wait(ucs_status_ptr_t request) {
  if (request == nullptr) return absl::OkStatus();
  if (UCS_PTR_IS_ERR(request))
    return ucx_failed("ucp", UCS_PTR_STATUS(request));
  ucs_status_t status;
  while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
    ucp_worker_progress(worker_);
  ucp_request_free(request);
  return status == UCS_OK ? absl::OkStatus() : ucx_failed("ucp", status);
}

absl::Status Ucx::open() {
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = features_;
  if (const ucs_status_t status = ucp_init(&params, nullptr, &context_);
      status != UCS_OK)
    return ucx_failed("ucp_init", status);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (const ucs_status_t status =
          ucp_worker_create(context_, &worker, &worker_);
      status != UCS_OK)
    return ucx_failed("ucp_worker_create", status);
  return absl::OkStatus();
}

}  // namespace distwrap::peers
