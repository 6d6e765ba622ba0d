// Both hashes over plain integers. Kernels that are fast at only one hash include it, so that it is compiled
// again with their instruction set.
#pragma once

#include <bit>
#include <cstring>

#include "sha2.h"

namespace pdfseal {
namespace {  // each kernel has its own copy, compiled for its own processor

template <class W>
struct Scalar {
  using Word = W;
  static PDFSEAL_INLINE Word add(Word a, Word b) { return a + b; }
  static PDFSEAL_INLINE Word exclusiveOr(Word a, Word b, Word c) { return a ^ b ^ c; }
  // Sums of disjoint bits: two short dependency chains instead of one long one.
  static PDFSEAL_INLINE Word choose(Word e, Word f, Word g) { return (e & f) + (~e & g); }
  static PDFSEAL_INLINE Word majority(Word a, Word b, Word c) { return ((a ^ b) & (b ^ c)) ^ b; }
  template <int n>
  static PDFSEAL_INLINE Word rotateRight(Word x) {
    return std::rotr(x, n);
  }
  template <int n>
  static PDFSEAL_INLINE Word shiftRight(Word x) {
    return x >> n;
  }
  static PDFSEAL_INLINE Word constant(Word k) { return k; }
};

PDFSEAL_INLINE std::uint32_t hostOrder(std::uint32_t x) {
  return std::endian::native == std::endian::little ? __builtin_bswap32(x) : x;
}

PDFSEAL_INLINE std::uint64_t hostOrder(std::uint64_t x) {
  return std::endian::native == std::endian::little ? __builtin_bswap64(x) : x;
}

template <class Hash>
void compressScalar(typename Hash::Word* chain, const std::uint8_t* data, std::size_t blocks) {
  using Word = typename Hash::Word;
  Word state[8];
  std::memcpy(state, chain, sizeof state);
  for (; blocks > 0; blocks--, data += 16 * sizeof(Word)) {
    Word w[16];
    std::memcpy(w, data, sizeof w);
    for (Word& word : w) word = hostOrder(word);
    Compression<Hash, Scalar<Word>>::block(state, w);
  }
  std::memcpy(chain, state, sizeof state);
}

}  // namespace
}  // namespace pdfseal
