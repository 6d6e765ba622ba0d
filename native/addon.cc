// The add-on's JavaScript interface (Node-API 8). Its only state are threads, which belong to one environment
// and end with it.
#include <node_api.h>

#include <cstring>
#include <iterator>
#include <memory>
#include <optional>

#include "kernels.h"
#include "measure.h"
#include "self_test.h"
#include "threads.h"
#include "values.h"

namespace pdfseal {
namespace {

// The kernel of this name, if it runs on this processor; null if there is an exception.
const Kernel* kernelNamed(napi_env env, napi_value value) {
  std::size_t length = 0;
  char name[32];
  if (napi_get_value_string_latin1(env, value, name, sizeof name, &length) != napi_ok) {
    fail(env, "a kernel's name is not a string");
    return nullptr;
  }
  for (const Kernel* kernel : compiledKernels()) {
    if (kernel->supported() && std::strcmp(kernel->name, name) == 0) return kernel;
  }
  fail(env, "no kernel of this name runs on this processor");
  return nullptr;
}

// Empty if there is an exception.
std::optional<Plan> readPlan(napi_env env, napi_value list) {
  bool isArray = false;
  std::uint32_t length = 0;
  if (napi_is_array(env, list, &isArray) != napi_ok || !isArray ||
      napi_get_array_length(env, list, &length) != napi_ok || length != Plan::kWidths) {
    fail(env, "kernels are not as many as there are widths");
    return std::nullopt;
  }
  Plan::Kernels kernels;
  for (std::uint32_t i = 0; i < length; i++) {
    napi_value name;
    if (napi_get_element(env, list, i, &name) != napi_ok) return std::nullopt;
    kernels[i] = kernelNamed(env, name);
    if (kernels[i] == nullptr) return std::nullopt;
  }
  return Plan(kernels);
}

constexpr char kClosed[] = "the threads are closed";

// A task for the threads, and its promise.
struct Asked : Task {
  napi_deferred deferred;
  napi_ref memory;
};

// The native half of a `Threads` object. Shared with the callback that reports tasks, because either can end
// first.
class HashThreads {
 public:
  // Null if there is an exception.
  static std::shared_ptr<HashThreads> open(napi_env env, std::size_t count, const Plan& plan) {
    const auto opened = std::make_shared<HashThreads>();
    auto* context = new std::shared_ptr(opened);
    // Without a JavaScript function: `settle` is called on its thread with each finished task.
    const napi_status made =
        napi_create_threadsafe_function(env, nullptr, nullptr, text(env, "pdfseal hash"), 0, 1, context, forget,
                                        context, settle, &opened->done_);
    if (made != napi_ok) {
      delete context;
      return nullptr;
    }
    napi_unref_threadsafe_function(env, opened->done_);
    // Hooks run in reverse order: the threads end before the function that they call.
    napi_add_env_cleanup_hook(env, end, opened.get());
    opened->env_ = env;
    opened->threads_.emplace(count, plan,
                             [done = opened->done_](std::unique_ptr<Task> task) {
                               // If the environment has ended in the meantime, the result is dropped.
                               if (napi_call_threadsafe_function(done, task.get(), napi_tsfn_blocking) == napi_ok)
                                 task.release();
                             });
    return opened;
  }

  bool isOpen() const { return threads_.has_value(); }

  void add(napi_env env, std::unique_ptr<Asked> asked) {
    // Keeps the process alive while digests are awaited.
    if (underWay_++ == 0) napi_ref_threadsafe_function(env, done_);
    threads_->add(std::move(asked));
  }

  // Waits for the tasks in progress; the others are rejected as too late.
  void close() {
    if (!isOpen()) return;
    napi_remove_env_cleanup_hook(env_, end, this);
    threads_.reset();
    napi_release_threadsafe_function(done_, napi_tsfn_release);
  }

 private:
  static void end(void* self) { static_cast<HashThreads*>(self)->close(); }

  static void settle(napi_env env, napi_value, void* context, void* data) {
    const std::unique_ptr<Asked> asked(static_cast<Asked*>(data));
    if (env == nullptr) return;
    HashThreads& self = **static_cast<std::shared_ptr<HashThreads>*>(context);
    if (--self.underWay_ == 0) napi_unref_threadsafe_function(env, self.done_);
    napi_delete_reference(env, asked->memory);
    napi_value results = asked->hashed ? hashedOf(env, asked->pieces) : fail(env, kClosed);
    if (results != nullptr) {
      napi_resolve_deferred(env, asked->deferred, results);
      return;
    }
    napi_value problem;
    if (napi_get_and_clear_last_exception(env, &problem) == napi_ok)
      napi_reject_deferred(env, asked->deferred, problem);
  }

  static void forget(napi_env, void* context, void*) {
    delete static_cast<std::shared_ptr<HashThreads>*>(context);
  }

  napi_env env_ = nullptr;
  napi_threadsafe_function done_ = nullptr;
  std::optional<Threads> threads_;
  std::size_t underWay_ = 0;
};

constexpr std::uint32_t kThreadsMax = 1024;

// new Threads(count: number, kernels: string[])
napi_value newThreads(napi_env env, napi_callback_info info) {
  std::size_t arguments = 2;
  napi_value self, given[2];
  std::uint32_t count;
  napi_get_cb_info(env, info, &arguments, given, &self, nullptr);
  if (napi_get_value_uint32(env, given[0], &count) != napi_ok || count < 1 || count > kThreadsMax)
    return fail(env, "count is not a number of threads");
  const std::optional<Plan> plan = readPlan(env, given[1]);
  if (!plan) return nullptr;
  std::shared_ptr<HashThreads> opened = HashThreads::open(env, count, *plan);
  if (opened == nullptr) return fail(env, "no threads can be started");
  auto drop = [](napi_env, void* data, void*) {
    const std::unique_ptr<std::shared_ptr<HashThreads>> threads(static_cast<std::shared_ptr<HashThreads>*>(data));
    (*threads)->close();
  };
  auto* wrapped = new std::shared_ptr(std::move(opened));
  if (napi_wrap(env, self, wrapped, drop, nullptr, nullptr) != napi_ok) drop(env, wrapped, nullptr);
  return self;
}

// The threads object on which a method was called. Null if the environment is being terminated: Node-API then
// no longer unwraps objects.
HashThreads* threadsOf(napi_env env, napi_callback_info info, napi_value& argument) {
  std::size_t arguments = 1;
  napi_value self;
  void* data = nullptr;
  if (napi_get_cb_info(env, info, &arguments, &argument, &self, nullptr) != napi_ok ||
      napi_unwrap(env, self, &data) != napi_ok)
    return nullptr;
  return static_cast<std::shared_ptr<HashThreads>*>(data)->get();
}

// hash(pieces): Promise<({state} | {sha256, sha512})[]>
napi_value hash(napi_env env, napi_callback_info info) {
  napi_value pieces, memory, promise;
  HashThreads* const threads = threadsOf(env, info, pieces);
  if (threads == nullptr) return nullptr;
  if (!threads->isOpen()) return fail(env, kClosed);
  auto asked = std::make_unique<Asked>();
  if (!readPieces(env, pieces, asked->pieces, memory)) return nullptr;
  // A getter among the pieces may have closed the threads.
  if (!threads->isOpen()) return fail(env, kClosed);
  if (napi_create_promise(env, &asked->deferred, &promise) != napi_ok ||
      napi_create_reference(env, memory, 1, &asked->memory) != napi_ok)
    return nullptr;
  threads->add(env, std::move(asked));
  return promise;
}

// close(): waits for the tasks in progress
napi_value close(napi_env env, napi_callback_info info) {
  napi_value none;
  HashThreads* const threads = threadsOf(env, info, none);
  if (threads != nullptr) threads->close();
  return nullptr;
}

napi_value threadsClass(napi_env env) {
  constexpr auto method = [](const char* name, napi_callback function) {
    return napi_property_descriptor{name,    nullptr,      function, nullptr, nullptr,
                                    nullptr, napi_default_method, nullptr};
  };
  const napi_property_descriptor methods[] = {method("hash", hash), method("close", close)};
  napi_value made;
  const napi_status status = napi_define_class(env, "Threads", NAPI_AUTO_LENGTH, newThreads, nullptr,
                                               std::size(methods), methods, &made);
  return status == napi_ok ? made : nullptr;
}

// kernels(): the names of the kernels that run on this processor
napi_value kernels(napi_env env, napi_callback_info) {
  napi_value names;
  std::uint32_t i = 0;
  napi_create_array(env, &names);
  for (const Kernel* kernel : compiledKernels()) {
    if (kernel->supported()) napi_set_element(env, names, i++, text(env, kernel->name));
  }
  return names;
}

// selfTest(kernel): whether it gives the known answers
napi_value selfTestOf(napi_env env, napi_callback_info info) {
  std::size_t arguments = 1;
  napi_value name, good;
  napi_get_cb_info(env, info, &arguments, &name, nullptr, nullptr);
  const Kernel* kernel = kernelNamed(env, name);
  if (kernel == nullptr) return nullptr;
  napi_get_boolean(env, selfTest(*kernel), &good);
  return good;
}

// measure(kernel, streams): megabytes per second of one short slice
napi_value measureOf(napi_env env, napi_callback_info info) {
  std::size_t arguments = 2;
  napi_value given[2], speed;
  std::uint32_t streams;
  napi_get_cb_info(env, info, &arguments, given, nullptr, nullptr);
  const Kernel* kernel = kernelNamed(env, given[0]);
  if (kernel == nullptr) return nullptr;
  if (napi_get_value_uint32(env, given[1], &streams) != napi_ok || streams < 1 || streams > kLanesMax)
    return fail(env, "streams is not a number of them");
  napi_create_double(env, measure(*kernel, streams), &speed);
  return speed;
}

}  // namespace
}  // namespace pdfseal

NAPI_MODULE_INIT() {
  using namespace pdfseal;
  constexpr struct {
    const char* name;
    napi_callback function;
  } functions[] = {{"kernels", kernels}, {"selfTest", selfTestOf}, {"measure", measureOf}};
  for (const auto& [name, function] : functions) {
    napi_value value;
    if (napi_create_function(env, name, NAPI_AUTO_LENGTH, function, nullptr, &value) != napi_ok)
      return nullptr;
    if (napi_set_named_property(env, exports, name, value) != napi_ok) return nullptr;
  }
  napi_value threads = threadsClass(env);
  if (threads == nullptr || napi_set_named_property(env, exports, "Threads", threads) != napi_ok)
    return nullptr;
  return exports;
}
