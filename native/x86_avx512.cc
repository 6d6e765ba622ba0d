// AVX-512 (F, BW, VL): lanes of both hashes, one after the other.
#if defined(__x86_64__)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "x86_kernels.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx2,bmi,bmi2")
#include <immintrin.h>
// GCC 12 wrongly reports the undefined register from which some intrinsics start as a mistake of the caller
// (its bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "x86_avx512.h"

namespace pdfseal {
namespace {

// Without SHA-NI even a single stream is faster in a lane than by integers.
constexpr LaneFunction kLanes256[] = {
    {.width = 16, .worthwhile = 9, .advance = advanceLanes<Sha256, Wide32>},
    {.width = 8, .worthwhile = 1, .advance = advanceLanes<Sha256, Half32>},
};

constexpr LaneFunction kLanes512[] = {
    {.width = 8, .worthwhile = 5, .advance = advanceLanes<Sha512, Wide64>},
    {.width = 4, .worthwhile = 1, .advance = advanceLanes<Sha512, Half64>},
};

}  // namespace

bool hasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}

const Kernel kAvx512 = {
    .name = "avx512",
    .supported = [] { return hasAvx512() && hasBmi2(); },
    .both = bmi2Both,
    .sha256 = bmi2Sha256,
    .sha512 = bmi2Sha512,
    .lanes256 = kLanes256,
    .lanes512 = kLanes512,
};

}  // namespace pdfseal

#endif
