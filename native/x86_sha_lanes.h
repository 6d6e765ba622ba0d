// SHA-256 of a few streams with the SHA extensions, turn by turn: one stream leaves the SHA unit waiting for
// its own results most of the time. Included below the #pragma that names the instruction set.
#pragma once

#include "kernels.h"
#include "x86_sha.h"

namespace pdfseal {
namespace {

// For exactly as many lanes as its width.
template <std::size_t width>
void advanceSha256(std::span<const Lane> lanes, std::size_t strides) {
  ShaNi streams[width];
  const std::uint8_t* data[width];
  for (std::size_t i = 0; i < width; i++) {
    streams[i].load(lanes[i].chain->sha256);
    data[i] = lanes[i].data;
  }
  for (std::size_t block = 0; block < 2 * strides; block++) {
    for (std::size_t i = 0; i < width; i++, data[i - 1] += 64) streams[i].begin(data[i]);
    unrolled<16>([&]<std::size_t q>() __attribute__((always_inline)) {
      for (ShaNi& stream : streams) stream.fourRounds<q>();
    });
    for (ShaNi& stream : streams) stream.end();
  }
  for (std::size_t i = 0; i < width; i++) streams[i].store(lanes[i].chain->sha256);
}

constexpr LaneFunction kSha256Lanes[] = {
    {.width = 4, .worthwhile = 4, .advance = advanceSha256<4>},
    {.width = 3, .worthwhile = 3, .advance = advanceSha256<3>},
    {.width = 2, .worthwhile = 2, .advance = advanceSha256<2>},
};

}  // namespace
}  // namespace pdfseal
