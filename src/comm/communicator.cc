#include "comm/communicator.h"

#include <utility>

namespace distwrap::comm {
namespace {

// Where collectives enter whose caller waits.
Runner waiting_collectives(const BackendInstance& backend, dw_comm* comm) {
  Runner runner = backend.stack().runner(comm, kCollectiveOps);
  runner.host_attends |= backend.capabilities().registering() != 0;
  return runner;
}

}  // namespace

BackendCommunicator::BackendCommunicator(
    Identity identity, std::shared_ptr<BackendInstance> backend, dw_comm* comm,
    FirstFailure first_failure, std::shared_ptr<Watchdog> watchdog,
    std::shared_ptr<GroupBoard> board)
    : identity_(std::move(identity)),
      backend_(std::move(backend)),
      capabilities_(backend_->capabilities()),
      waiting_collectives_(waiting_collectives(*backend_, comm)),
      waiting_messages_(backend_->stack().runner(comm, kMessageOps)),
      any_(backend_->stack().runner(comm, 0)),
      timeout_ns_(timeout_ns_of(identity_.timeout)),
      trace_{board.get(),
             identity_.recorded.recording == nullptr
                 ? nullptr
                 : &identity_.recorded.recording->recorder(),
             identity_.recorded.group},
      traced_(trace_.any() && capabilities_.registering() == 0),
      comm_(comm),
      first_failure_(std::move(first_failure)),
      watchdog_(std::move(watchdog)),
      lock_(this, backend_->submits_beside()),
      board_(std::move(board)) {
  if (identity_.hooks != nullptr) identity_.hooks->attach(lock_);
  if (board_ != nullptr) board_->tell(this);
  if (identity_.news != nullptr) identity_.news->tell(this);
}

BackendCommunicator::~BackendCommunicator() {
  if (identity_.hooks != nullptr) identity_.hooks->detach(lock_);
}

BackendCommunicator::Ptr BackendCommunicator::make(
    Identity identity, std::shared_ptr<BackendInstance> backend, dw_comm* comm,
    FirstFailure first_failure, std::shared_ptr<Watchdog> watchdog,
    std::shared_ptr<GroupBoard> board) {
  backend->drive_by(watchdog);
  return Ptr(new BackendCommunicator(std::move(identity), std::move(backend),
                                     comm, std::move(first_failure),
                                     std::move(watchdog), std::move(board)));
}

}  // namespace distwrap::comm
