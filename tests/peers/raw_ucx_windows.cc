#include "raw_ucx_windows.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::peers {
namespace {

using bench::Case;
using bench::Operation;
using bench::TimedCall;

// The memory of all ranks, with a word for signals behind it.
class Shared {
 public:
  explicit Shared(std::shared_ptr<Ucx> ucx) : ucx_(std::move(ucx)) {}
  ~Shared() {
    for (const Part& part : parts_)
      if (part.key != nullptr) ucp_rkey_destroy(part.key);
    if (memory_ != nullptr) ucp_mem_unmap(ucx_->context(), memory_);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  absl::Status open(const bench::Setup& setup, size_t bytes,
                    const std::string& prefix) {
    word_at_ = (bytes + 63) / 64 * 64;
    ucp_mem_map_params_t how{};
    how.field_mask =
        UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    how.length = word_at_ + 64;
    how.flags = UCP_MEM_MAP_ALLOCATE;
    if (const ucs_status_t status =
            ucp_mem_map(ucx_->context(), &how, &memory_);
        status != UCS_OK)
      return ucx_failed("ucp_mem_map", status);
    ucp_mem_attr_t found{};
    found.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
    ucp_mem_query(memory_, &found);
    base_ = static_cast<char*>(found.address);
    std::memset(base_, 0, word_at_ + 64);
    void* key = nullptr;
    size_t key_bytes = 0;
    if (const ucs_status_t status =
            ucp_rkey_pack(ucx_->context(), memory_, &key, &key_bytes);
        status != UCS_OK)
      return ucx_failed("ucp_rkey_pack", status);
    std::string mine(reinterpret_cast<const char*>(&base_), sizeof base_);
    mine.append(static_cast<const char*>(key), key_bytes);
    ucp_rkey_buffer_release(key);
    const Deadline deadline = Deadline::after(setup.timeout);
    if (absl::Status status =
            setup.store->set(absl::StrCat(prefix, setup.rank), mine, deadline);
        !status.ok())
      return status;
    for (int rank = 0; rank < setup.ranks; ++rank) {
      const absl::StatusOr<std::string> theirs =
          setup.store->get(absl::StrCat(prefix, rank), deadline);
      if (!theirs.ok()) return theirs.status();
      Part& part = parts_.emplace_back();
      std::memcpy(&part.base, theirs->data(), sizeof part.base);
      if (const ucs_status_t status = ucp_ep_rkey_unpack(
              ucx_->to(rank), theirs->data() + sizeof part.base, &part.key);
          status != UCS_OK)
        return ucx_failed("ucp_ep_rkey_unpack", status);
    }
    return absl::OkStatus();
  }

  char* base() const { return base_; }
  uint64_t word() const {
    return std::atomic_ref<uint64_t>(
               *reinterpret_cast<uint64_t*>(base_ + word_at_))
        .load(std::memory_order_acquire);
  }
  void drive() const { ucp_worker_progress(ucx_->worker()); }

  absl::Status put(const void* from, size_t bytes, int to, size_t at) const {
    return ucx_->wait(ucp_put_nbx(ucx_->to(to), from, bytes, address(to, at),
                                  part(to).key, &kNone));
  }
  absl::Status put_word(const uint64_t* from, int to) const {
    return put(from, sizeof *from, to, word_at_);
  }
  absl::Status get(void* into, size_t bytes, int from) const {
    return ucx_->wait(ucp_get_nbx(ucx_->to(from), into, bytes, address(from, 0),
                                  part(from).key, &kNone));
  }
  absl::Status fetch_add(const uint64_t* addend, void* old, size_t bytes,
                         int from, size_t at) const {
    ucp_request_param_t param{};
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    param.datatype = ucp_dt_make_contig(bytes);
    param.reply_buffer = old;
    return ucx_->wait(ucp_atomic_op_nbx(ucx_->to(from), UCP_ATOMIC_OP_ADD,
                                        addend, 1, address(from, at),
                                        part(from).key, &param));
  }
  absl::Status flush(int to) const {
    return ucx_->wait(ucp_ep_flush_nbx(ucx_->to(to), &kNone));
  }
  absl::Status fence() const {
    const ucs_status_t status = ucp_worker_fence(ucx_->worker());
    return status == UCS_OK ? absl::OkStatus()
                            : ucx_failed("ucp_worker_fence", status);
  }

 private:
  struct Part {
    uint64_t base = 0;
    ucp_rkey_h key = nullptr;
  };
  static constexpr ucp_request_param_t kNone{};

  const Part& part(int rank) const { return parts_[static_cast<size_t>(rank)]; }
  uint64_t address(int rank, size_t at) const { return part(rank).base + at; }

  const std::shared_ptr<Ucx> ucx_;
  ucp_mem_h memory_ = nullptr;
  char* base_ = nullptr;
  size_t word_at_ = 0;
  std::vector<Part> parts_;
};

// Written data are spoiled and fetched at their destination.
template <class Body>
class WindowCall final : public TimedCall {
 public:
  WindowCall(Case& c, std::unique_ptr<Shared> shared, bool lands, Body body)
      : case_(c), shared_(std::move(shared)), lands_(lands), body_(body) {
    const TensorView first = lands ? c.out() : c.in();
    std::memcpy(shared_->base(), first.data(), bytes_of(first));
  }
  absl::Status repeat(int64_t times) override {
    for (int64_t i = 0; i < times; ++i)
      if (absl::Status status = body_(*shared_); !status.ok()) return status;
    return absl::OkStatus();
  }
  absl::Status spoil() override {
    if (lands_)
      std::memcpy(shared_->base(), case_.out().data(), bytes_of(case_.out()));
    return absl::OkStatus();
  }
  absl::Status fetch() override {
    if (lands_)
      std::memcpy(case_.out().data(), shared_->base(), bytes_of(case_.out()));
    return absl::OkStatus();
  }

 private:
  static size_t bytes_of(const TensorView& view) {
    return static_cast<size_t>(view.count() * dtype_size(view.dtype()));
  }

  Case& case_;
  const std::unique_ptr<Shared> shared_;
  const bool lands_;
  Body body_;
};

template <class Body>
std::unique_ptr<TimedCall> call_of(Case& c, std::unique_ptr<Shared> shared,
                                   bool lands, Body body) {
  return std::make_unique<WindowCall<Body>>(c, std::move(shared), lands, body);
}

absl::Status put_all(const Shared& shared, const void* from, size_t bytes,
                     int to, int times) {
  for (int i = 0; i < times; ++i)
    if (absl::Status status = shared.put(from, bytes, to, 0); !status.ok())
      return status;
  return shared.flush(to);
}

absl::Status put_signal(const Shared& shared, const void* from, size_t bytes,
                        int to, const uint64_t* round) {
  absl::Status status = shared.put(from, bytes, to, 0);
  if (status.ok()) status = shared.fence();
  if (status.ok()) status = shared.put_word(round, to);
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TimedCall>> RawUcxWindows::prepare(Case& c) {
  const size_t size = static_cast<size_t>(dtype_size(c.spec().dtype));
  const bool adds = c.spec().op == Operation::kWinFetchAdd;
  if (adds && c.spec().dtype != DType::kI64 && c.spec().dtype != DType::kI32)
    return nullptr;
  const std::string prefix = absl::StrCat("peers/", setup_.name, "/windows/");
  if (ucx_ == nullptr) {
    ucx_ = std::make_shared<Ucx>(UCP_FEATURE_RMA | UCP_FEATURE_AMO32 |
                                 UCP_FEATURE_AMO64);
    if (absl::Status status = ucx_->connect(setup_, prefix); !status.ok())
      return status;
  }
  auto shared = std::make_unique<Shared>(ucx_);
  const auto bytes = static_cast<size_t>(c.in_bytes());
  if (absl::Status status = shared->open(
          setup_, std::max(bytes, static_cast<size_t>(c.out_bytes())),
          absl::StrCat(prefix, ++windows_, "/"));
      !status.ok())
    return status;
  const void* const in = c.in().data();
  char* const out = static_cast<char*>(c.out().data());
  const int right = c.right(), left = c.left();
  switch (c.spec().op) {
    case Operation::kWinPut:
      return call_of(c, std::move(shared), true, [=](const Shared& s) {
        return put_all(s, in, bytes, right, 1);
      });
    case Operation::kWinPutRate:
      return call_of(c, std::move(shared), true,
                     [=, depth = c.spec().depth](const Shared& s) {
                       return put_all(s, in, bytes, right, depth);
                     });
    case Operation::kWinGet:
      return call_of(c, std::move(shared), false,
                     [=](const Shared& s) { return s.get(out, bytes, left); });
    case Operation::kWinFetchAdd:
      return call_of(c, std::move(shared), false, [=](const Shared& s) {
        static constexpr uint64_t kNothing = 0;
        for (size_t at = 0; at < bytes; at += size)
          if (absl::Status status =
                  s.fetch_add(&kNothing, out + at, size, left, at);
              !status.ok())
            return status;
        return absl::OkStatus();
      });
    default:
      break;
  }
  const int other = c.partner();
  const bool first = c.spec().rank % 2 == 0;
  return call_of(c, std::move(shared), true,
                 [=, round = uint64_t{0}](const Shared& s) mutable {
                   ++round;
                   for (int half = 0; half < 2; ++half) {
                     if (first == (half == 0)) {
                       absl::Status status =
                           put_signal(s, in, bytes, other, &round);
                       if (!status.ok()) return status;
                     } else {
                       while (s.word() < round) s.drive();
                     }
                   }
                   return absl::OkStatus();
                 });
}

}  // namespace distwrap::peers
