#include "hostmem/setup_exchange.h"

#include "sdk/fail.h"

namespace dw_hostmem {
namespace {

constexpr uint32_t kMostBytes = 1 << 16;

}  // namespace

SetupExchange::SetupExchange(const Kind& kind, const dw_setup_info& info)
    : backend_(kind.backend) {
  header_.magic = kind.magic;
  header_.version = kind.version;
  header_.rank = info.rank;
  header_.size = info.size;
  header_.uid = info.uid;
  header_.epoch = info.epoch;
  say({});
}

void SetupExchange::say(std::string_view what) {
  header_.bytes = static_cast<uint32_t>(what.size());
  blob_.assign(reinterpret_cast<const char*>(&header_), sizeof header_);
  blob_ += what;
}

int32_t SetupExchange::step(const dw_blob* in, uint64_t n, dw_error* error) {
  if (n != static_cast<uint64_t>(header_.size))
    return refuse(-1, "a round needs one setup message of each rank", error);
  Words words;
  for (int peer = 0; peer < header_.size; ++peer) {
    const dw_blob& blob = in[peer];
    if (int32_t code = check(peer, blob, error)) return code;
    words.emplace_back(static_cast<const char*>(blob.data) + sizeof header_,
                       blob.size - sizeof header_);
  }
  const uint32_t round = header_.round++;
  std::memcpy(blob_.data(), &header_, sizeof header_);
  return hear(round, words, error);
}

int32_t SetupExchange::check(int peer, const dw_blob& blob,
                             dw_error* error) const {
  MessageHeader header;
  if (blob.data == nullptr || blob.size < sizeof header)
    return refuse_size(peer, error);
  std::memcpy(&header, blob.data, sizeof header);
  if (header.magic != header_.magic || header.version != header_.version)
    return refuse(peer, "a rank uses another version of this backend", error);
  if (header.bytes > kMostBytes || blob.size != sizeof header + header.bytes)
    return refuse_size(peer, error);
  if (header.rank != peer || header.size != header_.size ||
      header.uid != header_.uid)
    return refuse(peer, "a rank's setup message is from another rank or group",
                  error);
  if (header.epoch != header_.epoch)
    return dw_fail(
        error, DW_FAILED_PRECONDITION, DW_REASON_STALE_EPOCH, peer, 0,
        (backend_ + std::string(": a rank's setup message is of another epoch"))
            .c_str());
  if (header.round != header_.round)
    return refuse(peer, "a rank's setup message is of another round", error);
  return DW_OK;
}

int32_t SetupExchange::refuse(int peer, const std::string& why,
                              dw_error* error) const {
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, peer, 0,
                 (backend_ + (": " + why)).c_str());
}

int32_t SetupExchange::refuse_size(int peer, dw_error* error) const {
  return refuse(peer, "a rank's setup message has a wrong size", error);
}

int32_t step_setup_exchange(const char* what, dw_setup* given,
                            const dw_blob* in, uint64_t n, dw_blob* out,
                            dw_setup_result* result, dw_error* error) {
  std::unique_ptr<SetupExchange> exchange(
      reinterpret_cast<SetupExchange*>(given));
  const int32_t code = dw_sdk::guarded(what, error, [&] {
    const int32_t stepped = exchange->step(in, n, error);
    if (stepped == DW_DONE) *result = exchange->take();
    return stepped;
  });
  *out = {};
  if (code != DW_OK) return code;
  *out = exchange->word();
  exchange.release();
  return DW_OK;
}

void cancel_setup_exchange(dw_setup* setup) {
  delete reinterpret_cast<SetupExchange*>(setup);
}

}  // namespace dw_hostmem
