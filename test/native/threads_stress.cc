// Many small tasks through threads that end in the middle of them, for ThreadSanitizer: each is done once, and rightly.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "../../native/threads.h"

namespace {

constexpr std::size_t kRounds = 30, kTasks = 200, kBytes = 3000;

struct Numbered : pdfseal::Task {
  std::size_t number = 0;
};

std::unique_ptr<Numbered> taskOf(const std::vector<std::uint8_t>& bytes, std::size_t number) {
  auto task = std::make_unique<Numbered>();
  task->number = number;
  const std::span<const std::uint8_t> all(bytes);
  task->pieces.push_back({pdfseal::State::initial(), {all.first(number), all.subspan(number)}, true, {}});
  return task;
}

}  // namespace

int main() {
  std::vector<std::uint8_t> bytes(kBytes);
  for (std::size_t i = 0; i < kBytes; i++) bytes[i] = static_cast<std::uint8_t>(i * 31);
  const auto first = taskOf(bytes, 0);
  pdfseal::hashPieces(pdfseal::kPortable, first->pieces);
  const pdfseal::Digests right = first->pieces[0].digests;

  for (std::size_t round = 0; round < kRounds; round++) {
    std::vector<std::atomic<int>> times(kTasks);
    std::atomic<int> wrong = 0;
    {
      pdfseal::Threads threads(4, pdfseal::kPortable, [&](std::unique_ptr<pdfseal::Task> done) {
        times[static_cast<Numbered&>(*done).number]++;
        const pdfseal::Digests& digests = done->pieces[0].digests;
        if (done->hashed && std::memcmp(&digests, &right, sizeof right) != 0) wrong++;
      });
      for (std::size_t number = 0; number < kTasks; number++) threads.add(taskOf(bytes, number));
    }
    for (const std::atomic<int>& count : times)
      if (count != 1) wrong++;
    if (wrong != 0) {
      std::fprintf(stderr, "threads are wrong about %d tasks\n", wrong.load());
      return 1;
    }
  }
}
