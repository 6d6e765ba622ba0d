#include "lane_scheduler.h"

#include <algorithm>

namespace pdfseal {
namespace {

// Lanes read their bytes once for each hash: in between, the bytes should stay in the processor's nearest
// caches.
constexpr std::size_t kRunStridesMax = 32;

std::size_t stridesOf(const Work& work) { return work.parts[0].strides + work.parts[1].strides; }

// The streams in progress, each at its own position, always advanced by the same number of strides.
class Window {
 public:
  // Longest first, so that a long stream is not left to be hashed alone after the others.
  explicit Window(std::span<Work> list) : waiting_(list) {
    std::sort(list.begin(), list.end(),
              [](const Work& a, const Work& b) { return stridesOf(a) > stridesOf(b); });
  }

  // Replaces finished streams with others; false if none is left.
  bool refill() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; i++) {
      if (current(i) != nullptr) works_[kept++] = works_[i];
    }
    size_ = kept;
    while (size_ < kLanesMax && !waiting_.empty()) {
      works_[size_] = &waiting_.front();
      waiting_ = waiting_.subspan(1);
      if (current(size_) != nullptr) size_++;
    }
    return size_ > 0;
  }

  std::size_t size() const { return size_; }

  // Number of contiguous strides available in every stream.
  std::size_t run() {
    std::size_t strides = current(0)->strides;
    for (std::size_t i = 1; i < size_; i++) strides = std::min(strides, current(i)->strides);
    return strides;
  }

  void lanes(Lane (&lanes)[kLanesMax]) {
    for (std::size_t i = 0; i < size_; i++) lanes[i] = {works_[i]->chain, current(i)->data};
  }

  void consume(std::size_t strides) {
    for (std::size_t i = 0; i < size_; i++) {
      Work::Part* part = current(i);
      part->data += strides * kStrideBytes;
      part->strides -= strides;
    }
  }

 private:
  Work::Part* current(std::size_t i) {
    for (Work::Part& part : works_[i]->parts) {
      if (part.strides > 0) return &part;
    }
    return nullptr;
  }

  std::span<Work> waiting_;
  Work* works_[kLanesMax] = {};
  std::size_t size_ = 0;
};

// Advances streams while lanes are worthwhile; returns the remaining ones.
std::span<const Lane> advanceLanes(std::span<const LaneFunction> functions, std::span<const Lane> lanes,
                                   std::size_t strides) {
  for (const LaneFunction& f : functions) {
    while (lanes.size() >= f.worthwhile) {
      const std::size_t width = std::min(f.width, lanes.size());
      f.advance(lanes.first(width), strides);
      lanes = lanes.subspan(width);
    }
  }
  return lanes;
}

}  // namespace

void advanceAll(const Plan& plan, std::span<Work> list) {
  Window window(list);
  while (window.refill()) {
    Lane all[kLanesMax];
    window.lanes(all);
    const std::span<const Lane> lanes(all, window.size());
    const Kernel& kernel = plan.forStreams(lanes.size());
    const std::size_t strides = lanes.size() == 1 ? window.run() : std::min(window.run(), kRunStridesMax);

    const std::span<const Lane> apart = advanceLanes(kernel.lanesBoth, lanes, strides);
    // SHA-512 costs most: a stream without a SHA-512 lane has both hashes computed in one pass.
    const std::span<const Lane> single = advanceLanes(kernel.lanes512, apart, strides);
    for (const Lane& lane : single) kernel.both(*lane.chain, lane.data, strides);
    const std::span<const Lane> laned = apart.first(apart.size() - single.size());
    for (const Lane& lane : advanceLanes(kernel.lanes256, laned, strides)) {
      kernel.sha256(lane.chain->sha256, lane.data, 2 * strides);
    }
    window.consume(strides);
  }
}

}  // namespace pdfseal
