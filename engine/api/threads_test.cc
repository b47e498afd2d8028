// SPDX-License-Identifier: Apache-2.0
// The C API from many threads at once. Built and run under ThreadSanitizer too (./dev build tsan).
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "engine/api/host_native.h"
#include "engine/runtime/scripted_test.h"
#include "include/sinter/client.hpp"

namespace sinter::client {
namespace {

using ::testing::HasSubstr;

constexpr int kThreads = 8;
constexpr int kRuns = 20;

const std::string& model() {
  static const std::string bytes = scripted::model_bytes();
  return bytes;
}
std::span<const std::byte> model_span() { return std::as_bytes(std::span(model())); }

/// The input of a seed, as the C API takes it.
struct Input {
  explicit Input(int64_t seed) {
    for (int64_t i = 0; i < scripted::kSize; ++i) values[i] = scripted::x_at(i, seed);
  }
  sinter_tensor tensor() const { return {"x", 1, 2, dims, values, sizeof values}; }
  int64_t dims[2] = {1, scripted::kSize};
  float values[scripted::kSize];
};

bool is_right(const std::vector<Output>& outputs, int64_t seed) {
  if (outputs.size() != 1 || outputs[0].name != "y" || outputs[0].data.size() != sizeof(float) * scripted::kSize) {
    return false;
  }
  const auto* y = reinterpret_cast<const float*>(outputs[0].data.data());
  for (int64_t i = 0; i < scripted::kSize; ++i) {
    if (y[i] != scripted::x_at(i, seed) * scripted::w_at(i) + scripted::b_at(i)) return false;
  }
  return true;
}

Result<std::vector<Output>> run(const Session& session, int64_t seed) {
  const Input input(seed);
  const sinter_tensor tensor = input.tensor();
  return session.run({&tensor, 1});
}

template <class Body>
void on_threads(Body body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

Engine engine_on(const char* options) {
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine) << engine.error().message;
  return std::move(*engine);
}

void expect_runs_work(const Session& session, int thread) {
  for (int i = 0; i < kRuns; ++i) {
    const int64_t seed = thread * 100 + i;
    const auto outputs = run(session, seed);
    ASSERT_TRUE(outputs) << outputs.error().json;
    EXPECT_TRUE(is_right(*outputs, seed));
  }
}

TEST(Threads, ShareOneSession) {
  const Engine engine = engine_on("backend=cpu\nthreads=2");
  const auto session = engine.open(model_span());
  ASSERT_TRUE(session) << session.error().json;
  on_threads([&](int thread) { expect_runs_work(*session, thread); });
}

TEST(Threads, HaveSessionsOfTheirOwnOnOneEngine) {
  const Engine engine = engine_on("backend=cpu");
  on_threads([&](int thread) {
    for (int round = 0; round < 3; ++round) {
      const auto session = engine.open(model_span(), "fusion=false");
      ASSERT_TRUE(session) << session.error().json;
      expect_runs_work(*session, thread);
    }
  });
}

TEST(Threads, HaveEnginesOfTheirOwn) {
  on_threads([](int thread) {
    for (int round = 0; round < 3; ++round) {
      const Engine engine = engine_on(thread % 2 ? "backend=cpu" : "backend=reference");
      const auto session = engine.open(model_span());
      ASSERT_TRUE(session) << session.error().json;
      expect_runs_work(*session, thread);
    }
  });
}

TEST(Threads, MayCloseWhatOthersUse) {
  for (const bool whole_engine : {false, true}) {
    const sinter_engine engine = sinter_engine_create("backend=cpu", nullptr);
    const sinter_session session = sinter_session_open_sync(engine, model().data(), model().size(), nullptr, nullptr);
    ASSERT_NE(session, 0u);
    std::atomic<int> right = 0, refused = 0;
    on_threads([&](int thread) {
      if (thread == 0) {
        while (right < 20) std::this_thread::yield();
        whole_engine ? sinter_engine_close(engine) : sinter_session_close(session);
        return;
      }
      for (int64_t seed = 0; refused < 20; ++seed) {
        const Input input(seed);
        const sinter_tensor tensor = input.tensor();
        sinter_error* error = nullptr;
        sinter_outputs* outputs = sinter_session_run_sync(session, &tensor, 1, &error);
        if (outputs) {
          size_t count = 0;
          const sinter_tensor* tensors = sinter_outputs_get(outputs, &count);
          EXPECT_TRUE(is_right({tensors, tensors + count}, seed));
          ++right;
        } else {
          const sinter_code code = sinter_error_code(error);
          EXPECT_TRUE(code == SINTER_CANCELLED || code == SINTER_INVALID_INPUT) << sinter_error_json(error);
          ++refused;
        }
        sinter_error_free(error);
        sinter_outputs_free(outputs);
      }
    });
    sinter_engine_close(engine);
  }
}

TEST(Threads, LoadWhileOthersRunAndCancel) {
  const Engine engine = engine_on("backend=cpu");
  const auto session = engine.open(model_span());
  ASSERT_TRUE(session);
  std::atomic<int> answers = 0, started = 0;
  on_threads([&](int thread) {
    for (int i = 0; i < kRuns; ++i) {
      const int64_t seed = thread * 100 + i;
      const Input input(seed);
      const sinter_tensor tensor = input.tensor();
      ++started;
      const uint64_t request = session->run_async({&tensor, 1}, [&, seed](auto outputs) {
        if (outputs) {
          EXPECT_TRUE(is_right(*outputs, seed));
        } else {
          EXPECT_EQ(outputs.error().code, SINTER_CANCELLED) << outputs.error().json;
        }
        ++answers;
      });
      if (i % 3 == 0) engine.cancel(request);
      if (i % 5 == 0) {
        ++started;
        engine.open_async(model_span(), "", [&](auto opened) {
          EXPECT_TRUE(opened) << opened.error().json;
          ++answers;
        });
      }
    }
  });
  while (answers < started) std::this_thread::yield();
  const auto last = run(*session, 1);
  ASSERT_TRUE(last);
  EXPECT_TRUE(is_right(*last, 1));
}

TEST(Threads, ACallbackCannotWaitForItself) {
  const Engine engine = engine_on("backend=cpu");
  const auto session = engine.open(model_span());
  ASSERT_TRUE(session);
  std::atomic<bool> done = false;
  const Input input(1);
  const sinter_tensor tensor = input.tensor();
  session->run_async({&tensor, 1}, [&](auto) {
    const auto inner = run(*session, 2);
    EXPECT_FALSE(inner);
    EXPECT_EQ(inner.error().code, SINTER_INVALID_INPUT);
    EXPECT_THAT(inner.error().hint, HasSubstr("sinter_session_run"));
    session->run_async({&tensor, 1}, [&](auto outputs) {
      EXPECT_TRUE(outputs);
      done = true;
    });
  });
  while (!done) std::this_thread::yield();
}

TEST(Threads, AnEngineMayBeClosedFromItsCallback) {
  struct Context {
    sinter_engine engine;
    std::atomic<bool> done = false;
  } context{sinter_engine_create("backend=cpu", nullptr)};
  sinter_session_open(
      context.engine, model().data(), model().size(), nullptr,
      [](void* pointer, sinter_session session, const sinter_error* error) {
        auto* given = static_cast<Context*>(pointer);
        EXPECT_EQ(error, nullptr);
        sinter_engine_close(given->engine);
        EXPECT_EQ(sinter_session_run(
                      session, nullptr, 0,
                      [](void*, const sinter_tensor*, size_t, const sinter_error* refused) {
                        EXPECT_EQ(sinter_error_code(refused), SINTER_INVALID_INPUT);
                      },
                      nullptr),
                  0u);
        given->done = true;
      },
      &context);
  while (!context.done) std::this_thread::yield();
}

TEST(CApi, WrongHandlesAndOptionsAreTyped) {
  sinter_error* error = nullptr;
  EXPECT_EQ(sinter_engine_create("colour=red", &error), 0u);
  EXPECT_EQ(sinter_error_code(error), SINTER_INVALID_INPUT);
  sinter_error_free(error);
  error = nullptr;
  EXPECT_EQ(sinter_session_run_sync(12345, nullptr, 0, &error), nullptr);
  EXPECT_THAT(sinter_error_message(error), HasSubstr("closed"));
  sinter_error_free(error);
  error = nullptr;
  EXPECT_EQ(sinter_session_open_sync(0, "x", 1, nullptr, &error), 0u);
  EXPECT_EQ(sinter_error_code(error), SINTER_INVALID_INPUT);
  sinter_error_free(error);
  sinter_engine_close(12345);
  sinter_session_close(12345);
  sinter_cancel(1, 2);

  const Engine engine = engine_on("backend=cpu");
  const auto bad = engine.open(std::as_bytes(std::span("no model")));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, SINTER_INVALID_MODEL);
  EXPECT_THAT(bad.error().json, HasSubstr("\"firstFailure\":{\"id\":1,\"code\":\"InvalidModel\""));
  const auto missing = engine.open_file("no/such/file.onnx");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, SINTER_IO);
  const auto session = engine.open(model_span());
  ASSERT_TRUE(session);
  Input input(1);
  sinter_tensor tensor = input.tensor();
  tensor.bytes = 3;
  const auto refused = session->run({&tensor, 1});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("has 3 bytes"));
}

// The engine over a scripted device, from eight threads.
Task<std::shared_ptr<gpu::Device>> open_fake(gpu::DeviceOptions) {
  auto device = std::make_shared<gpu::FakeDevice>();
  device->on_dispatch(scripted::emulate);
  co_return device;
}

TEST(Threads, ShareASessionOnADevice) {
  EngineOptions options;
  options.open_device = &open_fake;
  api::Host host(options);
  std::shared_ptr<sinter::Session> session;  // set and used on the engine's thread only
  std::atomic<int> answers = 0;
  host.post([&](const std::shared_ptr<sinter::Engine>& engine) {
    SessionOptions session_options;
    session_options.backend = BackendChoice::webgpu;
    session_options.fusion = false;
    const test::Blob blob(model());
    spawn(engine->executor(), open_session(engine, {blob.bytes(), blob.text, nullptr}, session_options),
          [&](sinter::Result<std::shared_ptr<sinter::Session>> opened) {
            EXPECT_TRUE(opened);
            session = *opened;
            ++answers;
          });
  });
  while (answers < 1) std::this_thread::yield();
  on_threads([&](int) {
    for (int i = 0; i < kRuns; ++i) {
      host.post([&](const std::shared_ptr<sinter::Engine>& engine) {
        Tensor x = *Tensor::alloc(DType::f32, Shape{1, scripted::kSize});
        for (float& value : x.mutable_data<float>()) value = 2;
        spawn(engine->executor(), session->run({{"x", x}}, {}), [&](sinter::Result<std::vector<NamedTensor>> outputs) {
          EXPECT_TRUE(outputs);
          EXPECT_EQ((*outputs)[0].tensor.data<float>()[3], 2 * scripted::w_at(3) + scripted::b_at(3));
          ++answers;
        });
      });
    }
  });
  while (answers < 1 + kThreads * kRuns) std::this_thread::yield();
  host.post([&](const std::shared_ptr<sinter::Engine>&) { session = nullptr; });
  host.stop();
  EXPECT_FALSE(host.post([](const auto&) {}));
}

#if SINTER_HAVE_WEBGPU
TEST(Threads, ShareARealDevice) {
  const Engine engine = engine_on("backend=webgpu");
  const auto session = engine.open(model_span());
  if (!session && session.error().code == SINTER_GPU) GTEST_SKIP() << session.error().message;
  ASSERT_TRUE(session) << session.error().json;
  on_threads([&](int thread) {
    const auto own = engine.open(model_span(), "fusion=false");
    ASSERT_TRUE(own) << own.error().json;
    expect_runs_work(thread % 2 ? *session : *own, thread);
  });
}

TEST(Threads, HaveRealDevicesOfTheirOwn) {
  on_threads([](int thread) {
    const Engine engine = engine_on("backend=webgpu");
    const auto session = engine.open(model_span());
    if (!session && session.error().code == SINTER_GPU) return;
    ASSERT_TRUE(session) << session.error().json;
    expect_runs_work(*session, thread);
  });
}
#endif

}  // namespace
}  // namespace sinter::client
