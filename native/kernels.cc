#include "kernels.h"

namespace pdfseal {

std::span<const Kernel* const> compiledKernels() {
  static constexpr const Kernel* kernels[] = {&kPortable};
  return kernels;
}

const Kernel& fastestKernel() {
  const Kernel* fastest = &kPortable;
  for (const Kernel* kernel : compiledKernels()) {
    if (kernel->supported()) fastest = kernel;
  }
  return *fastest;
}

}  // namespace pdfseal
