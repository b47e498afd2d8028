// SPDX-License-Identifier: Apache-2.0
// Times onnxruntime-node on one model and prints one JSON line, in the words of `sinter bench --json`.
//   node ort_node.mjs MODEL.onnx webgpu|cpu BATCH WARMUP RUNS [THREADS]
import ort from 'onnxruntime-node';

const [model, provider, batch, warmup, runs, threads = '1'] = process.argv.slice(2);

function inputFor(metadata) {
  const shape = metadata.shape.map((dim) => (typeof dim === 'number' ? dim : Number(batch)));
  let seed = 7;
  const data = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2147483648 - 1;
  });
  return new ort.Tensor('float32', data, shape);
}

const start = performance.now();
const session = await ort.InferenceSession.create(model, {
  executionProviders: [provider], intraOpNumThreads: Number(threads), interOpNumThreads: 1, logSeverityLevel: 3,
});
const loaded = performance.now();
const feeds = Object.fromEntries(session.inputNames.map((name, i) => [name, inputFor(session.inputMetadata[i])]));
const begin = performance.now();
await session.run(feeds);
const first = performance.now() - begin;
for (let i = 0; i < Number(warmup); ++i) await session.run(feeds);
const times = [];
for (let i = 0; i < Number(runs); ++i) {
  const at = performance.now();
  const outputs = await session.run(feeds);
  if (!outputs[session.outputNames[0]].data.length) throw new Error('no output');
  times.push(performance.now() - at);
}
times.sort((a, b) => a - b);
const warm_ms = { min: times[0], median: times[times.length >> 1], p95: times[Math.floor(times.length * 0.95)] };
console.log(JSON.stringify({ backend: provider, load_ms: loaded - start, first_ms: first, warm_ms }));
// Dawn's threads keep the process alive.
process.exit(0);
