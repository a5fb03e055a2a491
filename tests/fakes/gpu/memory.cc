#include "fakes/gpu/memory.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace fakes::gpu {
namespace {

struct Region {
  int device = 0;
  size_t bytes = 0, mapped = 0;
  char* seen_by_device = nullptr;
  std::atomic<int> held{0};
};

struct Memory {
  std::mutex mutex;
  std::map<const char*, std::shared_ptr<Region>> regions;  // by first address
  std::atomic<bool> host_allowed{false};

  // The region with `address`, and its distance from the beginning.
  std::shared_ptr<Region> find(const void* address, size_t* offset) {
    const char* const at = static_cast<const char*>(address);
    std::lock_guard<std::mutex> lock(mutex);
    auto next = regions.upper_bound(at);
    if (next == regions.begin()) return nullptr;
    --next;
    *offset = static_cast<size_t>(at - next->first);
    return *offset < next->second->mapped ? next->second : nullptr;
  }
};
Memory& memory() {
  static Memory* const kMemory = new Memory;
  return *kMemory;
}

}  // namespace

void* allocate(int device, size_t bytes) {
  const int fd = memfd_create("fake GPU", MFD_CLOEXEC);
  const size_t mapped = (bytes / 4096 + 1) * 4096;
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(mapped)) != 0) return nullptr;
  void* const host = mmap(nullptr, mapped, PROT_NONE, MAP_SHARED, fd, 0);
  void* const device_side =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (host == MAP_FAILED || device_side == MAP_FAILED) return nullptr;
  const auto region = std::make_shared<Region>();
  region->device = device;
  region->bytes = bytes;
  region->mapped = mapped;
  region->seen_by_device = static_cast<char*>(device_side);
  std::memset(device_side, 0xa5, mapped);
  std::lock_guard<std::mutex> lock(memory().mutex);
  memory().regions[static_cast<const char*>(host)] = region;
  return host;
}

bool release(void* address) {
  std::shared_ptr<Region> region;
  {
    std::lock_guard<std::mutex> lock(memory().mutex);
    const auto found = memory().regions.find(static_cast<const char*>(address));
    if (found == memory().regions.end()) return false;
    region = found->second;
    if (region->held == 0) memory().regions.erase(found);
  }
  if (region->held > 0) {
    broken("memory freed in flight", "an operation still uses it");
    return true;  // the memory stays
  }
  munmap(region->seen_by_device, region->mapped);
  munmap(address, region->mapped);
  return true;
}

size_t free_memory() {
  std::lock_guard<std::mutex> lock(memory().mutex);
  size_t used = 0;
  for (const auto& [address, region] : memory().regions) used += region->mapped;
  return kDeviceMemory - used;
}

int device_of(const void* address) {
  size_t offset;
  const std::shared_ptr<Region> region = memory().find(address, &offset);
  return region == nullptr ? -1 : region->device;
}

const void* allocation_of(const void* address) {
  size_t offset;
  if (memory().find(address, &offset) == nullptr) return nullptr;
  return static_cast<const char*>(address) - offset;
}

char* reach(int device, const void* address, size_t bytes) {
  size_t offset = 0;
  const std::shared_ptr<Region> region = memory().find(address, &offset);
  if (region == nullptr) {
    if (bytes != 0 && !memory().host_allowed)
      broken("memory of the host", "a device was given an address of the host");
    return const_cast<char*>(static_cast<const char*>(address));
  }
  if (region->device != device)
    broken("memory of another device", "device " + std::to_string(device) +
                                           " was given memory of device " +
                                           std::to_string(region->device));
  if (offset + bytes > region->bytes)
    broken("behind the end of memory",
           "the operation goes " +
               std::to_string(offset + bytes - region->bytes) +
               " bytes too far");
  return region->seen_by_device + offset;
}

void write(void* device_memory, const void* host, size_t bytes) {
  std::memcpy(reach(device_of(device_memory), device_memory, bytes), host,
              bytes);
}

void read(void* host, const void* device_memory, size_t bytes) {
  std::memcpy(host, reach(device_of(device_memory), device_memory, bytes),
              bytes);
}

void allow_host_memory(bool allowed) { memory().host_allowed = allowed; }

std::shared_ptr<void> hold(const void* address) {
  size_t offset;
  const std::shared_ptr<Region> region = memory().find(address, &offset);
  if (region == nullptr) return nullptr;
  ++region->held;
  return std::shared_ptr<void>(region.get(),
                               [region](void*) { --region->held; });
}

}  // namespace fakes::gpu
