// SPDX-License-Identifier: Apache-2.0
// A request to the module for diagnosis (engine/api/diag_web.cc): each has an instance of its own, which is given up after it.
import { ENGINE_OPTIONS, LOAD_OPTIONS, lines, openEngine, type EngineOptions, type LoadOptions } from './engine.js';
import { SinterError } from './errors.js';
import type { Host } from './host.js';
import { resolveUrl } from './module.js';
import { integer, type Rule } from './options.js';
import { checkedInputs, packTensors, type Tensors } from './session.js';
import { freeFiles, readFiles, withFiles, type ModelFiles, type ModelSource } from './source.js';

export interface DiagnosisOptions extends Omit<EngineOptions, 'backend' | 'threads'>, Omit<LoadOptions, 'fusion' | 'off' | 'injectDevice'> {
  /** Two values are equal within atol + rtol * |expected|; by default 1e-4 and 1e-3. */
  rtol?: number;
  atol?: number;
  /** Of the inputs that are not given. */
  seed?: number;
}

const tolerance: Rule = ['a number of at least 0', (value) => typeof value === 'number' && value >= 0];
const { backend, threads, ...engineRules } = ENGINE_OPTIONS;
const { fusion, off, injectDevice, ...loadRules } = LOAD_OPTIONS;
void [backend, threads, injectDevice];
export const DIAGNOSIS_OPTIONS: Readonly<Record<keyof DiagnosisOptions, Rule>> = {
  ...engineRules, ...loadRules, rtol: tolerance, atol: tolerance, seed: integer(Number.MAX_SAFE_INTEGER, 'an integer of at least 0'),
};
export const RULES = { backend, fusion, off };

export interface Diagnosis {
  json: unknown;
  files: Record<string, Uint8Array>;
}

/** `more` gives further lines once the model has been read, in so many milliseconds. */
export async function diagnose(verb: string, model: ModelSource | undefined, wish: [string, unknown][], inputs: Tensors, options: DiagnosisOptions,
                               more: (fetchMs: number) => [string, unknown][] = () => []): Promise<Diagnosis> {
  const entries = checkedInputs(inputs);
  const { rtol, atol, seed, dims, externalData, signal, onProgress, inject, wasmUrl, ...rest } = options;
  void inject;
  const url = wasmUrl === undefined ? new URL('./sinter-diag.wasm', import.meta.url) : resolveUrl(wasmUrl);
  const engine = await openEngine(url, { ...rest, backend: 'auto' });
  try {
    return await engine.ask(async (host, handle) => {
      if (!host.exports['sinter_diagnose']) {
        throw new SinterError('InvalidInput', `${url} is not the module for diagnosis`, 'wasmUrl is here the address of sinter-diag.wasm, or is left out');
      }
      const started = performance.now();
      const files: ModelFiles = model === undefined ? { model: { name: '', address: 0, bytes: 0 }, external: [] }
        : await readFiles(host, model, { ...(externalData && { externalData }), ...(signal && { signal }), ...(onProgress && { onProgress }) });
      const text = lines([['verb', verb], ...wish, ['rtol', rtol], ['atol', atol], ['seed', seed],
        ...Object.entries(dims ?? {}).map(([name, size]): [string, unknown] => ['dim', `${name}=${size}`]), ...more(performance.now() - started)]);
      const block = packTensors(host, entries, (bytes) => ({ address: host.alloc(bytes, 'the inputs'), bytes }));
      return host.request((request) => start(host, request, handle, files, text, block.address, entries.length),
        (address, bytes) => answer(host, address, bytes), signal);
    });
  } finally {
    engine.close();
  }
}

function start(host: Host, request: number, handle: number, files: ModelFiles, text: string, inputs: number, count: number): void {
  let taken = false;
  try {
    host.withText(text, (at, bytes) => withFiles(host, files.external, (external) => {
      taken = true;
      host.enter('sinter_diagnose', request, handle, files.model.address, files.model.bytes, external, files.external.length, at, bytes,
        inputs, count);
    }));
  } finally {
    if (!taken) freeFiles(host, files);
  }
}

/** An array of sinter_file (engine/api/abi.h), of which the first is the JSON. */
function answer(host: Host, address: number, bytes: number): Diagnosis {
  const view = new DataView(host.exports.memory.buffer, address, bytes);
  let json: unknown;
  const files: Record<string, Uint8Array> = {};
  for (let at = 0; at < bytes; at += 16) {
    const [name, nameBytes, data, dataBytes] = [0, 4, 8, 12].map((field) => view.getUint32(at + field, true)) as [number, number, number, number];
    if (at === 0) json = JSON.parse(host.text(data, dataBytes));
    else files[host.text(name, nameBytes)] = host.bytes(data, dataBytes).slice();
  }
  return { json, files };
}

/** What a report calls the model. */
export function modelName(model: ModelSource | undefined): string {
  return typeof model === 'string' || model instanceof URL ? String(model) : (model as File | undefined)?.name ?? 'the model';
}

export function runtimeName(): string {
  const { navigator, process } = globalThis;
  return process?.versions?.node ? `Node ${process.version}` : navigator?.userAgent ?? 'unknown';
}
