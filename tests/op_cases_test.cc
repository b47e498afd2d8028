// SPDX-License-Identifier: Apache-2.0
// Every operator row's cases: the kernels on a device against the row's reference, under several sets of limits.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>

#include "engine/async/block_on_native.h"
#include "engine/base/str.h"
#include "tests/support/case_runner.h"

namespace sinter::testing {
namespace {

std::string title(const OpDef& op, const OpCase& op_case) { return StrCat(op.name, " '", op_case.name, "'"); }

TEST(OpCases, EveryRowHasReferenceInferenceAndCases) {
  for (const OpDef* op : all_ops()) {
    EXPECT_TRUE(op->infer && op->reference && op->cases) << op->name;
    EXPECT_TRUE(op->op_class != OpClass::elementwise || op->scalar) << op->name;
  }
}

TEST(OpCases, ReferenceRunsEveryCase) {
  for (const OpDef* op : all_ops()) {
    if (!op->cases) continue;  // the test above has said so
    std::vector<OpCase> cases;
    op->cases(cases);
    for (const OpCase& op_case : cases) {
      auto setup = make_case(*op, op_case);
      ASSERT_TRUE(setup) << title(*op, op_case) << ": " << to_string(setup.error());
      auto outputs = run_reference(*setup);
      ASSERT_TRUE(outputs) << title(*op, op_case) << ": " << to_string(outputs.error());
    }
  }
}

class OpCasesOnDevice : public ::testing::Test {
 protected:
  // One device for the whole suite: its pipelines serve all sets of limits.
  struct Shared {
    Executor executor;
    std::shared_ptr<gpu::Device> device;
    std::unique_ptr<DeviceRunner> runner;
  };
  static inline Shared* shared_ = nullptr;

  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  void SetUp() override {
    if (!getenv("SINTER_TEST_ADAPTER")) GTEST_SKIP() << "no adapter chosen; see ./dev env";
    if (shared_) return;
    shared_ = new Shared;
    auto opened = block_on(shared_->executor, gpu::open_device({}));
    ASSERT_TRUE(opened) << to_string(opened.error());
    shared_->device = *opened;
    shared_->runner = std::make_unique<DeviceRunner>(shared_->executor, *shared_->device);
  }
  static const wgsl::Target& limits() { return shared_->device->target(); }

  // SINTER_TEST_OP=NAME runs one operator only.
  static bool chosen(const OpDef& op) {
    const char* only = getenv("SINTER_TEST_OP");
    return op.wgsl && op.cases && (!only || op.name == only);
  }

  void run_all(const wgsl::Target& target) {
    size_t ran = 0;
    for (const OpDef* op : all_ops()) {
      if (!chosen(*op)) continue;
      std::vector<OpCase> cases;
      op->cases(cases);
      for (const OpCase& op_case : cases) ran += run_one(*op, op_case, target);
    }
    EXPECT_GT(ran, 0u);
  }

  // The cases whose kernels are others under `target` than under the device's own limits.
  void run_changed(const wgsl::Target& target) {
    size_t ran = 0;
    for (const OpDef* op : all_ops()) {
      if (!chosen(*op)) continue;
      std::vector<OpCase> cases;
      op->cases(cases);
      for (const OpCase& op_case : cases) {
        if (kernel_texts(*op, op_case, target) != kernel_texts(*op, op_case, limits()))
          ran += run_one(*op, op_case, target);
      }
    }
    EXPECT_TRUE(ran > 0 || getenv("SINTER_TEST_OP"));
  }

  static std::vector<std::string> kernel_texts(const OpDef& op, const OpCase& op_case, const wgsl::Target& target) {
    auto setup = make_case(op, op_case);
    if (!setup) return {};
    WgslContext ctx{setup->node, target, setup->in, setup->out, {}, {}};
    if (!op.wgsl(ctx)) return {};
    std::vector<std::string> texts;
    for (const wgsl::Kernel& kernel : ctx.kernels) texts.push_back(kernel.text);
    return texts;
  }

  bool run_one(const OpDef& op, const OpCase& op_case, const wgsl::Target& target) {
    auto setup = make_case(op, op_case);
    EXPECT_TRUE(setup) << title(op, op_case) << ": " << to_string(setup.error());
    if (!setup) return false;
    auto expected = run_reference(*setup);
    EXPECT_TRUE(expected) << title(op, op_case) << ": " << to_string(expected.error());
    auto actual = shared_->runner->run(*setup, target);
    if (!actual && actual.error().code == Code::Unsupported) return false;
    EXPECT_TRUE(actual) << title(op, op_case) << ": " << to_string(actual.error());
    if (!expected || !actual) return false;
    for (size_t i = 0; i < expected->size(); ++i) {
      const std::string text = difference((*expected)[i], (*actual)[i], op_case.rtol, op_case.atol);
      EXPECT_EQ(text, "") << title(op, op_case) << ", output " << i;
    }
    return true;
  }
};

TEST_F(OpCasesOnDevice, AgreeWithReference) { run_all(limits()); }

TEST_F(OpCasesOnDevice, AgreeUnderSmallWorkgroups) {
  wgsl::Target target = limits();
  target.max_invocations = std::min(target.max_invocations, 128u);
  target.max_group_size = {128, 128, 64};
  run_all(target);
}

TEST_F(OpCasesOnDevice, AgreeUnderTheGuaranteedLimitsWithoutF16) { run_all(wgsl::Target{}); }

TEST_F(OpCasesOnDevice, PlainKernelsAgree) {
  wgsl::Target target = limits();
  target.force_plain = true;
  run_changed(target);
}

// A software adapter gets kernels for few threads, a GPU for many: both must be right on either.
TEST_F(OpCasesOnDevice, KernelsForTheOtherKindOfDeviceAgree) {
  wgsl::Target target = limits();
  target.software = !target.software;
  run_changed(target);
}

TEST_F(OpCasesOnDevice, AgreeWhenGridsFold) {
  wgsl::Target target = limits();
  target.max_groups = 3;
  OpCase op_case{.name = "folded grid", .inputs = {{.shape = {7, 100}}, {.shape = {100}}}};
  EXPECT_TRUE(run_one(*find_op("", "Add"), op_case, target));
}

}  // namespace
}  // namespace sinter::testing
