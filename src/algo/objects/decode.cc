// Decodes bytes of any origin. Open containers are in a list instead of on the
// stack.
#include "algo/objects/cbor.h"
#include "algo/objects/codec.h"
#include "algo/objects/node.h"
#include "algo/objects/types.h"
#include "algo/objects/utf8.h"
#include "base/bytes.h"
#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace distwrap::objects {
namespace {

using Kind = Object::Kind;

class Decoder {
 public:
  explicit Decoder(absl::string_view bytes) : bytes_(bytes), reader_(bytes) {}

  // Reads the only object of the bytes.
  bool read(Object* result);

  const std::string& problem() const { return problem_; }
  size_t offset() const { return offset_; }

 private:
  // A container whose items are being read.
  struct Open {
    Kind kind = Kind::kArray;
    uint64_t left = 0;  // each key and each value of a map counts as one
    size_t item_begin = 0;
    Object::Items items = {};
    Object::Entries entries = {};
    Object key = {};
    std::vector<absl::string_view> keys = {};  // the keys in their encoded form
  };

  bool refuse(std::string problem, size_t offset) {
    problem_ = std::move(problem);
    offset_ = offset;
    return false;
  }
  bool next(CborItem* item) {
    item_begin_ = reader_.offset();
    return reader_.next(item) || refuse(reader_.problem(), item_begin_);
  }
  // Reads the next item, which must be of this type.
  bool expect(CborType type, const char* what, CborItem* item) {
    if (!next(item)) return false;
    return item->type == type ||
           refuse(absl::StrCat("this is not ", what), item_begin_);
  }

  // Reads one value, or the head of a container.
  bool read_value(Object* value, bool* opened);
  bool read_tagged(uint64_t tag, Object* value, bool* opened);
  bool read_big(bool negative, Object* value);
  bool read_tensor(Object* value);
  bool read_extension(Object* value);
  bool open(Kind kind, uint64_t count, Object* value, bool* opened);
  // The number of items behind the current one, each of at least a byte; in
  // each open container one item has begun.
  uint64_t to_follow() const { return owed_ - open_.size(); }
  // Puts a value into the innermost container.
  bool add(Object value);
  bool close(Object* value);

  const absl::string_view bytes_;
  CborReader reader_;
  std::vector<Open> open_;
  // The number of items that the open containers still need.
  uint64_t owed_ = 0;
  size_t item_begin_ = 0;
  std::string problem_;
  size_t offset_ = 0;
};

bool Decoder::read(Object* result) {
  for (;;) {
    Object value;
    bool opened = false;
    if (!read_value(&value, &opened)) return false;
    if (opened) continue;
    for (;;) {
      if (open_.empty()) {
        if (reader_.left() != 0)
          return refuse("bytes follow the object", reader_.offset());
        *result = std::move(value);
        return true;
      }
      if (!add(std::move(value))) return false;
      if (open_.back().left != 0) break;
      if (!close(&value)) return false;
    }
  }
}

bool Decoder::read_value(Object* value, bool* opened) {
  CborItem item;
  if (!next(&item)) return false;
  switch (item.type) {
    case CborType::kNull:
      return true;
    case CborType::kBool:
      *value = item.number != 0;
      return true;
    case CborType::kUnsigned:
      *value = item.number;
      return true;
    case CborType::kNegative: {
      if (item.number <=
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        *value = -1 - static_cast<int64_t>(item.number);
        return true;
      }
      BigInteger big{.negative = true};
      if (const uint64_t magnitude = item.number + 1; magnitude != 0) {
        for (int shift = 56; shift >= 0; shift -= 8)
          big.magnitude.push_back(static_cast<char>(magnitude >> shift & 0xff));
      } else {
        big.magnitude = std::string("\1\0\0\0\0\0\0\0\0", 9);  // 2^64
      }
      *value = Object::integer(std::move(big));
      return true;
    }
    case CborType::kFloat:
      *value = item.real;
      return true;
    case CborType::kText:
      if (!is_utf8(item.data)) return refuse("text is not UTF-8", item_begin_);
      *value = item.data;
      return true;
    case CborType::kBytes:
      *value = Object::bytes(std::string(item.data));
      return true;
    case CborType::kArray:
      return open(Kind::kArray, item.number, value, opened);
    case CborType::kMap:
      return open(Kind::kMap, item.number, value, opened);
    case CborType::kTag:
      return read_tagged(item.number, value, opened);
  }
  return refuse("these bytes do not begin an item", item_begin_);
}

bool Decoder::read_tagged(uint64_t tag, Object* value, bool* opened) {
  CborItem item;
  switch (tag) {
    case kTagBig:
    case kTagNegativeBig:
      return read_big(tag == kTagNegativeBig, value);
    case kTagTuple:
      return expect(CborType::kArray, "the array of a tuple", &item) &&
             open(Kind::kTuple, item.number, value, opened);
    case kTagTensor:
      return read_tensor(value);
    case kTagExtension:
      return read_extension(value);
    default:
      return refuse(absl::StrCat("tag ", tag, " is not known"), item_begin_);
  }
}

bool Decoder::read_big(bool negative, Object* value) {
  CborItem item;
  if (!expect(CborType::kBytes, "the bytes of an integer", &item)) return false;
  if (item.data.size() <= sizeof(uint64_t) || item.data[0] == 0)
    return refuse("an integer is not written the shortest way", item_begin_);
  BigInteger big{.negative = negative, .magnitude = std::string(item.data)};
  if (negative) {
    size_t i = big.magnitude.size();
    while (i > 0 && ++big.magnitude[i - 1] == 0) --i;
    if (i == 0) big.magnitude.insert(0, 1, '\1');
  }
  *value = Object::integer(std::move(big));
  return true;
}

bool Decoder::read_tensor(Object* value) {
  ObjectTensor tensor;
  CborItem item;
  const size_t begin = item_begin_;
  const auto number = [&](uint64_t most) {
    return expect(CborType::kUnsigned, "a number of a tensor", &item) &&
           (item.number <= most ||
            refuse("a number of a tensor is too large", item_begin_));
  };
  if (!expect(CborType::kArray, "the array of a tensor", &item)) return false;
  if (item.number != 5)
    return refuse("a tensor does not have five parts", item_begin_);
  if (!number(UINT8_MAX)) return false;
  tensor.code = static_cast<uint8_t>(item.number);
  if (!number(UINT8_MAX)) return false;
  tensor.bits = static_cast<uint8_t>(item.number);
  if (!number(UINT16_MAX)) return false;
  tensor.lanes = static_cast<uint16_t>(item.number);
  if (!expect(CborType::kArray, "the shape of a tensor", &item)) return false;
  const uint64_t dimensions = item.number;
  // The tensor's bytes follow the shape.
  if (dimensions > reader_.left() ||
      to_follow() + 1 > reader_.left() - dimensions)
    return refuse("a shape is longer than the bytes", item_begin_);
  tensor.shape.reserve(dimensions);
  for (uint64_t i = 0; i < dimensions; ++i) {
    if (!number(static_cast<uint64_t>(std::numeric_limits<int64_t>::max())))
      return false;
    tensor.shape.push_back(static_cast<int64_t>(item.number));
  }
  if (!expect(CborType::kBytes, "the bytes of a tensor", &item)) return false;
  if (tensor_bytes(tensor) != item.data.size())
    return refuse("a tensor's bytes do not fit its shape and type", begin);
  tensor.bytes = std::string(item.data);
  *value = Object::tensor(std::move(tensor));
  return true;
}

bool Decoder::read_extension(Object* value) {
  CborItem item;
  if (!expect(CborType::kArray, "the array of an extension", &item))
    return false;
  if (item.number != 2)
    return refuse("an extension does not have two parts", item_begin_);
  if (!expect(CborType::kText, "the name of an extension", &item)) return false;
  const absl::string_view name = item.data;
  if (name.empty() || name.size() > kMaxTypeName || !is_utf8(name))
    return refuse("the name of an extension is not a name", item_begin_);
  if (!expect(CborType::kBytes, "the bytes of an extension", &item))
    return false;
  const RegisteredType* const type = find_type(name);
  if (type == nullptr) {
    *value = Object::extension(std::string(name), std::string(item.data));
    return true;
  }
  absl::StatusOr<Object> object = type->read_value(item.data);
  if (!object.ok())
    return refuse(absl::StrCat("the reader of type '", name,
                               "' failed: ", object.status().message()),
                  item_begin_);
  *value = *std::move(object);
  return true;
}

bool Decoder::open(Kind kind, uint64_t count, Object* value, bool* opened) {
  if (open_.size() >= kObjectMaxDepth)
    return refuse(absl::StrCat("containers are nested more than ",
                               kObjectMaxDepth, " deep"),
                  item_begin_);
  const uint64_t each = kind == Kind::kMap ? 2 : 1;
  if (count > reader_.left() / each ||
      to_follow() > reader_.left() - count * each)
    return refuse("a container has more items than there are bytes left",
                  item_begin_);
  open_.push_back(
      {.kind = kind, .left = count * each, .item_begin = reader_.offset()});
  if (count == 0) return close(value);
  owed_ += count * each;
  if (kind == Kind::kMap) {
    open_.back().entries.reserve(count);
    open_.back().keys.reserve(count);
  } else {
    open_.back().items.reserve(count);
  }
  *opened = true;
  return true;
}

bool Decoder::add(Object value) {
  Open& top = open_.back();
  const bool is_key = top.kind == Kind::kMap && top.left % 2 == 0;
  if (is_key) {
    if (!ObjectAccess::key(value))
      return refuse("a key is not a scalar or a tuple of scalars",
                    top.item_begin);
    top.keys.push_back(
        bytes_.substr(top.item_begin, reader_.offset() - top.item_begin));
    top.key = std::move(value);
  } else if (top.kind == Kind::kMap) {
    top.entries.emplace_back(std::move(top.key), std::move(value));
  } else {
    top.items.push_back(std::move(value));
  }
  top.item_begin = reader_.offset();
  --top.left;
  --owed_;
  return true;
}

bool Decoder::close(Object* value) {
  Open top = std::move(open_.back());
  open_.pop_back();
  switch (top.kind) {
    case Kind::kTuple:
      *value = Object::tuple(std::move(top.items));
      return true;
    case Kind::kMap: {
      std::sort(top.keys.begin(), top.keys.end());
      const auto twice = std::adjacent_find(top.keys.begin(), top.keys.end());
      if (twice != top.keys.end())
        return refuse("a key is in a map twice",
                      static_cast<size_t>(twice->data() - bytes_.data()));
      *value = Object::map(std::move(top.entries));
      return true;
    }
    default:
      *value = Object::array(std::move(top.items));
      return true;
  }
}

}  // namespace

absl::Status decode_error(absl::string_view what, size_t offset) {
  return base::make_error(
      {.reason = Reason::kObjectDecode,
       .what = absl::StrCat("these bytes are no object: ", what, ", at byte ",
                            offset),
       .next_step = "check that sender and receiver run the same version and "
                    "call the same function"});
}

absl::StatusOr<Object> take_object(absl::string_view* bytes, size_t offset,
                                   uint64_t max_bytes) {
  base::ByteReader head(bytes->substr(0, kHeadBytes));
  const absl::string_view magic = head.bytes(4);
  const uint8_t version = head.u8();
  const uint8_t zero = head.u8();
  const uint16_t zeros = head.u16();
  const uint64_t size = head.u64();
  if (!head.ok())
    return decode_error("the bytes end in the head", offset + bytes->size());
  if (magic != kMagic) return decode_error("they begin otherwise", offset);
  if (version != kVersion)
    return decode_error(absl::StrCat("version ", version, " is not known"),
                        offset + 4);
  if (zero != 0 || zeros != 0)
    return decode_error("the head has a bit that is not known", offset + 5);
  constexpr size_t kSizeAt = kHeadBytes - sizeof(uint64_t);
  if (size > max_bytes || max_bytes - size < kHeadBytes)
    return decode_error(absl::StrCat("it takes more than the ", max_bytes,
                                     " bytes that an object may have"),
                        offset + kSizeAt);
  if (size > bytes->size() - kHeadBytes)
    return decode_error("the bytes end in the middle", offset + bytes->size());
  Decoder decoder(bytes->substr(kHeadBytes, size));
  Object object;
  if (!decoder.read(&object))
    return decode_error(decoder.problem(),
                        offset + kHeadBytes + decoder.offset());
  bytes->remove_prefix(kHeadBytes + size);
  return object;
}

}  // namespace distwrap::objects

namespace distwrap {

absl::StatusOr<Object> decode_object(absl::string_view bytes,
                                     uint64_t max_bytes) {
  absl::string_view rest = bytes;
  absl::StatusOr<Object> object = objects::take_object(&rest, 0, max_bytes);
  if (object.ok() && !rest.empty())
    return objects::decode_error("bytes follow the object",
                                 bytes.size() - rest.size());
  return object;
}

}  // namespace distwrap
