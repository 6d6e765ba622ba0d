// AVX-512 and SHA-NI together: both hashes of eight streams in one pass.
#if defined(__x86_64__)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "x86_kernels.h"

#pragma GCC target("sha,avx512f,avx512bw,avx512vl,avx512vbmi2,avx2,bmi,bmi2")
#include <immintrin.h>
#pragma GCC diagnostic ignored "-Wuninitialized"  // as in x86_avx512.cc
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "x86_avx512.h"
#include "x86_both.h"
#include "x86_both_lanes.h"
#include "x86_sha_lanes.h"

namespace pdfseal {
namespace {

struct FourStrides : Wide64 {
  static constexpr std::size_t kStrides = 4;
  static PDFSEAL_INLINE Word nextWords(Word a, Word b) { return _mm512_alignr_epi8(b, a, 8); }
  static PDFSEAL_INLINE Word repeat(const std::uint64_t* two) { return _mm512_broadcast_i32x4(load128(two)); }
  static PDFSEAL_INLINE Word load(const std::uint8_t* data, std::size_t last) {
    auto part = [&](std::size_t i) { return load128(data + kStrideBytes * (i < last ? i : last)); };
    Word x = _mm512_castsi128_si512(part(0));
    x = _mm512_inserti32x4(x, part(1), 1);
    x = _mm512_inserti32x4(x, part(2), 2);
    x = _mm512_inserti32x4(x, part(3), 3);
    return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(byteSwap64()));
  }

 private:
  static PDFSEAL_INLINE __m128i load128(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  }
};

void both(Chain& chain, const std::uint8_t* data, std::size_t strides) {
  interleavedBoth<FourStrides>(chain, data, strides);
}

constexpr LaneFunction kLanesBoth[] = {
    {.width = BothOfEight::kWidth, .worthwhile = 6, .advance = advanceBothOfEight},
};

constexpr LaneFunction kLanes512[] = {
    {.width = 4, .worthwhile = 2, .advance = advanceLanes<Sha512, Half64>},
};

}  // namespace

const Kernel kAvx512Sha = {
    .name = "avx512-sha",
    .supported = [] { return hasAvx512() && __builtin_cpu_supports("avx512vbmi2") && hasBmi2() && hasSha(); },
    .both = both,
    .sha256 = shaSha256,
    .sha512 = bmi2Sha512,
    .lanesBoth = kLanesBoth,
    .lanes256 = kSha256Lanes,
    .lanes512 = kLanes512,
};

}  // namespace pdfseal

#endif
