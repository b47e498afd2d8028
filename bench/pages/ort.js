// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime Web. backend=webgpu takes mode=plain (tensors on the CPU) or mode=captured (graph capture, tensors on the GPU,
// which is its fast way); backend=cpu is its WebAssembly build.
export async function open({ model, backend, mode, threads = '1' }, fetched) {
  const ort = await import(`/peers/onnxruntime-web/dist/ort.${backend === 'webgpu' ? 'webgpu' : 'wasm'}.min.mjs`);
  ort.env.wasm.wasmPaths = '/peers/onnxruntime-web/dist/';
  ort.env.wasm.numThreads = Number(threads);
  const bytes = new Uint8Array(await fetched(`/models/generated/${model}.onnx`));
  const captured = mode === 'captured';
  const session = await ort.InferenceSession.create(bytes, backend !== 'webgpu' ? { executionProviders: ['wasm'] } : {
    executionProviders: [{ name: 'webgpu' }],
    ...(captured ? { enableGraphCapture: true, preferredOutputLocation: 'gpu-buffer' } : {}),
  });
  const [name] = session.inputNames;
  const [output] = session.outputNames;
  const shape = [1, 3, 224, 224];
  if (!captured) {
    return {
      async run(values) {
        const outputs = await session.run({ [name]: new ort.Tensor('float32', values, shape) });
        return outputs[output].data;
      },
    };
  }
  const device = await ort.env.webgpu.device;
  const buffer = device.createBuffer({ size: 4 * 3 * 224 * 224, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC });
  const feeds = { [name]: ort.Tensor.fromGpuBuffer(buffer, { dataType: 'float32', dims: shape }) };
  return {
    async run(values) {
      device.queue.writeBuffer(buffer, 0, values);
      return (await session.run(feeds))[output].getData();
    },
  };
}
