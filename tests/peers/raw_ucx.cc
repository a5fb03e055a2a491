#include "raw_ucx.h"

#include <absl/strings/str_cat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <ucp/api/ucp.h>
#include <utility>
#include <vector>

namespace distwrap::peers {
namespace {

using bench::Call;
using bench::Case;
using bench::Operation;

absl::Status failed(const char* what, ucs_status_t status) {
  return absl::InternalError(
      absl::StrCat(what, ": ", ucs_status_string(status)));
}

// Everything of one rank; endpoints go before the worker.
class Ucx {
 public:
  Ucx() = default;
  Ucx(const Ucx&) = delete;
  Ucx& operator=(const Ucx&) = delete;
  ~Ucx() {
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

  // Collective, in keys that begin with `prefix`.
  absl::Status connect(const bench::Setup& setup, const std::string& prefix) {
    if (absl::Status status = open(); !status.ok()) return status;
    ucp_address_t* address = nullptr;
    size_t length = 0;
    if (const ucs_status_t status =
            ucp_worker_get_address(worker_, &address, &length);
        status != UCS_OK)
      return failed("ucp_worker_get_address", status);
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
      params.address = reinterpret_cast<const ucp_address_t*>(theirs->data());
      ucp_ep_h endpoint = nullptr;
      if (const ucs_status_t status =
              ucp_ep_create(worker_, &params, &endpoint);
          status != UCS_OK)
        return failed("ucp_ep_create", status);
      endpoints_.push_back(endpoint);
    }
    return absl::OkStatus();
  }

  ucs_status_ptr_t send(int peer, const void* from, size_t bytes) {
    const ucp_request_param_t none{};
    return ucp_tag_send_nbx(endpoints_[static_cast<size_t>(peer)], from, bytes,
                            kTag, &none);
  }
  ucs_status_ptr_t recv(void* to, size_t bytes) {
    const ucp_request_param_t none{};
    return ucp_tag_recv_nbx(worker_, to, bytes, kTag, UINT64_MAX, &none);
  }
  absl::Status wait(ucs_status_ptr_t request) {
    if (request == nullptr) return absl::OkStatus();
    if (UCS_PTR_IS_ERR(request)) return failed("ucp", UCS_PTR_STATUS(request));
    ucs_status_t status;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
      ucp_worker_progress(worker_);
    ucp_request_free(request);
    return status == UCS_OK ? absl::OkStatus() : failed("ucp", status);
  }

 private:
  static constexpr ucp_tag_t kTag = 7;

  absl::Status open() {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    if (const ucs_status_t status = ucp_init(&params, nullptr, &context_);
        status != UCS_OK)
      return failed("ucp_init", status);
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    if (const ucs_status_t status =
            ucp_worker_create(context_, &worker, &worker_);
        status != UCS_OK)
      return failed("ucp_worker_create", status);
    return absl::OkStatus();
  }

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<ucp_ep_h> endpoints_;
};

class RawUcx final : public bench::Contestant {
 public:
  RawUcx(std::string name, std::unique_ptr<Ucx> ucx)
      : name_(std::move(name)), ucx_(std::move(ucx)) {}

  std::string name() const override { return name_; }

  absl::StatusOr<std::unique_ptr<Call>> prepare(Case& c) override {
    if (c.spec().ranks < 2) return nullptr;
    if (c.spec().op == Operation::kSendRecv) return ping_pong(c);
    if (c.spec().op == Operation::kRing) return ring(c);
    return nullptr;
  }

 private:
  std::unique_ptr<Call> ping_pong(const Case& c) {
    Ucx* const ucx = ucx_.get();
    const void* const from = c.in().data();
    void* const to = c.out().data();
    const auto bytes = static_cast<size_t>(c.in_bytes());
    const int peer = c.partner();
    const bool first = c.spec().rank % 2 == 0;
    return bench::make_call([=] {
      for (int half = 0; half < 2; ++half) {
        absl::Status status =
            ucx->wait(first == (half == 0) ? ucx->send(peer, from, bytes)
                                           : ucx->recv(to, bytes));
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    });
  }

  std::unique_ptr<Call> ring(const Case& c) {
    Ucx* const ucx = ucx_.get();
    const void* const from = c.in().data();
    void* const to = c.out().data();
    const auto bytes = static_cast<size_t>(c.in_bytes());
    const int right = c.right();
    return bench::make_call([=] {
      const ucs_status_ptr_t received = ucx->recv(to, bytes);
      absl::Status status = ucx->wait(ucx->send(right, from, bytes));
      absl::Status other = ucx->wait(received);
      return status.ok() ? other : status;
    });
  }

  std::string name_;
  std::unique_ptr<Ucx> ucx_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<bench::Contestant>> make_raw_ucx(
    const bench::Setup& setup) {
  auto ucx = std::make_unique<Ucx>();
  absl::Status status =
      ucx->connect(setup, absl::StrCat("peers/", setup.name, "/"));
  if (!status.ok())
    return absl::UnavailableError(
        absl::StrCat(setup.name, " cannot connect: ", status.message()));
  return std::make_unique<RawUcx>(setup.name, std::move(ucx));
}

}  // namespace distwrap::peers
