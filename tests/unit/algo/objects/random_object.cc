#include "unit/algo/objects/random_object.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>

#include <bit>
#include <limits>

namespace distwrap::testing {
namespace {

Object random_integer(Random& random) {
  switch (pick(random, 5)) {
    case 0:
      return static_cast<int64_t>(pick(random, 300)) - 150;
    case 1:
      return static_cast<int64_t>(random());
    case 2:
      return static_cast<uint64_t>(random());
    case 3: {
      constexpr int64_t kEdges[] = {std::numeric_limits<int64_t>::min(),
                                    std::numeric_limits<int64_t>::max(),
                                    -1,
                                    0,
                                    23,
                                    24,
                                    255,
                                    256,
                                    65535,
                                    65536,
                                    -24,
                                    -25,
                                    -256,
                                    -257,
                                    int64_t{1} << 32};
      return kEdges[pick(random, std::size(kEdges) - 1)];
    }
    case 4: {
      // Numbers near the limits of 64 bits, where carries occur.
      BigInteger big{.negative = pick(random, 1) == 1};
      big.magnitude = pick(random, 1) == 1
                          ? std::string("\1\0\0\0\0\0\0\0\0", 9)
                          : std::string(8, '\xff');
      if (pick(random, 1) == 1) --big.magnitude.back();
      return Object::integer(std::move(big));
    }
    default:
      return Object::integer({.negative = pick(random, 1) == 1,
                              .magnitude = random_bytes(random, 24)});
  }
}

std::string random_text(Random& random) {
  static constexpr const char* kParts[] = {
      "a", "Z", "0", "\n", "\"", "\\", " ", "\u00fc", "\u6c34", "\U00010151"};
  std::string text;
  for (size_t n = pick(random, 12); n > 0; --n)
    text += kParts[pick(random, std::size(kParts) - 1)];
  return text;
}

Object random_tensor(Random& random) {
  ObjectTensor tensor{.code = static_cast<uint8_t>(pick(random, 255)),
                      .bits = static_cast<uint8_t>(1 + pick(random, 254)),
                      .lanes = static_cast<uint16_t>(1 + pick(random, 3))};
  uint64_t bits = uint64_t{tensor.bits} * tensor.lanes;
  for (size_t n = pick(random, 3); n > 0; --n) {
    tensor.shape.push_back(static_cast<int64_t>(pick(random, 4)));
    bits *= static_cast<uint64_t>(tensor.shape.back());
  }
  tensor.bytes = std::string((bits + 7) / 8, '\x5a');
  return Object::tensor(std::move(tensor));
}

Object random_scalar(Random& random) {
  switch (pick(random, 5)) {
    case 0:
      return nullptr;
    case 1:
      return pick(random, 1) == 1;
    case 2:
      return random_integer(random);
    case 3:
      return std::bit_cast<double>(random() & ~(uint64_t{1} << 62));
    case 4:
      return random_text(random);
    default:
      return Object::bytes(random_bytes(random, 40));
  }
}

}  // namespace

size_t pick(Random& random, size_t most) {
  return static_cast<size_t>(random() % (most + 1));
}

std::string random_bytes(Random& random, size_t most) {
  std::string bytes(pick(random, most), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

Object random_key(Random& random, int depth) {
  if (depth == 0 || pick(random, 3) != 0) return random_scalar(random);
  Object::Items items;
  for (size_t n = pick(random, 3); n > 0; --n)
    items.push_back(random_key(random, depth - 1));
  return Object::tuple(std::move(items));
}

Object random_object(Random& random, int depth) {
  const size_t kind = pick(random, depth > 0 ? 9 : 5);
  switch (kind) {
    case 4:
      return random_tensor(random);
    case 5:
      return Object::extension(absl::StrCat("no_type_", pick(random, 9)),
                               random_bytes(random, 30));
    case 6:
    case 7: {
      Object::Items items;
      for (size_t n = pick(random, 6); n > 0; --n)
        items.push_back(random_object(random, depth - 1));
      return kind == 6 ? Object::array(std::move(items))
                       : Object::tuple(std::move(items));
    }
    case 8:
    case 9: {
      Object::Entries entries;
      for (size_t n = pick(random, 6); n > 0; --n) {
        Object key = random_key(random, depth - 1);
        bool known = false;
        for (const Object::Entry& entry : entries)
          known = known || entry.first == key;
        if (!known)
          entries.emplace_back(std::move(key),
                               random_object(random, depth - 1));
      }
      return Object::map(std::move(entries));
    }
    default:
      return random_scalar(random);
  }
}

Object every_kind() {
  return Object::map(
      {{"null", nullptr},
       {"flags", Object::array({true, false})},
       {"integers",
        Object::array({0, -1, 1000, std::numeric_limits<int64_t>::min(),
                       std::numeric_limits<uint64_t>::max(),
                       Object::integer({true, std::string(9, 'x')})})},
       {"float", -4.1},
       {"text", "\u6c34 and \u00fc"},
       {"bytes", Object::bytes(std::string("\0\1\xff", 3))},
       {Object::tuple({1, "two", Object::tuple({})}), Object::tuple({nullptr})},
       {7, Object::tensor(ObjectTensor{.code = 2,
                                       .bits = 32,
                                       .shape = {1, 2},
                                       .bytes = std::string(8, '\x3f')})},
       {0.5, Object::extension("no_type", "abc")},
       {Object::bytes("k"),
        Object::map({{"deep", Object::array({Object::map({{"er", 1}})})}})}});
}

std::string from_hex(absl::string_view hex) {
  return absl::HexStringToBytes(absl::StrReplaceAll(hex, {{" ", ""}}));
}

}  // namespace distwrap::testing
