// SPDX-License-Identifier: Apache-2.0
// What is told of a failure, who is told that theirs is an echo, and how a session gets over the loss of its device.
#include <gmock/gmock.h>

#include "engine/runtime/scripted_test.h"

namespace sinter {
namespace {

using scripted::World;
using ::testing::Contains;
using ::testing::HasSubstr;

// Its model is not the one that the scripted device computes.
EngineOptions without_self_test() {
  EngineOptions options;
  options.self_test = false;
  return options;
}

TEST(FirstFailure, OfACompilationNamesNodeKernelAndLine) {
  World world;
  world.start_load();
  for (world.settle(); world.pending() > 0; world.settle()) {
    const bool compiles = world.script.devices.size() && world.device().pending()[0].starts_with("create_pipelines");
    std::optional<Error> error;
    if (compiles) {
      const std::string label = "for node 'add'";
      // As every device words it.
      error =
          Error{Code::Gpu, "compiling kernel Add_vec4 for node 'add': unexpected token (line 2, column 5)", {}, "h"};
    }
    world.finish(0, std::move(error));
  }
  ASSERT_TRUE(world.loads[0] && !*world.loads[0]);
  const Error& error = world.loads[0]->error();
  ASSERT_TRUE(error.failure);
  const Failure& failure = *error.failure;
  EXPECT_EQ(failure.id, 1u);
  EXPECT_EQ(error.echo_of, 0u);
  EXPECT_EQ(failure.code, Code::Gpu);
  EXPECT_EQ(failure.stage, "compile");
  EXPECT_EQ(failure.node, "add");
  EXPECT_EQ(failure.op, "Add");
  EXPECT_EQ(failure.kernel, "Add_vec4");
  EXPECT_EQ(failure.call, "createComputePipelineAsync");
  EXPECT_THAT(failure.inputs, Contains("t float32[1,8]"));
  EXPECT_THAT(failure.outputs, Contains("y float32[1,8]"));
  const size_t marked = failure.wgsl.find("\n> ");
  ASSERT_NE(marked, std::string::npos) << failure.wgsl;
  EXPECT_EQ(std::count(failure.wgsl.begin(), failure.wgsl.begin() + static_cast<ptrdiff_t>(marked) + 1, '\n'), 1);
  EXPECT_THAT(failure.events, Contains(HasSubstr("compile")));
  EXPECT_EQ(world.engine->failures().first(), error.failure);
}

TEST(FirstFailure, OfASubmitNamesTheNodeThatCausedIt) {
  World world;
  const auto session = world.load_now();
  // The first submit fails as a whole; of the single commands that follow, the second does.
  gpu::FakeDevice& device = world.device();
  const size_t run = world.start_run(session);
  size_t submits = 0;
  device.on_dispatch(
      [&](std::string_view kernel, std::span<const std::span<std::byte>> bindings, const gpu::Command& command) {
        scripted::emulate(kernel, bindings, command);
        ++submits;
      });
  for (world.settle(); world.pending() > 0; world.settle()) {
    const bool pop = device.pending()[0].starts_with("pop_error_scope");
    const bool bad = pop && (submits == 2 || submits == 4);  // both commands at once; then the second alone
    world.finish(0, bad ? std::optional(Error{Code::Gpu, "invalid dispatch", {}, {}}) : std::nullopt);
  }
  ASSERT_TRUE(world.runs[run] && !*world.runs[run]);
  const Error& error = world.error_of_run(run);
  ASSERT_TRUE(error.failure);
  EXPECT_EQ(error.failure->node, "add");
  EXPECT_EQ(error.failure->stage, "run");
  EXPECT_EQ(error.failure->call, "queue.submit");
  EXPECT_THAT(error.chain, Contains(HasSubstr("node 'add'")));
  world.expect_run_works(session);
}

TEST(FirstFailure, OfARejectedMapIsNoAnswerOfZeros) {
  World world;
  const auto session = world.load_now();
  const size_t run = world.start_run(session);
  for (world.settle(); world.pending() > 0; world.settle()) {
    const bool read = world.device().pending()[0].starts_with("read_buffer");
    world.finish(0, read ? std::optional(Error{Code::Gpu, "mapAsync was rejected", {}, {}}) : std::nullopt);
  }
  ASSERT_TRUE(world.runs[run] && !*world.runs[run]);
  EXPECT_EQ(world.error_of_run(run).code, Code::Gpu);
  EXPECT_EQ(world.error_of_run(run).failure->call, "buffer.mapAsync");
  world.expect_run_works(session);
}

TEST(FirstFailure, OfATimeoutReachesEveryAwaitOnce) {
  EngineOptions options;
  options.timeout_ms = 1;
  World world(BackendChoice::webgpu, options);
  world.start_load();
  world.start_load();
  world.settle();
  const double start = trace::now_ms();
  while (trace::now_ms() < start + 5) {
  }
  world.engine->poll();
  world.settle();
  ASSERT_TRUE(world.loads[0] && !*world.loads[0] && world.loads[1] && !*world.loads[1]);
  const Error &first = world.loads[0]->error(), &second = world.loads[1]->error();
  EXPECT_EQ(first.code, Code::Timeout);
  EXPECT_EQ(first.failure, second.failure);
  EXPECT_EQ(first.echo_of, 0u);
  EXPECT_EQ(second.echo_of, 1u);
  EXPECT_EQ(first.failure->stage, "open device");
}

TEST(DeviceLoss, EndsALoadAndARunWithOneFailure) {
  World world;
  const auto session = world.load_now();
  const size_t run = world.start_run(session);
  const size_t load = world.start_load();
  world.settle();
  world.device().lose("the driver restarted");
  world.finish_all();
  ASSERT_TRUE(world.runs[run] && !*world.runs[run]);
  ASSERT_TRUE(world.loads[load] && !*world.loads[load]);
  const Error &a = world.error_of_run(run), &b = world.loads[load]->error();
  EXPECT_EQ(a.code, Code::DeviceLost);
  EXPECT_EQ(b.code, Code::DeviceLost);
  EXPECT_EQ(a.failure, b.failure);
  EXPECT_EQ(a.echo_of + b.echo_of, 1u);
  world.expect_run_works(session);
  EXPECT_EQ(session->report().losses, 1u);
  EXPECT_THAT(session->report().fallbacks[0].reason, HasSubstr("the driver restarted"));
  EXPECT_EQ(world.script.opened, 2u);
}

size_t calls_of_load_and_run() {
  World world;
  world.expect_run_works(world.load_now());
  return world.device().calls().size();
}

TEST(DeviceLoss, BeforeEveryCallIsTypedAndTheNextRunIsRight) {
  const size_t calls = calls_of_load_and_run();
  ASSERT_GE(calls, 15u);
  size_t lost_runs = 0;
  for (size_t at = 0; at < calls; ++at) {
    World world;
    world.script.on_open = [&](gpu::FakeDevice& device) {
      if (world.script.devices.size() == 1) device.lose_at(at);
    };
    const size_t load = world.start_load();
    world.finish_all();
    ASSERT_TRUE(world.loads[load]);
    if (!*world.loads[load]) {
      EXPECT_EQ(world.loads[load]->error().code, Code::DeviceLost) << "call " << at;
      world.expect_run_works(world.load_now());
      continue;
    }
    const auto session = **world.loads[load];
    const size_t run = world.start_run(session);
    const size_t queued = world.start_run(session, 3);
    world.finish_all();
    ASSERT_TRUE(world.runs[run] && !*world.runs[run]) << "call " << at;
    EXPECT_EQ(world.error_of_run(run).code, Code::DeviceLost);
    world.expect_right(queued);
    EXPECT_EQ(session->report().losses, 1u);
    EXPECT_EQ(session->report().backend, plan::Backend::webgpu);
    ++lost_runs;
  }
  EXPECT_GE(lost_runs, 3u);
}

TEST(DeviceLoss, BetweenRunsIsHealedWithoutAWord) {
  World world;
  const auto session = world.load_now();
  world.expect_run_works(session);
  world.device().lose("the driver restarted");
  world.expect_run_works(session);
  EXPECT_EQ(session->report().losses, 1u);
  EXPECT_EQ(world.script.opened, 2u);
}

TEST(DeviceLoss, TwiceMovesAnAutomaticSessionToTheCpu) {
  World world(BackendChoice::automatic, without_self_test());
  const auto session = world.load_now();
  ASSERT_EQ(session->report().backend, plan::Backend::webgpu);
  const size_t first = world.start_run(session, 1);
  world.settle();
  world.device().lose("first");
  world.finish_all();
  ASSERT_TRUE(world.runs[first] && !*world.runs[first]);
  EXPECT_EQ(world.error_of_run(first).code, Code::DeviceLost);
  world.expect_run_works(session);
  const size_t second = world.start_run(session, 2);
  world.settle();
  world.device().lose("second");
  world.finish_all();
  world.expect_right(second);
  EXPECT_EQ(session->report().backend, plan::Backend::cpu);
  EXPECT_EQ(session->report().losses, 2u);
  ASSERT_EQ(session->report().fallbacks.size(), 3u);
  EXPECT_EQ(session->report().fallbacks[2].to, "cpu");
  world.expect_run_works(session);
}

TEST(DeviceLoss, WhileAnAutomaticSessionLoadsIsTriedAgain) {
  World world(BackendChoice::automatic, without_self_test());
  world.script.on_open = [&](gpu::FakeDevice& device) {
    if (world.script.devices.size() == 1) device.lose_at(2);
  };
  const auto session = world.load_now();
  ASSERT_TRUE(session);
  EXPECT_EQ(session->report().backend, plan::Backend::webgpu);
  EXPECT_EQ(session->report().losses, 1u);
  world.expect_run_works(session);
}

TEST(InjectedFault, LossAtEveryStepIsNamedAndHealed) {
  for (const char* step : {"0", "1", "2", "mul", "add"}) {
    World world;
    const size_t load = world.start_load({}, DeviceFault{DeviceFault::Kind::lost, step});
    world.finish_all();
    ASSERT_TRUE(world.loads[load] && *world.loads[load]) << to_string(world.loads[load]->error());
    const auto session = **world.loads[load];
    const size_t run = world.start_run(session);
    world.finish_all();
    ASSERT_TRUE(world.runs[run] && !*world.runs[run]);
    const Error& error = world.error_of_run(run);
    EXPECT_EQ(error.code, Code::DeviceLost);
    const bool first = step[0] == '0' || step[0] == '1' || step[0] == 'm';  // step 0 uploads the input
    EXPECT_THAT(error.message, HasSubstr(first ? "injected at step 1, node 'mul'" : "injected at step 2, node 'add'"));
    EXPECT_EQ(error.failure->node, first ? "mul" : "add");
    world.expect_run_works(session);
    EXPECT_EQ(session->report().losses, 1u);
  }
}

TEST(InjectedFault, OutOfMemoryEndsOneRun) {
  World world;
  const size_t load = world.start_load({}, DeviceFault{DeviceFault::Kind::oom, "add"});
  world.finish_all();
  ASSERT_TRUE(world.loads[load] && *world.loads[load]);
  const auto session = **world.loads[load];
  const size_t run = world.start_run(session);
  world.finish_all();
  ASSERT_TRUE(world.runs[run] && !*world.runs[run]);
  EXPECT_EQ(world.error_of_run(run).code, Code::OutOfMemory);
  EXPECT_EQ(world.error_of_run(run).failure->node, "add");
  world.expect_run_works(session);
  EXPECT_EQ(session->report().losses, 0u);
  EXPECT_EQ(world.script.opened, 1u);
}

TEST(InjectedFault, AStepThatIsNotThereIsRefused) {
  World world;
  for (const char* step : {"3", "softmax"}) {
    const size_t load = world.start_load({}, DeviceFault{DeviceFault::Kind::lost, step});
    world.finish_all();
    ASSERT_TRUE(world.loads[load] && !*world.loads[load]);
    EXPECT_EQ(world.loads[load]->error().code, Code::InvalidInput);
    EXPECT_THAT(world.loads[load]->error().message, HasSubstr(step));
  }
}

}  // namespace
}  // namespace sinter
