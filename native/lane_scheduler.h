// Feeds streams of different lengths to the lanes of a kernel.
#pragma once

#include <span>

#include "kernels.h"

namespace pdfseal {

// Whole strides of one stream, in up to two consecutive parts (bytes kept from before, and new bytes).
struct Work {
  struct Part {
    const std::uint8_t* data;
    std::size_t strides;
  };
  Chain* chain;
  Part parts[2];
};

// Advances every stream by all of its strides. Consumes the list: it is sorted, and its entries are used up.
void advanceAll(const Plan& plan, std::span<Work> list);

}  // namespace pdfseal
