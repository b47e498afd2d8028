#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Whether a page stays alive: the tasks of its main thread from createEngine() to the end of the runs, on each backend, the
// model from its address and from bytes. Prints one JSON line per row.
//   node bench/tasks.mjs [--rounds N] [--runs N] MODEL...
// A row: longtasks (what PerformanceObserver reports: more than 50 ms by the clock), longest_ms by the clock and longest_cpu_ms
// by the thread's own time, which other programs on the machine do not lengthen; load_ms and run_ms.
import { launch, serve } from '../tests/browser/harness.mjs';

const words = process.argv.slice(2);
const flag = (name, fallback) => {
  const at = words.indexOf(`--${name}`);
  return at < 0 ? fallback : Number(words.splice(at, 2)[1]);
};
const rounds = flag('rounds', 3);
const runs = flag('runs', 5);
if (!words.length) {
  console.error('usage: node bench/tasks.mjs [--rounds N] [--runs N] MODEL...');
  process.exit(2);
}

async function onPage({ backend, model, from, runs }) {
  const { createEngine, Tensor } = await import('/sinter/sinter.js');
  const address = `/models/generated/${model}.onnx`;
  const source = from === 'bytes' ? new Uint8Array(await (await fetch(address)).arrayBuffer()) : address;
  const values = new Float32Array(3 * 224 * 224);
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  await pause(500);
  const entries = [];
  const observer = new PerformanceObserver((list) => entries.push(...list.getEntries()));
  observer.observe({ type: 'longtask' });
  performance.mark('sinter:start');
  const start = performance.now();
  const engine = await createEngine({ backend, timeoutMs: 300000 });
  const session = await engine.load(source);
  const loaded = performance.now();
  for (let i = 0; i < runs; ++i) {
    const out = await session.run({ [session.inputs[0].name]: new Tensor('float32', values, [1, 3, 224, 224]) });
    await out[session.outputs[0].name].data();
  }
  const end = performance.now();
  performance.mark('sinter:end');
  await pause(200);
  observer.disconnect();
  const used = session.report.backend;
  engine.close();
  const longtasks = entries.filter(({ startTime }) => startTime >= start && startTime < end).map(({ duration }) => Math.round(duration));
  return { used, longtasks, load: loaded - start, run: (end - loaded) / runs };
}

/** The longest task between the page's two marks, in milliseconds: by the clock, and of the thread itself. */
function longest(trace) {
  const { traceEvents } = JSON.parse(trace.toString());
  const [start, end] = ['sinter:start', 'sinter:end'].map((mark) => traceEvents.find(({ name }) => name === mark));
  const tasks = traceEvents.filter(({ name, pid, tid, ts, dur }) =>
    name === 'RunTask' && pid === start.pid && tid === start.tid && ts + dur > start.ts && ts < end.ts);
  const most = (field) => tasks.reduce((worst, task) => Math.max(worst, task[field] ?? NaN), 0) / 1000;
  return { ms: most('dur'), cpu: most('tdur') };
}

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const { url, close } = await serve({ isolate: true });
for (const model of words) {
  for (const backend of ['webgpu', 'cpu']) {
    for (const from of ['address', 'bytes']) {
      const seen = [];
      for (let round = 0; round < rounds; ++round) {
        const browser = await launch();
        const page = await (await browser.newContext()).newPage();
        page.setDefaultTimeout(0);
        await page.goto(`${url}/pages/blank.html`);
        await browser.startTracing(page, { categories: ['-*', 'disabled-by-default-devtools.timeline', 'blink.user_timing'] });
        const found = await page.evaluate(onPage, { backend, model, from, runs });
        seen.push({ ...found, longest: longest(await browser.stopTracing()) });
        await browser.close();
      }
      if (seen.some(({ used }) => used !== backend)) throw new Error(`${backend} was not used`);
      console.log(JSON.stringify({
        model, backend, from, rounds, runs, longtasks: seen.flatMap(({ longtasks }) => longtasks),
        longest_ms: Math.max(...seen.map(({ longest }) => longest.ms)), longest_cpu_ms: Math.max(...seen.map(({ longest }) => longest.cpu)),
        load_ms: median(seen.map(({ load }) => load)), run_ms: median(seen.map(({ run }) => run)),
      }));
    }
  }
}
await close();
