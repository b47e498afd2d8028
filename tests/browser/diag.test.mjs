// SPDX-License-Identifier: Apache-2.0
// Diagnosis on a page's main thread: faults put into single nodes are found where they are. SINTER_NODES says how many nodes
// of each model are tried, spread over it.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { launch, openPage, serve } from './harness.mjs';

const NODES = Number(process.env.SINTER_NODES ?? 4);
const MODELS = ['mobilenetv2_fashion', 'squeezenet1_1_fashion'];

let server, browser;
before(async () => {
  server = await serve();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

async function onPage(body) {
  const page = await openPage(browser, server.url);
  try {
    await body(page);
    assert.deepEqual(page.problems, []);
  } finally {
    await page.close();
  }
}

for (const name of MODELS) {
  describe(name, () => {
    const model = `/models/fashion/${name}.onnx`;

    for (const kind of ['wrong', 'nan']) {
      test(`${kind}: compare and bisect name the node`, () => onPage(async (page) => {
        const { tried, found } = await page.callIn('diagnosis', 'attribute', model, kind, NODES);
        assert.equal(tried.length, NODES);
        for (const { node, compared, bisected } of found) {
          assert.equal(compared.node, node);
          assert.deepEqual([bisected.kind, bisected.node], ['node', node]);
        }
        assert.deepEqual(found.map(({ node }) => node), tried);
      }));
    }

    test('error and hang: the error names the node, and the page lives', () => onPage(async (page) => {
      const found = await page.callIn('diagnosis', 'failuresOf', model, NODES);
      for (const { node, error, hang, turns, after: again } of found) {
        assert.equal(error.code, 'Gpu');
        assert.ok([error.message, ...error.chain].join().includes(`'${node}'`), `${node}: ${error.message}`);
        assert.equal(hang.code, 'Timeout');
        assert.ok(hang.message.includes(`'${node}'`), `${node}: ${hang.message}`);
        assert.match(hang.message, /in stage '/);
        assert.ok(turns > 20, `${turns} turns of the page while nothing happened`);
        assert.ok(again);
      }
    }));
  });
}

test('a repro is an ONNX test with a report, and small', () => onPage(async (page) => {
  const { node, result, files, report } = await page.callIn('diagnosis', 'repro', '/models/fashion/squeezenet1_1_fashion.onnx');
  assert.deepEqual([result.kind, result.node], ['node', node]);
  for (const file of ['model.onnx', 'test_data_set_0/input_0.pb', 'test_data_set_0/output_0.pb', 'report.md', 'report.json']) assert.ok(files[file] > 0, file);
  assert.ok(files['model.onnx'] < 300000, `${files['model.onnx']} bytes`);
  assert.match(report, new RegExp(node.replaceAll('/', '\\/')));
  assert.match(report, /Chrom/);
}));

test('doctor looks at the adapter, the operators and a model', () => onPage(async (page) => {
  const report = await page.callIn('diagnosis', 'examine', { model: '/models/fashion/squeezenet1_1_fashion.onnx', operators: ['Gemm', 'Softmax', 'Relu'] });
  assert.equal(report.adapter.available, true);
  assert.equal(report.adapter.self_test.right, true);
  assert.ok(report.adapter.limits.maxBufferSize > 0);
  assert.match(report.versions.browser, /Chrom/);
  for (const backend of ['reference', 'cpu', 'webgpu']) {
    assert.ok(report.self_test[backend].cases > 10, backend);
    assert.equal(report.self_test[backend].failed, 0);
    const run = report.runs.find((row) => row.backend === backend);
    assert.ok(run.ran && run.agrees, JSON.stringify(run));
  }
  for (const stage of ['fetch', 'parse', 'import', 'plan', 'prepare', 'upload', 'compile', 'warm-up', 'run', 'submit', 'read']) {
    assert.ok(report.stages.some((row) => row.stage === stage), stage);
  }
  assert.ok(report.healthy);
  assert.match(report.verdict, /runs on the CPU and on WebGPU/);
}));
