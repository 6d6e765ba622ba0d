// A document's hash state, and the pieces it advances by.
#pragma once

#include <span>
#include <vector>

#include "kernels.h"

namespace pdfseal {

// What is kept of a document between two pieces: plain bytes, to be handed from thread to thread, never from
// machine to machine. The digits of the magic are the version of the layout.
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

// The next bytes of one document, in chunks. They are only read, and must not change meanwhile.
struct Piece {
  State state;
  std::vector<std::span<const std::uint8_t>> chunks;
  bool last;
  // Set for the last piece.
  Digests digests;
};

// Takes every piece into its state, many streams at once.
void hashPieces(const Plan& plan, std::span<Piece> pieces);

}  // namespace pdfseal
