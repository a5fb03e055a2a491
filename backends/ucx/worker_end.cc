// The end of a worker: the messages that announce it, and the steps that must
// be complete before an operation's failure is reported.
#include "sdk/fail.h"
#include "sdk/message_mismatch.h"
#include "worker.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace ucx_backend {
namespace {

// How long to try while the peers' memory for messages is full, and how long
// receives that read a peer's memory may continue.
constexpr int64_t kTellNs = 25'000'000;
constexpr int64_t kDrainNs = 20'000'000;
// The number of polls without an event after which nothing more is expected.
constexpr int kIdleLooks = 100;
// More than the places in a rank's memory for messages of others.
constexpr int kMostArrived = 512;

bool is_loss(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_IO_ERROR:  // a process of this host whose memory is gone
    case UCS_ERR_CANCELED:  // by UCX, whose connection has ended
      return true;
    default:
      return false;
  }
}

}  // namespace

// Notes why a transfer failed. It is reported later, since UCX may be calling
// back.
void Worker::note_failure(const EngineOp& call, ucs_status_t status) {
  news_ = true;
  char text[200];
  std::snprintf(text, sizeof text, "ucx: %s rank %d failed: %s",
                call.remote  ? "an access to the window of"
                : call.sends ? "a message to"
                             : "a message from",
                call.peer, ucp_->ucs_status_string(status));
  if (is_loss(status))
    dw_fail(&bad_, DW_UNAVAILABLE, DW_REASON_PEER_LOST, call.peer, status,
            text);
  else
    dw_fail(&bad_, DW_INTERNAL, DW_REASON_BACKEND_FAILED, call.peer, status,
            text);
}

// A receive has got a message of another element type or count.
void Worker::refuse(Transfer* transfer, const ucp_tag_recv_info_t& message) {
  const EngineOp& call = transfer->call;
  if (!tearing_ && bad_.code == DW_OK) {
    news_ = true;
    dw_sdk::fail_message_mismatch(
        {rank_, call.type, call.bytes},
        {call.peer,
         static_cast<int>((message.sender_tag & kType) >> DW_TAG_BITS),
         message.length},
        call.tag, &bad_);
  }
  settle(transfer, Transfer::State::kFailed);
}

// A sender that gives up announces that before its memory is used for something
// else. So data that were read from it are good when, after the end of the
// reading, no such notice is among the messages that have arrived.
void Worker::confirm() {
  for (int i = 0; i < kMostArrived && given_up_ < 0; ++i) {
    if (ucp_->ucp_worker_progress(worker_) == 0) break;
    take_awaited();
  }
  settle_unsure(given_up_ < 0 ? Transfer::State::kDone
                              : Transfer::State::kFailed);
}

void Worker::settle_unsure(Transfer::State state) {
  while (Transfer* const transfer = unsure_) {
    unsure_ = transfer->after;
    transfer->after = nullptr;
    settle(transfer, state);
  }
}

void Worker::destroy() {
  if (worker_ == nullptr) return;
  const LogTo log(host_);
  tearing_ = true;
  for (const ucp_rkey_h key : keys_) ucp_->ucp_rkey_destroy(key);
  keys_.clear();
  // Endpoints that are not watched stay until the worker is destroyed.
  for (Endpoint& peer : endpoints_) {
    if (peer.handle == nullptr ||
        !peers_[static_cast<size_t>(peer.rank)].watched)
      continue;
    ucp_request_param_t now = {};
    now.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    now.flags = UCP_EP_CLOSE_FLAG_FORCE;
    ucp_->ucp_ep_close_nbx(peer.handle, &now);
    peer.handle = nullptr;
  }
  ucp_->ucp_worker_destroy(worker_);
  worker_ = nullptr;
  descriptor_ = -1;
}

void Worker::expect_notice() {
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                       UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.user_data = this;
  param.cb.recv = noticed;
  ucp_->ucp_tag_recv_nbx(worker_, &told_, sizeof told_, kNotice, kExact,
                         &param);
}

void Worker::noticed(void* request, ucs_status_t status,
                     const ucp_tag_recv_info_t* /*info*/, void* given) {
  auto* const self = static_cast<Worker*>(given);
  self->ucp_->ucp_request_free(request);
  if (status != UCS_OK || self->tearing_) return;
  self->given_up_ = self->told_.rank;
  self->news_ = true;
}

void Worker::lost(void* given, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  auto* const peer = static_cast<Endpoint*>(given);
  peer->lost = true;
  peer->cause = status;
  peer->worker->news_ = true;
  const Peer& known = peer->worker->peers_[static_cast<size_t>(peer->rank)];
  uint32_t open = 0;
  if (known.gone != nullptr) known.gone->compare_exchange_strong(open, kLost);
}

// Peers on other hosts to which this rank has never written learn of it in
// another way, since a connection would have to be made first.
template <class Send>
void Worker::send_to_known(const Send& send) {
  std::vector<ucs_status_ptr_t> open;
  for (Endpoint& peer : endpoints_) {
    if (peer.rank == rank_ || peer.lost || peer.handle == nullptr) continue;
    const ucs_status_ptr_t request = send(peer.handle);
    if (UCS_PTR_IS_PTR(request)) open.push_back(request);
  }
  const int64_t until = host_->now_ns(host_->self) + kTellNs;
  while (!open.empty() && host_->now_ns(host_->self) < until) {
    ucp_->ucp_worker_progress(worker_);
    if (ucp_->ucp_request_check_status(open.back()) == UCS_INPROGRESS) continue;
    ucp_->ucp_request_free(open.back());
    open.pop_back();
  }
}

void Worker::tell_peers() {
  telling_ = {rank_, 0};
  const ucp_request_param_t param = {};
  send_to_known([&](ucp_ep_h to) {
    return ucp_->ucp_tag_send_nbx(to, &telling_, sizeof telling_, kNotice,
                                  &param);
  });
}

void Worker::tell_known(const void* what, size_t bytes) {
  if (worker_ == nullptr) return;
  const ucp_request_param_t param = {};
  send_to_known([&](ucp_ep_h to) {
    return ucp_->ucp_am_send_nbx(to, kMessage, what, bytes, nullptr, 0, &param);
  });
  // A flush makes sure that the message has left.
  send_to_known(
      [&](ucp_ep_h to) { return ucp_->ucp_ep_flush_nbx(to, &param); });
}

bool Worker::has_waiting() const {
  for (const Transfer* open = open_; open != nullptr; open = open->after)
    if (open->work == nullptr) return true;
  return false;
}

void Worker::handle_news() {
  news_ = false;
  if (worker_ == nullptr) return;
  // The host tells the other ranks the reason before they learn that the group
  // is over. But a thread may be waiting here for another transfer, and for
  // nothing else.
  if (bad_.reason == DW_REASON_CALL_MISMATCH && !has_waiting()) {
    failure_->fail(bad_, nullptr);
    return;
  }
  if (bad_.code != DW_OK) return break_down(bad_, true);
  dw_error why;
  char text[160];
  if (given_up_ >= 0) {
    std::snprintf(text, sizeof text, "ucx: rank %d has given the group up",
                  given_up_);
    dw_fail(&why, DW_UNAVAILABLE, DW_REASON_PEER_LOST, given_up_, 0, text);
    return break_down(why, false);
  }
  for (const Transfer* open = open_; open != nullptr; open = open->after) {
    const Endpoint& peer = endpoints_[static_cast<size_t>(open->call.peer)];
    if (!peer.lost) continue;
    std::snprintf(text, sizeof text, "ucx: rank %d is lost: %s", peer.rank,
                  ucp_->ucs_status_string(peer.cause));
    dw_fail(&why, DW_UNAVAILABLE, DW_REASON_PEER_LOST, peer.rank, peer.cause,
            text);
    return break_down(why, true);
  }
}

void Worker::break_down(const dw_error& why, bool tells) {
  failure_->fail(why, nullptr);
  tear_down(tells);
}

void Worker::tear_down(bool tells) {
  if (worker_ == nullptr) return;
  tearing_ = true;
  awaited_ = nullptr;
  if (tells) tell_peers();
  if (drain() && !may_be_connected_afar()) {
    destroy();
  } else {
    abandon();
  }
  settle_unsure(Transfer::State::kFailed);
  // UCX has released their buffers and their requests.
  while (Transfer* const transfer = open_) {
    unlink(transfer);
    settle(transfer, Transfer::State::kFailed);
  }
  if (dozing_ != nullptr) dozing_->ring();
}

// UCX cannot stop reading a peer's memory, and ends the process when it is
// asked to. The reading is therefore completed, at most to the end of the
// peer's memory. False: it takes too long.
bool Worker::drain() {
  for (Transfer *next, *open = open_; open != nullptr; open = next) {
    next = open->after;
    if (!open->call.sends && open->request != nullptr)
      ucp_->ucp_request_cancel(worker_, open->request);
  }
  const int64_t until = host_->now_ns(host_->self) + kDrainNs;
  for (int idle = 0; idle < kIdleLooks; ++idle) {
    if (ucp_->ucp_worker_progress(worker_) == 0) continue;
    idle = 0;
    if (host_->now_ns(host_->self) >= until) return false;
  }
  return true;
}

// UCX 1.13 ends the process when a connection to another host is closed while
// it is being made, or while a message comes in pieces over it, and tells
// nobody whether that is so. Peers also connect to this rank by themselves.
bool Worker::may_be_connected_afar() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return peer.watched; });
}

// No thread drives the worker any more, so nothing moves; its memory is never
// freed.
void Worker::abandon() {
  const auto* const kept = new std::shared_ptr<Context>(context_);
  static_cast<void>(kept);
  worker_ = nullptr;
  descriptor_ = -1;
}

void Worker::flush(int64_t until_ns) {
  if (worker_ == nullptr) return;
  const LogTo log(host_);
  const ucp_request_param_t param = {};
  const ucs_status_ptr_t request = ucp_->ucp_worker_flush_nbx(worker_, &param);
  if (!UCS_PTR_IS_PTR(request)) return;
  while (ucp_->ucp_request_check_status(request) == UCS_INPROGRESS &&
         host_->now_ns(host_->self) < until_ns)
    ucp_->ucp_worker_progress(worker_);
  ucp_->ucp_request_free(request);
}

}  // namespace ucx_backend
