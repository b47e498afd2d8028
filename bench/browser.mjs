#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Speed in Chromium beside ONNX Runtime Web and TensorFlow.js, on the page's main thread. Each engine has a page of its own;
// the first answers come one after the other, the warm runs take turns. Prints one JSON line per model.
//   node bench/browser.mjs webgpu|cpu [--rounds N] [--runs N] [--threads N] [--hardware] MODEL...
// --hardware: the adapter is a GPU that passes for SwiftShader, because a headless Chromium takes no other; the pages are told
// so. The first line is then what the browser itself needs for 1, 20 and 55 empty dispatches with read-back.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { compare, launch, readNpy, ROOT, serve } from '../tests/browser/harness.mjs';

const TFJS = join(ROOT, 'build/bench/tfjs');
const words = process.argv.slice(2);
const flag = (name, fallback) => {
  const at = words.indexOf(`--${name}`);
  return at < 0 ? fallback : Number(words.splice(at, 2)[1]);
};
const rounds = flag('rounds', 5);
const runs = flag('runs', 6);
const threads = flag('threads', 1);
const hardware = words.includes('--hardware');
const [backend, ...models] = words.filter((word) => word !== '--hardware');

const ENGINES = {
  webgpu: [
    { title: 'sinter', engine: 'sinter' },
    { title: 'onnxruntime-web', engine: 'ort', mode: 'plain' },
    { title: 'onnxruntime-web captured', engine: 'ort', mode: 'captured' },
    { title: 'tfjs', engine: 'tfjs' },
  ],
  cpu: [
    { title: 'sinter', engine: 'sinter' },
    { title: 'onnxruntime-web', engine: 'ort' },
    { title: 'tfjs', engine: 'tfjs' },
  ],
}[backend];
if (!ENGINES || !models.length) {
  console.error('usage: node bench/browser.mjs webgpu|cpu [--rounds N] [--runs N] [--threads N] MODEL...');
  process.exit(2);
}

const quantile = (values, q) => [...values].sort((a, b) => a - b)[Math.floor(q * (values.length - 1))];

function convert(model) {
  mkdirSync(TFJS, { recursive: true });
  if (existsSync(join(TFJS, `${model}.json`))) return;
  execFileSync(join(ROOT, '.venv/bin/python'), [join(ROOT, 'bench/peers/onnx_to_tfjs.py'), join(ROOT, `models/generated/${model}.onnx`), join(TFJS, model)]);
}

function tellTheTruth() {
  Object.defineProperties(GPUAdapterInfo.prototype, {
    isFallbackAdapter: { get: () => false }, vendor: { get: () => 'nvidia' }, architecture: { get: () => '' },
    device: { get: () => '' }, description: { get: () => '' },
  });
}

/** Median milliseconds of 1, 20 and 55 dependent empty dispatches with read-back. */
async function floor() {
  const device = await (await navigator.gpu.requestAdapter()).requestDevice();
  const use = GPUBufferUsage;
  const buffer = device.createBuffer({ size: 1 << 20, usage: use.STORAGE | use.COPY_SRC });
  const staging = device.createBuffer({ size: 4000, usage: use.MAP_READ | use.COPY_DST });
  const code = '@group(0) @binding(0) var<storage, read_write> b: array<f32>; '
    + '@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) g: vec3u) { b[g.x] = b[g.x] * 1.5 + 1.0; }';
  const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module: device.createShaderModule({ code }) } });
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries: [{ binding: 0, resource: { buffer } }] });
  const run = async (count) => {
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    for (let i = 0; i < count; ++i) pass.dispatchWorkgroups(64);
    pass.end();
    encoder.copyBufferToBuffer(buffer, 0, staging, 0, 4000);
    device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    staging.unmap();
  };
  const medians = {};
  for (const count of [1, 20, 55]) {
    const times = [];
    for (let i = 0; i < 120; ++i) {
      const start = performance.now();
      await run(count);
      if (i >= 20) times.push(performance.now() - start);
    }
    medians[count] = times.sort((a, b) => a - b)[50];
  }
  device.destroy();
  return medians;
}

async function open(browser, url, model, expected, { title, ...options }) {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(0);
  if (hardware) await page.addInitScript(tellTheTruth);
  const query = new URLSearchParams({ model, backend, threads: String(threads), ...options });
  await page.goto(`${url}/bench/page.html?${query}`);
  try {
    const { output, ...times } = await page.evaluate(() => window.first());
    return { title, page, context, ...times, wrong: compare(output, expected), times: [] };
  } catch (error) {
    await context.close();
    return { title, error: error.message.split('\n')[0] };
  }
}

async function measure(browser, url, model) {
  convert(model);
  const { data } = readNpy(join(ROOT, `models/generated/${model}.output.npy`));
  const opened = [];
  for (const engine of ENGINES) opened.push(await open(browser, url, model, data, engine));
  const alive = opened.filter((engine) => engine.page);
  for (const engine of alive) await engine.page.evaluate(() => window.warm(2));
  for (let round = 0; round < rounds; ++round) {
    for (const engine of alive) engine.times.push(...await engine.page.evaluate((count) => window.warm(count), runs));
  }
  for (const engine of alive) await engine.context.close();
  return opened.map(({ title, error, times, first, loaded, wrong, note }) => (error ? { title, error } : {
    title, first_ms: first, load_ms: loaded, warm_ms: { min: quantile(times, 0), median: quantile(times, 0.5), p95: quantile(times, 0.95) },
    ...(wrong ? { wrong } : {}), ...(note ? { note } : {}),
  }));
}

const { url, close } = await serve({
  isolate: true,
  extra: { '/bench/': join(ROOT, 'bench/pages'), '/peers/': join(ROOT, 'bench/peers/node_modules'), '/tfjs/': TFJS },
});
if (hardware) {
  const browser = await launch();
  const page = await browser.newPage();
  await page.goto(`${url}/pages/blank.html`);
  console.error(`floor: ${JSON.stringify(await page.evaluate(floor))}`);
  await browser.close();
}
for (const model of models) {
  const browser = await launch({ webgpu: backend === 'webgpu' });
  console.log(JSON.stringify({ model, backend, threads, engines: await measure(browser, url, model) }));
  await browser.close();
}
await close();
