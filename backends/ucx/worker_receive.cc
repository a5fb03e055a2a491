// Receives. UCX matches a message by its tag alone, so a receive that is posted
// to UCX may be given a message of another size or element type, and UCX writes
// as much of it as fits. So nothing is posted with the caller's buffer: a short
// receive is posted with memory of its own, whose copy costs less than a probe;
// a longer one waits here until its message has come, which UCX then tells by a
// probe. Nothing has been written to its buffer by then, and UCX moves the data
// there from where they are.
#include "worker.h"

#include <cstring>

namespace ucx_backend {
namespace {

// Whether a receive has got the element type and count that it expects.
bool fits(const EngineOp& call, const ucp_tag_recv_info_t& message) {
  return message.length == call.bytes &&
         (message.sender_tag & kType) == static_cast<uint64_t>(call.type)
                                             << DW_TAG_BITS;
}

constexpr ucp_request_param_t kTakeAll = {};

}  // namespace

void Worker::begin_receive(Transfer* transfer) {
  const EngineOp& call = transfer->call;
  // The receives of a tag take its messages in their order.
  if (first_awaited(call) == nullptr) [[likely]] {
    if (call.bytes <= Transfer::kCopied) [[likely]]
      return post(transfer);
    ucp_tag_recv_info_t info;
    if (const ucp_tag_message_h message = probe(call, &info)) {
      take(transfer, message, info, true);
      if (news_) handle_news();
      return;
    }
  }
  await(transfer);
  news_ |= endpoints_[static_cast<size_t>(call.peer)].lost;
  if (news_) handle_news();
}

// The parameters of a receive. UCX 1.13 reports the size of one that ends at
// once only to a callback.
ucp_request_param_t Worker::receive_of(Transfer* transfer) {
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                       UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.user_data = transfer;
  param.cb.recv = received;
  return param;
}

void Worker::post(Transfer* transfer) {
  const EngineOp& call = transfer->call;
  const ucp_request_param_t param = receive_of(transfer);
  transfer->is_copied = true;
  transfer->beginning = true;
  const ucs_status_ptr_t request =
      ucp_->ucp_tag_recv_nbx(worker_, transfer->copy, call.bytes,
                             tag_of(call.peer, call), ~kType, &param);
  transfer->beginning = false;
  if (!transfer->ended_at_once) return started(transfer, request);
  ucp_->ucp_request_free(request);
  if (transfer->is_open()) [[likely]]
    return transfer->state.store(Transfer::State::kDone,
                                 std::memory_order_relaxed);
  handle_news();
}

ucp_tag_message_h Worker::probe(const EngineOp& call,
                                ucp_tag_recv_info_t* info) {
  return ucp_->ucp_tag_probe_nb(worker_, tag_of(call.peer, call), ~kType, 1,
                                info);
}

// Receives a message that has come. `begins`: the receive is only beginning, so
// a good end is told by its state alone. The caller handles the news.
void Worker::take(Transfer* transfer, ucp_tag_message_h message,
                  const ucp_tag_recv_info_t& info, bool begins) {
  const EngineOp& call = transfer->call;
  if (!fits(call, info)) {
    // UCX lets go of a message only when it is received: by nobody.
    const ucs_status_ptr_t request =
        ucp_->ucp_tag_msg_recv_nbx(worker_, nullptr, 0, message, &kTakeAll);
    if (UCS_PTR_IS_PTR(request)) ucp_->ucp_request_free(request);
    return refuse(transfer, info);
  }
  const ucp_request_param_t param = receive_of(transfer);
  transfer->beginning = true;
  const ucs_status_ptr_t request =
      ucp_->ucp_tag_msg_recv_nbx(worker_, call.at, call.bytes, message, &param);
  transfer->beginning = false;
  if (transfer->ended_at_once) {
    ucp_->ucp_request_free(request);
    if (!transfer->is_open()) return;
    if (!begins) return end(transfer, UCS_OK);
    transfer->state.store(Transfer::State::kDone, std::memory_order_relaxed);
    return;
  }
  if (UCS_PTR_IS_ERR(request)) return end(transfer, UCS_PTR_STATUS(request));
  transfer->request = request;
  link(transfer);
}

void Worker::received(void* request, ucs_status_t status,
                      const ucp_tag_recv_info_t* info, void* given) {
  auto* const transfer = static_cast<Transfer*>(given);
  Worker* const self = transfer->worker;
  const ucp_tag_recv_info_t message = *info;  // goes with the request
  const bool has_come = status == UCS_OK || status == UCS_ERR_MESSAGE_TRUNCATED;
  const bool differs = has_come && !fits(transfer->call, message);
  if (transfer->is_copied && status == UCS_OK && !differs &&
      message.length != 0)
    std::memcpy(transfer->call.at, transfer->copy, transfer->call.bytes);
  if (transfer->beginning) {
    transfer->ended_at_once = true;
    if (status == UCS_OK && !differs) [[likely]]
      return;
  } else {
    self->ucp_->ucp_request_free(request);
    self->unlink(transfer);
  }
  if (differs)
    self->refuse(transfer, message);
  else
    self->end(transfer, status);
}

Transfer* Worker::first_awaited(const EngineOp& call) const {
  Transfer* first = awaited_;
  while (first != nullptr &&
         (first->call.peer != call.peer || first->call.tag != call.tag))
    first = first->next_tag;
  return first;
}

void Worker::await(Transfer* transfer) {
  link(transfer);
  if (Transfer* const first = first_awaited(transfer->call)) {
    first->last_same->next_same = transfer;
    first->last_same = transfer;
    return;
  }
  transfer->last_same = transfer;
  transfer->next_tag = awaited_;
  awaited_ = transfer;
}

// Takes the messages that have come, of each tag in their order.
void Worker::take_awaited() {
  for (Transfer** place = &awaited_; *place != nullptr;) {
    Transfer* const first = *place;
    ucp_tag_recv_info_t info;
    const ucp_tag_message_h message = probe(first->call, &info);
    if (message == nullptr) {
      place = &first->next_tag;
      continue;
    }
    if (Transfer* const next = first->next_same) {
      next->last_same = first->last_same;
      next->next_tag = first->next_tag;
      *place = next;
    } else {
      *place = first->next_tag;
    }
    unlink(first);
    take(first, message, info, false);
  }
}

}  // namespace ucx_backend
