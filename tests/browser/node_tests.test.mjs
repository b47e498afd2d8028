// SPDX-License-Identifier: Apache-2.0
// ONNX's own node tests in Chromium, on the CPU and on WebGPU: the named subset, or with SINTER_NODE_TESTS=all every test
// that is not excluded and whose operators the engine has.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch, openPage, ROOT, serve } from './harness.mjs';

function onnxFolder() {
  const lib = join(ROOT, '.venv/lib');
  for (const python of readdirSync(lib)) {
    const folder = join(lib, python, 'site-packages/onnx/backend/test/data/node');
    if (existsSync(folder)) return folder;
  }
  throw new Error('no node tests: run ./dev setup');
}

const names = (file) => readFileSync(join(ROOT, 'tests/node_tests', file), 'utf8').split('\n')
  .filter((line) => line && !line.startsWith('#')).map((line) => line.split(' ')[0]);

const root = onnxFolder();
const all = process.env.SINTER_NODE_TESTS === 'all';
const excluded = new Set(names('exclusions.txt'));
const chosen = all ? readdirSync(root).filter((name) => !excluded.has(name)) : names('chromium.txt');
const tests = chosen.map((name) => {
  const files = readdirSync(join(root, name, 'test_data_set_0'));
  const count = (kind) => files.filter((file) => file.startsWith(kind)).length;
  return { name, folder: `/onnx/${name}`, inputs: count('input_'), outputs: count('output_') };
});

let server, browser;
before(async () => {
  server = await serve({ extra: { '/onnx/': root } });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

for (const backend of ['cpu', 'webgpu']) {
  test(`node tests on ${backend}`, async (t) => {
    const { page, close } = await openPage(browser, server.url);
    try {
      const result = await page.evaluate(async (options) => (await import('/pages/node_tests.js')).run(options), { backend, tests });
      t.diagnostic(`${result.passed} passed, ${result.unsupported.length} unsupported, of ${tests.length}`);
      assert.deepEqual(result.failures, []);
      if (!all) assert.deepEqual(result.unsupported, []);
      assert.ok(result.passed > 0);
    } finally {
      await close();
    }
  });
}
