// Access to the peers' memory, from which windows are made.
#include "sdk/fail.h"
#include "worker.h"

#include <iterator>

namespace ucx_backend {

void Worker::connect() {
  const LogTo log(host_);
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank)
    if (rank != rank_) endpoint(rank);
}

int32_t Worker::hear(ucp_am_recv_callback_t heard, void* arg, dw_error* error) {
  ucp_am_handler_param_t param = {};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                     UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = kMessage;
  param.cb = heard;
  param.arg = arg;
  const ucs_status_t status =
      ucp_->ucp_worker_set_am_recv_handler(worker_, &param);
  if (status != UCS_OK)
    return fail_ucx(*ucp_, "ucp_worker_set_am_recv_handler", status, error);
  return DW_OK;
}

void Worker::begin(Transfer* transfer, const Access& access) {
  const EngineOp& call = transfer->call;
  transfer->worker = this;
  if (worker_ == nullptr) return settle(transfer, Transfer::State::kFailed);
  const ucp_ep_h to = endpoint(call.peer);
  if (to == nullptr) {
    end(transfer, endpoints_[static_cast<size_t>(call.peer)].cause);
    return handle_news();
  }
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.user_data = transfer;
  param.cb.send = sent;
  ucs_status_ptr_t request = nullptr;
  switch (access.what) {
    case Access::What::kPut:
      request = ucp_->ucp_put_nbx(to, call.at, call.bytes, access.at,
                                  access.key, &param);
      break;
    case Access::What::kGet:
      request = ucp_->ucp_get_nbx(to, call.at, call.bytes, access.at,
                                  access.key, &param);
      break;
    case Access::What::kFlush:
      request = ucp_->ucp_ep_flush_nbx(to, &param);
      break;
    case Access::What::kTell:
      param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
      param.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
      request =
          ucp_->ucp_am_send_nbx(to, kMessage, access.head, access.head_bytes,
                                access.data, access.data_bytes, &param);
      break;
  }
  if (request == nullptr)
    return transfer->state.store(Transfer::State::kDone,
                                 std::memory_order_relaxed);
  started(transfer, request);
}

bool Worker::begin_with_work(Transfer* transfer, const Access& access) {
  open_works_.fetch_add(1, std::memory_order_relaxed);
  begin(transfer, access);
  if (transfer->state.load(std::memory_order_relaxed) != Transfer::State::kDone)
    return false;
  open_works_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void Worker::expect(Transfer* transfer) {
  transfer->worker = this;
  if (worker_ == nullptr) return settle(transfer, Transfer::State::kFailed);
  link(transfer);
}

void Worker::answered(Transfer* transfer) {
  unlink(transfer);
  settle(transfer, Transfer::State::kDone);
}

Worker::Answer& Worker::new_answer() {
  answers_.emplace_back();
  Answer& answer = answers_.back();
  answer.worker = this;
  answer.place = std::prev(answers_.end());
  return answer;
}

// UCX may be calling, so a failure is left for the peer to notice.
void Worker::send(Answer* answer, ucp_ep_h to) {
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                       UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.user_data = answer;
  param.cb.send = answer_sent;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t request = ucp_->ucp_am_send_nbx(
      to, kMessage, answer->head.data(), answer->head.size(),
      answer->data.data(), answer->data.size(), &param);
  if (!UCS_PTR_IS_PTR(request)) answers_.erase(answer->place);
}

void Worker::answer_sent(void* request, ucs_status_t /*status*/, void* given) {
  auto* const answer = static_cast<Answer*>(given);
  Worker* const self = answer->worker;
  self->ucp_->ucp_request_free(request);
  self->answers_.erase(answer->place);
}

ucp_rkey_h Worker::unpack(int rank, const std::string& key) {
  if (worker_ == nullptr || key.empty()) return nullptr;
  const ucp_ep_h to = endpoint(rank);
  if (to == nullptr) return nullptr;
  keys_.reserve(keys_.size() + 1);  // so that no key is lost
  ucp_rkey_h made = nullptr;
  if (ucp_->ucp_ep_rkey_unpack(to, key.data(), &made) != UCS_OK) return nullptr;
  keys_.push_back(made);
  return made;
}

}  // namespace ucx_backend
