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
    const { name, message, code, chain, hint, stack, firstFailure, echoOf } = error;
    return { error: { name, message, code, chain, hint, stack, firstFailure, echoOf } };
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
  return createImageBitmap(await (await fetch(url)).blob(), { premultiplyAlpha: 'none', colorSpaceConversion: 'none' });
}

/** Inputs by description: { npy: url }, { image: url, preprocess }, { values, shape }. */
export async function makeInput(engine, input) {
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

/** What `sinter classify --json` prints, for pictures: a list with an answer each. */
export async function answers({ model, images, labels, backend, top }) {
  const names = (await (await fetch(labels)).text()).split('\n').filter(Boolean);
  const started = performance.now();
  const engine = await sinter.createEngine({ backend, timeoutMs: 300000 });
  try {
    const session = await engine.load(model);
    const load = performance.now() - started;
    const list = [];
    const run = async (input) => {
      const begun = performance.now();
      const out = await session.run({ [session.inputs[0].name]: input });
      const logits = await out[session.outputs[0].name].data();
      return { logits, ms: performance.now() - begun };
    };
    for (const image of images) {
      const input = await engine.imageTensor(await pixels(image));
      const { logits, ms } = await run(input);
      const highest = logits.reduce((a, b) => Math.max(a, b));
      const sum = logits.reduce((total, logit) => total + Math.exp(logit - highest), 0);
      const results = Array.from(logits, (logit, index) => ({
        index, label: names[index] ?? `class ${index}`, probability: Math.exp(logit - highest) / sum, logit,
      })).sort((a, b) => b.logit - a.logit).slice(0, top);
      const { report } = session;
      list.push({ image, backend: report.backend, results, ms: { load, prepare: report.prepareMs, first: ms }, cpu_steps: report.cpuSteps });
    }
    const input = await engine.imageTensor(await pixels(images[0]));
    const times = [];
    for (let i = 0; i < 5; ++i) times.push((await run(input)).ms);
    for (const answer of list) answer.ms.warm = times.sort((a, b) => a - b)[2];
    return list;
  } finally {
    engine.close();
  }
}

export const GEMM = '/models/generated/single_gemm.onnx';
// A[1,4] of zeros gives C itself; any input does for tests of what surrounds a run.
const zeros = () => ({ A: new sinter.Tensor('float32', new Float32Array(4), [1, 4]) });

export async function runOnce(session) {
  const [name] = session.inputs.map((input) => input.name);
  const out = await session.run({ [name]: zeros().A });
  return Array.from(await out[session.outputs[0].name].data());
}

/** What went wrong with a promise, or nothing. */
export async function failureOf(promise) {
  try {
    await promise;
    return undefined;
  } catch (error) {
    return { isSinterError: error instanceof sinter.SinterError, name: error.name, code: error.code, message: error.message,
             hint: error.hint, chain: error.chain, firstFailure: error.firstFailure, echoOf: error.echoOf };
  }
}

/** Counts calls of the browser's own functions while `body` runs. */
async function counting(targets, body) {
  const counts = {};
  const restore = targets.map(([owner, name]) => {
    const original = owner[name];
    counts[name] = 0;
    owner[name] = function (...args) {
      ++counts[name];
      return original.apply(this, args);
    };
    return () => { owner[name] = original; };
  });
  try {
    return { value: await body(), counts };
  } finally {
    for (const undo of restore) undo();
  }
}

/** Engines made in one tick, each with a session that runs. */
export function manyEngines(count, backend) {
  const targets = [[WebAssembly, 'compile'], [WebAssembly, 'compileStreaming']];
  if (globalThis.GPU) targets.push([GPU.prototype, 'requestAdapter'], [GPUAdapter.prototype, 'requestDevice']);
  return counting(targets, async () => {
    const engines = await Promise.all(Array.from({ length: count }, () => sinter.createEngine({ backend })));
    const sessions = await Promise.all(engines.map((engine) => engine.load(GEMM)));
    const outputs = await Promise.all(sessions.map(runOnce));
    // One engine's end is not the others'.
    engines[0].close();
    outputs.push(await runOnce(sessions[1]));
    const states = engines.map((engine) => engine.state);
    for (const engine of engines) engine.close();
    return { outputs, states };
  });
}

export async function createAndClose(count, backend) {
  const sizes = [];
  for (let i = 0; i < count; ++i) {
    const engine = await sinter.createEngine({ backend });
    const session = await engine.load(GEMM);
    await runOnce(session);
    sizes.push(session.report.memory.wasm);
    engine.close();
  }
  return { first: sizes[0], last: sizes.at(-1), reused: (await failureOf(sinter.createEngine({ backend }).then((e) => e.close()))) ?? 'fine' };
}

export async function wrongUrlThenRight(wrong) {
  const failures = await Promise.all([failureOf(sinter.createEngine({ wasmUrl: wrong })), failureOf(sinter.createEngine({ wasmUrl: wrong }))]);
  const engine = await sinter.createEngine({ backend: 'cpu' });
  const output = await runOnce(await engine.load(GEMM));
  engine.close();
  return { failures, output };
}

export async function loadFailure(source, { backend = 'cpu', ...options } = {}) {
  const engine = await sinter.createEngine({ backend });
  const failure = await failureOf(engine.load(source, options));
  const output = await runOnce(await engine.load(GEMM));
  engine.close();
  return { failure, output };
}

export async function engineFailure(options) {
  return failureOf(sinter.createEngine(options));
}

export async function autoReport() {
  const engine = await sinter.createEngine();
  const session = await engine.load(GEMM);
  const output = await runOnce(session);
  const { report } = session;
  engine.close();
  return { report, output };
}

/** Aborts a load before it starts, while it fetches and while it prepares; then a run; then all is as before. */
export async function abort(model, input, backend) {
  const engine = await sinter.createEngine({ backend });
  const failures = {};
  failures.before = await failureOf(engine.load(model, { signal: AbortSignal.abort() }));
  const fetching = new AbortController();
  failures.fetching = await failureOf(engine.load(model, { signal: fetching.signal, onProgress: () => fetching.abort() }));
  const preparing = new AbortController();
  failures.preparing = await failureOf(engine.load(model, {
    signal: preparing.signal,
    onProgress: ({ loaded, total }) => { if (loaded === total) setTimeout(() => preparing.abort()); },
  }));
  const session = await engine.load(model);
  const inputs = { [session.inputs[0].name]: await makeInput(engine, input) };
  const running = new AbortController();
  const aborted = failureOf(session.run(inputs, { signal: running.signal }));
  // Queued behind it, and not its business.
  const next = session.run(inputs);
  running.abort();
  failures.running = await aborted;
  const out = await next;
  const output = Array.from(await out[session.outputs[0].name].data());
  engine.close();
  return { failures, output };
}

/** Runs that are not awaited one by one, on two sessions. */
export async function queuedRuns(count, backend) {
  const engine = await sinter.createEngine({ backend });
  const sessions = await Promise.all([engine.load(GEMM), engine.load(GEMM)]);
  const order = [];
  const runs = Array.from({ length: count }, (_, i) => {
    const value = i + 1;
    const session = sessions[i % 2];
    const input = new sinter.Tensor('float32', new Float32Array(4).fill(value), [1, 4]);
    return session.run({ [session.inputs[0].name]: input }).then(async (out) => {
      order.push(i);
      return Array.from(await out[session.outputs[0].name].data());
    });
  });
  const outputs = await Promise.all(runs);
  engine.close();
  return { outputs, order };
}

/** Makes the module trap (a run reads outside of its memory) while other runs wait. */
export async function trap(model, input, backend) {
  const { instantiate } = WebAssembly;
  let poisoned = false;
  WebAssembly.instantiate = async (module, imports) => {
    const { exports } = await instantiate.call(WebAssembly, module, imports);
    const run = (request, session, tensors, count) =>
      exports.sinter_session_run(request, session, poisoned ? 0xfffffff0 : tensors, poisoned ? 1000 : count);
    return { exports: { ...exports, sinter_session_run: run } };
  };
  let engine;
  try {
    engine = await sinter.createEngine({ backend });
  } finally {
    WebAssembly.instantiate = instantiate;
  }
  const session = await engine.load(model);
  const inputs = { [session.inputs[0].name]: await makeInput(engine, input) };
  const waiting = [session.run(inputs), session.run(inputs), engine.load(GEMM)];
  poisoned = true;
  waiting.push(session.run(inputs));
  const failures = await Promise.all(waiting.map(failureOf));
  const reasons = await Promise.allSettled(waiting);
  const later = await failureOf(session.run(inputs));
  const state = engine.state;
  const events = engine.events();
  engine.close();
  const fresh = await sinter.createEngine({ backend });
  const output = await runOnce(await fresh.load(GEMM));
  fresh.close();
  return { failures, same: new Set(reasons.map(({ reason }) => reason)).size === 1, later, state, events, output };
}

/** Live events, and a listener that throws. */
export async function events(backend) {
  const seen = [];
  const problems = [];
  addEventListener('error', (event) => { problems.push(event.message); event.preventDefault(); }, { once: true });
  const engine = await sinter.createEngine({
    backend,
    onEvent: (event) => {
      seen.push(event);
      if (seen.length === 1) throw new Error('a mistake in the listener');
    },
  });
  const session = await engine.load(GEMM);
  await runOnce(session);
  await new Promise((resolve) => setTimeout(resolve));
  engine.close();
  return { seen, problems };
}

/** The longest time in which the page had no turn while a model loads and runs. */
export async function longestPause({ model, input, backend }) {
  const engine = await sinter.createEngine({ backend, timeoutMs: 300000 });
  const channel = new MessageChannel();
  let longest = 0;
  let turns = 0;
  let last = performance.now();
  const beat = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    ++turns;
    channel.port2.postMessage(0);
  };
  const session = await engine.load(model);
  const inputs = { [session.inputs[0].name]: await makeInput(engine, input) };
  channel.port1.onmessage = beat;
  last = performance.now();
  channel.port2.postMessage(0);
  const started = performance.now();
  await session.run(inputs);
  const ms = performance.now() - started;
  channel.port1.close();
  engine.close();
  return { longest, turns, ms };
}

export async function badInputs(backend) {
  const engine = await sinter.createEngine({ backend });
  const session = await engine.load(GEMM);
  const { name } = session.inputs[0];
  const failures = {
    missing: await failureOf(session.run({})),
    unknown: await failureOf(session.run({ [name]: zeros().A, other: zeros().A })),
    shape: await failureOf(session.run({ [name]: new sinter.Tensor('float32', new Float32Array(6), [2, 3]) })),
    dtype: await failureOf(session.run({ [name]: new sinter.Tensor('int32', new Int32Array(4), [1, 4]) })),
    array: await failureOf(session.run({ [name]: new Float32Array(4) })),
    off: await failureOf(engine.load(GEMM, { off: ['no_such_pass'] })),
  };
  const output = await runOnce(session);
  session.close();
  failures.closed = await failureOf(session.run(zeros()));
  engine.close();
  failures.closedEngine = await failureOf(engine.load(GEMM));
  return { failures, output };
}

export async function diagnose() {
  return sinter.doctor();
}

/** Pictures through each kind of source: the same numbers. */
export async function imageSources(url, size) {
  const engine = await sinter.createEngine({ backend: 'cpu' });
  const blob = await (await fetch(url)).blob();
  const bitmap = await createImageBitmap(blob, { premultiplyAlpha: 'none', colorSpaceConversion: 'none' });
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  canvas.getContext('2d').drawImage(bitmap, 0, 0);
  const frame = new VideoFrame(bitmap, { timestamp: 0, alpha: 'discard' });
  const data = canvas.getContext('2d').getImageData(0, 0, bitmap.width, bitmap.height);
  const sources = { blob, bitmap, canvas, frame, data };
  if (globalThis.document) {
    const element = new Image();
    element.src = URL.createObjectURL(blob);
    await element.decode();
    sources.element = element;
  }
  const values = {};
  for (const [kind, source] of Object.entries(sources)) {
    const tensor = await engine.imageTensor(source, { size, preprocess: 'uint8_nhwc' });
    values[kind] = Array.from(await tensor.data());
  }
  frame.close();
  engine.close();
  return values;
}

/** Faults on purpose, each in an engine's only session; then the same engine without one. */
export async function faults(node, backend) {
  const failures = {};
  const engine = await sinter.createEngine({ backend, timeoutMs: 1500 });
  for (const kind of ['error', 'hang']) {
    failures[kind] = await failureOf(engine.load(GEMM, { inject: `${node}=${kind}` }).then(runOnce));
  }
  const wrong = await runOnce(await engine.load(GEMM, { inject: `${node}=wrong` }));
  const nan = await runOnce(await engine.load(GEMM, { inject: `${node}=nan` }));
  failures.unknown = await failureOf(engine.load(GEMM, { inject: 'nobody=nan' }));
  const output = await runOnce(await engine.load(GEMM));
  engine.close();
  return { failures, wrong, nan: nan.map(String), output };
}

/** A model that arrives too slowly. */
export async function stalled(url) {
  const engine = await sinter.createEngine({ backend: 'cpu', timeoutMs: 300 });
  const failure = await failureOf(engine.load(url));
  engine.close();
  return failure;
}
