// The part of an Object that does not fit into the Object itself.
//
// Threads: constant after construction; the reference count is atomic.
// Ownership: counted by the Objects that point to it. The end of a node frees
// its children one after the other, without recursion, so any depth of nesting
// needs no deep stack.
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
  // Whether it can be a key: a scalar, or a tuple of keys.
  bool key = true;
  // The number of containers on the longest path down, including this one; 0
  // for others.
  uint32_t depth = 0;
  Node* next_dead = nullptr;
  Content content;
};

// The access of this folder's files to the inside of an Object.
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
  // Takes over an object's reference to its node.
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

// -1, 0 or 1: some fixed order of all objects. Maps are compared in the order
// of their keys.
int compare(const Object& a, const Object& b);

// The bytes of a tensor with `bits` times `lanes` for each element, rounded up;
// nullopt for an invalid shape or type.
std::optional<uint64_t> tensor_bytes(const ObjectTensor& tensor);

}  // namespace distwrap

#endif  // DISTWRAP_SRC_ALGO_OBJECTS_NODE_H_
