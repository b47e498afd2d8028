// SPDX-License-Identifier: Apache-2.0
// What happens to an engine while it works: closed, aborted, its device lost. Runs on a page and, but for the devices, in Node.
import { GEMM, failureOf, makeInput, runOnce } from './cases.js';

let sinter = globalThis.process?.versions?.node ? undefined : await import('/sinter/sinter.js');
let gemm = GEMM;

/** In Node the test says which package and file it means. */
export function use(package_, model) {
  sinter = package_;
  gemm = model;
}

const inputOf = (session, value) => ({ [session.inputs[0].name]: new sinter.Tensor('float32', new Float32Array(4).fill(value), [1, 4]) });

async function valuesOf(session, out) {
  return Array.from(await (await out)[session.outputs[0].name].data());
}

/** Engines one after the other, each with a run; every one is closed in another state. */
export async function cycles(count, backend) {
  const sizes = [];
  for (let i = 0; i < count; ++i) {
    const engine = await sinter.createEngine({ backend });
    const loading = engine.load(gemm);
    if (i % 4 === 3) {
      engine.close();
      await failureOf(loading);
      continue;
    }
    const session = await loading;
    const running = session.run(inputOf(session, 1));
    if (i % 4 === 2) {
      engine.close();
      await failureOf(running);
      continue;
    }
    await running;
    sizes.push(session.report.memory.wasm);
    if (i % 4 === 1) session.close();
    engine.close();
  }
  return { first: sizes[0], last: sizes.at(-1) };
}

/** Many runs in one engine: sessions come and go, and memory stays. */
export async function sessions(count, backend) {
  const engine = await sinter.createEngine({ backend });
  const sizes = [];
  for (let i = 0; i < count; ++i) {
    const session = await engine.load(gemm);
    const running = session.run(inputOf(session, 1));
    if (i % 2) session.close();
    const failure = await failureOf(running);
    if (i % 2 === 0) session.close();
    if (failure && failure.code !== 'Cancelled') throw new Error(failure.message);
    const last = await engine.load(gemm);
    sizes.push(last.report.memory.wasm);
    last.close();
  }
  engine.close();
  return { early: sizes[10], late: sizes.at(-1) };
}

/** Runs while another model loads, on two engines, and a session that is closed while it runs. */
export async function busy(model, input, backend) {
  const engines = await Promise.all([sinter.createEngine({ backend }), sinter.createEngine({ backend })]);
  const [one, two] = await Promise.all(engines.map((engine) => engine.load(gemm)));
  const loading = engines[0].load(model);
  const during = await Promise.all([1, 2, 3].map((value) => valuesOf(one, one.run(inputOf(one, value)))));
  const large = await loading;
  const picture = { [large.inputs[0].name]: await makeInput(engines[0], input) };
  const runs = [large.run(picture), large.run(picture)];
  const other = valuesOf(two, two.run(inputOf(two, 4)));
  large.close();
  // What ran at that moment may end well; what waited does not.
  const failures = (await Promise.all(runs.map(failureOf))).slice(1);
  const after = await valuesOf(one, one.run(inputOf(one, 5)));
  const values = [...during, await other, after];
  // And an engine that is closed while it runs.
  const pending = [two.run(inputOf(two, 1)), two.run(inputOf(two, 2)), engines[1].load(gemm)];
  engines[1].close();
  const closed = await Promise.all(pending.map(failureOf));
  const still = await runOnce(one);
  engines[0].close();
  return { values, failures, closed, still };
}

/**
 * Aborts after the k-th event of a load and a run, for each k until nothing is left to abort. What was aborted is Cancelled,
 * and the run that follows in the same engine is right.
 */
export async function abortAtEachEvent(model, input, backend) {
  let signal;
  let left = Infinity;
  const engine = await sinter.createEngine({ backend, onEvent: () => { if (--left === 0) signal.abort(); } });
  const found = { cancelled: {}, other: [], points: 0, wrong: [] };
  const whole = await engine.load(model);
  const inputs = { [whole.inputs[0].name]: await makeInput(engine, input) };
  const expected = await valuesOf(whole, whole.run(inputs));
  // Memory once had room for two sessions: what is more later on was lost.
  const other = await engine.load(model);
  await other.run(inputs);
  other.close();
  const sizes = [];
  for (let k = 1, more = true; more; ++k) {
    signal = new AbortController();
    left = k;
    let stage = 'load';
    const failure = await failureOf((async () => {
      const session = await engine.load(model, { signal: signal.signal });
      stage = 'run';
      const values = await valuesOf(session, session.run(inputs, { signal: signal.signal })).finally(() => session.close());
      if (JSON.stringify(values) !== JSON.stringify(expected)) throw new Error(`wrong values at event ${k}`);
    })());
    more = left <= 0;
    left = Infinity;
    ++found.points;
    if (failure?.code === 'Cancelled') found.cancelled[stage] = (found.cancelled[stage] ?? 0) + 1;
    else if (failure) found.other.push(failure.message);
    const again = await valuesOf(whole, whole.run(inputs));
    if (JSON.stringify(again) !== JSON.stringify(expected)) found.wrong.push(k);
    sizes.push(whole.report.memory.wasm);
  }
  engine.close();
  return { ...found, early: sizes[3], late: sizes.at(-1) };
}

/** No adapter at first. */
export async function adapterComesLater() {
  const { requestAdapter } = GPU.prototype;
  GPU.prototype.requestAdapter = async () => null;
  const failures = await Promise.all([1, 2].map(() => failureOf(sinter.createEngine({ backend: 'webgpu' }))));
  GPU.prototype.requestAdapter = requestAdapter;
  const engine = await sinter.createEngine({ backend: 'webgpu' });
  const output = await runOnce(await engine.load(gemm));
  engine.close();
  return { failures, output };
}

/** A device that is refused at first, and one that takes its time. */
export async function deviceComesLater() {
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = () => Promise.reject(new DOMException('not today', 'OperationError'));
  const engine = await sinter.createEngine({ backend: 'webgpu' });
  const failures = await Promise.all([1, 2].map(() => failureOf(engine.load(gemm))));
  let open = () => {};
  const opened = new Promise((resolve) => { open = resolve; });
  GPUAdapter.prototype.requestDevice = async function (...args) {
    await opened;
    return requestDevice.apply(this, args);
  };
  const outputs = [await runOnce(await (open(), engine.load(gemm)))];
  engine.close();
  let release = () => {};
  const late = new Promise((resolve) => { release = resolve; });
  GPUAdapter.prototype.requestDevice = async function (...args) {
    await late;
    return requestDevice.apply(this, args);
  };
  const waiting = await sinter.createEngine({ backend: 'webgpu' });
  const loading = waiting.load(gemm);
  const imported = () => waiting.events().some(({ stage, phase }) => stage.startsWith('pass ') && phase === 'end');
  while (!imported()) await new Promise((resolve) => setTimeout(resolve));
  release();
  outputs.push(await runOnce(await loading));
  waiting.close();
  GPUAdapter.prototype.requestDevice = requestDevice;
  return { failures, outputs };
}

/** The page destroys its device: what waits fails typed, what comes next is right. */
export async function deviceDestroyed(model, input) {
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice();
  const engine = await sinter.createEngine({ backend: 'webgpu', device });
  const session = await engine.load(model);
  const inputs = { [session.inputs[0].name]: await makeInput(engine, input) };
  const before = await valuesOf(session, session.run(inputs));
  const waiting = [session.run(inputs), session.run(inputs)];
  device.destroy();
  const failures = await Promise.all(waiting.map(failureOf));
  const queued = failures[1] ? undefined : await valuesOf(session, waiting[1]);
  const after = await valuesOf(session, session.run(inputs));
  const { report } = session;
  engine.close();
  return { before, failures, queued, after, report, events: engine.events() };
}

/** An error of the page's own device outside of every scope, and a map that is refused, each during a run. */
export async function deviceFailures() {
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice();
  const engine = await sinter.createEngine({ backend: 'webgpu', device });
  const session = await engine.load(gemm);
  const result = {};
  const uncaptured = session.run(inputOf(session, 1));
  device.createBuffer({ size: 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.STORAGE });
  result.uncaptured = await failureOf(uncaptured.then(() => session.run(inputOf(session, 2))));
  result.afterUncaptured = await runOnce(session);
  const { mapAsync } = GPUBuffer.prototype;
  GPUBuffer.prototype.mapAsync = () => Promise.reject(new DOMException('no map today', 'OperationError'));
  const waiting = [session.run(inputOf(session, 1)), session.run(inputOf(session, 2))];
  result.maps = await Promise.all(waiting.map(failureOf));
  GPUBuffer.prototype.mapAsync = mapAsync;
  result.afterMap = await runOnce(session);
  engine.close();
  device.destroy();
  return result;
}

/** Faults of the device, put in by a load option. */
export async function injectedDevice(backend) {
  const engine = await sinter.createEngine({ backend });
  const outcome = {};
  for (const injectDevice of ['lost@0', 'oom@gemm_0_node', 'no-adapter', 'lost@99']) {
    let session;
    const load = await failureOf(engine.load(gemm, { injectDevice }).then((loaded) => { session = loaded; }));
    const run = session && await failureOf(session.run(inputOf(session, 0)));
    outcome[injectDevice] = { load, run, after: session && await runOnce(session), report: session?.report };
    session?.close();
  }
  outcome.output = await runOnce(await engine.load(gemm));
  engine.close();
  return outcome;
}

/** A kernel that does not compile, and a node that fails in a run while others wait. */
export async function firstFailures(node) {
  const { createShaderModule } = GPUDevice.prototype;
  GPUDevice.prototype.createShaderModule = function (descriptor) {
    return createShaderModule.call(this, { ...descriptor, code: descriptor.code.replace('fn main', 'oops fn main') });
  };
  const engine = await sinter.createEngine({ backend: 'webgpu' });
  const result = { shader: await failureOf(engine.load(gemm)) };
  GPUDevice.prototype.createShaderModule = createShaderModule;
  const session = await engine.load(gemm, { inject: `${node}=error` });
  result.node = await failureOf(session.run(inputOf(session, 0)));
  result.output = await runOnce(await engine.load(gemm));
  engine.close();
  return result;
}

/** Several awaits that end by one cause each: a loss, an error that nothing caught, a kernel that does not compile, no adapter. */
export async function oneCause(model, input) {
  const result = {};
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice();
  let engine = await sinter.createEngine({ backend: 'webgpu', device });
  const session = await engine.load(model);
  const inputs = { [session.inputs[0].name]: await makeInput(engine, input) };
  await session.run(inputs);
  const loading = () => engine.load(model).then((loaded) => loaded.close());
  let pending = [session.run(inputs), loading(), loading()];
  // Until all of them wait for the device.
  while (engine.events().filter(({ stage, phase }) => stage === 'compile' && phase === 'begin').length < 3) await new Promise((resolve) => setTimeout(resolve));
  device.createBuffer({ size: 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.STORAGE });
  result.uncaptured = await Promise.all(pending.map(failureOf));
  await session.run(inputs);
  pending = [session.run(inputs), loading(), loading()];
  while (engine.events().at(-1).stage !== 'upload' && engine.events().at(-1).stage !== 'compile') await new Promise((resolve) => setTimeout(resolve));
  device.destroy();
  result.lost = await Promise.all(pending.map(failureOf));
  engine.close();

  const { createShaderModule } = GPUDevice.prototype;
  GPUDevice.prototype.createShaderModule = function (descriptor) {
    return createShaderModule.call(this, { ...descriptor, code: descriptor.code.replace('fn main', 'oops fn main') });
  };
  engine = await sinter.createEngine({ backend: 'webgpu' });
  result.shader = await Promise.all([1, 2].map(() => failureOf(engine.load(gemm))));
  engine.close();
  GPUDevice.prototype.createShaderModule = createShaderModule;

  const { requestAdapter } = GPU.prototype;
  GPU.prototype.requestAdapter = async () => null;
  result.adapter = await Promise.all([1, 2, 3].map(() => failureOf(sinter.createEngine({ backend: 'webgpu' }))));
  GPU.prototype.requestAdapter = requestAdapter;
  return result;
}

/** What is asked of the browser for a device, and when: in milliseconds since createEngine(). */
export async function openings(backend) {
  const asked = [];
  const { requestAdapter } = GPU.prototype;
  const { requestDevice } = GPUAdapter.prototype;
  let started = 0;
  GPU.prototype.requestAdapter = function (...args) {
    asked.push(['adapter', performance.now() - started]);
    return requestAdapter.apply(this, args);
  };
  GPUAdapter.prototype.requestDevice = function (...args) {
    asked.push(['device', performance.now() - started]);
    return requestDevice.apply(this, args);
  };
  started = performance.now();
  const engine = await sinter.createEngine({ backend });
  const open = performance.now() - started;
  const fetched = engine.events().find(({ stage, phase }) => stage === 'fetch module' && phase === 'end').t_ms;
  const session = await engine.load(gemm);
  await runOnce(session);
  const { report } = session;
  engine.close();
  Object.assign(GPU.prototype, { requestAdapter });
  Object.assign(GPUAdapter.prototype, { requestDevice });
  return { asked, fetched, open, report };
}

let kept;

/** Loads and runs once, and leaves a run under way for the test to break into. */
export async function beginCrash(model, input, backend) {
  const engine = await sinter.createEngine({ backend });
  const session = await engine.load(model);
  const inputs = { [session.inputs[0].name]: await makeInput(engine, input) };
  const before = await valuesOf(session, session.run(inputs));
  const waiting = Array.from({ length: 20 }, () => failureOf(session.run(inputs)));
  kept = { engine, session, inputs, waiting };
  return { before };
}

export async function endCrash() {
  const { engine, session, inputs, waiting } = kept;
  const failures = (await Promise.all(waiting)).filter(Boolean);
  const tries = [];
  let after;
  for (let i = 0; i < 5 && !after; ++i) {
    const failure = await failureOf(session.run(inputs).then(async (out) => { after = await valuesOf(session, out); }));
    if (failure) tries.push(failure);
  }
  const { report } = session;
  engine.close();
  return { failures, tries, after, report };
}
