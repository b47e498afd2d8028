// SPDX-License-Identifier: Apache-2.0
// What the diagnosis tests do on a page.
import { failureOf } from './cases.js';
import { doctor, createEngine, Tensor } from '/sinter/sinter.js';
import { bisect, compare } from '/sinter/diag.js';

// Every node's own value is in the capture of an unfused run.
const GOOD = { backend: 'cpu' };
const BAD = { backend: 'webgpu' };
const limits = { timeoutMs: 300000 };

/** So many nodes, spread over the model. */
async function sample(model, count) {
  const { nodes } = await compare(model, { backend: 'cpu', fusion: false }, { backend: 'cpu', fusion: false }, {}, limits);
  const names = nodes.filter(({ op }) => op !== 'Identity').map(({ node }) => node);
  return Array.from({ length: count }, (_, i) => names[Math.floor(((i + 0.5) * names.length) / count)]);
}

export async function attribute(model, kind, count) {
  const tried = await sample(model, count);
  const found = [];
  for (const node of tried) {
    const options = { ...limits, inject: `${node}=${kind}` };
    const { first } = await compare(model, GOOD, BAD, {}, options);
    const bisected = await bisect(model, GOOD, BAD, {}, { ...options, repro: false });
    found.push({ node, compared: first, bisected });
  }
  return { tried, found };
}

export async function failuresOf(model, count) {
  const found = [];
  for (const node of await sample(model, count)) {
    const slow = await createEngine({ backend: 'webgpu', ...limits });
    const input = new Tensor('float32', new Float32Array(3 * 224 * 224), [1, 3, 224, 224]);
    const broken = await slow.load(model, { inject: `${node}=error` });
    const error = await failureOf(broken.run({ [broken.inputs[0].name]: input }));
    slow.close();
    // Prepared with the patience that a software adapter needs; the hang itself is what takes time then.
    const engine = await createEngine({ backend: 'webgpu', timeoutMs: 8000 });
    const hanging = await engine.load(model, { inject: `${node}=hang` });
    let turns = 0;
    const beat = setInterval(() => { ++turns; }, 50);
    const hang = await failureOf(hanging.run({ [hanging.inputs[0].name]: input }));
    clearInterval(beat);
    hanging.close();
    engine.close();
    const fresh = await createEngine({ backend: 'cpu' });
    const session = await fresh.load(model);
    const after = Object.keys(await session.run({ [session.inputs[0].name]: input })).length === 1;
    fresh.close();
    found.push({ node, error, hang, turns, after });
  }
  return found;
}

export async function repro(model) {
  const [node] = await sample(model, 1);
  const { repro: files, ...result } = await bisect(model, GOOD, BAD, {}, { ...limits, inject: `${node}=wrong` });
  return {
    node, result, files: Object.fromEntries(Object.entries(files).map(([name, bytes]) => [name, bytes.length])),
    report: new TextDecoder().decode(files['report.md']),
  };
}

export function examine(options) {
  return doctor({ ...limits, ...options });
}
