#include "worker.h"

#include "new_sockets.h"
#include "sdk/fail.h"
#include "sdk/thread.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <netinet/in.h>
#include <new>
#include <sys/socket.h>
#include <utility>

namespace ucx_backend {
namespace {

// Longer messages may be read directly from the sender's memory.
constexpr size_t kMayBeRead = 512;

// Whether a worker's address has the port of a listener: another thread of the
// program may have opened one at the same time.
bool is_at(int listener, const std::string& address) {
  sockaddr_storage here = {};
  socklen_t size = sizeof here;
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&here), &size) != 0)
    return false;
  in_port_t port = 0;  // at the same place in both kinds of addresses
  std::memcpy(
      &port,
      reinterpret_cast<const char*>(&here) + offsetof(sockaddr_in, sin_port),
      sizeof port);
  const std::string bytes(reinterpret_cast<const char*>(&port), sizeof port);
  return address.find(bytes) != std::string::npos;
}

}  // namespace

// ---- life ----

int32_t Worker::open(std::shared_ptr<Context> context,
                     const std::vector<dw_sdk::HostAddress>& hosts,
                     dw_error* error) {
  context_ = std::move(context);
  ucp_ = &context_->library();
  if (int32_t code = check_room(error)) return code;
  const LogTo log(host_);
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status;
  std::vector<int> listeners;
  {
    const dw_sdk::SignalsBlocked blocked;
    const NewSockets opened;
    status = ucp_->ucp_worker_create(context_->get(), &params, &worker_);
    if (!hosts.empty()) listeners = opened.listeners();
  }
  if (status != UCS_OK) {
    worker_ = nullptr;
    return fail_ucx(*ucp_, "ucp_worker_create", status, error);
  }
  status = ucp_->ucp_worker_get_efd(worker_, &descriptor_);
  if (status != UCS_OK)
    return fail_ucx(*ucp_, "ucp_worker_get_efd", status, error);
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  status = ucp_->ucp_worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK)
    return fail_ucx(*ucp_, "ucp_worker_get_address", status, error);
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucp_->ucp_worker_release_address(worker_, address);
  for (const int listener : listeners)
    if (is_at(listener, address_) && !dw_sdk::take_from(listener, hosts) &&
        errno != E2BIG)
      return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, errno,
                     "ucx: a listener cannot keep strangers out");
  return DW_OK;
}

int32_t Worker::meet(std::vector<Peer> peers, dw_error* error) {
  peers_ = std::move(peers);
  endpoints_.resize(peers_.size());
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    endpoints_[i].worker = this;
    endpoints_[i].rank = static_cast<int>(i);
  }
  expect_notice();
  if (int32_t code = connect_inside(error)) return code;
  return failure_->check(error);
}

// All ranks connect now, while they live: UCX 1.13 keeps a broken endpoint, and
// crashes, when it handles the connection request of a process on this host
// that has been killed meanwhile.
int32_t Worker::connect_inside(dw_error* error) {
  if (int32_t code = check_room(error)) return code;
  const LogTo log(host_);
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (rank == rank_ || peers_[i].watched || endpoint(rank) != nullptr)
      continue;
    char text[160];
    std::snprintf(text, sizeof text, "ucx: rank %d cannot be reached: %s", rank,
                  ucp_->ucs_status_string(endpoints_[i].cause));
    return dw_fail(error, DW_UNAVAILABLE, DW_REASON_PEER_LOST, rank,
                   endpoints_[i].cause, text);
  }
  return DW_OK;
}

ucp_ep_h Worker::endpoint(int rank) {
  Endpoint& peer = endpoints_[static_cast<size_t>(rank)];
  if (peer.handle != nullptr || peer.lost) return peer.handle;
  const Peer& known = peers_[static_cast<size_t>(rank)];
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(known.address.data());
  params.err_mode =
      known.watched ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler = {.cb = lost, .arg = &peer};
  const ucs_status_t status =
      ucp_->ucp_ep_create(worker_, &params, &peer.handle);
  if (status != UCS_OK) {
    peer.handle = nullptr;
    peer.lost = true;
    peer.cause = status;
  }
  return peer.handle;
}

// ---- holds ----

Worker::Hold::Hold(Worker& worker, Waiting /*tag*/)
    : worker_(worker), log_(worker.host_), waiting_(true) {
  acquire();
}

Worker::Hold::Hold(Worker& worker) : worker_(worker), log_(worker.host_) {
  worker_.lock_.share();
  acquire();
}

Worker::Hold::Hold(Worker& worker, std::try_to_lock_t /*tag*/)
    : worker_(worker), log_(worker.host_) {
  worker_.lock_.share();
  if (worker_.lock_.try_lock()) entered(By::kLock);
}

Worker::Hold::Hold(Worker& worker, Own /*tag*/)
    : worker_(worker), log_(worker.host_), own_(true) {
  worker_.lock_.claim();
  if (!worker_.lock_.try_lock()) {
    worker_.lock_.unclaim();
    return;
  }
  worker_.dozing_ = nullptr;
  entered(By::kLock);
}

void Worker::Hold::acquire() {
  if (waiting_ && worker_.lock_.enter()) [[likely]]
    return entered(By::kInside);
  if (own_) worker_.lock_.claim();
  worker_.lock_.lock();
  entered(By::kLock);
}

void Worker::Hold::entered(By by) {
  by_ = by;
  worker_.visits_.store(worker_.visits() + 1, std::memory_order_relaxed);
  if (worker_.dozing_ == nullptr) [[likely]]
    return;
  worker_.dozing_->ring();
  worker_.dozing_ = nullptr;
}

void Worker::Hold::release_owned() {
  Transfer* next = worker_.ended_;
  worker_.ended_ = nullptr;
  if (by_ == By::kInside) {
    worker_.lock_.leave();
  } else {
    worker_.lock_.unlock();
    if (own_) worker_.lock_.unclaim();
  }
  by_ = By::kNothing;
  while (next != nullptr) [[unlikely]] {
      // The last use of the transfer, because completing its work may end the
      // communicator.
      const std::unique_ptr<Transfer> transfer(next);
      next = transfer->after;
      const dw_host_api& host = *worker_.host_;
      dw_error error = {};
      int32_t code = DW_OK;
      if (transfer->state.load(std::memory_order_relaxed) ==
          Transfer::State::kFailed)
        code = worker_.failure_->first(&error);
      // The last use of this worker, which may be destroyed once its last work
      // is complete.
      worker_.open_works_.fetch_sub(1, std::memory_order_release);
      host.complete(transfer->work, code, code == DW_OK ? nullptr : &error);
    }
}

void Worker::Hold::give_way() {
  const bool inside = by_ == By::kInside;
  release();
  if (!inside) worker_.lock_.let_others();
  acquire();
}

std::unique_ptr<Bell> Worker::take_bell() {
  if (bells_.empty()) return std::make_unique<Bell>();
  std::unique_ptr<Bell> bell = std::move(bells_.back());
  bells_.pop_back();
  return bell;
}

void Worker::give_back(std::unique_ptr<Bell> bell) {
  try {
    bells_.push_back(std::move(bell));
  } catch (const std::bad_alloc&) {  // the bell is not kept
  }
}

// ---- transfers ----

void Worker::begin(Transfer* transfer) {
  const EngineOp& call = transfer->call;
  transfer->worker = this;
  if (worker_ == nullptr) return settle(transfer, Transfer::State::kFailed);
  if (!call.sends) return begin_receive(transfer);
  const ucp_ep_h to = endpoint(call.peer);
  if (to == nullptr) {
    end(transfer, endpoints_[static_cast<size_t>(call.peer)].cause);
    return handle_news();
  }
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.user_data = transfer;
  param.cb.send = sent;
  const ucs_status_ptr_t request = ucp_->ucp_tag_send_nbx(
      to, call.at, call.bytes, tag_of(rank_, call), &param);
  if (request == nullptr) [[likely]]
    return transfer->state.store(Transfer::State::kDone,
                                 std::memory_order_relaxed);
  started(transfer, request);
}

// The transfer has not ended at once.
void Worker::started(Transfer* transfer, ucs_status_ptr_t request) {
  if (UCS_PTR_IS_ERR(request)) {
    end(transfer, UCS_PTR_STATUS(request));
  } else {
    transfer->request = request;
    link(transfer);
    news_ |= endpoints_[static_cast<size_t>(transfer->call.peer)].lost;
  }
  if (news_) handle_news();
}

bool Worker::begin_with_work(Transfer* transfer) {
  open_works_.fetch_add(1, std::memory_order_relaxed);
  begin(transfer);
  if (transfer->state.load(std::memory_order_relaxed) != Transfer::State::kDone)
    return false;
  // The transfer is not in the list of ended ones, since only this thread knows
  // it.
  open_works_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void Worker::link(Transfer* transfer) {
  transfer->after = open_;
  if (open_ != nullptr) open_->before = transfer;
  open_ = transfer;
}

void Worker::unlink(Transfer* transfer) {
  if (transfer->before != nullptr)
    transfer->before->after = transfer->after;
  else
    open_ = transfer->after;
  if (transfer->after != nullptr) transfer->after->before = transfer->before;
  transfer->before = transfer->after = nullptr;
}

void Worker::sent(void* request, ucs_status_t status, void* given) {
  auto* const transfer = static_cast<Transfer*>(given);
  Worker* const self = transfer->worker;
  self->ucp_->ucp_request_free(request);
  self->unlink(transfer);
  self->end(transfer, status);
}

// The place of a transfer that is not linked.
void Worker::end(Transfer* transfer, ucs_status_t status) {
  const EngineOp& call = transfer->call;
  if (status == UCS_OK) [[likely]] {
    if (call.sends || call.bytes < kMayBeRead)
      return settle(transfer, Transfer::State::kDone);
    // The sender may have been the first to give up.
    if (tearing_) return settle(transfer, Transfer::State::kFailed);
    transfer->after = unsure_;
    unsure_ = transfer;
    return;
  }
  if (!tearing_ && bad_.code == DW_OK) note_failure(call, status);
  settle(transfer, Transfer::State::kFailed);
}

void Worker::settle(Transfer* transfer, Transfer::State state) {
  if (transfer->work != nullptr) {
    transfer->state.store(state, std::memory_order_relaxed);
    transfer->after = ended_;
    ended_ = transfer;
    return;
  }
  const Bell* const sleeper = transfer->sleeper;
  transfer->state.store(state, std::memory_order_release);
  if (sleeper != nullptr) sleeper->ring();
}

unsigned Worker::progress() {
  if (worker_ == nullptr) return 0;
  const unsigned events = ucp_->ucp_worker_progress(worker_);
  if (awaited_ != nullptr && events != 0) take_awaited();
  if (unsure_ != nullptr) confirm();
  if (news_) [[unlikely]]
    handle_news();
  return events;
}

bool Worker::arm() {
  return worker_ == nullptr || ucp_->ucp_worker_arm(worker_) != UCS_ERR_BUSY;
}

}  // namespace ucx_backend
