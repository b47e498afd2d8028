// SPDX-License-Identifier: Apache-2.0
// The package in Node, on the CPU: the same file that browsers load.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as sinter from '../dist/sinter.js';
import * as cases from '../../tests/browser/pages/cases.js';
import { compare, fashion, generated, readNpy } from '../../tests/browser/harness.mjs';

const { SinterError, Tensor, createEngine, doctor } = sinter;
cases.use(sinter);

const isSinterError = (code, message) => (error) => {
  assert.ok(error instanceof SinterError, String(error));
  assert.equal(error.name, 'SinterError');
  assert.equal(error.code, code);
  assert.match(error.message, message);
  return true;
};

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

  test('options are checked', async () => {
    await assert.rejects(createEngine({ backend: 'gpu' }), isSinterError('InvalidInput', /backend cannot be 'gpu'/));
    await withEngine({ backend: 'cpu' }, async (engine) => {
      await assert.rejects(engine.load(generated('single_gemm.onnx'), { fusion: 'yes' }), isSinterError('InvalidInput', /fusion cannot be 'yes'/));
      await assert.rejects(engine.load(generated('single_gemm.onnx'), { off: ['a\nb'] }), isSinterError('InvalidInput', /line break/));
      await assert.rejects(engine.load(generated('single_gemm.onnx'), { dims: { N: -1 } }), isSinterError('InvalidInput', /dim cannot be 'N=-1'/));
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
    assert.equal(new Tensor('float32', [7], []).size, 1);
    assert.equal(new Tensor('float32', [], [0, 3]).size, 0);
  });

  test('what does not fit is refused', () => {
    assert.throws(() => new Tensor('float32', [1, 2, 3], [2]), isSinterError('InvalidInput', /3 values do not fill .*\[2\], which has 2/));
    assert.throws(() => new Tensor('int64', [1, 2], [2]), isSinterError('InvalidInput', /int64/));
    assert.throws(() => new Tensor('float32', new Int32Array(2), [2]), isSinterError('InvalidInput', /cannot be made from Int32Array/));
    assert.throws(() => new Tensor('complex64', [1], [1]), isSinterError('InvalidInput', /dtype 'complex64'/));
    assert.throws(() => new Tensor('float32', [1], [-1]), isSinterError('InvalidInput', /shape \[-1\]/));
    assert.throws(() => new Tensor('float32', undefined, [1]), isSinterError('InvalidInput', /undefined/));
  });

  test('there is no synchronous read', () => {
    const tensor = new Tensor('float32', [1], [1]);
    assert.ok(tensor.data() instanceof Promise);
    assert.equal(tensor.dataSync, undefined);
  });
});

describe('the package', () => {
  test('doctor tells what is here', async () => {
    const report = await doctor();
    assert.equal(report.versions.sinter, JSON.parse(readFileSync(fileURLToPath(new URL('../package.json', import.meta.url)))).version);
    assert.equal(report.features.simd, true);
    assert.equal(report.adapter.available, false);
    assert.match(report.verdict, /CPU/);
  });

  test('the wire numbers are those of engine/gpu/wire.h', () => {
    const header = readFileSync(new URL('../../engine/gpu/wire.h', import.meta.url), 'utf8');
    const source = readFileSync(new URL('../src/gpu.ts', import.meta.url), 'utf8');
    const theirs = [...header.matchAll(/^ *k(\w+)\s*=\s*(\d+),/gm)].map(([, name, number]) => [name, Number(number)]);
    const mine = source.match(/const enum Op \{([^}]*)\}/)[1].split(',').map((item) => item.trim().split(' ')[0]).filter(Boolean);
    assert.deepEqual(mine.map((name, i) => [name, i + 1]), theirs);
    assert.match(source, /const enum Op \{\s*CreateBuffer = 1,/);
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
