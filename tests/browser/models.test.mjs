// SPDX-License-Identifier: Apache-2.0
// Models on a page and in a worker, each against ONNX Runtime's outputs. SINTER_MODELS picks some of them by name.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { basename, relative } from 'node:path';
import { compare, existsSync, fashion, generated, join, launch, openPage, readNpy, ROOT, serve, sharedFolder } from './harness.mjs';

const rows = (npy) => {
  const width = npy.shape.at(-1);
  return Array.from({ length: npy.data.length / width }, (_, i) => npy.data.subarray(i * width, (i + 1) * width));
};

/** { model, inputs, expected }: addresses of the server and reference outputs. */
function makeCases() {
  const cases = {};
  for (const name of ['mobilenetv2_fashion', 'squeezenet1_1_fashion']) {
    cases[name] = {
      model: `/models/fashion/${name}.onnx`,
      inputs: Array.from({ length: 10 }, (_, i) => ({ image: `/models/fashion/images/fashion_${i}.png` })),
      expected: rows(readNpy(fashion(`${name}.output.npy`))),
    };
  }
  for (const name of ['single_gemm', 'mobilenetv2', 'mobilenetv2_bn', 'squeezenet1_0', 'squeezenet1_1', 'resnet50', 'resnet50_bn']) {
    if (!existsSync(generated(`${name}.onnx`))) continue;
    cases[name] = {
      model: `/models/generated/${name}.onnx`,
      inputs: [{ npy: `/models/generated/${name}.input.npy` }],
      expected: [readNpy(generated(`${name}.output.npy`)).data],
    };
  }
  const shared = sharedFolder();
  if (shared) {
    const { cases: golden } = JSON.parse(readFileSync(join(shared, 'models/golden/golden.json'), 'utf8'));
    for (const name of ['mobilenetv2_fp32', 'squeezenet1.1_fp32']) {
      const found = golden.filter((item) => item.case.startsWith(`${name}__`));
      cases[`${name}_photos`] = {
        model: `/shared/models/${found[0].model}`,
        inputs: found.map((item) => ({ image: `/shared/models/${item.inputs[0].image}` })),
        expected: found.map((item) => readNpy(join(shared, 'models', item.outputs[0].file)).data),
      };
    }
  }
  // What tests/golden/cases.py has collected besides: 0..255 noise through both classifiers, and MNIST's own test sets.
  const manifest = join(ROOT, 'build/golden/manifest.json');
  if (shared && existsSync(manifest)) {
    for (const item of JSON.parse(readFileSync(manifest, 'utf8'))) {
      if (!/^(webnn|mnist)_/.test(item.name)) continue;
      cases[item.name] = {
        model: `/shared/${relative(shared, item.model)}`,
        inputs: [{ npy: `/golden/${basename(item.input.file)}` }],
        expected: [readNpy(item.output.file).data],
      };
    }
  }
  return cases;
}

const PLACES = [
  { title: 'WebGPU, page', backend: 'webgpu', call: 'call', fusion: true },
  { title: 'WebGPU, page, unfused', backend: 'webgpu', call: 'call', fusion: false },
  { title: 'WebGPU, worker', backend: 'webgpu', call: 'callInWorker', fusion: true },
  { title: 'WebGPU, worker, unfused', backend: 'webgpu', call: 'callInWorker', fusion: false },
  { title: 'CPU, page', backend: 'cpu', call: 'call', fusion: true },
  { title: 'CPU, page, unfused', backend: 'cpu', call: 'call', fusion: false },
  { title: 'CPU, worker', backend: 'cpu', call: 'callInWorker', fusion: true },
  { title: 'CPU, worker, unfused', backend: 'cpu', call: 'callInWorker', fusion: false },
];

let server, browser;
before(async () => {
  server = await serve();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const cases = makeCases();
for (const name of process.env.SINTER_MODELS?.split(',') ?? Object.keys(cases)) {
  if (!cases[name]) {
    test(name, { skip: 'its files are not here' }, () => {});
    continue;
  }
  const { model, inputs, expected } = cases[name];
  describe(name, () => {
    for (const { title, backend, call, fusion } of PLACES) {
      test(title, async () => {
        const page = await openPage(browser, server.url);
        try {
          const result = await page[call]('classify', { model, inputs, backend, options: { fusion } });
          assert.equal(result.report.backend, backend);
          assert.deepEqual(result.report.cpuSteps, []);
          assert.deepEqual(result.report.fallbacks, []);
          // The claim of the project: a page's own thread, and nothing that could block it.
          assert.deepEqual(result.place, { mainThread: call === 'call', isolated: false, sharedMemory: false });
          assert.equal(result.outputs.length, expected.length);
          result.outputs.forEach((output, i) => assert.equal(compare(output, expected[i]), undefined, `input ${i}`));
          assert.deepEqual(page.problems, []);
        } finally {
          await page.close();
        }
      });
    }
  });
}
