// SPDX-License-Identifier: Apache-2.0
#include "tests/support/case_runner.h"

#include <random>

#include "engine/async/block_on_native.h"
#include "engine/base/str.h"
#include "engine/ops/infer.h"
#include "engine/tensor/compare.h"

namespace sinter::testing {

std::vector<const Tensor*> CaseSetup::operands() const {
  std::vector<const Tensor*> found;
  for (const Tensor& tensor : inputs) found.push_back(tensor ? &tensor : nullptr);
  return found;
}

Result<Tensor> make_input(const OpCase::Input& input, uint32_t seed) {
  Tensor tensor = SINTER_TRY(Tensor::alloc(input.dtype, input.shape));
  std::mt19937 random(seed);
  for (size_t i = 0; i < tensor.numel(); ++i) {
    const double unit = random() / 4294967296.0;
    set_f64(tensor, i,
            input.values.empty() ? input.lo + unit * (input.hi - input.lo) : input.values[i % input.values.size()]);
  }
  return tensor;
}

Result<CaseSetup> make_case(const OpDef& op, const OpCase& op_case) {
  CaseSetup setup;
  setup.node.name = op_case.name;
  setup.node.op = &op;
  setup.node.attrs = op_case.attrs;
  setup.node.expr = op_case.expr;
  setup.node.epilogue_first = op_case.epilogue_first;
  const std::vector<OpCase::Input>& inputs = op_case.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    setup.node.inputs.push_back(inputs[i].absent ? kNone : static_cast<ValueId>(i));
    setup.inputs.push_back(inputs[i].absent ? Tensor()
                                            : SINTER_TRY(make_input(inputs[i], static_cast<uint32_t>(i + 1))));
  }
  for (size_t i = 0; i < op_case.outputs; ++i) setup.node.outputs.push_back(static_cast<ValueId>(100 + i));
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorInfo info{.present = !inputs[i].absent};
    if (info.present) {
      info.dtype = inputs[i].dtype;
      info.shape = inputs[i].shape;
      info.weight = inputs[i].constant;
      if (inputs[i].constant) info.constant = &setup.inputs[i];
    }
    setup.in.push_back(info);
  }
  setup.out = SINTER_TRY(infer_node(setup.node, setup.in, true));
  return setup;
}

Result<std::vector<Tensor>> run_reference(const CaseSetup& setup) {
  return sinter::run_reference(setup.node, setup.operands(), setup.out);
}

namespace {

template <class T>
Result<T> wait(DeviceRunner& runner, Task<T> task) {
  return block_on(runner.executor, std::move(task), [&] { return runner.device.poll(); });
}

constexpr uint32_t kUse = gpu::kStorage | gpu::kCopyDst | gpu::kCopySrc;

// The buffers of one run, destroyed with it.
class Buffers {
 public:
  Buffers(gpu::Device& device, const CaseSetup& setup, const wgsl::Target& target)
      : device_(device), setup_(setup), target_(target) {}
  ~Buffers() {
    for (gpu::BufferId id : all_) device_.destroy_buffer(id);
  }

  gpu::BufferRange garbage(uint64_t bytes) {
    bytes = std::max<uint64_t>(16, (bytes + 3) / 4 * 4);
    const gpu::BufferId id = keep(device_.create_buffer(bytes, kUse, "garbage"));
    device_.write_buffer(id, 0, std::vector<std::byte>(bytes, std::byte{0xa5}));
    return {id, 0, bytes};
  }
  gpu::BufferRange filled(std::span<const std::byte> bytes, uint32_t use) {
    std::vector<std::byte> padded(bytes.begin(), bytes.end());
    padded.resize(std::max<size_t>(16, (padded.size() + 3) / 4 * 4));
    const gpu::BufferId id = keep(device_.create_buffer(padded.size(), use, "input"));
    device_.write_buffer(id, 0, padded);
    return {id, 0, padded.size()};
  }
  Result<gpu::BufferRange> input(const wgsl::Binding& binding) {
    const Tensor& tensor = setup_.inputs[binding.index];
    if (binding.packer) {
      const Tensor packed = SINTER_TRY(binding.packer->pack(tensor, binding.packer_arg));
      return filled(packed.bytes(), kUse);
    }
    return filled(SINTER_TRY(wgsl::to_device(tensor, target_)).bytes(), kUse);
  }
  gpu::BufferId keep(gpu::BufferId id) {
    all_.push_back(id);
    return id;
  }

 private:
  gpu::Device& device_;
  const CaseSetup& setup_;
  const wgsl::Target& target_;
  std::vector<gpu::BufferId> all_;
};

}  // namespace

Result<> DeviceRunner::compile(std::span<const wgsl::Kernel> kernels) {
  std::vector<gpu::PipelineDesc> descs;
  for (const wgsl::Kernel& kernel : kernels) {
    if (pipelines.contains(kernel.text)) continue;
    pipelines[kernel.text] = 0;
    descs.push_back({kernel.name, kernel.text, kernel.bindings, !kernel.uniforms.empty()});
  }
  if (descs.empty()) return {};
  auto made = wait(*this, device.create_pipelines(descs));
  for (size_t i = 0; i < descs.size(); ++i) {
    const std::string text(descs[i].wgsl);
    if (made) {
      pipelines[text] = (*made)[i];
    } else {
      pipelines.erase(text);
    }
  }
  if (!made) return std::unexpected(std::move(made).error());
  return {};
}

Result<std::vector<Tensor>> DeviceRunner::run(const CaseSetup& setup, const wgsl::Target& target) {
  WgslContext ctx{setup.node, target, setup.in, setup.out, {}, {}};
  SINTER_CHECK_OK(setup.node.op->wgsl(ctx));
  Buffers buffers(device, setup, target);
  std::vector<gpu::BufferRange> scratch, outputs;
  for (const wgsl::Scratch& s : ctx.scratch) scratch.push_back(buffers.garbage(s.bytes));
  for (const TensorInfo& info : setup.out) {
    outputs.push_back(
        buffers.garbage(wgsl::device_bytes(info.dtype, static_cast<uint64_t>(info.shape->numel()), target)));
  }
  SINTER_CHECK_OK(compile(ctx.kernels));

  device.push_error_scope();
  std::vector<gpu::Command> commands;
  std::vector<gpu::BindGroupId> groups;
  for (size_t k = 0; k < ctx.kernels.size(); ++k) {
    const wgsl::Kernel& kernel = ctx.kernels[k];
    std::vector<gpu::BufferRange> ranges;
    for (const wgsl::Binding& binding : kernel.bindings) {
      switch (binding.role) {
        case wgsl::Binding::Role::input:
          ranges.push_back(SINTER_TRY(buffers.input(binding)));
          break;
        case wgsl::Binding::Role::output:
          ranges.push_back(outputs[binding.index]);
          break;
        case wgsl::Binding::Role::scratch:
          ranges.push_back(scratch[binding.index]);
          break;
      }
    }
    if (!kernel.uniforms.empty()) ranges.push_back(buffers.filled(kernel.uniforms, gpu::kUniform | gpu::kCopyDst));
    groups.push_back(device.create_bind_group(pipelines[kernel.text], ranges));
    commands.push_back({.a = pipelines[kernel.text],
                        .b = groups[k],
                        .x = kernel.groups[0],
                        .y = kernel.groups[1],
                        .z = kernel.groups[2]});
  }
  Result<> created = wait(*this, device.pop_error_scope());
  std::vector<Tensor> results;
  for (size_t i = 0; created && i < setup.out.size(); ++i) {
    Tensor out = SINTER_TRY(Tensor::alloc(setup.out[i].dtype, *setup.out[i].shape));
    const uint64_t bytes = outputs[i].bytes;
    const gpu::BufferId staging = buffers.keep(device.create_buffer(bytes, gpu::kMapRead | gpu::kCopyDst, "staging"));
    commands.push_back({.kind = gpu::Command::kCopy, .a = outputs[i].buffer, .b = staging, .bytes = bytes});
    std::vector<std::byte> raw(bytes);
    created = wait(*this, device.execute({{}, commands, staging, 0, raw}));
    commands.clear();
    if (created) created = wgsl::from_device(raw, out, target);
    results.push_back(out);
  }
  for (gpu::BindGroupId id : groups) device.destroy_bind_group(id);
  SINTER_CHECK_OK(std::move(created));
  return results;
}

std::string difference(const Tensor& expected, const Tensor& actual, double rtol, double atol) {
  const auto compared = compare(actual, expected, {rtol, atol});
  if (!compared) return to_string(compared.error());
  return compared->equal() ? "" : to_string(*compared, expected.shape());
}

}  // namespace sinter::testing
