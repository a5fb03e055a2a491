#include "building.h"

#include "sdk/fail.h"

#include <cstring>

namespace ucx_backend {
namespace {

constexpr uint32_t kVersion = 2;
constexpr uint32_t kMostBytes = 1 << 16;

}  // namespace

int32_t refuse_word(dw_error* error, int peer, const std::string& text) {
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, peer, 0,
                 ("ucx: " + text).c_str());
}

Building::Building(What what, const Library& library,
                   const dw_setup_info& info) {
  head_.magic = static_cast<uint32_t>(what);
  head_.version = kVersion;
  head_.rank = info.rank;
  head_.size = info.size;
  head_.uid = info.uid;
  head_.epoch = info.epoch;
  head_.major = library.major;
  head_.minor = library.minor;
}

void Building::say(const std::string& what) {
  head_.bytes = static_cast<uint32_t>(what.size());
  blob_.assign(reinterpret_cast<const char*>(&head_), sizeof head_);
  blob_ += what;
}

int32_t Building::step(const dw_blob* in, uint64_t n, dw_error* error) {
  Words words;
  if (int32_t code = read(in, n, &words, error)) return code;
  const uint32_t round = head_.round++;
  return hear(round, words, error);
}

int32_t Building::read(const dw_blob* in, uint64_t n, Words* words,
                       dw_error* error) const {
  if (n != static_cast<uint64_t>(head_.size))
    return refuse_word(error, -1, "a round has one blob of each rank");
  for (int peer = 0; peer < head_.size; ++peer) {
    const dw_blob& blob = in[peer];
    Head head;
    if (blob.data == nullptr || blob.size < sizeof head)
      return refuse_word(error, peer, "a rank's blob has a wrong size");
    std::memcpy(&head, blob.data, sizeof head);
    if (head.magic != head_.magic || head.version != kVersion)
      return refuse_word(error, peer,
                         "a rank's blob is not of this backend's version");
    if (head.bytes > kMostBytes || blob.size != sizeof head + head.bytes)
      return refuse_word(error, peer, "a rank's blob has a wrong size");
    if (head.rank != peer || head.size != head_.size || head.uid != head_.uid ||
        head.round != head_.round)
      return refuse_word(error, peer,
                         "a rank's blob is of another rank, group or round");
    if (head.epoch != head_.epoch)
      return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_STALE_EPOCH, peer,
                     0, "ucx: a rank's blob is of another epoch");
    if (head.major != head_.major || head.minor != head_.minor)
      return refuse_word(
          error, peer,
          "rank " + std::to_string(peer) + " has UCX " +
              std::to_string(head.major) + "." + std::to_string(head.minor) +
              ", rank " + std::to_string(head_.rank) + " has " +
              std::to_string(head_.major) + "." + std::to_string(head_.minor));
    words->emplace_back(static_cast<const char*>(blob.data) + sizeof head,
                        head.bytes);
  }
  return DW_OK;
}

}  // namespace ucx_backend
