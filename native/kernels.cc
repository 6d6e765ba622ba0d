#include "kernels.h"

namespace pdfseal {

std::span<const Kernel* const> compiledKernels() {
#if defined(__x86_64__)
  static constexpr const Kernel* kernels[] = {&kPortable, &kAvx2, &kAvx2Sha, &kAvx512, &kAvx512Sha};
#elif defined(__aarch64__)
  static constexpr const Kernel* kernels[] = {&kPortable, &kArm64Sha256, &kArm64Sha512};
#else
  static constexpr const Kernel* kernels[] = {&kPortable};
#endif
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
