// SPDX-License-Identifier: Apache-2.0
// The engine's life on a page: initialisation, failures, cancellation, crossings, traps. The page's policy allows scripts of
// its own and 'wasm-unsafe-eval' only.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { ROOT, compare, fashion, generated, join, launch, openPage, readNpy, serve } from './harness.mjs';

const GEMM = readNpy(generated('single_gemm.output.npy')).data;
const MODEL = '/models/fashion/squeezenet1_1_fashion.onnx';
const INPUT = { image: '/models/fashion/images/fashion_9.png' };
const EXPECTED = readNpy(fashion('squeezenet1_1_fashion.output.npy')).data.subarray(90, 100);
const BACKENDS = ['webgpu', 'cpu'];

const wasm = readFileSync(join(ROOT, 'web/dist/sinter.wasm'));
const model = readFileSync(generated('single_gemm.onnx'));

// What a server can do wrong.
const ANSWERS = {
  '/odd/page.wasm': ['text/html', '<!doctype html><title>Not found</title>'],
  '/odd/page.onnx': ['text/html', '<!doctype html><title>Not found</title>'],
  '/odd/pointer.onnx': ['text/plain', 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n'],
  '/odd/empty.onnx': ['application/octet-stream', ''],
  '/odd/octets.wasm': ['application/octet-stream', wasm],
};

function intercept(request, response) {
  const { pathname } = new URL(request.url, 'http://localhost');
  if (pathname in ANSWERS) {
    const [type, body] = ANSWERS[pathname];
    response.writeHead(200, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body) });
    response.end(body);
  } else if (pathname === '/odd/short.onnx') {
    response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': model.length });
    response.write(model.subarray(0, model.length - 20));
    setTimeout(() => response.destroy(), 50);
  } else if (pathname === '/odd/stalled.onnx') {
    response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': model.length });
    response.write(model.subarray(0, 100));
  } else if (pathname === '/odd/chunked.onnx') {
    response.writeHead(200, { 'Content-Type': 'application/octet-stream' });
    response.write(model.subarray(0, 100));
    response.end(model.subarray(100));
  } else if (pathname === '/odd/old.wasm') {
    const old = Buffer.from(wasm);
    const at = old.indexOf('0.1.0\0');
    old.write('0.0.9', at, 'latin1');
    response.writeHead(200, { 'Content-Type': 'application/wasm', 'Content-Length': old.length });
    response.end(old);
  } else {
    return false;
  }
  return true;
}

let server, browser;
before(async () => {
  server = await serve({ intercept });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** Opens a page for the test and sees that nothing was logged as an error but what matches `allowed`. */
async function onPage(body, { url = server.url, in: where = browser, allowed = /^$/ } = {}) {
  const page = await openPage(where, url);
  try {
    await body(page);
    assert.deepEqual(page.problems.filter((text) => !allowed.test(text)), []);
  } finally {
    await page.close();
  }
}

const right = (output) => assert.equal(compare(output, output.length === 3 ? GEMM_ZERO : EXPECTED), undefined);
// The single Gemm on zeros is its bias.
const GEMM_ZERO = gemmOf(0);

/** A[1,4] filled with `value`, times B[3,4] transposed, plus C[3]: by hand from the file's own numbers. */
function gemmOf(value) {
  const { B, C } = gemmWeights();
  return C.map((c, i) => c + value * (B[4 * i] + B[4 * i + 1] + B[4 * i + 2] + B[4 * i + 3]));
}

/** The two initialisers of the file: 12 and 3 floats as raw data. */
function gemmWeights() {
  const raw = (floats) => {
    const at = model.indexOf(Buffer.from([0x4a, floats * 4]));
    assert.ok(at > 0, 'single_gemm.onnx holds its weights as raw data');
    return Array.from({ length: floats }, (_, i) => model.readFloatLE(at + 2 + 4 * i));
  };
  return { B: raw(12), C: raw(3) };
}

describe('initialisation', () => {
  for (const backend of BACKENDS) {
    test(`eight engines in one tick share module, adapter and device (${backend})`, () => onPage(async (page) => {
      const { value, counts } = await page.call('manyEngines', 8, backend);
      assert.equal(value.outputs.length, 9);
      value.outputs.forEach(right);
      assert.deepEqual(value.states, ['closed', ...Array(7).fill('ready')]);
      assert.equal(counts.compile + counts.compileStreaming, 1);
      assert.equal(counts.requestAdapter, backend === 'webgpu' ? 1 : 0);
      assert.equal(counts.requestDevice, backend === 'webgpu' ? 1 : 0);
    }));

    test(`create and close twenty times (${backend})`, () => onPage(async (page) => {
      const { first, last, reused } = await page.call('createAndClose', 20, backend);
      assert.equal(last, first);
      assert.equal(reused, 'fine');
    }));
  }

  for (const [title, url, message] of [
    ['an address without a file', '/nothing.wasm', /could not load .*nothing\.wasm: HTTP 404/],
    ['a page instead of the module', '/odd/page.wasm', /could not be compiled/],
  ]) {
    test(`${title} fails, and the right address works afterwards`, () => onPage(async (page) => {
      const { failures, output } = await page.call('wrongUrlThenRight', url);
      for (const failure of failures) {
        assert.equal(failure.code, 'Io');
        assert.match(failure.message, message);
        assert.match(failure.hint, /wasmUrl/);
      }
      right(output);
    }, { allowed: /404/ }));
  }

  test('a module of another version is refused', () => onPage(async (page) => {
    const failure = await page.call('engineFailure', { wasmUrl: '/odd/old.wasm' });
    assert.equal(failure.code, 'InvalidInput');
    assert.match(failure.message, /is version 0\.0\.9, this is sinter 0\.1\.0/);
  }));

  test('a server that does not know .wasm will do', () => onPage(async (page) => {
    assert.equal(await page.call('engineFailure', { wasmUrl: '/odd/octets.wasm', backend: 'cpu' }), undefined);
  }));

  test('a wrong option is named', () => onPage(async (page) => {
    const failure = await page.call('engineFailure', { backend: 'webgl' });
    assert.equal(failure.code, 'InvalidInput');
    assert.match(failure.message, /backend cannot be 'webgl'/);
    assert.match(failure.hint, /auto, cpu, webgpu or reference/);
  }));
});

describe('fallback', () => {
  test('an insecure page has no navigator.gpu: auto answers on the CPU, webgpu says what to do', async () => {
    const insecure = await launch({ flags: ['--host-resolver-rules=MAP sinter.test 127.0.0.1,MAP sinter.test [::1]'] });
    try {
      const url = server.url.replace('localhost', 'sinter.test');
      await onPage(async (page) => {
        const { report, output } = await page.call('autoReport');
        right(output);
        assert.equal(report.backend, 'cpu');
        assert.match(JSON.stringify([report.why, report.fallbacks]), /navigator\.gpu/);
        const failure = await page.call('engineFailure', { backend: 'webgpu' });
        assert.equal(failure.code, 'Gpu');
        assert.match(failure.message, /navigator\.gpu is missing/);
        assert.match(failure.hint, /https or from localhost/);
      }, { url, in: insecure });
    } finally {
      await insecure.close();
    }
  });

  test('a browser without an adapter: auto answers on the CPU, webgpu says what to do', async () => {
    const without = await launch({ webgpu: false });
    try {
      await onPage(async (page) => {
        const { report, output } = await page.call('autoReport');
        right(output);
        assert.equal(report.backend, 'cpu');
        assert.match(JSON.stringify([report.why, report.fallbacks]), /adapter/);
        const failure = await page.call('engineFailure', { backend: 'webgpu' });
        assert.equal(failure.code, 'Gpu');
        assert.match(failure.message, /no WebGPU adapter|navigator\.gpu is missing/);
        assert.ok(failure.hint);
        const report2 = await page.call('diagnose');
        assert.equal(report2.adapter.available, false);
        assert.match(report2.verdict, /CPU/);
      }, { in: without, allowed: /adapter|WebGPU/i });
    } finally {
      await without.close();
    }
  });
});

describe('models', () => {
  for (const [path, message] of [
    ['/odd/pointer.onnx', /LFS/i],
    ['/odd/page.onnx', /HTML/i],
    ['/odd/empty.onnx', /empty/i],
  ]) {
    test(`${path} is told for what it is`, () => onPage(async (page) => {
      const { failure, output } = await page.call('loadFailure', path);
      assert.equal(failure.code, 'InvalidModel');
      assert.match(failure.message + failure.hint, message);
      right(output);
    }));
  }

  test('a body shorter than announced is Io', () => onPage(async (page) => {
    const { failure, output } = await page.call('loadFailure', '/odd/short.onnx');
    assert.equal(failure.code, 'Io');
    right(output);
  }, { allowed: /ERR_/ }));

  test('a body that stops coming is a Timeout', () => onPage(async (page) => {
    const failure = await page.call('stalled', '/odd/stalled.onnx');
    assert.equal(failure.code, 'Timeout');
    assert.match(failure.message, /no bytes of .*stalled\.onnx for 300 ms/);
  }));

  test('a missing file is Io', () => onPage(async (page) => {
    const { failure } = await page.call('loadFailure', '/models/none.onnx');
    assert.equal(failure.code, 'Io');
    assert.match(failure.message, /none\.onnx: HTTP 404/);
  }, { allowed: /404/ }));

  test('a body of unknown length loads', () => onPage(async (page) => {
    const { outputs } = await page.call('classify', { model: '/odd/chunked.onnx', inputs: [{ values: [0, 0, 0, 0], shape: [1, 4] }], backend: 'cpu' });
    right(outputs[0]);
  }));

  for (const backend of BACKENDS) {
    test(`wrong inputs are named (${backend})`, () => onPage(async (page) => {
      const { failures, output } = await page.call('badInputs', backend);
      right(output);
      for (const [kind, pattern] of Object.entries({
        missing: /input/, unknown: /other/, shape: /\[2, ?3\]/, dtype: /int32/, array: /not a Tensor/, off: /no_such_pass/,
        closed: /closed/, closedEngine: /closed/,
      })) {
        assert.ok(failures[kind], kind);
        assert.ok(failures[kind].isSinterError, kind);
        assert.match(failures[kind].message, pattern, kind);
        assert.equal(failures[kind].code, kind === 'closedEngine' ? 'Cancelled' : 'InvalidInput', kind);
      }
    }));
  }
});

describe('running', () => {
  for (const backend of BACKENDS) {
    test(`runs that are not awaited queue in order (${backend})`, () => onPage(async (page) => {
      const { outputs, order } = await page.call('queuedRuns', 8, backend);
      outputs.forEach((output, i) => assert.equal(compare(output, gemmOf(i + 1)), undefined));
      assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7]);
    }));

    test(`abort at every point, and the next run is right (${backend})`, () => onPage(async (page) => {
      const { failures, output } = await page.call('abort', MODEL, INPUT, backend);
      for (const [point, failure] of Object.entries(failures)) assert.equal(failure?.code, 'Cancelled', point);
      right(output);
    }));

    test(`a trap rejects everything with one error, and a new engine works (${backend})`, () => onPage(async (page) => {
      const { failures, same, later, state, events, output } = await page.call('trap', MODEL, INPUT, backend);
      assert.equal(failures.length, 4);
      for (const failure of [...failures, later]) {
        assert.equal(failure.code, 'Internal');
        assert.match(failure.message, /memory access out of bounds/);
        assert.match(failure.hint, /createEngine/);
        assert.match(failure.chain.join(), /in stage '(run|submit|read)'/);
        assert.equal(failure.firstFailure.id, 1);
        assert.match(failure.firstFailure.stage, /^(run|submit|read)$/);
        assert.match(failure.firstFailure.stack.js, /cases\.js/);
        assert.match(failure.firstFailure.stack.wasm, /wasm/);
        // The memory that the module left behind still tells how it came to this.
        assert.deepEqual(failure.firstFailure.events, events);
        const stages = events.map(({ stage }) => stage);
        for (const stage of ['fetch', 'parse', 'import', 'plan', 'run']) assert.ok(stages.includes(stage), stage);
        assert.equal(failure.echoOf, failure === later ? 1 : undefined);
      }
      assert.ok(same);
      assert.equal(state, 'dead');
      right(output);
    }));

    test(`a fault names its node, a hang ends as Timeout, and the engine goes on (${backend})`, () => onPage(async (page) => {
      const { failures, wrong, nan, output } = await page.call('faults', 'gemm_0_node', backend);
      assert.match([failures.error.message, ...failures.error.chain].join(), /'gemm_0_node'/);
      assert.equal(failures.hang.code, 'Timeout');
      assert.match(failures.hang.message, /no progress for \d+ ms.*'gemm_0_node'/);
      assert.equal(failures.unknown.code, 'InvalidInput');
      assert.match(failures.unknown.message, /nobody/);
      assert.ok(compare(wrong, GEMM_ZERO));
      assert.ok(nan.includes('NaN'));
      right(output);
    }));

    test(`events tell the stages (${backend})`, () => onPage(async (page) => {
      const { seen, problems } = await page.call('events', backend);
      const stages = new Set(seen.map(({ stage }) => stage));
      for (const stage of ['fetch', 'parse', 'import', 'plan', 'run', ...(backend === 'webgpu' ? ['open adapter', 'open device', 'compile', 'upload', 'read'] : [])]) {
        assert.ok(stages.has(stage), `${stage} among ${[...stages].join(', ')}`);
      }
      for (const { id, t_ms, phase } of seen) {
        assert.equal(typeof id, 'number');
        assert.ok(t_ms >= 0);
        assert.match(phase, /^(begin|end|point)$/);
      }
      const open = new Set();
      for (const { id, phase } of seen) {
        if (phase === 'begin') open.add(id);
        else if (phase === 'end') assert.ok(open.delete(id), `event ${id} ends without a begin`);
      }
      assert.deepEqual([...open], []);
      assert.match(problems.join(), /a mistake in the listener/);
    }, { allowed: /a mistake in the listener/ }));
  }

  test('a WebGPU run crosses the border as often for fifty nodes as for one', () => onPage(async (page) => {
    const inputs = [INPUT];
    const many = await page.call('classify', { model: MODEL, inputs, backend: 'webgpu', warm: 2 });
    const one = await page.call('classify', { model: '/models/generated/single_gemm.onnx', inputs: [{ values: [0, 0, 0, 0], shape: [1, 4] }], backend: 'webgpu', warm: 2 });
    assert.ok(many.report.dispatches > 20, `${many.report.dispatches} dispatches`);
    assert.equal(one.report.dispatches, 1);
    // One call starts the run, one host call carries all device work, one call brings its end, one host call answers.
    const expected = { '> sinter_session_run': 1, '< gpu.flush': 1, '> sinter_gpu_done': 1, '< complete': 1 };
    assert.deepEqual(many.crossings, expected);
    assert.deepEqual(one.crossings, expected);
  }));

  test('the page lives while the CPU works', () => onPage(async (page) => {
    const { longest, turns, ms } = await page.call('longestPause', { model: '/models/fashion/mobilenetv2_fashion.onnx', input: INPUT, backend: 'cpu' });
    // A turn after each step that took 8 ms; a single step is not cut.
    assert.ok(turns >= 3, `${turns} turns in ${ms} ms`);
    assert.ok(longest < Math.max(50, ms / 2), `no turn for ${longest} of ${ms} ms`);
  }));

  test('loading MobileNetV2 holds at most 2.2 times its file', () => onPage(async (page) => {
    const file = readFileSync(fashion('mobilenetv2_fashion.onnx')).length;
    const { report } = await page.call('classify', { model: '/models/fashion/mobilenetv2_fashion.onnx', inputs: [INPUT], backend: 'webgpu' });
    const { wasm, host, peak } = report.memory;
    console.log(`memory: ${wasm} wasm, ${host} host, peak ${peak}, ${(peak / file).toFixed(2)} x the file`);
    assert.ok(peak <= 2.2 * file, `${peak} bytes for a file of ${file}`);
    assert.ok(wasm > file && host > 0, 'both kinds are counted');
  }));
});

describe('images', () => {
  test('every kind of source gives the same pixels', () => onPage(async (page) => {
    const values = await page.call('imageSources', '/models/photos/chelsea.png', 224);
    assert.deepEqual(Object.keys(values).sort(), ['bitmap', 'blob', 'canvas', 'data', 'element', 'frame']);
    for (const [kind, pixels] of Object.entries(values)) {
      assert.equal(pixels.length, 224 * 224 * 3);
      // A frame may have gone through another colour format.
      const worst = pixels.reduce((most, value, i) => Math.max(most, Math.abs(value - values.bitmap[i])), 0);
      assert.ok(worst <= 1, `${kind} differs by ${worst}`);
    }
  }));
});
