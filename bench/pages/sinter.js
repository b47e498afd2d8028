// SPDX-License-Identifier: Apache-2.0
import { createEngine, Tensor } from '/sinter/sinter.js';

export async function open({ model, backend, threads }, fetched) {
  const engine = await createEngine({ backend, ...(threads ? { threads: Number(threads) } : {}) });
  const session = await engine.load(new Uint8Array(await fetched(`/models/generated/${model}.onnx`)));
  const [{ name }] = session.inputs;
  const output = session.outputs[0].name;
  return {
    note: `${session.report.dispatches} dispatches, ${session.report.pipelines} pipelines`,
    async run(values) {
      const outputs = await session.run({ [name]: new Tensor('float32', values, [1, 3, 224, 224]) });
      return outputs[output].data();
    },
  };
}
