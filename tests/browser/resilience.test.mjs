// SPDX-License-Identifier: Apache-2.0
// Engines that are made and closed by the hundred, used all at once, aborted at every point, and whose device goes away.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { compare, fashion, generated, launch, openPage, readNpy, serve } from './harness.mjs';

const MODEL = '/models/fashion/squeezenet1_1_fashion.onnx';
const INPUT = { image: '/models/fashion/images/fashion_9.png' };
const EXPECTED = readNpy(fashion('squeezenet1_1_fashion.output.npy')).data.subarray(90, 100);
const right = (values) => assert.equal(compare(values, EXPECTED), undefined);
const MODEL_BYTES = readFileSync(fashion('squeezenet1_1_fashion.onnx')).length;
const ZERO = weights(3);

/** An initialiser of the single Gemm by its length, from the file's own bytes. */
function weights(floats) {
  const model = readFileSync(generated('single_gemm.onnx'));
  const at = model.indexOf(Buffer.from([0x4a, floats * 4]));
  return Array.from({ length: floats }, (_, i) => model.readFloatLE(at + 2 + 4 * i));
}

/** A filled with `value`, times B transposed, plus C. */
function gemmOf(value) {
  const B = weights(12);
  return ZERO.map((c, i) => c + value * (B[4 * i] + B[4 * i + 1] + B[4 * i + 2] + B[4 * i + 3]));
}

let server, browser;
before(async () => {
  server = await serve();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

async function onPage(body, { in: where = browser, allowed = /^$/ } = {}) {
  const page = await openPage(where, server.url);
  try {
    await body(page);
    assert.deepEqual(page.problems.filter((text) => !allowed.test(text)), []);
  } finally {
    await page.close();
  }
}

/** Bytes of JavaScript objects and of ArrayBuffers and WebAssembly memories, after a collection. */
async function held(page) {
  const session = await page.context().newCDPSession(page);
  let total = Infinity;
  for (let i = 0; i < 3; ++i) {
    await session.send('HeapProfiler.collectGarbage');
    const { usedSize, backingStorageSize = 0 } = await session.send('Runtime.getHeapUsage');
    total = Math.min(total, usedSize + backingStorageSize);
  }
  await session.detach();
  return total;
}

for (const backend of ['webgpu', 'cpu']) {
  describe(backend, () => {
    test('two hundred engines, one after the other, leave nothing behind', () => onPage(async (page) => {
      await page.callIn('resilience', 'cycles', 24, backend);
      const early = await held(page.page);
      const { first, last } = await page.callIn('resilience', 'cycles', 200, backend);
      assert.equal(last, first);
      const late = await held(page.page);
      assert.ok(late < early + 2e6, `${early} bytes after 24 engines, ${late} after 224`);
    }));

    test('sessions that come and go in one engine leave its memory as it is', () => onPage(async (page) => {
      const { early, late } = await page.callIn('resilience', 'sessions', 100, backend);
      assert.equal(late, early);
    }));

    test('runs during a load, two engines, and closing while they run', () => onPage(async (page) => {
      const { values, failures, closed, still } = await page.callIn('resilience', 'busy', MODEL, INPUT, backend);
      values.forEach((output, i) => assert.equal(compare(output, gemmOf(i + 1)), undefined));
      for (const failure of failures) assert.equal(failure?.code, 'Cancelled');
      for (const failure of closed) assert.equal(failure?.code ?? 'Cancelled', 'Cancelled');
      assert.ok(closed.at(-1), 'the load had not ended');
      assert.equal(compare(still, ZERO), undefined);
    }));

    test('aborting after each event ends as Cancelled, and the next run is right', () => onPage(async (page) => {
      const { cancelled, other, wrong, points, early, late } = await page.callIn('resilience', 'abortAtEachEvent', MODEL, INPUT, backend);
      assert.deepEqual([other, wrong], [[], []]);
      assert.ok(points > 20, `${points} events`);
      assert.ok(cancelled.load > 10 && cancelled.run >= 1, JSON.stringify(cancelled));
      // Less than one of those models that were loaded in vain.
      assert.ok(late - early < MODEL_BYTES, `${early} bytes after the third, ${late} after the last`);
    }));
  });
}

describe('devices', () => {
  test('an adapter that is not there at first', () => onPage(async (page) => {
    const { failures, output } = await page.callIn('resilience', 'adapterComesLater');
    for (const failure of failures) {
      assert.equal(failure.code, 'Gpu');
      assert.match(failure.message, /no WebGPU adapter/);
    }
    assert.equal(compare(output, ZERO), undefined);
  }));

  test('a device that is refused, and one that opens while a model is read', () => onPage(async (page) => {
    const { failures, outputs } = await page.callIn('resilience', 'deviceComesLater');
    for (const failure of failures) {
      assert.equal(failure.code, 'Gpu');
      assert.match(failure.message, /device was refused: .*not today/);
    }
    for (const output of outputs) assert.equal(compare(output, ZERO), undefined);
  }));

  test('a device that the page destroys fails what waits; the next run opens another and is right', () => onPage(async (page) => {
    const { before: first, failures, queued, after: later, report, events } = await page.callIn('resilience', 'deviceDestroyed', MODEL, INPUT);
    right(first);
    assert.equal(failures[0]?.code, 'DeviceLost');
    // What was only queued may already run on the next device.
    if (queued) right(queued);
    else assert.equal(failures[1].code, 'DeviceLost');
    right(later);
    assert.equal(report.backend, 'webgpu');
    assert.ok(events.some(({ stage, detail }) => stage === 'open adapter' && detail === "the caller's device"));
  }));

  test('an error that nothing caught and a map that is refused fail the run, never with zeros', () => onPage(async (page) => {
    const { uncaptured, afterUncaptured, maps, afterMap } = await page.callIn('resilience', 'deviceFailures');
    assert.equal(uncaptured?.code, 'Gpu');
    assert.match(uncaptured.message, /the device reported/);
    for (const failure of maps) {
      assert.equal(failure?.code, 'Gpu');
      assert.match(failure.message, /no map today/);
    }
    for (const output of [afterUncaptured, afterMap]) assert.equal(compare(output, ZERO), undefined);
  }, { allowed: /MapRead|MAP_READ|usage/i }));

  test('faults of the device that a load option puts in', () => onPage(async (page) => {
    const found = await page.callIn('resilience', 'injectedDevice', 'webgpu');
    assert.equal(found['lost@0'].run?.code, 'DeviceLost');
    assert.equal(found['lost@0'].report.losses, 1);
    assert.equal(found['oom@gemm_0_node'].run?.code, 'OutOfMemory');
    for (const fault of ['lost@0', 'oom@gemm_0_node']) {
      assert.equal(found[fault].run.firstFailure.node, 'gemm_0_node', fault);
      assert.equal(compare(found[fault].after, ZERO), undefined, fault);
    }
    assert.equal(found['no-adapter'].load?.code, 'Gpu');
    assert.equal(found['lost@99'].load?.code, 'InvalidInput');
    assert.equal(compare(found.output, ZERO), undefined);
  }));

  test('the first failure is told whole', () => onPage(async (page) => {
    const { shader, node, output } = await page.callIn('resilience', 'firstFailures', 'gemm_0_node');
    const { firstFailure } = shader;
    assert.equal(shader.code, 'Gpu');
    assert.deepEqual([firstFailure.stage, firstFailure.node, firstFailure.op], ['compile', 'gemm_0_node', 'Gemm']);
    assert.ok(firstFailure.kernel);
    assert.match(firstFailure.wgsl, /\n> .*oops|\n> .*fn main/);
    assert.equal(firstFailure.call, 'createComputePipelineAsync');
    assert.ok(firstFailure.inputs.length >= 2 && firstFailure.outputs.length === 1);
    assert.match(firstFailure.stack.js, /resilience\.js/);
    assert.ok(firstFailure.events.some(({ stage, phase }) => stage === 'compile' && phase === 'begin'));
    assert.equal(shader.echoOf, undefined);
    assert.equal(node.firstFailure.node, 'gemm_0_node');
    assert.match(node.firstFailure.stage, /run/);
    assert.equal(compare(output, ZERO), undefined);
  }, { allowed: /oops|WGSL|shader|pipeline/i }));

  test('whoever waits for what one cause ends is told of one failure, and who is second that it is an echo', () => onPage(async (page) => {
    const found = await page.callIn('resilience', 'oneCause', MODEL, INPUT);
    for (const [cause, code] of Object.entries({ uncaptured: 'Gpu', lost: 'DeviceLost', shader: 'Gpu', adapter: 'Gpu' })) {
      const failures = found[cause].filter(Boolean);
      assert.ok(failures.length >= 2, `${cause}: ${failures.length} failures`);
      const firsts = failures.filter(({ echoOf }) => echoOf === undefined);
      assert.equal(firsts.length, 1, `${cause}: ${JSON.stringify(failures.map(({ message, firstFailure, echoOf }) => [message, firstFailure?.id, echoOf]))}`);
      for (const failure of failures) {
        assert.equal(failure.code, code, cause);
        assert.equal(failure.firstFailure.id, firsts[0].firstFailure.id, cause);
        assert.equal(failure.firstFailure.message, firsts[0].message, cause);
      }
    }
  }, { allowed: /oops|WGSL|shader|pipeline|MapRead|MAP_READ|usage/i }));

  for (const backend of ['webgpu', 'auto']) {
    test(`one device is opened, while the module loads (${backend})`, () => onPage(async (page) => {
      const { asked, fetched, report } = await page.callIn('resilience', 'openings', backend);
      assert.deepEqual(asked.map(([what]) => what), ['adapter', 'device']);
      assert.ok(asked[0][1] < fetched, `the adapter was asked for after ${asked[0][1]} ms, the module was there after ${fetched}`);
      assert.equal(report.backend, backend === 'auto' ? 'cpu' : 'webgpu');
    }));
  }

  for (const backend of ['webgpu', 'auto']) {
    test(`a crash of the GPU process (${backend})`, async () => {
      // A browser of its own: after some crashes it would do without a GPU.
      const own = await launch();
      try {
        await onPage(async (page) => {
          const { before: first } = await page.callIn('resilience', 'beginCrash', MODEL, INPUT, backend);
          right(first);
          const cdp = await own.newBrowserCDPSession();
          await cdp.send('Browser.crashGpuProcess');
          const { failures, tries, after: later, report } = await page.callIn('resilience', 'endCrash');
          right(later);
          if (backend === 'webgpu') {
            assert.ok(failures.length > 0, 'the crash came while runs were under way');
            for (const failure of [...failures, ...tries]) assert.equal(failure.code, 'DeviceLost', JSON.stringify([failure.code, failure.message]));
            assert.equal(report.backend, 'webgpu');
          }
        }, { in: own, allowed: /WebGPU|GPU|context|Device/i });
      } finally {
        await own.close();
      }
    });
  }
});
