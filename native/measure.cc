#include "measure.h"

#include <array>
#include <cstdint>
#include <ctime>
#include <vector>

#include "lane_scheduler.h"
#include "stream.h"

namespace pdfseal {
namespace {

constexpr std::size_t kSliceBytes = 32 * 1024;

double processorSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

}  // namespace

double measure(const Kernel& kernel, std::size_t streams) {
  const std::vector<std::uint8_t> bytes(kSliceBytes, 'x');
  const std::size_t strides = kSliceBytes / streams / kStrideBytes;
  std::array<Chain, kLanesMax> chains;
  chains.fill(State::initial().chain);
  std::vector<Work> list;
  for (std::size_t i = 0; i < streams; i++)
    list.push_back({&chains[i], {{bytes.data() + i * strides * kStrideBytes, strides}, {nullptr, 0}}});
  const double start = processorSeconds();
  advanceAll(kernel, list);
  const double seconds = processorSeconds() - start;
  return static_cast<double>(streams * strides * kStrideBytes) / 1e6 / seconds;
}

}  // namespace pdfseal
