#include "heads.h"

#include "sdk/fail.h"

namespace shm_backend {
namespace {

constexpr uint32_t kVersion = 5;

int32_t refuse(dw_error* error, int peer, const char* text) {
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, peer, 0,
                 text);
}

}  // namespace

Head head_of(uint32_t magic, const dw_setup_info& info) {
  Head head = {};
  head.magic = magic;
  head.version = kVersion;
  head.rank = info.rank;
  head.size = info.size;
  head.uid = info.uid;
  head.epoch = info.epoch;
  return head;
}

int32_t check_head(const Head& own, int peer, const dw_blob& blob, size_t bytes,
                   dw_error* error) {
  if (peer < 0)
    return refuse(error, -1, "shm: a round has one blob of each rank");
  Head head;
  if (blob.data == nullptr || blob.size != bytes)
    return refuse(error, peer, "shm: a rank's blob has a wrong size");
  std::memcpy(&head, blob.data, sizeof head);
  if (head.magic != own.magic || head.version != kVersion)
    return refuse(error, peer,
                  "shm: a rank's blob is not of this backend's version");
  if (head.rank != peer || head.size != own.size || head.uid != own.uid)
    return refuse(error, peer,
                  "shm: a rank's blob is of another rank or group");
  if (head.epoch != own.epoch)
    return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_STALE_EPOCH, peer,
                   0, "shm: a rank's blob is of another epoch");
  if (head.round != own.round)
    return refuse(error, peer, "shm: a rank's blob is of another round");
  return DW_OK;
}

}  // namespace shm_backend
