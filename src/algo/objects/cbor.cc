#include "algo/objects/cbor.h"

#include <cbor.h>

namespace distwrap::objects {
namespace {

// The item that a callback of libcbor reported.
struct Seen {
  CborItem item;
  const char* problem = nullptr;
};

Seen& seen(void* context) { return *static_cast<Seen*>(context); }

template <CborType kType, class Number>
void see_number(void* context, Number number) {
  seen(context).item.type = kType;
  seen(context).item.number = number;
}

template <CborType kType>
void see_data(void* context, cbor_data data, size_t size) {
  seen(context).item.type = kType;
  seen(context).item.data = {reinterpret_cast<const char*>(data), size};
}

void see_null(void* context) { seen(context).item.type = CborType::kNull; }

void see_float(void* context, double value) {
  seen(context).item.type = CborType::kFloat;
  seen(context).item.real = value;
}

void refuse_open_end(void* context) {
  seen(context).problem = "an item of indefinite length";
}
void refuse_undefined(void* context) {
  seen(context).problem = "an undefined value";
}
void refuse_short_float(void* context, float) {
  seen(context).problem = "a float that is not of 64 bits";
}

cbor_callbacks make_callbacks() {
  cbor_callbacks all = cbor_empty_callbacks;
  all.uint8 = see_number<CborType::kUnsigned, uint8_t>;
  all.uint16 = see_number<CborType::kUnsigned, uint16_t>;
  all.uint32 = see_number<CborType::kUnsigned, uint32_t>;
  all.uint64 = see_number<CborType::kUnsigned, uint64_t>;
  all.negint8 = see_number<CborType::kNegative, uint8_t>;
  all.negint16 = see_number<CborType::kNegative, uint16_t>;
  all.negint32 = see_number<CborType::kNegative, uint32_t>;
  all.negint64 = see_number<CborType::kNegative, uint64_t>;
  all.byte_string = see_data<CborType::kBytes>;
  all.string = see_data<CborType::kText>;
  // The type of the count differs between versions of libcbor.
  all.array_start = [](void* context, auto number) {
    see_number<CborType::kArray, uint64_t>(context, number);
  };
  all.map_start = [](void* context, auto number) {
    see_number<CborType::kMap, uint64_t>(context, number);
  };
  all.tag = see_number<CborType::kTag, uint64_t>;
  all.null = see_null;
  all.boolean = see_number<CborType::kBool, bool>;
  all.float8 = see_float;
  all.float2 = refuse_short_float;
  all.float4 = refuse_short_float;
  all.undefined = refuse_undefined;
  all.byte_string_start = refuse_open_end;
  all.string_start = refuse_open_end;
  all.indef_array_start = refuse_open_end;
  all.indef_map_start = refuse_open_end;
  all.indef_break = refuse_open_end;
  return all;
}

// The bytes of the shortest head that holds the number.
size_t head_size(uint64_t number) {
  if (number < 24) return 1;
  if (number <= UINT8_MAX) return 2;
  if (number <= UINT16_MAX) return 3;
  return number <= UINT32_MAX ? 5 : 9;
}

// The bytes of the shortest encoding of an item.
size_t shortest(const CborItem& item) {
  switch (item.type) {
    case CborType::kBytes:
    case CborType::kText:
      return head_size(item.data.size()) + item.data.size();
    case CborType::kNull:
    case CborType::kBool:
      return 1;
    case CborType::kFloat:
      return 9;
    default:
      return head_size(item.number);
  }
}

constexpr size_t kMaxHead = 9;

template <class Write>
void append(std::string* out, const Write& write) {
  unsigned char head[kMaxHead];
  const size_t size = write(head);
  out->append(reinterpret_cast<const char*>(head), size);
}

}  // namespace

bool CborReader::next(CborItem* item) {
  static const cbor_callbacks kCallbacks = make_callbacks();
  Seen read;
  const cbor_decoder_result result =
      cbor_stream_decode(reinterpret_cast<cbor_data>(bytes_.data()) + offset_,
                         left(), &kCallbacks, &read);
  if (result.status == CBOR_DECODER_NEDATA)
    problem_ = "the bytes end in the middle";
  else if (result.status != CBOR_DECODER_FINISHED)
    problem_ = "these bytes do not begin an item";
  else if (read.problem != nullptr)
    problem_ = read.problem;
  else if (result.read > left())
    problem_ = "the bytes end in the middle";
  else if (result.read != shortest(read.item))
    problem_ = "an item is not written the shortest way";
  else {
    offset_ += result.read;
    *item = read.item;
    return true;
  }
  return false;
}

void write_unsigned(uint64_t number, std::string* out) {
  append(out, [=](auto* at) { return cbor_encode_uint(number, at, kMaxHead); });
}

void write_negative(uint64_t number, std::string* out) {
  append(out,
         [=](auto* at) { return cbor_encode_negint(number, at, kMaxHead); });
}

void write_bytes(absl::string_view data, std::string* out) {
  append(out, [=](auto* at) {
    return cbor_encode_bytestring_start(data.size(), at, kMaxHead);
  });
  out->append(data.data(), data.size());
}

void write_text(absl::string_view data, std::string* out) {
  append(out, [=](auto* at) {
    return cbor_encode_string_start(data.size(), at, kMaxHead);
  });
  out->append(data.data(), data.size());
}

void write_array(uint64_t items, std::string* out) {
  append(out, [=](auto* at) {
    return cbor_encode_array_start(items, at, kMaxHead);
  });
}

void write_map(uint64_t pairs, std::string* out) {
  append(out,
         [=](auto* at) { return cbor_encode_map_start(pairs, at, kMaxHead); });
}

void write_tag(uint64_t tag, std::string* out) {
  append(out, [=](auto* at) { return cbor_encode_tag(tag, at, kMaxHead); });
}

void write_null(std::string* out) {
  append(out, [](auto* at) { return cbor_encode_null(at, kMaxHead); });
}

void write_bool(bool value, std::string* out) {
  append(out, [=](auto* at) { return cbor_encode_bool(value, at, kMaxHead); });
}

void write_float(double value, std::string* out) {
  append(out,
         [=](auto* at) { return cbor_encode_double(value, at, kMaxHead); });
}

}  // namespace distwrap::objects
