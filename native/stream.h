// A document's hash state, and the pieces by which it advances.
#pragma once

#include <span>
#include <vector>

#include "kernels.h"

namespace pdfseal {

// The state of a document between two pieces: plain bytes, which may be passed between threads but not
// between machines. The digits of the magic are the version of the layout.
struct State {
  static constexpr char kMagic[8] = {'p', 'd', 'f', 's', 'e', 'a', 'l', '1'};

  char magic[8];
  std::uint64_t bytes;
  Chain chain;
  // The last bytes % kStrideBytes bytes; zeros after them.
  std::uint8_t partial[kStrideBytes];

  static State initial();
  bool valid() const;
};
static_assert(sizeof(State) == 240);

struct Digests {
  std::uint8_t sha256[32];
  std::uint8_t sha512[64];
};

// The next bytes of one document, in chunks. They are only read, and must not change during that time.
struct Piece {
  State state;
  std::vector<std::span<const std::uint8_t>> chunks;
  bool last;
  // Set for the last piece.
  Digests digests;
};

// Adds every piece to its state, many streams at once.
void hashPieces(const Plan& plan, std::span<Piece> pieces);

}  // namespace pdfseal
