// SPDX-License-Identifier: Apache-2.0
// What the tests do with the package; runs on a page's main thread, in a worker and in Node.
let sinter = globalThis.process?.versions?.node ? undefined : await import('/sinter/sinter.js');

/** In Node the test says which package it means. */
export function use(package_) {
  sinter = package_;
}

export async function guarded(call) {
  try {
    return { value: await call() };
  } catch (error) {
    const { name, message, code, chain, hint, stack } = error;
    return { error: { name, message, code, chain, hint, stack } };
  }
}

export const place = () => ({
  mainThread: globalThis.document !== undefined && globalThis.window === globalThis,
  isolated: globalThis.crossOriginIsolated === true,
  sharedMemory: typeof SharedArrayBuffer !== 'undefined',
});

async function readNpy(url) {
  const bytes = new Uint8Array(await (await fetch(url)).arrayBuffer());
  const headerBytes = bytes[8] + bytes[9] * 256;
  const header = new TextDecoder('latin1').decode(bytes.subarray(10, 10 + headerBytes));
  const shape = header.match(/'shape': \(([^)]*)\)/)[1].split(',').map((part) => part.trim()).filter(Boolean).map(Number);
  return { shape, data: new Float32Array(bytes.slice(10 + headerBytes).buffer) };
}

async function pixels(url) {
  return createImageBitmap(await (await fetch(url)).blob(), { premultiplyAlpha: 'none' });
}

/** Inputs by description: { npy: url }, { image: url, preprocess }, { values, shape }. */
async function makeInput(engine, input) {
  if (input.npy) {
    const { data, shape } = await readNpy(input.npy);
    return new sinter.Tensor('float32', data, shape);
  }
  if (input.image) return engine.imageTensor(await pixels(input.image), { size: 224, preprocess: input.preprocess ?? 'torch' });
  return new sinter.Tensor(input.dtype ?? 'float32', input.values, input.shape);
}

const difference = (after, before) => Object.fromEntries(
  Object.entries(after).map(([name, count]) => [name, count - (before[name] ?? 0)]).filter(([, count]) => count));

/**
 * Loads a model and runs each input once, and the last one `warm` times more. Answers the values of the first output, the
 * report, times and, for the last warm run, the calls across the module's border.
 */
export async function classify({ model, inputs, backend, engineOptions = {}, options = {}, warm = 1 }) {
  const started = performance.now();
  const engine = await sinter.createEngine({ backend, timeoutMs: 300000, ...engineOptions });
  const session = await engine.load(model, options);
  const loadMs = performance.now() - started;
  const name = session.inputs[0].name;
  const outputs = [];
  let firstMs, warmMs, crossings;
  let input;
  for (const description of inputs) {
    input = await makeInput(engine, description);
    const begun = performance.now();
    const out = await session.run({ [name]: input });
    firstMs ??= performance.now() - begun;
    outputs.push(Array.from(await out[session.outputs[0].name].data()));
  }
  const times = [];
  for (let i = 0; i < warm; ++i) {
    const before = { ...engine.crossings };
    const begun = performance.now();
    await session.run({ [name]: input });
    times.push(performance.now() - begun);
    crossings = difference(engine.crossings, before);
  }
  warmMs = times.sort((a, b) => a - b)[times.length >> 1];
  const { report } = session;
  engine.close();
  return { outputs, report, loadMs, firstMs, warmMs, crossings, place: place() };
}
