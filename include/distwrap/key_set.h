// Sets of keys: what decides which kernel of an operator runs.
//
// A set has two parts. Bits 0 to 7 are backends: the kinds of devices on which
// the tensors of a call lie. The bits above are layers, from the lowest (dense
// kernels) to the highest (traces before dispatch). The highest layer of a
// call's set chooses the kernel; where a layer has kernels for each backend,
// the highest backend takes part in the choice.
//
// Threads and ownership: plain values.
//
//   KeySet set = KeySet(kAutograd) | KeySet(kDense, kCpu);
//   set.minus(kAutograd).highest();  // kDense
#ifndef DISTWRAP_KEY_SET_H_
#define DISTWRAP_KEY_SET_H_

#include "distwrap/export.h"
#include "distwrap/types.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <bit>
#include <cstdint>
#include <string>

namespace distwrap {

// Devices of the tensor library besides cpu and cuda. A meta tensor has a shape
// and no memory. The private devices belong to libraries of kernels; DLPack
// calls the first one kDLExtDev.
inline constexpr Device kMeta{.type = 240};
inline constexpr Device kPrivate1{.type = 12}, kPrivate2{.type = 241},
    kPrivate3{.type = 242};

namespace dispatch {

// A layer, by its bit. The gaps are for keys of programs: allocate_key().
enum class Key : uint8_t {
#define DW_KEY(bit, enumerator, per_backend) enumerator = bit,
#include "distwrap/keys.def"
};
#define DW_KEY(bit, enumerator, per_backend) \
  inline constexpr Key enumerator = Key::enumerator;
#include "distwrap/keys.def"

inline constexpr int kBackends = 8;

// The number of a device's backend: cpu 0, cuda 1, meta 2, the private ones 3
// to 5; -1 for a device that has none.
constexpr int backend_of(Device device) {
  switch (device.type) {
    case 1:
      return 0;
    case 2:
      return 1;
    case kMeta.type:
      return 2;
    case kPrivate1.type:
      return 3;
    case kPrivate2.type:
      return 4;
    case kPrivate3.type:
      return 5;
    default:
      return -1;
  }
}
// "cpu", "cuda", "meta", "private1" and so on; "?" for a number that is none.
DISTWRAP_EXPORT absl::string_view backend_name(int backend);
// "Dense", "Autograd", or the name that allocate_key() was given.
DISTWRAP_EXPORT std::string key_name(Key key);

class KeySet {
 public:
  static constexpr uint64_t kBackendBits = (uint64_t{1} << kBackends) - 1;

  constexpr KeySet() = default;
  constexpr explicit KeySet(Key key)
      : bits_(uint64_t{1} << static_cast<int>(key)) {}
  // The layer and the backend of a device.
  constexpr KeySet(Key key, Device device)
      : bits_(
            uint64_t{1} << static_cast<int>(key) |
            (backend_of(device) < 0 ? 0 : uint64_t{1} << backend_of(device))) {}
  static constexpr KeySet of_bits(uint64_t bits) {
    KeySet set;
    set.bits_ = bits;
    return set;
  }

  constexpr uint64_t bits() const { return bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool has(Key key) const {
    return (bits_ >> static_cast<int>(key) & 1) != 0;
  }
  constexpr bool has_all(KeySet other) const {
    return (other.bits_ & ~bits_) == 0;
  }
  friend constexpr KeySet operator|(KeySet a, KeySet b) {
    return of_bits(a.bits_ | b.bits_);
  }
  friend constexpr KeySet operator&(KeySet a, KeySet b) {
    return of_bits(a.bits_ & b.bits_);
  }
  // Without the layers of `other`; the backends stay.
  constexpr KeySet minus(KeySet other) const {
    return of_bits(bits_ & (~other.bits_ | kBackendBits));
  }
  constexpr KeySet minus(Key key) const { return minus(KeySet(key)); }
  // The layers below `key`, and the backends.
  constexpr KeySet below(Key key) const {
    return of_bits(bits_ & ((uint64_t{1} << static_cast<int>(key)) - 1));
  }
  // The bit of the highest layer; below kBackends where there is none.
  constexpr int highest_bit() const { return 63 ^ std::countl_zero(bits_ | 1); }
  // The highest layer, if there is one.
  constexpr Key highest() const { return static_cast<Key>(highest_bit()); }
  constexpr bool has_layer() const { return bits_ > kBackendBits; }
  // The number of the highest backend; 0, that of cpu, where there is none.
  constexpr int backend() const {
    return 63 ^ std::countl_zero((bits_ & kBackendBits) | 1);
  }
  friend constexpr bool operator==(KeySet, KeySet) = default;

  // The layers, from low to high: for (const Key key : set).
  class Iterator {
   public:
    constexpr explicit Iterator(uint64_t left) : left_(left) {}
    constexpr Key operator*() const {
      return static_cast<Key>(std::countr_zero(left_));
    }
    constexpr Iterator& operator++() {
      left_ &= left_ - 1;
      return *this;
    }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    uint64_t left_;
  };
  constexpr Iterator begin() const { return Iterator(bits_ & ~kBackendBits); }
  constexpr Iterator end() const { return Iterator(0); }

  // "Dense|Autograd|cpu".
  DISTWRAP_EXPORT std::string text() const;

 private:
  uint64_t bits_ = 0;
};

// Takes a bit between two named keys for a layer of the program's own, below
// `below` and above `above`. Keys are never given back.
// Errors: kOutOfKeys where the gap is full, or after 8 keys.
DISTWRAP_EXPORT absl::StatusOr<Key> allocate_key(absl::string_view name,
                                                 Key below, Key above);

}  // namespace dispatch
}  // namespace distwrap

#endif  // DISTWRAP_KEY_SET_H_
