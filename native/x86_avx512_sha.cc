// AVX-512 and SHA-NI together: both hashes of eight streams in one pass.
#if defined(__x86_64__)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "x86_kernels.h"

#pragma GCC target("sha,avx512f,avx512bw,avx512vl,avx512vbmi2,avx2,bmi,bmi2,prefer-vector-width=128")
#include <immintrin.h>
#pragma GCC diagnostic ignored "-Wuninitialized"  // as in x86_avx512.cc
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "x86_avx512.h"
#include "x86_both.h"
#include "x86_both_lanes.h"
#include "x86_sha_lanes.h"

namespace pdfseal {
namespace {

struct Vl {
  static PDFSEAL_INLINE __m128i exclusiveOr(__m128i a, __m128i b, __m128i c) {
    return _mm_ternarylogic_epi64(a, b, c, kExclusiveOr);
  }
  template <int n>
  static PDFSEAL_INLINE __m128i rotateRight(__m128i x) {
    return _mm_ror_epi64(x, n);
  }
};

void both(Chain& chain, const std::uint8_t* data, std::size_t strides) {
  Interleaved<Vl>().advance(chain, data, strides);
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
