// A collective for all ranks at once: copies of all inputs, then all outputs.
#include "perfect_hub.h"
#include "reference.h"
#include "sdk/blocks.h"
#include "sdk/dtype.h"

#include <cstring>
#include <string>

namespace distwrap::conformance {
namespace {

class Performance {
 public:
  explicit Performance(const std::vector<const Held*>& all)
      : all_(all), size_(static_cast<int>(all.size())), kind_(all[0]->op.kind) {
    for (const Held* held : all_) {
      if (held->rows() != nullptr) continue;
      const dw_buf& buf = held->op.in;
      element_ = dw_dtype_bytes(buf.dtype);
      dtype_ = dw_dtype_index(buf.dtype);
      std::vector<std::string> pieces;
      const bool wide = kind_ == DW_OP_SCATTER ||
                        kind_ == DW_OP_REDUCE_SCATTER ||
                        kind_ == DW_OP_ALL_TO_ALL;
      for (int r = 0; r < (wide ? size_ : 1) && buf.count > 0; ++r)
        pieces.push_back(
            !held->in_blocks.empty()
                ? gathered(*held, r)
                : copy(wide ? held->in.piece(r, size_) : held->in.whole()));
      in_.push_back(std::move(pieces));
    }
  }

  void run() const {
    if (all_[0]->rows() != nullptr) return move_rows();
    for (int rank = 0; rank < size_; ++rank)
      if (at(rank).op.out.count > 0) fill(rank);
  }

 private:
  const Held& at(int rank) const { return *all_[static_cast<size_t>(rank)]; }

  void move_rows() const {
    const auto copy = [](char* to, const char* from, size_t bytes) {
      std::memcpy(to, from, bytes);
    };
    for (int to = 0; to < size_; ++to) {
      const dw_sdk::MoeRows& taken = *at(to).rows();
      // Rows that are added up, by number.
      std::string rows(
          taken.numbers(size_,
                        [&](int from) {
                          return at(to).out.counts[static_cast<size_t>(from)];
                        }) *
              taken.row_bytes(),
          '\0');
      for (int from = 0; from < size_; ++from) {
        const auto bytes =
            static_cast<uint64_t>(at(from).in.counts[static_cast<size_t>(to)]);
        std::string stream(bytes, '\0');
        at(from).rows()->gather(to, 0, bytes, stream.data(), copy);
        if (!taken.sums().adds())
          taken.scatter(from, 0, bytes, stream.data(), copy);
        else if (bytes != 0)
          stream.copy(
              rows.data() + static_cast<size_t>(taken.lists().get_first[from]) *
                                taken.row_bytes(),
              bytes);
      }
      if (taken.sums().adds())
        taken.sums().add_all(rows.data(), taken.row_bytes());
    }
  }

  std::string copy(const HeldBuffer::Piece& piece) const {
    return piece.count == 0 ? std::string()
                            : std::string(piece.data, piece.count * element_);
  }

  static std::string gathered(const Held& held, int to) {
    const auto r = static_cast<size_t>(to);
    const int64_t bytes =
        held.in.counts.empty() ? held.in.buf.count : held.in.counts[r];
    std::string packed(static_cast<size_t>(bytes), '\0');
    dw_sdk::gather(packed.data(), static_cast<const char*>(held.in.buf.data),
                   held.in_blocks[r], 0, packed.size(), std::memcpy);
    return packed;
  }
  static void scatter(const Held& held, int from, const std::string& packed) {
    dw_sdk::scatter(static_cast<char*>(held.out.buf.data),
                    held.out_blocks[static_cast<size_t>(from)], packed.data(),
                    0, packed.size(), std::memcpy);
  }

  const std::string& input(int rank, int piece) const {
    static const std::string kNothing;
    const auto& pieces = in_[static_cast<size_t>(rank)];
    return pieces.empty() ? kNothing : pieces[static_cast<size_t>(piece)];
  }

  static void write(const HeldBuffer::Piece& to, const std::string& bytes) {
    if (!bytes.empty()) std::memcpy(to.data, bytes.data(), bytes.size());
  }

  std::string reduced(int ranks, int piece) const {
    std::vector<const char*> in, factors;
    for (int rank = 0; rank < ranks; ++rank) {
      in.push_back(input(rank, piece).data());
      if (at(rank).op.scale != nullptr)
        factors.push_back(static_cast<const char*>(at(rank).op.scale));
    }
    std::string out(input(0, piece).size(), '\0');
    reduce_slowly(dtype_, at(0).op.reduce, in, factors, out.size() / element_,
                  out.data());
    return out;
  }

  void fill(int rank) const {
    const HeldBuffer& out = at(rank).out;
    const int root = at(rank).op.peer;
    switch (kind_) {
      case DW_OP_BROADCAST:
        return write(out.whole(), input(root, 0));
      case DW_OP_SCATTER:
        return write(out.whole(), input(root, rank));
      case DW_OP_REDUCE:
      case DW_OP_ALL_REDUCE:
        return write(out.whole(), reduced(size_, 0));
      case DW_OP_REDUCE_SCATTER:
        return write(out.whole(), reduced(size_, rank));
      case DW_OP_SCAN: {
        const bool own = (at(rank).op.flags & DW_FLAG_EXCLUSIVE) == 0;
        if (own || rank > 0)
          write(out.whole(), reduced(rank + (own ? 1 : 0), 0));
        return;
      }
      default:
        for (int r = 0; r < size_; ++r)
          if (!at(rank).out_blocks.empty())
            scatter(at(rank), r,
                    input(r, kind_ == DW_OP_ALL_TO_ALL ? rank : 0));
          else
            write(out.piece(r, size_),
                  input(r, kind_ == DW_OP_ALL_TO_ALL ? rank : 0));
    }
  }

  const std::vector<const Held*>& all_;
  const int size_;
  const uint16_t kind_;
  size_t element_ = 0;
  int dtype_ = 0;
  std::vector<std::vector<std::string>> in_;
};

}  // namespace

void perform(const std::vector<const Held*>& all) {
  if (all[0]->op.kind != DW_OP_BARRIER) Performance(all).run();
}

}  // namespace distwrap::conformance
