// Many streams, one per vector lane. The Ops of a vector add to those of sha2.h: kWidth (lanes),
// load(pointer), store(pointer, word) and blocks(w, data): the sixteen words of each lane's block at
// data[lane], in host order.
#pragma once

#include "kernels.h"
#include "sha2.h"

namespace pdfseal {
namespace {  // each kernel has its own copy, compiled for its own processor

inline constexpr std::size_t kCacheLineBytes = 64;

template <class Hash>
PDFSEAL_INLINE typename Hash::Word* chainOf(const Lane& lane) {
  if constexpr (sizeof(typename Hash::Word) == 4)
    return lane.chain->sha256;
  else
    return lane.chain->sha512;
}

// The chaining values, word by word: each word of all lanes is contiguous.
template <class Hash, class Ops>
struct Columns {
  alignas(64) typename Hash::Word word[8][Ops::kWidth];

  PDFSEAL_INLINE void gather(std::span<const Lane> lanes) {
    for (std::size_t lane = 0; lane < Ops::kWidth; lane++) {
      const auto* chain = chainOf<Hash>(lanes[lane < lanes.size() ? lane : 0]);
      for (std::size_t i = 0; i < 8; i++) word[i][lane] = chain[i];
    }
  }

  PDFSEAL_INLINE void scatter(std::span<const Lane> lanes) const {
    for (std::size_t lane = 0; lane < lanes.size(); lane++) {
      auto* chain = chainOf<Hash>(lanes[lane]);
      for (std::size_t i = 0; i < 8; i++) chain[i] = word[i][lane];
    }
  }
};

// Lanes without a stream of their own repeat the first one; their results are dropped.
template <class Hash, class Ops>
void advanceLanes(std::span<const Lane> lanes, std::size_t strides) {
  constexpr std::size_t blockBytes = 16 * sizeof(typename Hash::Word);
  const std::uint8_t* data[Ops::kWidth];
  for (std::size_t lane = 0; lane < Ops::kWidth; lane++)
    data[lane] = lanes[lane < lanes.size() ? lane : 0].data;

  Columns<Hash, Ops> columns;
  columns.gather(lanes);
  typename Ops::Word state[8];
  for (int i = 0; i < 8; i++) state[i] = Ops::load(columns.word[i]);
  for (std::size_t block = 0; block < strides * kStrideBytes / blockBytes; block++) {
    typename Ops::Word w[16];
    Ops::blocks(w, data);
    for (const std::uint8_t*& from : data) from += blockBytes;
    Compression<Hash, Ops>::block(state, w);
  }
  for (int i = 0; i < 8; i++) Ops::store(columns.word[i], state[i]);
  columns.scatter(lanes);
}

}  // namespace
}  // namespace pdfseal
