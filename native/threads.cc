#include "threads.h"

#include <pthread.h>

#include <utility>

namespace pdfseal {

Threads::Threads(std::size_t count, const Plan& plan, Done done) : plan_(plan), done_(std::move(done)) {
  threads_.reserve(count);
  for (std::size_t i = 0; i < count; i++) threads_.emplace_back([this] { run(); });
}

Threads::~Threads() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  threads_.clear();
  for (std::unique_ptr<Task>& task : tasks_) done_(std::move(task));
}

void Threads::add(std::unique_ptr<Task> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Threads::run() {
  pthread_setname_np(pthread_self(), "pdfseal-hash");
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    if (ending_) return;
    std::unique_ptr<Task> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    hashPieces(plan_, task->pieces);
    task->hashed = true;
    done_(std::move(task));
  }
}

}  // namespace pdfseal
