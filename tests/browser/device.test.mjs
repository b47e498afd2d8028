// SPDX-License-Identifier: Apache-2.0
// The web device's own checks (hal.cc), on a page and in a worker.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ROOT, join, launch, openPage, serve } from './harness.mjs';

let server, browser;
before(async () => {
  server = await serve({ extra: { '/hal/': join(ROOT, 'build/web/tests') } });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

for (const call of ['call', 'callInWorker']) {
  test(`the device keeps its promises (${call === 'call' ? 'page' : 'worker'})`, async () => {
    const page = await openPage(browser, server.url);
    try {
      assert.deepEqual(await page[call]('engineFailure', { wasmUrl: '/hal/hal.wasm', backend: 'webgpu' }), undefined);
    } finally {
      await page.close();
    }
  });
}
