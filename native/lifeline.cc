// A thread without JavaScript: a Node worker for the same purpose took a third of the processor time needed
// to start a signer, and memory for a second heap.
#include "lifeline.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "system.h"

namespace {

// Time for the main thread to exit in an orderly way, if it still runs.
constexpr timespec kGrace{0, 500'000'000};
constexpr int kCheckMs = 100;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

// Never destroyed, because it must outlive the process's static objects.
std::atomic<std::int64_t>& deadline = *new std::atomic<std::int64_t>(0);

// The clock of `process.hrtime`.
std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

void end() { kill(getpid(), SIGKILL); }

// Received data is ignored; false once the other end is closed.
bool isHeld(int fd) {
  char ignored[4096];
  const ssize_t count = read(fd, ignored, sizeof ignored);
  return count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN));
}

void* keepWatch(void* argument) {
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(argument));
  for (;;) {
    pollfd ready{fd, POLLIN, 0};
    if (poll(&ready, 1, kCheckMs) > 0 && !isHeld(fd)) {
      nanosleep(&kGrace, nullptr);
      end();
    }
    const std::int64_t at = deadline.load();
    if (at != 0 && now() > at) end();
  }
}

}  // namespace

napi_value watch(napi_env env, napi_callback_info info) {
  std::size_t count = 1;
  napi_value argument;
  int32_t fd;
  if (napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr) != napi_ok || count != 1 ||
      napi_get_value_int32(env, argument, &fd) != napi_ok) {
    return fail(env, "ERR_INVALID_ARG_TYPE", "watch takes a file descriptor");
  }
  // Signals are left to the main thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int problem = pthread_create(&thread, nullptr, keepWatch, reinterpret_cast<void*>(std::intptr_t{fd}));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (problem != 0) return fail(env, "ERR_LIFELINE", std::strerror(problem));
  pthread_detach(thread);
  return nullptr;
}

napi_value endAt(napi_env env, napi_callback_info info) {
  std::size_t count = 1;
  napi_value argument;
  std::int64_t at;
  bool lossless;
  if (napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr) != napi_ok || count != 1 ||
      napi_get_value_bigint_int64(env, argument, &at, &lossless) != napi_ok || !lossless) {
    return fail(env, "ERR_INVALID_ARG_TYPE", "endAt takes nanoseconds as a BigInt");
  }
  deadline.store(at);
  return nullptr;
}
