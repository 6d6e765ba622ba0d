#include "lane_scheduler.h"

#include <algorithm>

namespace pdfseal {
namespace {

// Lanes read their bytes once for each hash: in between they should stay in the processor's nearest caches.
constexpr std::size_t kRunStridesMax = 32;

std::size_t stridesOf(const Work& work) { return work.parts[0].strides + work.parts[1].strides; }

// The streams being advanced, all at their own place, always by the same number of strides.
class Window {
 public:
  // Longest first, so that no long stream is left to be hashed alone when the others are done.
  explicit Window(std::span<Work> list) : waiting_(list) {
    std::sort(list.begin(), list.end(),
              [](const Work& a, const Work& b) { return stridesOf(a) > stridesOf(b); });
  }

  // Drops the streams that are done and takes others in their place; false when none is left.
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

  // Strides that every stream has at hand without a gap.
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

// How many of the streams lanes are worthwhile for; the rest is to be done one by one.
std::size_t laned(std::span<const LaneFunction> functions, std::size_t streams) {
  std::size_t taken = 0;
  for (const LaneFunction& f : functions) {
    while (streams - taken >= f.worthwhile) taken += std::min(f.width, streams - taken);
  }
  return taken;
}

void advanceLaned(std::span<const LaneFunction> functions, std::span<const Lane> lanes, std::size_t strides) {
  for (const LaneFunction& f : functions) {
    while (lanes.size() >= f.worthwhile) {
      const std::size_t width = std::min(f.width, lanes.size());
      f.advance(lanes.first(width), strides);
      lanes = lanes.subspan(width);
    }
  }
}

}  // namespace

void advanceAll(const Kernel& kernel, std::span<Work> list) {
  Window window(list);
  while (window.refill()) {
    Lane lanes[kLanesMax];
    window.lanes(lanes);
    const std::size_t size = window.size();
    const std::size_t laned256 = laned(kernel.lanes256, size), laned512 = laned(kernel.lanes512, size);
    const bool alone = laned256 == 0 && laned512 == 0;
    const std::size_t strides = alone ? window.run() : std::min(window.run(), kRunStridesMax);

    advanceLaned(kernel.lanes256, {lanes, size}, strides);
    advanceLaned(kernel.lanes512, {lanes, size}, strides);
    for (std::size_t i = std::min(laned256, laned512); i < size; i++) {
      if (i >= laned256 && i >= laned512)
        kernel.both(*lanes[i].chain, lanes[i].data, strides);
      else if (i >= laned256)
        kernel.sha256(lanes[i].chain->sha256, lanes[i].data, 2 * strides);
      else
        kernel.sha512(lanes[i].chain->sha512, lanes[i].data, strides);
    }
    window.consume(strides);
  }
}

}  // namespace pdfseal
