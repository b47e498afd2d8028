// SPDX-License-Identifier: Apache-2.0
// Compiled by tests/sync_reads_test.py for both targets; which use is compiled is its choice.
#include "include/sinter/client.hpp"

using namespace sinter::client;

#ifdef ASYNC
void start(const Engine& engine, const Session& session, const sinter_tensor& input) {
  engine.open_async({}, "", [](Result<Session>) {});
  session.run_async({&input, 1}, [](Result<std::vector<Output>>) {});
  sinter_session_run(1, &input, 1, nullptr, nullptr);
}
#endif

#ifdef SYNC_RUN
size_t wait(const Session& session, const sinter_tensor& input) { return session.run({&input, 1})->size(); }
#endif

#ifdef SYNC_OPEN
bool wait(const Engine& engine) { return engine.open({}).has_value(); }
#endif

#ifdef SYNC_C
sinter_outputs* wait(const sinter_tensor* input) { return sinter_session_run_sync(1, input, 1, nullptr); }
#endif

#ifdef SYNC_WAIT
#include "include/sinter/engine.hpp"
bool wait(const sinter::api::Engine& engine, const sinter::api::Session& session) {
  return engine.wait(session.run({})).has_value();
}
#endif

#ifdef SYNC_DATA
#include "include/sinter/tensor.hpp"
bool wait(const sinter::api::Tensor& tensor) { return tensor.to_data().has_value(); }
#endif

#ifdef SYNC_BLOCK_ON
#include "engine/async/block_on_native.h"
int wait(sinter::Executor& executor, sinter::Task<int> task) { return *sinter::block_on(executor, std::move(task)); }
#endif
