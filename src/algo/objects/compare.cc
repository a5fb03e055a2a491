// Equality and order of objects, without deep recursion.
#include "algo/objects/node.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace distwrap {
namespace {

using Kind = Object::Kind;

template <class T>
int order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

// Compares integers, at least one of which is outside int64_t.
int compare_integers(const BigInteger& a, const BigInteger& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int larger = order(a.magnitude.size(), b.magnitude.size());
  if (larger == 0)
    larger = order(absl::string_view(a.magnitude).compare(b.magnitude), 0);
  return a.negative ? -larger : larger;
}

int compare_tensors(const ObjectTensor& a, const ObjectTensor& b) {
  const auto description = [](const ObjectTensor& t) {
    return std::tie(t.code, t.bits, t.lanes, t.shape, t.bytes);
  };
  return order(description(a), description(b));
}

int compare_others(const OtherValue& a, const OtherValue& b) {
  if (a.value == b.value) return 0;
  if (a.type == b.type && a.equal != nullptr &&
      a.equal(a.value.get(), b.value.get()))
    return 0;
  return std::less<const void*>()(a.value.get(), b.value.get()) ? -1 : 1;
}

std::vector<const Object::Entry*> by_key(const Object& map) {
  std::vector<const Object::Entry*> sorted;
  for (const Object::Entry& entry : map.entries()) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const Object::Entry* a, const Object::Entry* b) {
              // Only keys have a bounded depth.
              const bool fine = ObjectAccess::key(a->first);
              if (fine != ObjectAccess::key(b->first)) return fine;
              if (!fine)
                return std::less<const void*>()(ObjectAccess::node(a->first),
                                                ObjectAccess::node(b->first));
              return compare(a->first, b->first) < 0;
            });
  return sorted;
}

using Pairs = std::vector<std::pair<const Object*, const Object*>>;

// Compares a pair without its children and pushes the children, the first one
// on top.
int compare_shallow(const Object& a, const Object& b, Pairs* open) {
  const Kind kind = a.kind();
  if (kind != b.kind()) return order(kind, b.kind());
  const ObjectAccess::Node* const x = ObjectAccess::node(a);
  const ObjectAccess::Node* const y = ObjectAccess::node(b);
  if (x != nullptr && x == y) return 0;
  switch (kind) {
    case Kind::kNull:
      return 0;
    case Kind::kBool:
      return order(*a.to_bool(), *b.to_bool());
    case Kind::kInteger:
      if (x == nullptr && y == nullptr)
        return order(*a.to_int64(), *b.to_int64());
      return compare_integers(*a.to_integer(), *b.to_integer());
    case Kind::kFloat:
      return order(std::bit_cast<uint64_t>(*a.to_double()),
                   std::bit_cast<uint64_t>(*b.to_double()));
    case Kind::kText:
    case Kind::kBytes:
      return order(x->as<std::string>().compare(y->as<std::string>()), 0);
    case Kind::kTensor:
      return compare_tensors(x->as<ObjectTensor>(), y->as<ObjectTensor>());
    case Kind::kExtension: {
      const auto& p = x->as<ObjectExtension>();
      const auto& q = y->as<ObjectExtension>();
      return order(std::tie(p.name, p.bytes), std::tie(q.name, q.bytes));
    }
    case Kind::kOther:
      return compare_others(x->as<OtherValue>(), y->as<OtherValue>());
    case Kind::kArray:
    case Kind::kTuple: {
      const absl::Span<const Object> p = a.items(), q = b.items();
      if (p.size() != q.size()) return order(p.size(), q.size());
      for (size_t i = p.size(); i-- > 0;) open->emplace_back(&p[i], &q[i]);
      return 0;
    }
    case Kind::kMap: {
      if (a.size() != b.size()) return order(a.size(), b.size());
      const auto p = by_key(a), q = by_key(b);
      for (size_t i = p.size(); i-- > 0;) {
        open->emplace_back(&p[i]->second, &q[i]->second);
        open->emplace_back(&p[i]->first, &q[i]->first);
      }
      return 0;
    }
  }
  return 0;
}

}  // namespace

int compare(const Object& a, const Object& b) {
  Pairs open = {{&a, &b}};
  while (!open.empty()) {
    const Object& x = *open.back().first;
    const Object& y = *open.back().second;
    open.pop_back();
    const int result = compare_shallow(x, y, &open);
    if (result != 0) return result;
  }
  return 0;
}

bool operator==(const Object& a, const Object& b) { return compare(a, b) == 0; }

}  // namespace distwrap
