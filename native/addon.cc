// The add-on's face to JavaScript (Node-API 8). Everything it keeps belongs to one environment, so every
// worker thread has its own and may end at any time.
#include <node_api.h>

#include <cstring>
#include <iterator>
#include <memory>
#include <optional>

#include "kernels.h"
#include "self_test.h"
#include "threads.h"
#include "values.h"

namespace pdfseal {
namespace {

struct Instance {
  const Kernel* kernel = &fastestKernel();
};

Instance& instanceOf(napi_env env) {
  void* data = nullptr;
  napi_get_instance_data(env, &data);
  return *static_cast<Instance*>(data);
}

constexpr char kClosed[] = "the threads are closed";

// What was asked of the threads, and whom to tell.
struct Asked : Task {
  napi_deferred deferred;
  napi_ref memory;
};

// The native half of a `Threads` object. Shared with what tells of tasks: whichever of them ends first.
class HashThreads {
 public:
  // Null when there is an exception.
  static std::shared_ptr<HashThreads> open(napi_env env, std::size_t count) {
    const auto opened = std::make_shared<HashThreads>();
    auto* context = new std::shared_ptr(opened);
    // With no function of JavaScript: `settle` is called on its thread, with each task that is done.
    const napi_status made =
        napi_create_threadsafe_function(env, nullptr, nullptr, text(env, "pdfseal hash"), 0, 1, context, forget,
                                        context, settle, &opened->done_);
    if (made != napi_ok) {
      delete context;
      return nullptr;
    }
    napi_unref_threadsafe_function(env, opened->done_);
    // Hooks run in reverse: the threads end before what they call.
    napi_add_env_cleanup_hook(env, end, opened.get());
    opened->env_ = env;
    opened->threads_.emplace(count, *instanceOf(env).kernel,
                             [done = opened->done_](std::unique_ptr<Task> task) {
                               // Where the environment has ended meanwhile there is nobody to tell.
                               if (napi_call_threadsafe_function(done, task.get(), napi_tsfn_blocking) == napi_ok)
                                 task.release();
                             });
    return opened;
  }

  bool isOpen() const { return threads_.has_value(); }

  void add(napi_env env, std::unique_ptr<Asked> asked) {
    // A process does not end while it waits for digests.
    if (underWay_++ == 0) napi_ref_threadsafe_function(env, done_);
    threads_->add(std::move(asked));
  }

  // Waits for what is under way; the rest is told that it came too late.
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

// new Threads(count: number)
napi_value newThreads(napi_env env, napi_callback_info info) {
  std::size_t arguments = 1;
  napi_value self, value;
  std::uint32_t count;
  napi_get_cb_info(env, info, &arguments, &value, &self, nullptr);
  if (napi_get_value_uint32(env, value, &count) != napi_ok || count < 1 || count > kThreadsMax)
    return fail(env, "count is not a number of threads");
  std::shared_ptr<HashThreads> opened = HashThreads::open(env, count);
  if (opened == nullptr) return fail(env, "no threads can be started");
  auto drop = [](napi_env, void* data, void*) {
    const std::unique_ptr<std::shared_ptr<HashThreads>> threads(static_cast<std::shared_ptr<HashThreads>*>(data));
    (*threads)->close();
  };
  auto* wrapped = new std::shared_ptr(std::move(opened));
  if (napi_wrap(env, self, wrapped, drop, nullptr, nullptr) != napi_ok) drop(env, wrapped, nullptr);
  return self;
}

// The threads a method was called on: Node-API has seen to it that they are some.
HashThreads& threadsOf(napi_env env, napi_callback_info info, napi_value& argument) {
  std::size_t arguments = 1;
  napi_value self;
  void* data = nullptr;
  napi_get_cb_info(env, info, &arguments, &argument, &self, nullptr);
  napi_unwrap(env, self, &data);
  return **static_cast<std::shared_ptr<HashThreads>*>(data);
}

// hash(pieces): Promise<({state} | {sha256, sha512})[]>
napi_value hash(napi_env env, napi_callback_info info) {
  napi_value pieces, memory, promise;
  HashThreads& threads = threadsOf(env, info, pieces);
  if (!threads.isOpen()) return fail(env, kClosed);
  auto asked = std::make_unique<Asked>();
  if (!readPieces(env, pieces, asked->pieces, memory)) return nullptr;
  // A getter among the pieces may have closed them.
  if (!threads.isOpen()) return fail(env, kClosed);
  if (napi_create_promise(env, &asked->deferred, &promise) != napi_ok ||
      napi_create_reference(env, memory, 1, &asked->memory) != napi_ok)
    return nullptr;
  threads.add(env, std::move(asked));
  return promise;
}

// close(): waits for what is under way
napi_value close(napi_env env, napi_callback_info info) {
  napi_value none;
  threadsOf(env, info, none).close();
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

// kernels(): the names of those that run on this processor, slowest first
napi_value kernels(napi_env env, napi_callback_info) {
  napi_value names;
  std::uint32_t i = 0;
  napi_create_array(env, &names);
  for (const Kernel* kernel : compiledKernels()) {
    if (kernel->supported()) napi_set_element(env, names, i++, text(env, kernel->name));
  }
  return names;
}

// kernel(): the name of the one in use
napi_value kernelInUse(napi_env env, napi_callback_info) { return text(env, instanceOf(env).kernel->name); }

// force(name): uses it from now on in this environment
napi_value force(napi_env env, napi_callback_info info) {
  std::size_t count = 1, length = 0;
  napi_value value;
  char name[32];
  napi_get_cb_info(env, info, &count, &value, nullptr, nullptr);
  if (napi_get_value_string_latin1(env, value, name, sizeof name, &length) != napi_ok)
    return fail(env, "name is not a string");
  for (const Kernel* kernel : compiledKernels()) {
    if (kernel->supported() && std::strcmp(kernel->name, name) == 0) {
      instanceOf(env).kernel = kernel;
      return nullptr;
    }
  }
  return fail(env, "no kernel of this name runs on this processor");
}

// selfTest(): whether the kernel in use knows the known answers
napi_value selfTestInUse(napi_env env, napi_callback_info) {
  napi_value good;
  napi_get_boolean(env, selfTest(*instanceOf(env).kernel), &good);
  return good;
}

}  // namespace
}  // namespace pdfseal

NAPI_MODULE_INIT() {
  using namespace pdfseal;
  auto* instance = new Instance();
  auto drop = [](napi_env, void* data, void*) { delete static_cast<Instance*>(data); };
  if (napi_set_instance_data(env, instance, drop, nullptr) != napi_ok) {
    delete instance;
    return nullptr;
  }
  constexpr struct {
    const char* name;
    napi_callback function;
  } functions[] = {{"kernels", kernels},
                   {"kernel", kernelInUse},
                   {"force", force},
                   {"selfTest", selfTestInUse}};
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
