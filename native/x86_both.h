// One stream, both hashes in one pass: SHA-256 keeps the SHA unit busy, the rounds of SHA-512 the integer
// units, and the vector units expand SHA-512's message schedule for several strides at once, a group of
// strides ahead. The three are interleaved in the source, since a processor looks only a few hundred
// instructions ahead.
//
// The Ops of a vector: Word, kStrides (128-bit parts), add, rotateRight<n>, shiftRight<n>, exclusiveOr,
// nextWords(a, b) (in each part the high half of a, then the low half of b), repeat(pointer) (16 bytes in
// each part), load(data, last) (big-endian 64-bit words from data + 128 * min(part, last)) and store.
// Included below the #pragma that names the instruction set.
#pragma once

#include "kernels.h"
#include "scalar.h"
#include "x86_sha.h"

namespace pdfseal {
namespace {

// The schedule of SHA-512 for kStrides blocks side by side. Row j holds words 2j and 2j + 1 of each block,
// each with its round's constant added.
template <class Ops>
class Schedule {
 public:
  static constexpr std::size_t kRows = 40;
  static constexpr std::size_t kRowWords = 2 * Ops::kStrides;
  using Rows = std::uint64_t[kRows * kRowWords];

  // The first eight rows, of strides 0 to `last`; further ones repeat the last.
  PDFSEAL_INLINE void begin(Rows& rows, const std::uint8_t* data, std::size_t last) {
    for (std::size_t j = 0; j < 8; j++) {
      w_[j] = Ops::load(data + 16 * j, last);
      put(rows, j, w_[j]);
    }
  }

  // Row j of the others. To be called in order; `j` may vary by eights at run time.
  template <std::size_t jModulo8>
  PDFSEAL_INLINE void expand(Rows& rows, std::size_t j) {
    using Hash = Compression<Sha512, Ops>;
    auto& w = w_[jModulo8];
    const auto w1 = Ops::nextWords(w, w_[(jModulo8 + 1) & 7]);
    const auto w9 = Ops::nextWords(w_[(jModulo8 + 4) & 7], w_[(jModulo8 + 5) & 7]);
    const auto s0 = Hash::template schedule<Sha512::kSchedule0>(w1);
    const auto s1 = Hash::template schedule<Sha512::kSchedule1>(w_[(jModulo8 + 7) & 7]);
    w = Ops::add(Ops::add(Ops::add(w, w9), s0), s1);
    put(rows, j, w);
  }

 private:
  static PDFSEAL_INLINE void put(Rows& rows, std::size_t j, typename Ops::Word w) {
    Ops::store(rows + j * kRowWords, Ops::add(w, Ops::repeat(kRound512 + 2 * j)));
  }

  typename Ops::Word w_[8];
};

// Rounds 2j and 2j + 1 of SHA-512 in integer registers, and what of the two others is due meanwhile.
template <class Ops>
struct Interleaved {
  using Rows = typename Schedule<Ops>::Rows;
  static constexpr std::size_t kExpansions = (Schedule<Ops>::kRows - 8) / Ops::kStrides;

  std::uint64_t sha512[8];
  ShaNi sha256;
  Schedule<Ops> schedule;

  template <std::size_t i>
  PDFSEAL_INLINE void round512(const std::uint64_t* kw) {
    using Word = Scalar<std::uint64_t>;
    using Hash = Compression<Sha512, Word>;
    auto& s = sha512;
    std::uint64_t &d = s[(11 - i) & 7], &h = s[(15 - i) & 7];
    const std::uint64_t a = s[(8 - i) & 7], e = s[(12 - i) & 7];
    h += *kw;
    h += ~e & s[(14 - i) & 7];
    h += e & s[(13 - i) & 7];
    h += Hash::template sum<Sha512::kSum1>(e);
    d += h;
    h += Hash::template sum<Sha512::kSum0>(a);
    h += Word::majority(a, s[(9 - i) & 7], s[(10 - i) & 7]);
  }

  template <std::size_t j>
  PDFSEAL_INLINE void step(const std::uint64_t* kw, const std::uint8_t* block256, Rows& ahead,
                           std::size_t row) {
    constexpr std::size_t kSteps = Schedule<Ops>::kRows;
    constexpr std::size_t quad = j * 32 / kSteps, quadAfter = (j + 1) * 32 / kSteps;
    constexpr std::size_t expansion = j * kExpansions / kSteps,
                          expansionAfter = (j + 1) * kExpansions / kSteps;
    round512<(2 * j) & 7>(kw + j * Schedule<Ops>::kRowWords);
    if constexpr (quadAfter > quad) {
      if constexpr (quad % 16 == 0) sha256.begin(block256 + quad * 4);
      sha256.template fourRounds<quad % 16>();
      if constexpr (quad % 16 == 15) sha256.end();
    }
    if constexpr (expansionAfter > expansion) schedule.template expand<expansion & 7>(ahead, row + expansion);
    round512<(2 * j + 1) & 7>(kw + j * Schedule<Ops>::kRowWords + 1);
  }

  template <std::size_t... j>
  PDFSEAL_INLINE void stride(const std::uint64_t* kw, const std::uint8_t* data, Rows& ahead, std::size_t row,
                             std::index_sequence<j...>) {
    (step<j>(kw, data, ahead, row), ...);
  }
};

template <class Ops>
PDFSEAL_INLINE void interleavedBoth(Chain& chain, const std::uint8_t* data, std::size_t strides) {
  constexpr std::size_t kRows = Schedule<Ops>::kRows;
  using Lanes = Interleaved<Ops>;
  alignas(64) typename Lanes::Rows buffers[2];
  if (strides == 0) return;
  Lanes lanes;
  lanes.sha256.load(chain.sha256);
  for (int i = 0; i < 8; i++) lanes.sha512[i] = chain.sha512[i];
  auto lastOf = [](std::size_t count) { return (count < Ops::kStrides ? count : Ops::kStrides) - 1; };

  lanes.schedule.begin(buffers[0], data, lastOf(strides));
#pragma GCC unroll 1
  for (std::size_t row = 8; row < kRows; row += 8) {
    [&]<std::size_t... j>(std::index_sequence<j...>) __attribute__((always_inline)) {
      (lanes.schedule.template expand<j>(buffers[0], row + j), ...);
    }
    (std::make_index_sequence<8>());
  }
  for (std::size_t group = 0; strides > 0; group ^= 1) {
    const std::size_t count = lastOf(strides) + 1;
    strides -= count;
    // Behind the last group there is nothing to look at: its own schedule is made again and dropped.
    const std::uint8_t* next = strides > 0 ? data + count * kStrideBytes : data;
    lanes.schedule.begin(buffers[group ^ 1], next, lastOf(strides > 0 ? strides : count));
#pragma GCC unroll 1
    for (std::size_t i = 0; i < count; i++, data += kStrideBytes) {
      lanes.stride(buffers[group] + 2 * i, data, buffers[group ^ 1], 8 + i * Lanes::kExpansions,
                   std::make_index_sequence<kRows>());
      for (int j = 0; j < 8; j++) chain.sha512[j] = lanes.sha512[j] += chain.sha512[j];
    }
  }
  lanes.sha256.store(chain.sha256);
}

}  // namespace
}  // namespace pdfseal
