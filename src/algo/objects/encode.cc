#include "algo/objects/cbor.h"
#include "algo/objects/codec.h"
#include "algo/objects/node.h"
#include "algo/objects/types.h"
#include "algo/objects/utf8.h"
#include "base/bytes.h"
#include "base/error.h"

#include <absl/strings/ascii.h>
#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace distwrap::objects {
namespace {

using Kind = Object::Kind;

// The most bytes of a key in a path, for a key that is no plain word.
constexpr size_t kKeyShown = 64;

std::string key_step(const Object& key) {
  const std::string* const text = key.if_text();
  const auto plain = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-';
  };
  if (text != nullptr && !text->empty() && text->size() <= kKeyShown &&
      std::all_of(text->begin(), text->end(), plain))
    return absl::StrCat(".", *text);
  return absl::StrCat("[", key.to_string(kKeyShown), "]");
}

std::string index_step(size_t index) { return absl::StrCat("[", index, "]"); }

class Encoder {
 public:
  Encoder(uint64_t max_bytes, std::string* out)
      : max_bytes_(max_bytes), out_(out) {}

  // The nesting is known to be finite. False after an error; each caller then
  // puts its own step in front of the path.
  bool write(const Object& object);

  const std::string& problem() const { return problem_; }
  std::string path;

  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  bool at_step(std::string step) {
    path.insert(0, step);
    return false;
  }
  bool is_too_large() const { return is_too_large_; }
  // Checks the limit before bytes are copied.
  bool fits(size_t bytes) {
    if (out_->size() <= max_bytes_ && bytes <= max_bytes_ - out_->size())
      return true;
    is_too_large_ = true;
    return refuse(absl::StrCat("it takes more than the ", max_bytes_,
                               " bytes that an object may have"));
  }

 private:
  bool write_integer(const BigInteger& value);
  bool write_text_item(absl::string_view text);
  bool write_items(absl::Span<const Object> items);
  bool write_entries(absl::Span<const Object::Entry> entries);
  bool write_tensor(const ObjectTensor& tensor);
  bool write_extension(absl::string_view name, absl::string_view bytes);
  bool write_other(const OtherValue& other);

  const uint64_t max_bytes_;
  std::string* const out_;
  std::string problem_;
  bool is_too_large_ = false;
};

// Writes an integer outside int64_t.
bool Encoder::write_integer(const BigInteger& value) {
  // CBOR stores a negative integer as -1 - n, so its bytes are the magnitude
  // minus one.
  std::string bytes = value.magnitude;
  if (value.negative) {
    for (size_t i = bytes.size(); i-- > 0;)
      if (static_cast<uint8_t>(bytes[i]--) != 0) break;
    if (bytes[0] == 0) bytes.erase(0, 1);
  }
  if (bytes.size() <= sizeof(uint64_t)) {
    uint64_t number = 0;
    for (const char byte : bytes)
      number = number << 8 | static_cast<uint8_t>(byte);
    value.negative ? write_negative(number, out_)
                   : write_unsigned(number, out_);
    return true;
  }
  if (!fits(bytes.size())) return false;
  write_tag(value.negative ? kTagNegativeBig : kTagBig, out_);
  write_bytes(bytes, out_);
  return true;
}

bool Encoder::write_text_item(absl::string_view text) {
  if (!fits(text.size())) return false;
  if (!is_utf8(text)) return refuse("text is UTF-8, and this is not");
  write_text(text, out_);
  return true;
}

bool Encoder::write_items(absl::Span<const Object> items) {
  write_array(items.size(), out_);
  for (size_t i = 0; i < items.size(); ++i)
    if (!write(items[i])) return at_step(index_step(i));
  return true;
}

bool Encoder::write_entries(absl::Span<const Object::Entry> entries) {
  write_map(entries.size(), out_);
  struct Key {
    size_t begin, size, index;
  };
  std::vector<Key> keys;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Object& key = entries[i].first;
    const size_t begin = out_->size();
    if (!ObjectAccess::key(key)) {
      refuse("a key is not a scalar or a tuple of scalars");
      return at_step(key_step(key));
    }
    if (!write(key)) {
      path.clear();
      return at_step(key_step(key));
    }
    keys.push_back({begin, out_->size() - begin, i});
    if (!write(entries[i].second)) return at_step(key_step(key));
  }
  const auto text = [this](const Key& key) {
    return absl::string_view(*out_).substr(key.begin, key.size);
  };
  std::sort(keys.begin(), keys.end(),
            [&](const Key& a, const Key& b) { return text(a) < text(b); });
  const auto twice = std::adjacent_find(
      keys.begin(), keys.end(),
      [&](const Key& a, const Key& b) { return text(a) == text(b); });
  if (twice == keys.end()) return true;
  refuse("the key is in the map twice");
  return at_step(key_step(entries[twice->index].first));
}

bool Encoder::write_tensor(const ObjectTensor& tensor) {
  if (tensor_bytes(tensor) != tensor.bytes.size())
    return refuse(absl::StrCat("a tensor has ", tensor.bytes.size(),
                               " bytes, and its shape and type say otherwise"));
  if (!fits(tensor.bytes.size())) return false;
  write_tag(kTagTensor, out_);
  write_array(5, out_);
  write_unsigned(tensor.code, out_);
  write_unsigned(tensor.bits, out_);
  write_unsigned(tensor.lanes, out_);
  write_array(tensor.shape.size(), out_);
  for (const int64_t extent : tensor.shape)
    write_unsigned(static_cast<uint64_t>(extent), out_);
  write_bytes(tensor.bytes, out_);
  return true;
}

bool Encoder::write_extension(absl::string_view name, absl::string_view bytes) {
  if (name.empty() || name.size() > kMaxTypeName || !is_utf8(name))
    return refuse(absl::StrCat("the name of an extension is not 1 to ",
                               kMaxTypeName, " bytes of UTF-8"));
  if (!fits(name.size()) || !fits(bytes.size())) return false;
  write_tag(kTagExtension, out_);
  write_array(2, out_);
  write_text(name, out_);
  write_bytes(bytes, out_);
  return true;
}

bool Encoder::write_other(const OtherValue& other) {
  const RegisteredType* const type = find_type(other.type);
  if (type == nullptr)
    return refuse(
        absl::StrCat("the type ", type_text(other.type), " is not registered"));
  const absl::StatusOr<std::string> bytes =
      type->write_value(other.value.get());
  if (!bytes.ok()) {
    // An error of distwrap's own says what is wrong by itself.
    if (const auto info = error_info(bytes.status())) return refuse(info->what);
    return refuse(absl::StrCat("the writer of type '", type->name,
                               "' failed: ", bytes.status().message()));
  }
  return write_extension(type->name, *bytes);
}

bool Encoder::write(const Object& object) {
  if (!fits(1)) return false;
  const ObjectAccess::Node* const node = ObjectAccess::node(object);
  switch (object.kind()) {
    case Kind::kNull:
      write_null(out_);
      return true;
    case Kind::kBool:
      write_bool(*object.to_bool(), out_);
      return true;
    case Kind::kInteger:
      if (node != nullptr) return write_integer(node->as<BigInteger>());
      if (const int64_t value = *object.to_int64(); value < 0)
        write_negative(~static_cast<uint64_t>(value), out_);
      else
        write_unsigned(static_cast<uint64_t>(value), out_);
      return true;
    case Kind::kFloat:
      write_float(*object.to_double(), out_);
      return true;
    case Kind::kText:
      return write_text_item(node->as<std::string>());
    case Kind::kBytes:
      if (!fits(node->as<std::string>().size())) return false;
      write_bytes(node->as<std::string>(), out_);
      return true;
    case Kind::kTuple:
      write_tag(kTagTuple, out_);
      return write_items(object.items());
    case Kind::kArray:
      return write_items(object.items());
    case Kind::kMap:
      return write_entries(object.entries());
    case Kind::kTensor:
      return write_tensor(node->as<ObjectTensor>());
    case Kind::kExtension:
      return write_extension(node->as<ObjectExtension>().name,
                             node->as<ObjectExtension>().bytes);
    case Kind::kOther:
      return write_other(node->as<OtherValue>());
  }
  return refuse("it is of no known kind");
}

// The path to the first object that is too deep.
std::string way_down(const Object& top) {
  std::string path;
  const Object* at = &top;
  for (int depth = 0; depth < kObjectMaxDepth; ++depth) {
    const uint32_t below = ObjectAccess::depth(*at) - 1;
    const Object* next = nullptr;
    for (size_t i = 0; i < at->items().size() && next == nullptr; ++i)
      if (ObjectAccess::depth(at->items()[i]) == below) {
        next = &at->items()[i];
        absl::StrAppend(&path, index_step(i));
      }
    for (const Object::Entry& entry : at->entries()) {
      if (next != nullptr) break;
      const bool in_key = ObjectAccess::depth(entry.first) == below;
      if (!in_key && ObjectAccess::depth(entry.second) != below) continue;
      next = in_key ? &entry.first : &entry.second;
      absl::StrAppend(&path, key_step(entry.first));
    }
    if (next == nullptr) break;
    at = next;
  }
  return path;
}

absl::Status type_error(absl::string_view path, absl::string_view problem) {
  return base::make_error(
      {.reason = Reason::kObjectType,
       .what = absl::StrCat("cannot encode ",
                            path.empty() ? "the object" : path, ": ", problem),
       .next_step = "change what the path leads to, or register its type with "
                    "register_object_type"});
}

}  // namespace

absl::Status append_object(const Object& object, absl::string_view path,
                           uint64_t max_bytes, std::string* out) {
  if (ObjectAccess::depth(object) > kObjectMaxDepth)
    return type_error(absl::StrCat(path, way_down(object)),
                      absl::StrCat("containers are nested more than ",
                                   kObjectMaxDepth, " deep"));
  const size_t begin = out->size();
  base::ByteWriter head;
  head.bytes(absl::string_view(kMagic, 4));
  head.u8(kVersion);
  head.u8(0);
  head.u16(0);
  out->append(head.str());
  out->append(sizeof(uint64_t), '\0');
  Encoder encoder(max_bytes, out);
  // The head of the last item may have exceeded the limit.
  if (!encoder.write(object) || !encoder.fits(0)) {
    out->resize(begin);
    const absl::Status status =
        type_error(absl::StrCat(path, encoder.path), encoder.problem());
    if (!encoder.is_too_large()) return status;
    return base::amend_error(status, [](ErrorInfo& info) {
      info.setting = "DISTWRAP_OBJECT_MAX_BYTES";
      info.next_step = "raise the limit on all ranks, or send it as tensors";
    });
  }
  base::ByteWriter size;
  size.u64(out->size() - begin - kHeadBytes);
  out->replace(begin + kHeadBytes - sizeof(uint64_t), sizeof(uint64_t),
               size.str());
  return absl::OkStatus();
}

}  // namespace distwrap::objects

namespace distwrap {

absl::StatusOr<std::string> encode_object(const Object& object,
                                          uint64_t max_bytes) {
  std::string bytes;
  absl::Status status = objects::append_object(object, "", max_bytes, &bytes);
  if (!status.ok()) return status;
  return bytes;
}

}  // namespace distwrap
