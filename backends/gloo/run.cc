// Operations that only move bytes. Each piece goes directly to its rank; a
// broadcast goes down a tree.
#include "run.h"

#include "failure.h"
#include "flow.h"
#include "message.h"
#include "sdk/fail.h"

#include <exception>

namespace gloo_backend {
namespace {

// After the round with distance d every rank has heard, directly or not, from
// the 2d ranks before it.
void barrier(const Run& run) {
  for (int distance = 1; distance < run.size; distance *= 2) {
    const int to = run.after(distance);
    const int from = run.before(distance);
    run.transfer(Direction::kReceive, from, {}, run.call.digest, 0);
    run.transfer(Direction::kSend, to, {}, run.call.digest, 0);
    run.desk.lanes[0].to(from).finish(Direction::kReceive);
    run.desk.lanes[0].to(to).finish(Direction::kSend);
  }
}

// Counted from the root, rank v receives from v without its highest bit, and
// passes on each segment as it arrives.
void broadcast(const Run& run) {
  const EngineOp& call = run.call;
  const auto actual = [&](int v) {
    return v + call.peer < run.size ? v + call.peer : v + call.peer - run.size;
  };
  const int v = run.rank - call.peer + (run.rank < call.peer ? run.size : 0);
  int first = 1;
  while (first <= v) first *= 2;
  const Piece data = v == 0 ? call.in : call.out;
  const auto to_children = [&](const auto& step) {
    for (int bit = first; v + bit < run.size; bit *= 2)
      step(Flow(run, actual(v + bit), data));
  };
  const Flow parent(run, v == 0 ? run.rank : actual(v - first / 2), data);
  if (v != 0) parent.ask();
  for (size_t s = 0; s < parent.segments(); ++s) {
    if (v != 0) parent.take(s);
    to_children([&](const Flow& child) { child.send(s); });
  }
  if (v == 0) copy(call.in, call.out);
  to_children([](const Flow& child) { child.wait_all_sent(); });
}

void gather(const Run& run) {
  const EngineOp& call = run.call;
  if (!run.is_root()) {
    const Flow own(run, call.peer, call.in);
    own.send_all();
    return own.wait_all_sent();
  }
  const auto piece = [&](int r) { return call.out_pieces[r]; };
  ask_all(run, piece);
  copy(call.in, piece(run.rank));
  take_from_all(run, piece);
}

void scatter(const Run& run) {
  const EngineOp& call = run.call;
  if (!run.is_root()) {
    const Flow own(run, call.peer, call.out);
    own.ask();
    for (size_t s = 0; s < own.segments(); ++s) own.take(s);
    return;
  }
  const auto piece = [&](int r) { return call.in_pieces[r]; };
  send_to_all(run, piece);
  copy(piece(run.rank), call.out);
  wait_sent_to_all(run, piece);
}

void all_gather(const Run& run) {
  const EngineOp& call = run.call;
  const auto own = [&](int) { return call.in; };
  const auto piece = [&](int r) { return call.out_pieces[r]; };
  ask_all(run, piece);
  send_to_all(run, own);
  copy(call.in, piece(run.rank));
  take_from_all(run, piece);
  wait_sent_to_all(run, own);
}

void all_to_all(const Run& run) {
  const EngineOp& call = run.call;
  const auto in = [&](int r) { return call.in_pieces[r]; };
  const auto out = [&](int r) { return call.out_pieces[r]; };
  ask_all(run, out);
  send_to_all(run, in);
  copy(in(run.rank), out(run.rank));
  take_from_all(run, out);
  wait_sent_to_all(run, in);
}

// A message of no bytes is sent too.
int32_t message(const Run& run, dw_error* error) {
  Message message(run.call, run.rank);
  char* const frame =
      run.desk.scratch.take(run.comm->host, message.frame_bytes());
  if (frame == nullptr)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "gloo: no memory for a message");
  Lane& payload = run.desk.lanes[0].to(run.call.peer);
  Lane& head = run.desk.lanes[1].to(run.call.peer);
  message.begin(frame, head, &payload);
  head.finish(message.direction());
  dw_error why = {};
  if (message.take_head(&why) != DW_OK)
    return run.comm->failure.fail(why, error);
  if (message.is_long()) payload.finish(message.direction());
  return DW_OK;
}

int32_t dispatch(const Run& run, dw_error* error) {
  switch (run.call.kind) {
    case DW_OP_BARRIER:
      barrier(run);
      return DW_OK;
    case DW_OP_BROADCAST:
      broadcast(run);
      return DW_OK;
    case DW_OP_GATHER:
      gather(run);
      return DW_OK;
    case DW_OP_SCATTER:
      scatter(run);
      return DW_OK;
    case DW_OP_ALL_GATHER:
      all_gather(run);
      return DW_OK;
    case DW_OP_ALL_TO_ALL:
      all_to_all(run);
      return DW_OK;
    case DW_OP_ALL_REDUCE:
      return reduce_to_all(run, error);
    case DW_OP_REDUCE:
      return reduce_to_root(run, error);
    case DW_OP_REDUCE_SCATTER:
      return reduce_and_scatter(run, error);
    default:
      return message(run, error);
  }
}

}  // namespace

int32_t run(dw_comm* comm, Desk& desk, const EngineOp& call, dw_error* error) {
  if (!call.moves) return DW_OK;
  int32_t code;
  try {
    code = dispatch(Run(comm, desk, call), error);
  } catch (const std::exception&) {
    code = fail_by_exception(comm, error);
  }
  if (code != DW_OK) desk.discard();
  desk.scratch.shrink();
  return code;
}

}  // namespace gloo_backend
