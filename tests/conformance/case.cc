#include "case.h"

namespace distwrap::conformance {
namespace {

// A buffer of this many elements is large: counts per rank are the share.
constexpr size_t kLarge = size_t{1} << 20;

const char* form_text(Form form) {
  switch (form) {
    case Form::kPlain:
      return "";
    case Form::kCounts:
      return " counts";
    case Form::kGaps:
      return " gaps";
    case Form::kParts:
      return " parts";
    default:
      return " parts of counts";
  }
}

const char* calling_text(Calling calling) {
  switch (calling) {
    case Calling::kWaits:
      return "";
    case Calling::kAsync:
      return " async";
    case Calling::kGroupWaits:
      return " in a group";
    default:
      return " in an async group";
  }
}

}  // namespace

Shape shape_of(uint16_t kind) {
  enum Peer { NO, ROOT, PEER, TARGET };
  switch (kind) {
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  case value:                                                        \
    return {#text, peer == ROOT, Extent::in, Extent::out};
#include "distwrap/abi/ops.def"
    default:
      return {"?", false, Extent::NONE, Extent::NONE};
  }
}

int Case::peer(int size) const {
  return shape_of(kind).rooted ? root % size : -1;
}

bool Case::reduces() const {
  return kind == DW_OP_REDUCE || kind == DW_OP_ALL_REDUCE ||
         kind == DW_OP_REDUCE_SCATTER || kind == DW_OP_SCAN;
}

bool Case::has_pieces() const {
  const Shape shape = shape_of(kind);
  const auto wide = [](Extent extent) {
    return extent == Extent::ALL_R || extent == Extent::ROOT_R;
  };
  return wide(shape.in) || wide(shape.out);
}

uint32_t Case::flags() const {
  uint32_t flags = caller_waits() ? DW_FLAG_CALLER_WAITS : 0;
  if (in_place) flags |= DW_FLAG_IN_PLACE;
  if (exclusive) flags |= DW_FLAG_EXCLUSIVE;
  if (uneven()) flags |= DW_FLAG_PER_RANK;
  if (form == Form::kParts || form == Form::kPartCounts) flags |= DW_FLAG_PARTS;
  return flags;
}

size_t Case::piece(int from, int to, int size) const {
  const size_t ranks = static_cast<size_t>(size);
  const size_t n =
      has_pieces() && count >= kLarge ? (count + ranks - 1) / ranks : count;
  if (!uneven() || n == 0) return n;
  const size_t f = static_cast<size_t>(from), t = static_cast<size_t>(to);
  const size_t none = static_cast<size_t>(empty);
  if (kind == DW_OP_ALL_TO_ALL)
    return (f + t) % ranks == none % ranks ? 0 : n + (f * 5 + t * 3) % 7;
  const bool gathers = kind == DW_OP_GATHER || kind == DW_OP_ALL_GATHER;
  const size_t whose = gathers ? f : t;
  return whose == none % ranks ? 0 : n + whose * 7 % 5;
}

std::string Case::name() const {
  std::string text = exclusive ? "exclusive " : "";
  text += shape_of(kind).name;
  if (kind == DW_OP_BARRIER) return text + calling_text(calling);
  text.append(" ").append(dtype_text(dtype));
  if (reduces()) text.append(" ").append(reduction_text(reduce));
  text.append(" x ").append(std::to_string(count));
  if (shape_of(kind).rooted) text.append(" root ").append(std::to_string(root));
  if (in_place) text += " in place";
  text += form_text(form);
  if (uneven()) text.append(" empty ").append(std::to_string(empty));
  if (odd) text += " at odd addresses";
  return text + calling_text(calling);
}

bool is_sensible(const Case& c) {
  if (c.kind < DW_OP_BARRIER || c.kind > DW_OP_SCAN) return false;
  if (c.exclusive && c.kind != DW_OP_SCAN) return false;
  if (c.form != Form::kPlain && !c.has_pieces()) return false;
  if (c.kind == DW_OP_BARRIER) return c.reduce == DW_REDUCE_NONE && !c.in_place;
  if (c.kind == DW_OP_ALL_TO_ALL && c.in_place) return false;
  if (!c.reduces()) return c.reduce == DW_REDUCE_NONE;
  if (c.kind == DW_OP_SCAN && c.reduce == DW_REDUCE_AVG) return false;
  return is_defined(c.reduce, c.dtype);
}

void for_all_sensible(const std::function<void(const Case&)>& use) {
  for (uint16_t kind = DW_OP_BARRIER; kind <= DW_OP_SCAN; ++kind)
    for (int dtype = 0; dtype < kDtypes; ++dtype)
      for (uint16_t reduce = 0; reduce < kReductions; ++reduce)
        for (int form = 0; form < kForms; ++form)
          for (int way = 0; way < 4 * kCallings; ++way) {
            Case c = {.kind = kind, .dtype = dtype, .reduce = reduce};
            c.form = static_cast<Form>(form);
            c.calling = static_cast<Calling>(way / 4);
            c.in_place = way % 2 != 0;
            c.exclusive = way / 2 % 2 != 0;
            if (is_sensible(c)) use(c);
          }
}

}  // namespace distwrap::conformance
