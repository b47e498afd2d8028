// SPDX-License-Identifier: Apache-2.0
// The package in Node, on the CPU: the same file that browsers load.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as sinter from '../dist/sinter.js';
import { bisect, compare as compareRuns } from '../dist/diag.js';
import * as cases from '../../tests/browser/pages/cases.js';
import * as resilience from '../../tests/browser/pages/resilience.js';
import { compare, fashion, generated, readNpy } from '../../tests/browser/harness.mjs';
import { addExternal } from './tiny_model.mjs';

const { SinterError, Tensor, createEngine, doctor } = sinter;
cases.use(sinter);
resilience.use(sinter, generated('single_gemm.onnx'));

const isSinterError = (code, message) => (error) => {
  assert.ok(error instanceof SinterError, String(error));
  assert.equal(error.name, 'SinterError');
  assert.equal(error.code, code);
  assert.match(error.message, message);
  return true;
};

/** The same, and the error says what would work. */
const isHelpful = (code, message) => (error) => isSinterError(code, message)(error) && (assert.ok(error.hint, error.message), true);

async function withEngine(options, body) {
  const engine = await createEngine(options);
  try {
    return await body(engine);
  } finally {
    engine.close();
  }
}

describe('models', () => {
  for (const name of ['mobilenetv2_fashion', 'squeezenet1_1_fashion', 'single_gemm', 'mobilenetv2', 'squeezenet1_1', 'squeezenet1_0']) {
    for (const fusion of [true, false]) {
      test(`${name}${fusion ? '' : ', unfused'}`, () => withEngine({ backend: 'cpu' }, async (engine) => {
        const trained = name.endsWith('_fashion');
        const folder = trained ? fashion : generated;
        const session = await engine.load(pathToFileURL(folder(`${name}.onnx`)), { fusion });
        const expected = readNpy(folder(`${name}.output.npy`)).data;
        const inputs = trained ? [9] : [0];
        for (const row of inputs) {
          const input = trained ? pictureTensor(row) : readNpy(generated(`${name}.input.npy`));
          const out = await session.run({ [session.inputs[0].name]: new Tensor('float32', input.data, input.shape) });
          const output = await out[session.outputs[0].name].data();
          const wanted = trained ? expected.subarray(row * 10, row * 10 + 10) : expected;
          assert.equal(compare(output, wanted), undefined);
        }
        assert.equal(session.report.backend, 'cpu');
      }));
    }
  }

  test('a batch of four in a session prepared for one', () => withEngine({ backend: 'cpu' }, async (engine) => {
    const session = await engine.load(fashion('squeezenet1_1_fashion.onnx'));
    assert.equal(typeof session.inputs[0].shape[0], 'string');
    const pictures = [0, 3, 5, 9].map((row) => pictureTensor(row).data);
    const batch = new Float32Array(4 * pictures[0].length);
    pictures.forEach((picture, i) => batch.set(picture, i * picture.length));
    const expected = readNpy(fashion('squeezenet1_1_fashion.output.npy')).data;
    for (const count of [1, 4, 1]) {
      const data = batch.subarray(0, count * pictures[0].length);
      const out = await session.run({ input: new Tensor('float32', data, [count, 3, 224, 224]) });
      assert.deepEqual(out.output.shape, [count, 10]);
      const values = await out.output.data();
      [0, 3, 5, 9].slice(0, count).forEach((row, i) =>
        assert.equal(compare(values.subarray(i * 10, i * 10 + 10), expected.subarray(row * 10, row * 10 + 10)), undefined));
    }
  }));

  test('from a path, bytes, an ArrayBuffer and a Blob; the caller keeps the bytes', () => withEngine({ backend: 'cpu' }, async (engine) => {
    const bytes = new Uint8Array(readFileSync(generated('single_gemm.onnx')));
    const copy = bytes.slice();
    for (const source of [generated('single_gemm.onnx'), bytes, bytes.buffer, new Blob([bytes])]) {
      const seen = [];
      const session = await engine.load(source, { onProgress: (progress) => seen.push(progress) });
      const out = await session.run({ input: new Tensor('float32', readNpy(generated('single_gemm.input.npy')).data, [1, 4]) });
      assert.equal(compare(await out.output.data(), readNpy(generated('single_gemm.output.npy')).data), undefined);
      assert.deepEqual(seen.at(-1), { loaded: bytes.length, total: bytes.length });
      session.close();
    }
    assert.deepEqual(bytes, copy);
  }));
});

/** A picture of models/fashion as the models want it, decoded by hand: imageTensor needs a browser for files. */
function pictureTensor(row) {
  const { data, shape } = pictures.get(row);
  return { data, shape };
}
const pictures = await decodePictures();

async function decodePictures() {
  const { inflateSync } = await import('node:zlib');
  const all = new Map();
  for (let row = 0; row < 10; ++row) {
    const file = readFileSync(fashion(`images/fashion_${row}.png`));
    const parts = [];
    let width = 0, height = 0, channels = 3;
    for (let at = 8; at < file.length;) {
      const length = file.readUInt32BE(at);
      const type = file.toString('latin1', at + 4, at + 8);
      if (type === 'IHDR') {
        [width, height] = [file.readUInt32BE(at + 8), file.readUInt32BE(at + 12)];
        assert.deepEqual([file[at + 16], file[at + 17], file[at + 20]], [8, 2, 0], '8-bit RGB, not interlaced');
      } else if (type === 'IDAT') {
        parts.push(file.subarray(at + 8, at + 8 + length));
      }
      at += 12 + length;
    }
    const raw = inflateSync(Buffer.concat(parts));
    const line = width * channels;
    const rgba = new Uint8Array(width * height * 4).fill(255);
    const above = new Uint8Array(line);
    for (let y = 0; y < height; ++y) {
      const filter = raw[y * (line + 1)];
      const current = raw.subarray(y * (line + 1) + 1, (y + 1) * (line + 1));
      for (let x = 0; x < line; ++x) {
        const left = x >= channels ? current[x - channels] : 0;
        const corner = x >= channels ? above[x - channels] : 0;
        const up = above[x];
        const guess = left + up - corner;
        const paeth = Math.abs(guess - left) <= Math.abs(guess - up) && Math.abs(guess - left) <= Math.abs(guess - corner) ? left
          : Math.abs(guess - up) <= Math.abs(guess - corner) ? up : corner;
        // The corner of the next pixel is this one's old value above, so `above` is overwritten a pixel late.
        current[x] = (current[x] + [0, left, up, (left + up) >> 1, paeth][filter]) & 255;
      }
      above.set(current);
      for (let x = 0; x < width; ++x) rgba.set(current.subarray(x * channels, x * channels + channels), (y * width + x) * 4);
    }
    const tensor = await withEngine({ backend: 'cpu' }, (engine) => engine.imageTensor({ data: rgba, width, height }));
    all.set(row, { data: await tensor.data(), shape: tensor.shape });
  }
  return all;
}

describe('errors', () => {
  test('no WebGPU: auto answers on the CPU and says why, webgpu fails', async () => {
    await withEngine({}, async (engine) => {
      const session = await engine.load(generated('single_gemm.onnx'));
      assert.equal(session.report.backend, 'cpu');
      assert.match(JSON.stringify([session.report.why, session.report.fallbacks]), /navigator\.gpu/);
    });
    await assert.rejects(createEngine({ backend: 'webgpu' }), isSinterError('Gpu', /navigator\.gpu is missing/));
  });

  test('a wrong module address fails, the right one works afterwards', async () => {
    const wasmUrl = pathToFileURL('/nowhere/sinter.wasm');
    await assert.rejects(createEngine({ wasmUrl }), isSinterError('Io', /could not load file:\/\/\/nowhere\/sinter\.wasm/));
    await withEngine({ backend: 'cpu' }, (engine) => assert.equal(engine.state, 'ready'));
  });

  test('what several engines fail of is one failure, told whole once', async () => {
    const wasmUrl = pathToFileURL('/nowhere/else.wasm');
    const seen = [];
    const errors = await Promise.all([1, 2, 3].map(() => createEngine({ wasmUrl, onEvent: (event) => seen.push(event) }).catch((error) => error)));
    const [{ firstFailure, echoOf }, ...echoes] = errors;
    assert.deepEqual([firstFailure.id, firstFailure.code, firstFailure.stage, echoOf], [1, 'Io', 'fetch module', undefined]);
    assert.match(firstFailure.stack.js, /node\.test\.mjs/);
    assert.deepEqual(firstFailure.events.map(({ stage, phase }) => [stage, phase]), [['fetch module', 'begin'], ['fetch module', 'end']]);
    assert.match(firstFailure.events[1].detail, /could not load/);
    assert.equal(seen.length, 6);
    for (const echo of echoes) assert.deepEqual([echo.code, echo.message, echo.echoOf, echo.firstFailure], ['Io', errors[0].message, 1, firstFailure]);
    const later = await createEngine({ wasmUrl }).catch((error) => error);
    assert.deepEqual([later.echoOf, later.firstFailure.id], [undefined, 1], 'another attempt is another failure');
  });

  test('a transfer that fails is told of like any other failure', () => withEngine({ backend: 'cpu' }, async (engine) => {
    const errors = [];
    for (const source of ['no-such-file.onnx', new Uint8Array([1]), 'no-such-file.onnx']) errors.push(await engine.load(source).then(assert.fail, (error) => error));
    assert.deepEqual(errors.map(({ firstFailure }) => [firstFailure.id, firstFailure.stage]), [[1, 'fetch'], [2, 'parse'], [3, 'fetch']]);
    const { code, message, hint, stack, events } = errors[0].firstFailure;
    assert.deepEqual([code, message, hint], [errors[0].code, errors[0].message, errors[0].hint]);
    assert.match(stack.js, /node\.test\.mjs/);
    assert.ok(events.some(({ stage, phase }) => stage === 'fetch' && phase === 'begin'));
    assert.ok(engine.events().some(({ stage, detail }) => stage === 'failure' && detail.startsWith('#1: could not read')));
  }));

  test('a decision for the CPU is no failure', () => withEngine({ backend: 'auto' }, async (engine) => {
    await engine.load(generated('single_gemm.onnx'));
    await assert.rejects(engine.load(new Uint8Array([1])), (error) => {
      assert.deepEqual([error.firstFailure.id, error.echoOf], [1, undefined]);
      return true;
    });
  }));

  test('what is given and has no effect is noted', async () => {
    await withEngine({ backend: 'cpu', threads: 4 }, async (engine) => {
      const weights = Float32Array.of(1, 2, 3);
      const { report } = await engine.load(addExternal('w.bin'), { externalData: { 'unused.bin': new Uint8Array(4), 'w.bin': weights } });
      assert.equal(report.notices.length, 2);
      assert.match(report.notices[0], /threads: 4 .* computes on one/);
      assert.match(report.notices[1], /externalData: .* 'unused\.bin'/);
    });
    await withEngine({ backend: 'cpu', threads: 1 }, async (engine) => assert.deepEqual((await engine.load(generated('single_gemm.onnx'))).report.notices, []));
  });

  test('the reason of an abort is the cause', () => withEngine({ backend: 'cpu' }, async (engine) => {
    const model = generated('squeezenet1_1.onnx');
    const reason = new Error('the user left');
    const session = await engine.load(model);
    const input = new Tensor('float32', new Float32Array(3 * 224 * 224), [1, 3, 224, 224]);
    for (const start of [
      (signal) => engine.load(model, { signal }), (signal) => session.run({ [session.inputs[0].name]: input }, { signal }),
      (signal) => bisect(generated('single_gemm.onnx'), {}, { fusion: false }, {}, { signal }),
      // A transfer that stalls is given up at once.
      (signal) => engine.load(new Response(new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(4)) })), { signal }),
    ]) {
      for (const soon of [true, false]) {
        const controller = new AbortController();
        if (soon) controller.abort(reason);
        else setTimeout(() => controller.abort(reason), 5);
        const error = await start(controller.signal).then(assert.fail, (thrown) => thrown);
        assert.deepEqual([error.code, error.cause], ['Cancelled', reason], `${start} ${soon}`);
      }
    }
    await session.run({ [session.inputs[0].name]: input });
  }));

  test('a trap that leaves nonsense in memory ends every promise with one error', async () => {
    for (const nonsense of [0xff, 0x7f, 0x01]) {
      const engine = await createEngine({ backend: 'cpu' });
      const session = await engine.load(generated('squeezenet1_1.onnx'));
      const input = { [session.inputs[0].name]: new Tensor('float32', new Float32Array(3 * 224 * 224), [1, 3, 224, 224]) };
      const stalled = new Response(new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(4)) }));
      const pending = [session.run(input), session.run(input), engine.load(stalled)].map((promise) => promise.then(assert.fail, (error) => error));
      await engine.ask((host) => { new Uint8Array(host.exports.memory.buffer).fill(nonsense); });
      const errors = await Promise.all(pending);
      for (const error of errors) assert.equal(error, errors[0]);
      assert.ok(isSinterError('Internal', /./)(errors[0]));
      assert.equal(engine.state, 'dead');
      assert.ok(engine.events().length <= 256);
      assert.ok(errors[0].firstFailure.events.length <= 256);
      const later = await session.run(input).then(assert.fail, (error) => error);
      assert.deepEqual([later.code, later.echoOf], ['Internal', errors[0].firstFailure.id]);
      await withEngine({ backend: 'cpu' }, (fresh) => fresh.load(generated('single_gemm.onnx')));
    }
  });

  test('what is not a model', () => withEngine({ backend: 'cpu' }, async (engine) => {
    const whole = new Uint8Array(readFileSync(generated('single_gemm.onnx')));
    await assert.rejects(engine.load('no-such-file.onnx'), isSinterError('Io', /could not read .*no-such-file\.onnx/));
    await assert.rejects(engine.load(new Uint8Array(0)), isSinterError('InvalidModel', /empty/));
    await assert.rejects(engine.load(new TextEncoder().encode('<!doctype html><html></html>')), isSinterError('InvalidModel', /HTML/));
    await assert.rejects(engine.load(42), isSinterError('InvalidInput', /URL, bytes, a Blob or a Response/));
    for (let length = 1; length < whole.length; length += 7) {
      const outcome = await cases.guarded(async () => (await engine.load(whole.subarray(0, length))).close());
      if (outcome.error) assert.ok(['InvalidModel', 'Unsupported'].includes(outcome.error.code), `${length}: ${outcome.error.code}`);
    }
    assert.equal(engine.state, 'ready');
  }));

  test('a model that throws while it streams', () => withEngine({ backend: 'cpu' }, async (engine) => {
    const broken = new Response(new ReadableStream({
      start(controller) { controller.enqueue(new Uint8Array(10)); },
      pull(controller) { controller.error(new Error('the line went dead')); },
    }));
    await assert.rejects(engine.load(broken), isSinterError('Io', /the line went dead/));
    const short = new Response(new Uint8Array(10), { headers: { 'content-length': '12' } });
    await assert.rejects(engine.load(short), isSinterError('Io', /ended after 10 of 12 bytes/));
    const long = new Response(new Uint8Array(14), { headers: { 'content-length': '12' } });
    await assert.rejects(engine.load(long), isSinterError('Io', /longer than the 12 bytes/));
  }));

  test('options are checked by name and kind, never with a raw error', async () => {
    const refusals = async (call, cases) => {
      for (const [given, message] of cases) await assert.rejects(async () => call(given), isHelpful('InvalidInput', message));
    };
    await refusals(createEngine, [
      [null, /options of createEngine cannot be null/], ['cpu', /cannot be 'cpu'/], [{ backend: 'gpu' }, /backend cannot be 'gpu'/],
      [{ backened: 'cpu' }, /createEngine has no option 'backened'/], [{ toString: 1 }, /no option 'toString'/],
      [{ device: {} }, /device cannot be Object/], [{ device: 'gpu' }, /device cannot be 'gpu'/], [{ threads: 1.5 }, /threads cannot be 1\.5/],
      [{ threads: '2' }, /threads cannot be '2'/], [{ wasmUrl: 7 }, /wasmUrl cannot be 7/], [{ wasmUrl: '' }, /wasmUrl cannot be ''/],
      [{ onEvent: 'log' }, /onEvent cannot be 'log'/], [{ timeoutMs: -1 }, /timeoutMs cannot be -1/], [{ timeoutMs: NaN }, /timeoutMs cannot be NaN/],
      [{ powerPreference: 'low' }, /powerPreference cannot be 'low'/],
    ]);
    await withEngine({ backend: 'cpu', timeoutMs: Infinity, signal: undefined }, () => {}).then(assert.fail, isSinterError('InvalidInput', /'signal'/));
    await withEngine({ backend: 'cpu', timeoutMs: Infinity }, async (engine) => {
      const path = generated('single_gemm.onnx');
      await refusals((options) => engine.load(path, options), [
        [null, /options of load cannot be null/], [{ fusion: 'yes' }, /fusion cannot be 'yes'/], [{ off: 'fuse' }, /off cannot be 'fuse'/],
        [{ off: [1] }, /off cannot be \[1\]/], [{ off: ['a\nb'] }, /line break/], [{ off: ['no_such_pass'] }, /no_such_pass/],
        [{ dims: { N: -1 } }, /dimension 'N' cannot be -1/], [{ dims: [1] }, /dims cannot be \[1\]/], [{ dims: { nobody: 2 } }, /nobody/],
        [{ signal: {} }, /signal cannot be Object/], [{ signal: new AbortController() }, /signal cannot be AbortController/],
        [{ onProgress: 1 }, /onProgress cannot be 1/], [{ inject: 'node' }, /inject cannot be 'node'/], [{ inject: 'x=explode' }, /inject/],
        [{ externalData: 'weights.bin' }, /externalData cannot be 'weights\.bin'/], [{ externaldata: {} }, /load has no option 'externaldata'/],
      ]);
      await refusals((source) => engine.load(source), [
        [undefined, /not from undefined/], [null, /not from null/], [42, /not from 42/], [{}, /not from Object/], ['', /empty/], ['  ', /empty/],
      ]);
      await assert.rejects(engine.load(fileURLToPath(new URL('.', import.meta.url))), isHelpful('Io', /is a folder/));
      const session = await engine.load(path);
      await refusals((inputs) => session.run(inputs), [
        [undefined, /inputs cannot be undefined/], [null, /inputs cannot be null/], [[], /inputs cannot be \[\]/],
        [new Tensor('float32', [0, 0, 0, 0], [1, 4]), /inputs cannot be Tensor/], [{ input: [0, 0, 0, 0] }, /input 'input' is not a Tensor but \[0, 0, 0, 0\]/],
      ]);
      const input = new Tensor('float32', [0, 0, 0, 0], [1, 4]);
      await refusals((options) => session.run({ input }, options), [
        [null, /options of run/], [{ signal: 'stop' }, /signal cannot be 'stop'/], [{ timeout: 1 }, /run has no option 'timeout'/],
      ]);
      assert.equal(engine.state, 'ready');
    });
  });

  test('weights in files of their own', () => withEngine({ backend: 'cpu' }, async (engine) => {
    const weights = Float32Array.of(7, 10, 20);
    const give = { bytes: weights, blob: new Blob([weights]), response: new Response(weights) };
    for (const [kind, source] of Object.entries(give)) {
      const seen = [];
      const session = await engine.load(addExternal('data/w.bin', 4), { externalData: { 'data/w.bin': source }, onProgress: (progress) => seen.push(progress) });
      const { y } = await session.run({ x: new Tensor('float32', [1, 2], [2]) });
      assert.deepEqual(Array.from(await y.data()), [11, 22], kind);
      assert.equal(seen.at(-1).file, 'data/w.bin');
      assert.equal(seen.at(-1).loaded, 12);
    }
    const session = await engine.load(addExternal('w.bin'), { externalData: new Map([['unused', new Uint8Array(0)], ['w.bin', weights]]) });
    assert.deepEqual(Array.from(await (await session.run({ x: new Tensor('float32', [1, 2], [2]) })).y.data()), [8, 12]);

    await assert.rejects(engine.load(addExternal('w.bin')), isHelpful('Io', /needs the external data file 'w\.bin'/));
    await assert.rejects(engine.load(addExternal('w.bin'), { externalData: { 'v.bin': weights } }), isHelpful('Io', /given: v\.bin/));
    await assert.rejects(engine.load(addExternal('w.bin'), { externalData: { 'w.bin': weights.subarray(1, 2) } }), isSinterError('InvalidModel', /w\.bin/));
    await assert.rejects(engine.load(addExternal('../w.bin'), { externalData: { '../w.bin': weights } }), isHelpful('InvalidModel', /leaves the model's folder/));
    await assert.rejects(engine.load(addExternal('w.bin'), { externalData: { 'w.bin': 'no-such-file.bin' } }), (error) => {
      assert.match(error.chain.join(), /reading external file 'w\.bin'/);
      return isHelpful('Io', /no-such-file\.bin/)(error);
    });
    await assert.rejects(engine.load(addExternal('w.bin'), { externalData: { 'w.bin': 3 } }), isHelpful('InvalidInput', /external file 'w\.bin' .* not from 3/));
    assert.equal(engine.state, 'ready');
  }));

  test('closing never throws, however often and whatever has happened', async () => {
    const engine = await createEngine({ backend: 'cpu' });
    const session = await engine.load(generated('single_gemm.onnx'));
    const run = session.run({ input: new Tensor('float32', [0, 0, 0, 0], [1, 4]) });
    run.catch(() => {});
    engine.close();
    engine.close();
    session.close();
    assert.equal(engine.state, 'closed');
    await assert.rejects(session.run({}), isHelpful('Cancelled', /engine was closed/));
    assert.equal(session.report.backend, 'cpu');
    assert.ok(engine.events().length > 0);
  });

  test('a listener may close the engine in the middle of a load', async () => {
    for (const stage of ['fetch', 'parse', 'import']) {
      const engine = await createEngine({ backend: 'cpu', onEvent: (event) => { if (event.stage === stage) engine?.close(); } });
      await assert.rejects(engine.load(generated('single_gemm.onnx')), isSinterError('Cancelled', /closed/));
      assert.equal(engine.state, 'closed');
    }
  });
});

describe('many', () => {
  test('two hundred engines, one after the other, leave nothing behind', async () => {
    const { setFlagsFromString } = await import('node:v8');
    const { runInNewContext } = await import('node:vm');
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc');
    const held = async () => {
      // What weak references hold goes with the second collection.
      for (let i = 0; i < 2; ++i) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        collect();
      }
      const { heapUsed, external, arrayBuffers } = process.memoryUsage();
      return heapUsed + external + arrayBuffers;
    };
    await resilience.cycles(24, 'cpu');
    const early = await held();
    const { first, last } = await resilience.cycles(200, 'cpu');
    const late = await held();
    assert.equal(last, first);
    assert.ok(late < early + 4e6, `${early} bytes after 24 engines, ${late} after 224`);
  });

  test('sessions that come and go in one engine leave its memory as it is', async () => {
    const { early, late } = await resilience.sessions(200, 'cpu');
    assert.equal(late, early);
  });
});

describe('events', () => {
  const stages = (events) => [...new Set(events.map(({ stage }) => stage))];

  test('the last 256 are kept, oldest first, with time', () => withEngine({ backend: 'cpu' }, async (engine) => {
    const session = await engine.load(generated('single_gemm.onnx'));
    const early = engine.events();
    for (const stage of ['fetch module', 'fetch', 'parse', 'import', 'pass fuse', 'plan', 'prepare']) {
      assert.ok(stages(early).some((name) => name.startsWith(stage)), `${stage} among ${stages(early).join(', ')}`);
    }
    assert.match(early[0].detail, /sinter\.wasm$/);
    assert.match(early.find(({ stage }) => stage === 'fetch').detail, /single_gemm\.onnx$/);
    for (let i = 0; i < 200; ++i) await session.run({ input: new Tensor('float32', [0, 0, 0, 0], [1, 4]) });
    const late = engine.events();
    assert.equal(late.length, 256);
    late.reduce((before, event) => {
      assert.ok(event.t_ms >= before.t_ms && event.id > 0);
      assert.match(event.phase, /^(begin|end|point)$/);
      return event;
    });
    assert.equal(late.at(-1).phase, 'end');
  }));

  test('what a listener sees is what the ring keeps', async () => {
    const seen = [];
    await withEngine({ backend: 'cpu', onEvent: (event) => seen.push(event) }, async (engine) => {
      await engine.load(generated('single_gemm.onnx'));
      assert.deepEqual(engine.events(), seen.slice(-256));
    });
  });
});

describe('tensors', () => {
  test('each element type with its array', async () => {
    for (const [dtype, values, ArrayType] of [
      ['float32', [1.5, -2], Float32Array], ['float64', [1.5, -2], Float64Array], ['int32', [1, -2], Int32Array],
      ['uint32', [1, 2], Uint32Array], ['int16', [1, -2], Int16Array], ['uint16', [1, 2], Uint16Array], ['int8', [1, -2], Int8Array],
      ['uint8', [1, 2], Uint8Array], ['int64', [1n, -2n], BigInt64Array], ['uint64', [1n, 2n], BigUint64Array], ['bool', [true, false], Uint8Array],
    ]) {
      const tensor = new Tensor(dtype, values, [2]);
      assert.ok(await tensor.data() instanceof ArrayType, dtype);
      assert.deepEqual(Array.from(await tensor.data(), Number), values.map(Number));
      const array = ArrayType.from(values);
      assert.equal(await new Tensor(dtype, array, [1, 2]).data(), array);
    }
    assert.ok(await new Tensor('float16', new Uint16Array([0x3c00]), []).data());
    assert.equal(await new Tensor('uint8', new Uint8ClampedArray([255]), [1]).data().then(([value]) => value), 255);
    assert.equal(new Tensor('float32', [7], []).size, 1);
    assert.equal(new Tensor('float32', [], [0, 3]).size, 0);
  });

  test('what does not fit is refused', () => {
    assert.throws(() => new Tensor('float32', [1, 2, 3], [2]), isSinterError('InvalidInput', /3 values do not fill .*\[2\], which has 2/));
    assert.throws(() => new Tensor('int64', [1, 2], [2]), isSinterError('InvalidInput', /int64/));
    assert.throws(() => new Tensor('float32', new Int32Array(2), [2]), isSinterError('InvalidInput', /cannot be made from Int32Array/));
    assert.throws(() => new Tensor('complex64', [1], [1]), isSinterError('InvalidInput', /dtype 'complex64'/));
    assert.throws(() => new Tensor('float32', [1], [-1]), isSinterError('InvalidInput', /shape \[-1\]/));
    for (const [args, message] of [
      [['float32', undefined, [1]], /undefined/], [['float32', [1]], /shape undefined/], [['float32', [1], 1], /shape 1/], [['float32', [1], 'a'], /shape 'a'/],
      [['float32', [1], [1.5]], /shape \[1\.5\]/], [['float32', [1], ['1']], /shape \['1'\]/], [['toString', [1], [1]], /dtype 'toString'/],
      [[undefined, [1], [1]], /dtype undefined/], [[{}, [1], [1]], /dtype Object/], [['float32', ['1'], [1]], /value 0 .* cannot be '1'/],
      [['float32', [1, , 3], [3]], /value 1 .* undefined/], [['float32', [[1, 2]], [1, 2]], /value 0 .* \[1, 2\]/], [['float32', [1n], [1]], /1n/],
      [['uint8', [256], [1]], /256/], [['int8', [-129], [1]], /-129/], [['int32', [1.5], [1]], /1\.5/], [['int32', [NaN], [1]], /NaN/], [['uint32', [-1], [1]], /-1/],
      [['int64', [2n ** 63n], [1]], /9223372036854775808n/], [['uint64', [-1n], [1]], /-1n/], [['bool', [2], [1]], /2/], [['float16', ['x'], [1]], /'x'/],
      [['float32', new ArrayBuffer(4), [1]], /ArrayBuffer/], [['float32', { length: 1 }, [1]], /Object/],
    ]) {
      assert.throws(() => new Tensor(...args), isHelpful('InvalidInput', message), JSON.stringify(args, (_, value) => (typeof value === 'bigint' ? `${value}n` : value)));
    }
  });

  test('numbers become the nearest halves', async () => {
    // By exhaustion: every half comes back from its own value, and each midpoint goes to its even neighbour.
    const halfOf = (bits) => {
      const exponent = (bits >> 10) & 31, mantissa = bits & 1023;
      const size = exponent ? (1 + mantissa / 1024) * 2 ** (exponent - 15) : mantissa * 2 ** -24;
      return bits & 0x8000 ? -size : size;
    };
    const given = [], wanted = [];
    for (let bits = 0; bits < 0x7c00; ++bits) {
      const here = halfOf(bits), next = bits === 0x7bff ? 65536 : halfOf(bits + 1);
      const middle = (here + next) / 2;
      given.push(here, -here, middle, middle - (next - here) / 64, middle + (next - here) / 64);
      wanted.push(bits, bits | 0x8000, bits + (bits & 1), bits, bits + 1);
    }
    given.push(NaN, Infinity, -Infinity, 1e300, 1e-300);
    wanted.push(0x7e00, 0x7c00, 0xfc00, 0x7c00, 0);
    const tensor = new Tensor('float16', given, [given.length]);
    const { buffer } = await tensor.data();
    assert.deepEqual(Array.from(new Uint16Array(buffer)), wanted);
    assert.deepEqual(Array.from(await new Tensor('bfloat16', [1, -2.5, 1.00390625, 1.01171875, Infinity], [5]).data()),
      [0x3f80, 0xc020, 0x3f80, 0x3f82, 0x7f80]);
  });

  test('there is no synchronous read', () => {
    const tensor = new Tensor('float32', [1], [1]);
    assert.ok(tensor.data() instanceof Promise);
    assert.equal(tensor.dataSync, undefined);
  });
});

describe('diagnosis', () => {
  const GEMM = generated('single_gemm.onnx');

  test('doctor tells what is here, and tests it', async () => {
    const stages = new Set();
    const report = await doctor({ operators: ['Gemm', 'Softmax'], onEvent: ({ stage }) => stages.add(stage) });
    assert.equal(report.versions.sinter, JSON.parse(readFileSync(fileURLToPath(new URL('../package.json', import.meta.url)))).version);
    assert.equal(report.versions.browser, `Node ${process.version}`);
    assert.equal(report.versions.target, 'wasm32-wasi');
    assert.equal(report.features.simd, true);
    assert.equal(report.features.operator_cases, true);
    assert.equal(report.features.webgpu, false);
    assert.equal(report.adapter.available, false);
    assert.match(report.adapter.reason, /navigator\.gpu is missing/);
    assert.deepEqual(Object.keys(report.self_test), ['reference', 'cpu']);
    for (const numbers of Object.values(report.self_test)) {
      assert.ok(numbers.cases > 10 && numbers.passed === numbers.cases && numbers.failed === 0);
      assert.deepEqual(Object.keys(numbers.operators), ['Gemm', 'Softmax']);
    }
    assert.ok(report.healthy);
    assert.match(report.verdict, /models run on the CPU; WebGPU does not work here/);
    assert.ok(report.hint);
    assert.ok(stages.has('operator cases'));
  });

  test('doctor takes a model through its stages', async () => {
    const report = await doctor({ model: GEMM, operators: false, inputs: { input: new Tensor('float32', [1, 2, 3, 4], [1, 4]) } });
    assert.equal(report.model.nodes, 1);
    assert.deepEqual(report.runs.map(({ backend, agrees }) => [backend, agrees]), [['reference', true], ['cpu', true]]);
    for (const stage of ['fetch', 'parse', 'import', 'plan', 'prepare', 'warm-up', 'run']) assert.ok(report.stages.some((row) => row.stage === stage && row.ended), stage);
    assert.match(report.verdict, /single_gemm\.onnx' runs on the CPU and agrees with the reference/);
  });

  test('doctor says what is wrong with a model', async () => {
    const wrong = await doctor({ model: GEMM, operators: false, inject: 'gemm_0_node=wrong' });
    assert.equal(wrong.healthy, false);
    assert.match(wrong.verdict, /runs on cpu but its answer is wrong: output 'output'/);
    const failing = await doctor({ model: GEMM, operators: false, inject: 'gemm_0_node=error' });
    assert.match(failing.verdict, /fails on cpu in stage '(warm-up|run)'.*gemm_0_node/);
    const page = await doctor({ model: new TextEncoder().encode('<!doctype html>'), operators: false });
    assert.match(page.verdict, /fails on every backend.*web page/);
    assert.match(page.hint, /raw file/);
    await assert.rejects(doctor({ model: 'no-such-file.onnx' }).then(({ verdict }) => { throw new SinterError('Io', verdict); }), isSinterError('Io', /no-such-file\.onnx/));
    await assert.rejects(doctor({ operators: ['Gemm', 'Nope'] }), isHelpful('InvalidInput', /no operator 'Nope'/));
    await assert.rejects(doctor({ operators: ['gemm'] }), (error) => isHelpful('InvalidInput', /no operator 'gemm'/)(error) && /mean Gemm\?/.test(error.hint));
    assert.deepEqual((await doctor({ operators: [] })).self_test, {});
    const core = new URL('../dist/sinter.wasm', import.meta.url);
    for (const call of [(options) => doctor(options), (options) => compareRuns(GEMM, {}, {}, {}, options)]) {
      await assert.rejects(call({ wasmUrl: core }), isHelpful('InvalidInput', /sinter\.wasm is not the module for diagnosis/));
    }
    await assert.rejects(doctor({ models: GEMM }), isHelpful('InvalidInput', /doctor has no option 'models'/));
    await assert.rejects(doctor({ signal: AbortSignal.abort(), model: GEMM }), isSinterError('Cancelled', /cancelled/));
  });

  test('compare finds the node, bisect the node or the rewrite', async () => {
    const model = fashion('squeezenet1_1_fashion.onnx');
    const equal = await compareRuns(model, 'backend=cpu,fusion=off', { backend: 'cpu' });
    assert.deepEqual([equal.equal, equal.first], [true, null]);
    assert.ok(equal.nodes.length > 60);
    assert.match(equal.svg, /^<svg/);
    const { node } = equal.nodes[20];
    for (const kind of ['wrong', 'nan']) {
      const { first } = await compareRuns(model, { backend: 'cpu' }, { backend: 'cpu' }, {}, { inject: `${node}=${kind}` });
      assert.deepEqual([first.node, first.index.length], [node, 4], kind);
      const found = await bisect(model, { backend: 'cpu' }, { backend: 'cpu' }, {}, { inject: `${node}=${kind}` });
      assert.deepEqual([found.kind, found.node], ['node', node], kind);
      assert.ok(found.runs <= 2 * Math.log2(equal.nodes.length) + 4);
    }
    const failing = await bisect(model, { backend: 'cpu' }, { backend: 'cpu' }, {}, { inject: `${node}=error` });
    assert.deepEqual([failing.kind, failing.node], ['node', node]);
    assert.match(failing.failure, /injected/);
  });

  test('the report of bisect holds all that it takes to see the same again', async () => {
    const model = fashion('squeezenet1_1_fashion.onnx');
    const session = await withEngine({ backend: 'cpu' }, async (engine) => (await engine.load(model)).inputs);
    const input = new Tensor('float32', new Float32Array(3 * 224 * 224).fill(0.5), [1, 3, 224, 224]);
    const { nodes } = await compareRuns(model, 'backend=cpu', 'backend=cpu');
    const inject = `${nodes[8].node}=wrong`;
    const options = { inject, seed: 7, rtol: 0.002, atol: 0.0003, dims: { [session[0].shape[0]]: 1 } };
    const { repro } = await bisect(model, 'backend=cpu', { backend: 'cpu', fusion: false }, { [session[0].name]: input }, options);
    const report = new TextDecoder().decode(repro['report.md']);
    const flags = `--seed 7 --rtol 0.002 --atol 0.0003`;
    assert.ok(report.includes(`sinter bisect ${model} --good backend=cpu --bad backend=cpu,fusion=off --inject `), report);
    assert.ok(report.includes(`--input ${session[0].name}=${session[0].name}.npy --dim ${session[0].shape[0]}=1 ${flags}`), report);
    assert.match(report, /sinter test \. --backend cpu --fusion off --inject .* --rtol 0\.002 --atol 0\.0003 {2}# fails/);
    // The code in the report is a module that finds the same.
    const source = report.match(/```js\n([^]*?)```/)[1];
    const { mkdtempSync, writeFileSync, rmSync } = await import('node:fs');
    const { tmpdir } = await import('node:os');
    const { spawnSync } = await import('node:child_process');
    const folder = mkdtempSync(`${tmpdir()}/report-`);
    try {
      for (const name of [`${session[0].name}.npy`]) writeFileSync(`${folder}/${name}`, repro[name]);
      const read = readNpy(`${folder}/${session[0].name}.npy`);
      assert.deepEqual([read.dtype, read.shape, read.data], ['float32', input.shape, await input.data()]);
      const dist = new URL('../dist/', import.meta.url).href;
      // Node's fetch reads no files.
      const reading = "import { readFile } from 'node:fs/promises'; globalThis.fetch = async (path) => new Response(await readFile(path));\n";
      writeFileSync(`${folder}/again.mjs`, reading + source.replace("'sinter'", `'${dist}sinter.js'`).replace("'sinter/diag'", `'${dist}diag.js'`));
      const { status, stdout, stderr } = spawnSync(process.execPath, ['again.mjs'], { cwd: folder, encoding: 'utf8', timeout: 120000 });
      assert.deepEqual([status, stderr], [0, '']);
      assert.ok(stdout.includes(`node ${nodes[8].node}`), stdout);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test('what is asked wrongly is said', async () => {
    for (const [args, code, message] of [
      [[GEMM, { backend: 'gpu' }, {}], 'InvalidInput', /backend cannot be 'gpu'/], [[GEMM, 'backend', {}], 'InvalidInput', /has no '='/],
      [[GEMM, {}, { of: [] }], 'InvalidInput', /'b' has no option 'of'/], [[GEMM, {}, 'fusion=yes'], 'InvalidInput', /fusion of .* cannot be 'yes'/],
      [[undefined, {}, {}], 'InvalidInput', /wants a model, not undefined/], [[GEMM, {}, {}, { x: 1 }], 'InvalidInput', /input 'x' is not a Tensor/],
      [[GEMM, {}, {}, {}, { rtol: -1 }], 'InvalidInput', /rtol cannot be -1/], [[GEMM, {}, {}, {}, { inject: 'nobody=wrong' }], 'InvalidInput', /nobody/],
      [[GEMM, {}, { backend: 'webgpu' }], 'Gpu', /navigator\.gpu is missing/],
    ]) {
      await assert.rejects(compareRuns(...args), isSinterError(code, message));
    }
  });
});

describe('the package', () => {
  test('the wire numbers are those of engine/gpu/wire.h', () => {
    const header = readFileSync(new URL('../../engine/gpu/wire.h', import.meta.url), 'utf8');
    const source = readFileSync(new URL('../src/gpu.ts', import.meta.url), 'utf8');
    const theirs = [...header.matchAll(/^ *k(\w+)\s*=\s*(\d+),/gm)].map(([, name, number]) => [name, Number(number)]);
    const mine = source.match(/const enum Op \{([^}]*)\}/)[1].split(',').map((item) => item.trim().split(' ')[0]).filter(Boolean);
    assert.deepEqual(mine.map((name, i) => [name, i + 1]), theirs);
    assert.match(source, /const enum Op \{\s*CreateBuffer = 1,/);
  });

  test('a device opened ahead is the one that the engine asks for', () => {
    const engine = readFileSync(new URL('../../engine/runtime/engine.cc', import.meta.url), 'utf8');
    const source = readFileSync(new URL('../src/gpu.ts', import.meta.url), 'utf8');
    assert.equal(Number(engine.match(/kMaxBinding = (\w+);/)[1]), Number(source.match(/BINDING_BYTES = (\w+);/)[1]));
    assert.equal(2 ** engine.match(/kMaxBuffer = uint64_t\{1\} << (\d+);/)[1], 2 ** source.match(/BUFFER_BYTES = 2 \*\* (\d+);/)[1]);
  });

  test('the module imports almost nothing', async () => {
    const module = await WebAssembly.compile(readFileSync(new URL('../dist/sinter.wasm', import.meta.url)));
    const all = WebAssembly.Module.imports(module).map(({ module: from, name, kind }) => `${kind} ${from}.${name}`).sort();
    const maths = all.filter((item) => item.startsWith('function sinter_math.')).map((item) => item.split('.')[1]);
    for (const name of maths) assert.equal(typeof Math[name], 'function', name);
    assert.deepEqual(all.filter((item) => !item.startsWith('function sinter_math.')), [
      'function sinter.complete', 'function sinter.event', 'function sinter.panic', 'function sinter.schedule_turn',
      'function sinter_gpu.flush', 'function sinter_gpu.open', 'function wasi_snapshot_preview1.clock_time_get',
    ]);
  });

  test('a process ends by itself when its work is done', async () => {
    const { spawnSync } = await import('node:child_process');
    const source = `import { createEngine, Tensor } from ${JSON.stringify(new URL('../dist/sinter.js', import.meta.url).href)};
      const engine = await createEngine();
      const session = await engine.load(${JSON.stringify(generated('single_gemm.onnx'))});
      await session.run({ input: new Tensor('float32', [0, 0, 0, 0], [1, 4]) });
      console.log('done');`;
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', source], { encoding: 'utf8', timeout: 20000 });
    assert.deepEqual({ status, stdout, stderr }, { status: 0, stdout: 'done\n', stderr: '' });
  });
});
