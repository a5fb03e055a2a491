#include "raw_ucx.h"

#include "raw_ucx_windows.h"
#include "ucx_rank.h"

#include <absl/strings/str_cat.h>

#include <cstddef>
#include <string>
#include <utility>

namespace distwrap::peers {
namespace {

using bench::Case;
using bench::Operation;
using bench::TimedCall;

constexpr ucp_tag_t kTag = 7;

ucs_status_ptr_t send(const Ucx& ucx, int peer, const void* from,
                      size_t bytes) {
  const ucp_request_param_t none{};
  return ucp_tag_send_nbx(ucx.to(peer), from, bytes, kTag, &none);
}
ucs_status_ptr_t recv(const Ucx& ucx, void* to, size_t bytes) {
  const ucp_request_param_t none{};
  return ucp_tag_recv_nbx(ucx.worker(), to, bytes, kTag, UINT64_MAX, &none);
}

class RawUcx final : public bench::Contestant {
 public:
  RawUcx(const bench::Setup& setup, std::unique_ptr<Ucx> ucx)
      : name_(setup.name), ucx_(std::move(ucx)), windows_(setup) {}

  std::string name() const override { return name_; }

  absl::StatusOr<std::unique_ptr<TimedCall>> prepare(Case& c) override {
    if (c.spec().ranks < 2) return nullptr;
    if (c.spec().op == Operation::kSendRecv) return ping_pong(c);
    if (c.spec().op == Operation::kRing) return ring(c);
    if (bench::on_window(c.spec().op)) return windows_.prepare(c);
    return nullptr;
  }

 private:
  std::unique_ptr<TimedCall> ping_pong(const Case& c) {
    Ucx* const ucx = ucx_.get();
    const void* const from = c.in().data();
    void* const to = c.out().data();
    const auto bytes = static_cast<size_t>(c.in_bytes());
    const int peer = c.partner();
    const bool first = c.spec().rank % 2 == 0;
    return bench::make_call([=] {
      for (int half = 0; half < 2; ++half) {
        absl::Status status =
            ucx->wait(first == (half == 0) ? send(*ucx, peer, from, bytes)
                                           : recv(*ucx, to, bytes));
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    });
  }

  std::unique_ptr<TimedCall> ring(const Case& c) {
    Ucx* const ucx = ucx_.get();
    const void* const from = c.in().data();
    void* const to = c.out().data();
    const auto bytes = static_cast<size_t>(c.in_bytes());
    const int right = c.right();
    return bench::make_call([=] {
      const ucs_status_ptr_t received = recv(*ucx, to, bytes);
      absl::Status status = ucx->wait(send(*ucx, right, from, bytes));
      absl::Status other = ucx->wait(received);
      return status.ok() ? other : status;
    });
  }

  std::string name_;
  std::unique_ptr<Ucx> ucx_;
  RawUcxWindows windows_;
};

}  // namespace

namespace {

absl::StatusOr<std::unique_ptr<bench::Contestant>> make(
    const bench::Setup& setup, bool watches) {
  auto ucx = std::make_unique<Ucx>(UCP_FEATURE_TAG, watches);
  absl::Status status =
      ucx->connect(setup, absl::StrCat("peers/", setup.name, "/"));
  if (!status.ok())
    return absl::UnavailableError(
        absl::StrCat(setup.name, " cannot connect: ", status.message()));
  return std::make_unique<RawUcx>(setup, std::move(ucx));
}

}  // namespace

absl::StatusOr<std::unique_ptr<bench::Contestant>> make_raw_ucx(
    const bench::Setup& setup) {
  return make(setup, false);
}

absl::StatusOr<std::unique_ptr<bench::Contestant>> make_raw_ucx_watched(
    const bench::Setup& setup) {
  return make(setup, true);
}

}  // namespace distwrap::peers
