#include "stream.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "constants.h"
#include "lane_scheduler.h"

namespace pdfseal {
namespace {

std::size_t partialBytes(const State& state) { return state.bytes % kStrideBytes; }

template <class Word>
void putBigEndian(std::uint8_t* to, Word value) {
  for (std::size_t i = sizeof value; i-- > 0; value >>= 8) to[i] = static_cast<std::uint8_t>(value);
}

// Fills up the bytes kept from before, and finds whole strides. The rest of the chunk is taken by `keep`.
Work take(State& state, std::span<const std::uint8_t>& bytes) {
  const std::size_t kept = partialBytes(state);
  const std::size_t filled = kept == 0 ? 0 : std::min(kStrideBytes - kept, bytes.size());
  if (filled > 0) std::memcpy(state.partial + kept, bytes.data(), filled);
  state.bytes += bytes.size();
  bytes = bytes.subspan(filled);

  const std::size_t strides = bytes.size() / kStrideBytes;
  const std::uint8_t* data = bytes.data();
  bytes = bytes.subspan(strides * kStrideBytes);
  const bool full = kept + filled == kStrideBytes;
  return {&state.chain, {{state.partial, full ? 1u : 0u}, {data, strides}}};
}

void keep(State& state, std::span<const std::uint8_t> bytes) {
  std::uint8_t* partial = state.partial;
  const std::size_t kept = partialBytes(state);
  if (!bytes.empty()) std::memcpy(partial, bytes.data(), bytes.size());
  std::memset(partial + kept, 0, kStrideBytes - kept);
}

// FIPS 180-4, section 5.1: a one bit, zeros, and the length in bits at the end of a block. The padded end, at
// most one stride and one block, is written to `end`; its length is returned in blocks.
std::size_t pad(const State& state, std::size_t blockBytes, std::uint8_t (&end)[2 * kStrideBytes]) {
  const std::size_t kept = partialBytes(state);
  const std::size_t lengthBytes = blockBytes / 8;
  const std::size_t blocks = (kept + 1 + lengthBytes + blockBytes - 1) / blockBytes;
  std::memset(end, 0, sizeof end);
  std::memcpy(end, state.partial, kept);
  end[kept] = 0x80;
  // A document has less than 2^61 bytes, so the upper half of SHA-512's length is zero.
  putBigEndian(end + blocks * blockBytes - sizeof(std::uint64_t), state.bytes * 8);
  return blocks;
}

void finish(const Kernel& kernel, Piece& piece) {
  Chain& chain = piece.state.chain;
  std::uint8_t end[2 * kStrideBytes];
  const std::size_t blocks256 = pad(piece.state, 64, end);
  kernel.sha256(chain.sha256, end, blocks256);
  const std::size_t blocks512 = pad(piece.state, 128, end);
  kernel.sha512(chain.sha512, end, blocks512);
  for (int i = 0; i < 8; i++) {
    putBigEndian(piece.digests.sha256 + 4 * i, chain.sha256[i]);
    putBigEndian(piece.digests.sha512 + 8 * i, chain.sha512[i]);
  }
}

}  // namespace

State State::initial() {
  State state = {};
  std::memcpy(state.magic, kMagic, sizeof kMagic);
  std::memcpy(state.chain.sha256, kInitial256, sizeof kInitial256);
  std::memcpy(state.chain.sha512, kInitial512, sizeof kInitial512);
  return state;
}

bool State::valid() const { return std::memcmp(magic, kMagic, sizeof kMagic) == 0; }

void hashPieces(const Plan& plan, std::span<Piece> pieces) {
  std::vector<Work> list;
  list.reserve(pieces.size());
  // Chunks of one stream are processed in order; those of different streams in parallel.
  for (std::size_t i = 0;; i++) {
    list.clear();
    for (Piece& piece : pieces)
      if (i < piece.chunks.size()) list.push_back(take(piece.state, piece.chunks[i]));
    if (list.empty()) break;
    advanceAll(plan, list);
    for (Piece& piece : pieces)
      if (i < piece.chunks.size()) keep(piece.state, piece.chunks[i]);
  }
  for (Piece& piece : pieces)
    if (piece.last) finish(plan.forStreams(1), piece);
}

}  // namespace pdfseal
