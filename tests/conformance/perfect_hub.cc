#include "perfect_hub.h"

#include "sdk/blocks.h"
#include "sdk/dtype.h"
#include "sdk/message_mismatch.h"
#include "sdk/read_op.h"

#include <cstring>

namespace distwrap::conformance {

HeldBuffer::HeldBuffer(const dw_buf& given, int size) : buf(given) {
  const size_t n = static_cast<size_t>(size);
  if (buf.counts != nullptr) counts.assign(buf.counts, buf.counts + n);
  if (buf.displs != nullptr) displs.assign(buf.displs, buf.displs + n);
  if (buf.parts != nullptr) parts.assign(buf.parts, buf.parts + n);
}

HeldBuffer::Piece HeldBuffer::whole() const {
  return {static_cast<char*>(buf.data), static_cast<size_t>(buf.count)};
}

HeldBuffer::Piece HeldBuffer::piece(int rank, int size) const {
  const size_t r = static_cast<size_t>(rank);
  const size_t even =
      static_cast<size_t>(buf.count) / static_cast<size_t>(size);
  const size_t count = counts.empty() ? even : static_cast<size_t>(counts[r]);
  if (!parts.empty()) return {static_cast<char*>(parts[r]), count};
  size_t before = r * even;
  if (!displs.empty()) {
    before = static_cast<size_t>(displs[r]);
  } else if (!counts.empty()) {
    before = 0;
    for (size_t i = 0; i < r; ++i) before += static_cast<size_t>(counts[i]);
  }
  return {static_cast<char*>(buf.data) + before * dw_dtype_bytes(buf.dtype),
          count};
}

Held::Held(const dw_op& given, int own_rank, int size, dw_work* cell,
           const dw_moe_sum_api* sums)
    : op(given),
      rank(own_rank),
      in(given.in, size),
      out(given.out, size),
      work(cell) {
  rows_.use(sums);
  has_rows_ = dw_sdk::moe_extension_of(given) != nullptr &&
              rows_.read(given, rank, size, nullptr) == DW_OK;
  const auto* const blocks = reinterpret_cast<const dw_ext_blocks*>(
      dw_find_extension(given.next, dw_sdk::kBlocksId));
  if (blocks == nullptr) return;
  in_blocks.assign(blocks->in,
                   blocks->in + (given.kind == DW_OP_ALL_GATHER ? 1 : size));
  out_blocks.assign(blocks->out, blocks->out + size);
}

bool Hub::is_aborted() {
  std::lock_guard<std::mutex> lock(mutex_);
  return aborted_;
}

Hub::Address Hub::address(const dw_op& op, int rank) {
  const bool sends = op.kind == DW_OP_SEND;
  return {sends ? rank : op.peer, sends ? op.peer : rank, op.tag};
}

bool Hub::has_receive(const dw_op& send, int rank) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto lane = lanes_.find(address(send, rank));
  return lane != lanes_.end() && !lane->second.receives.empty();
}

void Hub::end(Held& held, int32_t code, const dw_error& error) {
  held.code = code;
  held.error = error;
  if (held.work == nullptr) return ended_.notify_all();
  host_.complete(held.work, code, code == DW_OK ? nullptr : &error);
}

void Hub::end_aborted(Held& held) {
  end(held, DW_ABORTED,
      {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0,
       "perfect: the group was aborted"});
}

void Hub::deliver(Held& send, Held& receive) {
  const dw_buf& from = send.op.in;
  const dw_buf& to = receive.op.out;
  const auto end_of = [](const Held& held, const dw_buf& buf) {
    return dw_sdk::MessageEnd{
        held.rank, dw_dtype_index(buf.dtype),
        static_cast<uint64_t>(buf.count) * dw_dtype_bytes(buf.dtype)};
  };
  if (from.count != to.count || dw_dtype_equal(from.dtype, to.dtype) == 0) {
    dw_error error = {};
    const int32_t code = dw_sdk::fail_message_mismatch(
        end_of(receive, to), end_of(send, from), send.op.tag, &error);
    end(send, code, error);
    return end(receive, code, error);
  }
  if (from.count != 0)
    std::memcpy(to.data, from.data,
                static_cast<size_t>(from.count) * dw_dtype_bytes(from.dtype));
  end(send);
  end(receive);
}

std::shared_ptr<Held> Hub::enter(const dw_op& op, int rank, dw_work* work) {
  auto held = std::make_shared<Held>(op, rank, size_, work,
                                     dw_sdk::moe_sum_api_of(host_));
  std::lock_guard<std::mutex> lock(mutex_);
  if (aborted_) {
    end_aborted(*held);
  } else if (op.kind == DW_OP_SEND || op.kind == DW_OP_RECV) {
    Lane& lane = lanes_[address(op, rank)];
    (op.kind == DW_OP_SEND ? lane.sends : lane.receives).push_back(held);
    while (!lane.sends.empty() && !lane.receives.empty()) {
      deliver(*lane.sends.front(), *lane.receives.front());
      lane.sends.pop_front();
      lane.receives.pop_front();
    }
  } else {
    Queue& here = collectives_[op.seq];
    here.push_back(held);
    if (here.size() < static_cast<size_t>(size_)) return held;
    std::vector<const Held*> all(here.size());
    for (const auto& one : here)
      all[static_cast<size_t>(one->rank)] = one.get();
    perform(all);
    for (const auto& one : here) end(*one);
    collectives_.erase(op.seq);
  }
  return held;
}

int32_t Hub::wait(const Held& held) {
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.wait(lock, [&held] { return held.code != DW_AGAIN; });
  return held.code;
}

void Hub::abort() {
  std::lock_guard<std::mutex> lock(mutex_);
  aborted_ = true;
  const auto end_all = [this](Queue& queue) {
    for (const auto& held : queue) end_aborted(*held);
    queue.clear();
  };
  for (auto& [seq, queue] : collectives_) end_all(queue);
  for (auto& [address, lane] : lanes_) {
    end_all(lane.sends);
    end_all(lane.receives);
  }
}

}  // namespace distwrap::conformance
