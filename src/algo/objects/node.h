// What an Object that is more than a number points to.
//
// Threads: constant once made; the count guards itself.
// Ownership: counted by the Objects that point to it. A node whose last Object
// goes takes its children along one after the other, not within each other:
// nesting of any depth ends without a deep stack.
#ifndef DISTWRAP_SRC_ALGO_OBJECTS_NODE_H_
#define DISTWRAP_SRC_ALGO_OBJECTS_NODE_H_

#include "distwrap/object.h"

#include <atomic>
#include <variant>

namespace distwrap {

struct OtherValue {
  std::type_index type;
  std::shared_ptr<const void> value;
  bool (*equal)(const void*, const void*);
};

struct Object::Node {
  using Content = std::variant<std::string, BigInteger, Items, Entries,
                               ObjectTensor, ObjectExtension, OtherValue>;

  Node(Kind node_kind, Content node_content);

  template <class T>
  const T& as() const {
    return *std::get_if<T>(&content);
  }

  std::atomic<uint32_t> references{1};
  const Kind kind;
  // May stand as a key: a scalar, or a tuple of what may.
  bool key = true;
  // Containers on the longest way down, with this one; 0 for others.
  uint32_t depth = 0;
  Node* next_dead = nullptr;
  Content content;
};

// The insides of an Object, for the files of this folder.
struct ObjectAccess {
  using Node = Object::Node;

  static const Node* node(const Object& object) {
    return object.holds_node() ? object.value_.node : nullptr;
  }
  static uint32_t depth(const Object& object) {
    const Node* const at = node(object);
    return at == nullptr ? 0 : at->depth;
  }
  static bool key(const Object& object) {
    const Node* const at = node(object);
    return at == nullptr || at->key;
  }
  template <class T>
  static const T* content(const Object& object, Object::Kind kind) {
    const Node* const at = node(object);
    return at != nullptr && at->kind == kind ? &at->as<T>() : nullptr;
  }
  static Object make(Object::Kind kind, Node::Content content) {
    Object object;
    object.value_.node = new Node(kind, std::move(content));
    object.kind_ = kind == Object::Kind::kInteger ? Object::Kind::kOther : kind;
    return object;
  }
  // Takes the node of an object without giving it back.
  static Node* detach(Object& object) {
    if (!object.holds_node()) return nullptr;
    Node* const at = object.value_.node;
    object.kind_ = Object::Kind::kNull;
    object.value_ = {0};
    return at;
  }
  static Object other(std::type_index type, std::shared_ptr<const void> value,
                      bool (*equal)(const void*, const void*)) {
    return Object::other(type, std::move(value), equal);
  }
};

// Before, equal, behind: -1, 0, 1. Any fixed order of all objects; maps are
// compared by their keys' order.
int compare(const Object& a, const Object& b);

// Bytes that `bits` times `lanes` take for each element of the shape, rounded
// up; nothing when it is no shape or no type.
std::optional<uint64_t> tensor_bytes(const ObjectTensor& tensor);

}  // namespace distwrap

#endif  // DISTWRAP_SRC_ALGO_OBJECTS_NODE_H_
