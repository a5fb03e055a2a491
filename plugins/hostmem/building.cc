#include "hostmem/building.h"

#include "sdk/fail.h"

namespace dw_hostmem {
namespace {

constexpr uint32_t kMostBytes = 1 << 16;

}  // namespace

Building::Building(const Kind& kind, const dw_setup_info& info)
    : backend_(kind.backend) {
  head_.magic = kind.magic;
  head_.version = kind.version;
  head_.rank = info.rank;
  head_.size = info.size;
  head_.uid = info.uid;
  head_.epoch = info.epoch;
  say({});
}

void Building::say(std::string_view what) {
  head_.bytes = static_cast<uint32_t>(what.size());
  blob_.assign(reinterpret_cast<const char*>(&head_), sizeof head_);
  blob_ += what;
}

int32_t Building::step(const dw_blob* in, uint64_t n, dw_error* error) {
  if (n != static_cast<uint64_t>(head_.size))
    return refuse(-1, "a round needs one setup message of each rank", error);
  Words words;
  for (int peer = 0; peer < head_.size; ++peer) {
    const dw_blob& blob = in[peer];
    if (int32_t code = check(peer, blob, error)) return code;
    words.emplace_back(static_cast<const char*>(blob.data) + sizeof head_,
                       blob.size - sizeof head_);
  }
  const uint32_t round = head_.round++;
  std::memcpy(blob_.data(), &head_, sizeof head_);
  return hear(round, words, error);
}

int32_t Building::check(int peer, const dw_blob& blob, dw_error* error) const {
  Head head;
  if (blob.data == nullptr || blob.size < sizeof head)
    return refuse_size(peer, error);
  std::memcpy(&head, blob.data, sizeof head);
  if (head.magic != head_.magic || head.version != head_.version)
    return refuse(peer, "a rank uses another version of this backend", error);
  if (head.bytes > kMostBytes || blob.size != sizeof head + head.bytes)
    return refuse_size(peer, error);
  if (head.rank != peer || head.size != head_.size || head.uid != head_.uid)
    return refuse(peer, "a rank's setup message is from another rank or group",
                  error);
  if (head.epoch != head_.epoch)
    return dw_fail(
        error, DW_FAILED_PRECONDITION, DW_REASON_STALE_EPOCH, peer, 0,
        (backend_ + std::string(": a rank's setup message is of another epoch"))
            .c_str());
  if (head.round != head_.round)
    return refuse(peer, "a rank's setup message is of another round", error);
  return DW_OK;
}

int32_t Building::refuse(int peer, const std::string& why,
                         dw_error* error) const {
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, peer, 0,
                 (backend_ + (": " + why)).c_str());
}

int32_t Building::refuse_size(int peer, dw_error* error) const {
  return refuse(peer, "a rank's setup message has a wrong size", error);
}

int32_t step_building(const char* what, dw_setup* given, const dw_blob* in,
                      uint64_t n, dw_blob* out, dw_setup_result* result,
                      dw_error* error) {
  std::unique_ptr<Building> building(reinterpret_cast<Building*>(given));
  const int32_t code = dw_sdk::guarded(what, error, [&] {
    const int32_t stepped = building->step(in, n, error);
    if (stepped == DW_DONE) *result = building->take();
    return stepped;
  });
  *out = {};
  if (code != DW_OK) return code;
  *out = building->word();
  building.release();
  return DW_OK;
}

void cancel_building(dw_setup* setup) {
  delete reinterpret_cast<Building*>(setup);
}

}  // namespace dw_hostmem
