// SHA-256 and SHA-512 (FIPS 180-4, section 6), written once over a "word" that may be an integer or a vector
// with one stream per lane. The caller's `Ops` provides the arithmetic; everything here is inlined into the
// kernel that uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "constants.h"

#define PDFSEAL_INLINE inline __attribute__((always_inline))

namespace pdfseal {

// Calls the function with each number below `count` as a constant.
template <std::size_t count, class Function>
PDFSEAL_INLINE void unrolled(Function function) {
  [&]<std::size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
    (function.template operator()<i>(), ...);
  }
  (std::make_index_sequence<count>());
}

// The differences between the two: word size, rounds and the rotations of section 4.1.2 and 4.1.3.
struct Sha256 {
  using Word = std::uint32_t;
  static constexpr int kRounds = 64;
  static constexpr const Word* kRound = kRound256;
  static constexpr int kSum0[3] = {2, 13, 22};
  static constexpr int kSum1[3] = {6, 11, 25};
  static constexpr int kSchedule0[3] = {7, 18, 3};
  static constexpr int kSchedule1[3] = {17, 19, 10};
};

struct Sha512 {
  using Word = std::uint64_t;
  static constexpr int kRounds = 80;
  static constexpr const Word* kRound = kRound512;
  static constexpr int kSum0[3] = {28, 34, 39};
  static constexpr int kSum1[3] = {14, 18, 41};
  static constexpr int kSchedule0[3] = {1, 8, 7};
  static constexpr int kSchedule1[3] = {19, 61, 6};
};

// Ops: Word; add, exclusiveOr(a, b, c), choose(e, f, g), majority(a, b, c), rotateRight<n>, shiftRight<n>,
// constant(word) – a word in every lane.
template <class Hash, class Ops>
struct Compression {
  using Word = typename Ops::Word;

  template <const int (&n)[3]>
  static PDFSEAL_INLINE Word sum(Word x) {
    return Ops::exclusiveOr(Ops::template rotateRight<n[0]>(x), Ops::template rotateRight<n[1]>(x),
                            Ops::template rotateRight<n[2]>(x));
  }

  template <const int (&n)[3]>
  static PDFSEAL_INLINE Word schedule(Word x) {
    return Ops::exclusiveOr(Ops::template rotateRight<n[0]>(x), Ops::template rotateRight<n[1]>(x),
                            Ops::template shiftRight<n[2]>(x));
  }

  // Word i is replaced by the one sixteen words later.
  template <std::size_t i>
  static PDFSEAL_INLINE void expand(Word (&w)[16]) {
    w[i] = Ops::add(Ops::add(w[i], w[(i + 9) & 15]), schedule<Hash::kSchedule0>(w[(i + 1) & 15]));
    w[i] = Ops::add(w[i], schedule<Hash::kSchedule1>(w[(i + 14) & 15]));
  }

  // Round i, given the sum of h, the round's constant and its word. The names a..h move by one each round
  // instead of the values.
  template <std::size_t i>
  static PDFSEAL_INLINE void round(Word (&s)[8], Word hkw) {
    Word &d = s[(11 - i) & 7], &h = s[(15 - i) & 7];
    const Word a = s[(8 - i) & 7], b = s[(9 - i) & 7], c = s[(10 - i) & 7];
    const Word e = s[(12 - i) & 7], f = s[(13 - i) & 7], g = s[(14 - i) & 7];
    const Word t1 = Ops::add(Ops::add(hkw, Ops::choose(e, f, g)), sum<Hash::kSum1>(e));
    d = Ops::add(d, t1);
    h = Ops::add(Ops::add(t1, Ops::majority(a, b, c)), sum<Hash::kSum0>(a));
  }

  // A group of sixteen rounds but the last also replaces each word it has used.
  template <std::size_t i, bool last>
  static PDFSEAL_INLINE void roundAndExpand(Word (&s)[8], Word (&w)[16], const typename Hash::Word* k) {
    const Word hkw = Ops::add(Ops::add(s[(15 - i) & 7], Ops::constant(k[i])), w[i]);
    if constexpr (!last) expand<i>(w);
    round<i>(s, hkw);
  }

  template <bool last>
  static PDFSEAL_INLINE void sixteen(Word (&s)[8], Word (&w)[16], const typename Hash::Word* k) {
    unrolled<16>([&]<std::size_t i>() __attribute__((always_inline)) { roundAndExpand<i, last>(s, w, k); });
  }

  // One block: `w` holds its sixteen words in host order and is consumed.
  static PDFSEAL_INLINE void block(Word (&state)[8], Word (&w)[16]) {
    Word s[8];
    for (int j = 0; j < 8; j++) s[j] = state[j];
    int t = 0;
#pragma GCC unroll 1
    for (; t < Hash::kRounds - 16; t += 16) sixteen<false>(s, w, Hash::kRound + t);
    sixteen<true>(s, w, Hash::kRound + t);
    for (int j = 0; j < 8; j++) state[j] = Ops::add(state[j], s[j]);
  }
};

}  // namespace pdfseal
