// SPDX-License-Identifier: Apache-2.0
// Compiling pipelines: all of a batch at once on the library's threads, each failure explained by the compiler's own
// messages with the source line marked.
#include "engine/gpu/device_native.h"

#if SINTER_HAVE_WEBGPU

#include "engine/async/wait.h"
#include "engine/base/str.h"
#include "engine/gpu/shader_error.h"

namespace sinter::gpu::native {
namespace {

struct BatchState {
  NativeDevice* device;
  std::shared_ptr<Trouble> trouble;
  Completion<std::vector<PipelineId>> done;
  size_t left = 0;
  std::vector<PipelineId> ids;
  std::optional<Error> first;

  void finish_one() {
    if (--left > 0) return;
    device->delivered();
    if (trouble->lost()) first = device->lost_error();
    if (first) {
      for (PipelineId id : ids) {
        if (id) device->destroy_pipeline(id);
      }
      done.complete(std::unexpected(std::move(*first)));
    } else {
      done.complete(std::move(ids));
    }
  }
};

// One pipeline on its way. The scope's answer and the pipeline may come in any order; the later one goes on.
struct Compile {
  std::shared_ptr<BatchState> batch;
  size_t index = 0;
  std::string label, text;
  Ref<WGPUShaderModule> module;
  Ref<WGPUBindGroupLayout> layout;
  Ref<WGPUComputePipeline> pipeline;
  int answers_due = 2;
  std::string scope_message;  // what creating the module and the layout said
  std::string message;        // what creating the pipeline said
};

void on_info(WGPUCompilationInfoRequestStatus status, const WGPUCompilationInfo* info, void* user, void*) {
  std::unique_ptr<Compile> compile(static_cast<Compile*>(user));
  std::vector<ShaderMessage> messages;
  if (status == WGPUCompilationInfoRequestStatus_Success && info) {
    for (size_t i = 0; i < info->messageCount; ++i) {
      const WGPUCompilationMessage& message = info->messages[i];
      if (message.type != WGPUCompilationMessageType_Error) continue;
      messages.push_back({text_of(message.message), message.lineNum, message.linePos});
    }
  }
  BatchState& batch = *compile->batch;
  if (!batch.first) {
    const std::string& other = compile->scope_message.empty() ? compile->message : compile->scope_message;
    batch.first = shader_error(compile->label, compile->text, messages, other);
  }
  batch.finish_one();
}

void answered(Compile* raw) {
  if (--raw->answers_due > 0) return;
  std::unique_ptr<Compile> compile(raw);
  BatchState& batch = *compile->batch;
  if (compile->pipeline) {
    batch.ids[compile->index] = batch.device->add_pipeline(compile->pipeline.detach(), compile->layout.detach());
    batch.finish_one();
    return;
  }
  WGPUCompilationInfoCallbackInfo info{};
  info.mode = WGPUCallbackMode_AllowProcessEvents;
  info.callback = on_info;
  WGPUShaderModule module = compile->module.get();
  const Api& api = batch.device->api();
  info.userdata1 = compile.release();
  api.ShaderModuleGetCompilationInfo(module, info);
}

void on_scope(WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView message, void* user, void*) {
  auto* compile = static_cast<Compile*>(user);
  if (status != WGPUPopErrorScopeStatus_Success || type != WGPUErrorType_NoError) {
    compile->scope_message = text_of(message);
  }
  answered(compile);
}

void on_pipeline(WGPUCreatePipelineAsyncStatus status, WGPUComputePipeline pipeline, WGPUStringView message, void* user,
                 void*) {
  auto* compile = static_cast<Compile*>(user);
  if (status == WGPUCreatePipelineAsyncStatus_Success) {
    compile->pipeline = Ref(pipeline, compile->batch->device->api().ComputePipelineRelease);
  } else {
    compile->message = text_of(message);
  }
  answered(compile);
}

Ref<WGPUBindGroupLayout> make_layout(const Api& api, WGPUDevice device, const PipelineDesc& desc) {
  std::vector<WGPUBindGroupLayoutEntry> entries(desc.bindings.size() + desc.uniform, WGPUBindGroupLayoutEntry{});
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].binding = static_cast<uint32_t>(i);
    entries[i].visibility = WGPUShaderStage_Compute;
    entries[i].buffer.type = i == desc.bindings.size() ? WGPUBufferBindingType_Uniform
                             : desc.bindings[i].writes ? WGPUBufferBindingType_Storage
                                                       : WGPUBufferBindingType_ReadOnlyStorage;
  }
  WGPUBindGroupLayoutDescriptor layout{};
  layout.entryCount = entries.size();
  layout.entries = entries.data();
  return Ref(api.DeviceCreateBindGroupLayout(device, &layout), api.BindGroupLayoutRelease);
}

Ref<WGPUShaderModule> make_module(const Api& api, WGPUDevice device, const PipelineDesc& desc) {
  WGPUShaderSourceWGSL source{};
  source.chain.sType = WGPUSType_ShaderSourceWGSL;
  source.code = view_of(desc.wgsl);
  WGPUShaderModuleDescriptor module{};
  module.nextInChain = &source.chain;
  module.label = view_of(desc.label);
  return Ref(api.DeviceCreateShaderModule(device, &module), api.ShaderModuleRelease);
}

void start(const Api& api, WGPUDevice device, const PipelineDesc& desc, std::unique_ptr<Compile> compile) {
  api.DevicePushErrorScope(device, WGPUErrorFilter_Validation);
  compile->module = make_module(api, device, desc);
  compile->layout = make_layout(api, device, desc);
  WGPUBindGroupLayout layout = compile->layout.get();
  WGPUPipelineLayoutDescriptor pipeline_layout{};
  pipeline_layout.bindGroupLayoutCount = 1;
  pipeline_layout.bindGroupLayouts = &layout;
  Ref all(api.DeviceCreatePipelineLayout(device, &pipeline_layout), api.PipelineLayoutRelease);
  WGPUPopErrorScopeCallbackInfo popped{};
  popped.mode = WGPUCallbackMode_AllowProcessEvents;
  popped.callback = on_scope;
  popped.userdata1 = compile.get();
  api.DevicePopErrorScope(device, popped);

  WGPUComputePipelineDescriptor pipeline{};
  pipeline.label = view_of(desc.label);
  pipeline.layout = all.get();
  pipeline.compute.module = compile->module.get();
  pipeline.compute.entryPoint = view_of("main");
  WGPUCreateComputePipelineAsyncCallbackInfo created{};
  created.mode = WGPUCallbackMode_AllowProcessEvents;
  created.callback = on_pipeline;
  created.userdata1 = compile.release();
  api.DeviceCreateComputePipelineAsync(device, &pipeline, created);
}

}  // namespace

Task<std::vector<PipelineId>> compile_pipelines(NativeDevice& device, WGPUDevice handle,
                                                std::shared_ptr<Trouble> trouble, std::vector<PipelineDesc> descs) {
  auto batch = std::make_shared<BatchState>();
  batch->device = &device;
  batch->trouble = std::move(trouble);
  batch->left = descs.size();
  batch->ids.resize(descs.size());
  if (descs.empty()) batch->done.complete(std::vector<PipelineId>{});
  for (size_t i = 0; i < descs.size(); ++i) {
    auto compile = std::make_unique<Compile>();
    compile->batch = batch;
    compile->index = i;
    compile->label = descs[i].label;
    compile->text = descs[i].wgsl;
    start(device.api(), handle, descs[i], std::move(compile));
  }
  return wait_for(batch->done);
}

}  // namespace sinter::gpu::native

#endif  // SINTER_HAVE_WEBGPU
