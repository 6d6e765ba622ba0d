// Threads that run hash tasks.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "stream.h"

namespace pdfseal {

struct Task {
  virtual ~Task() = default;
  std::vector<Piece> pieces;
  // False if the threads ended before its turn.
  bool hashed = false;
};

class Threads {
 public:
  using Done = std::function<void(std::unique_ptr<Task>)>;

  // `done` is called once for every added task: on one of the threads, or, at the end, for the remaining
  // ones.
  Threads(std::size_t count, const Plan& plan, Done done);
  // Waits only for the tasks in progress.
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  void add(std::unique_ptr<Task> task);

 private:
  void run();

  const Plan plan_;
  const Done done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Task>> tasks_;
  bool ending_ = false;
  // Declared last, so that all other members exist before the first thread runs.
  std::vector<std::jthread> threads_;
};

}  // namespace pdfseal
