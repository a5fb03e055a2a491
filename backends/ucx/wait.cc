#include "wait.h"

#include "backend.h"
#include "hostmem/wait.h"
#include "sdk/fail.h"
#include "window.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <sched.h>

namespace ucx_backend {
namespace {

// The longest sleep that another thread has to end.
constexpr int64_t kNapNs = 50'000'000;

using dw_hostmem::kAwakeNs;
using dw_hostmem::kSpinNs;

void fail_late(Worker& worker, const EngineOp& call) {
  char text[160];
  std::snprintf(text, sizeof text,
                call.remote  ? "ucx: the window of rank %d was not reached in "
                               "time"
                : call.sends ? "ucx: rank %d has not taken this message in time"
                             : "ucx: rank %d has not sent this message in time",
                call.peer);
  dw_error why;
  dw_fail(&why, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, call.peer, 0, text);
  worker.give_up(why);
}

// A transfer in flight can only be taken back together with all others.
void fail_ended(Worker& worker, const Transfer& transfer) {
  dw_error why;
  dw_hostmem::fail_closed("ucx",
                          transfer.ended->load(std::memory_order_acquire),
                          transfer.call.peer, &why);
  worker.give_up(why);
}

// On return the worker is not held.
void sleep(Worker& worker, Worker::Hold& hold, Transfer& transfer,
           int64_t most_ns) {
  std::unique_ptr<Bell> bell;
  try {
    bell = worker.take_bell();
  } catch (const std::exception&) {
    // No memory or descriptor to sleep on; the transfer goes on in UCX, so this
    // thread looks again until it ends.
    hold.release();
    sched_yield();
    hold.acquire();
    return;
  }
  transfer.sleeper = bell.get();
  if (worker.arm()) {
    const int descriptor = worker.descriptor();
    hold.release();
    bell->sleep(descriptor, static_cast<int>(most_ns / 1'000'000 + 1));
    hold.acquire();
  }
  transfer.sleeper = nullptr;
  worker.give_back(std::move(bell));
}

}  // namespace

void wait_for(const Comm* comm, Worker& worker, Worker::Hold& hold,
              Transfer& transfer) {
  const dw_host_api& host = *comm->host;
  for (int i = comm->looks; i > 0; --i) {
    worker.progress();
    if (!transfer.is_open()) return;
  }
  dw_hostmem::Limit limit(transfer.call.deadline_ns, transfer.call.timeout_ns);
  int64_t active = host.now_ns(host.self);
  const int64_t end = limit.at(active);
  // A peer that copies 4 GB/s finishes too soon for a sleep.
  const int64_t awake_ns =
      kAwakeNs + static_cast<int64_t>(transfer.call.bytes / 4);
  for (;;) {
    unsigned events = 0;
    for (int i = 0; i < dw_hostmem::kLooksPerTurn; ++i) {
      events += worker.progress();
      if (!transfer.is_open()) return;
    }
    hold.let_others();
    const int64_t now = host.now_ns(host.self);
    if (events != 0) active = now;
    if (end != 0 && now >= end) {
      if (transfer.is_open()) fail_late(worker, transfer.call);
      return;
    }
    if (transfer.ended != nullptr &&
        transfer.ended->load(std::memory_order_acquire) != 0) [[unlikely]] {
      if (transfer.is_open()) fail_ended(worker, transfer);
      return;
    }
    if (!comm->oversubscribed && now - active < kSpinNs) continue;
    if (now - active < awake_ns && comm->yielding.pays()) {
      hold.release();
      sched_yield();
      comm->yielding.took(host.now_ns(host.self) - now);
      hold.acquire();
      continue;
    }
    sleep(worker, hold, transfer,
          end == 0 ? kNapNs : std::min(kNapNs, end - now));
  }
}

}  // namespace ucx_backend
