// SPDX-License-Identifier: Apache-2.0
// sinter/diag: compares two ways of running a model node by node, and finds what makes them differ. It has a module of its
// own, with the engine and its diagnosis, and is loaded on demand.
import { SinterError } from './errors.js';
import { diagnose, DIAGNOSIS_OPTIONS, modelName, runtimeName, type Diagnosis, type DiagnosisOptions } from './diagnose.js';
import { check, demand, flag, names, oneOf, show, type Rule } from './options.js';
import type { Tensors } from './session.js';
import { code, commands, inputFiles } from './repeat.js';
import type { ModelSource } from './source.js';

export { examine } from './examine.js';
export type { DiagnosisOptions } from './diagnose.js';

/** A way of running a model; as a text: 'backend=webgpu,fusion=off,off=fuse_epilogue+to_channels_last'. */
export interface Spec {
  backend?: 'auto' | 'cpu' | 'webgpu' | 'reference';
  fusion?: boolean;
  /** Names of passes not to run. */
  off?: readonly string[];
  /** f16: float32 values are held in half precision. Default f32. */
  dtype?: 'f32' | 'f16';
  /** On the web there is one. */
  threads?: 1;
}

/** `nodes` are those of the fused step, where it could not be narrowed to one; null stands for NaN and infinity. */
export interface Difference {
  node: string;
  op: string;
  nodes: string[];
  shapes: string[];
  index: number[];
  a: number | null;
  b: number | null;
  /** The same values as text, which tells NaN from the infinities: they are null above. */
  a_text: string;
  b_text: string;
}

export interface CompareResult {
  equal: boolean;
  first: Difference | null;
  nodes: { node: string; op: string; nodes: string[]; max_abs: number | null; max_rel: number | null; cosine: number | null }[];
  runs: number;
  /** Why the injected fault makes no difference; absent where it makes one. */
  inert?: string;
  /** What makes "equal" mean less than it says: inputs with NaN or without elements. */
  warnings: string[];
  /** A picture of how the error grows from node to node. */
  svg: string;
}

export interface BisectResult {
  kind: 'patch' | 'node' | 'none';
  pass: string | null;
  patch: number | null;
  node: string | null;
  op: string | null;
  nodes: string[];
  /** At that node, or at the model's output where only that was looked at. */
  first: Difference | null;
  /** The error, where the bad way fails rather than differs. */
  failure: string | null;
  runs: number;
  /** nodes: the outputs agree, and the values inside were compared. */
  judged_by: 'outputs' | 'nodes';
  inert?: string;
  warnings: string[];
  /**
   * The cut sub-graph as an ONNX backend test, with report.json, report.md and the inputs that were given, by file name; null
   * where there is none.
   */
  repro: Record<string, Uint8Array> | null;
}

export interface BisectOptions extends DiagnosisOptions {
  /** Whether to cut a small model that shows the difference, which takes more runs. Default true. */
  repro?: boolean;
}

const SPEC: Readonly<Record<keyof Spec, Rule>> = {
  backend: oneOf('auto', 'cpu', 'webgpu', 'reference'), fusion: flag, off: names, dtype: oneOf('f32', 'f16'),
  threads: ['1: the web build computes on one thread', (value) => value === 1],
};

function parseSpec(which: string, text: string): Spec {
  const spec: Record<string, unknown> = {};
  for (const part of text.split(',')) {
    const at = part.indexOf('=');
    const [key, value] = [part.slice(0, at), part.slice(at + 1)];
    if (at < 0) {
      throw new SinterError('InvalidInput', `${which} cannot be '${text}': '${part}' has no '='`, "write key=value joined by commas, e.g. 'backend=cpu,fusion=off'");
    }
    if (key === 'fusion') demand(`fusion of ${which}`, value, oneOf('on', 'off'));
    spec[key] = key === 'fusion' ? value === 'on' : key === 'off' ? value.split('+') : key === 'threads' ? Number(value) : value;
  }
  return spec as Spec;
}

function specLines(side: 'a' | 'b', which: string, given: Spec | string): [string, unknown][] {
  const spec = typeof given === 'string' ? parseSpec(which, given) : given;
  check(which, spec, SPEC);
  return [[`${side}.backend`, spec.backend], [`${side}.fusion`, spec.fusion], [`${side}.dtype`, spec.dtype], ...(spec.off ?? []).map((pass): [string, unknown] => [`${side}.off`, pass])];
}

function run(verb: string, model: ModelSource, [a, b]: [Spec | string, Spec | string], [first, second]: [string, string],
             inputs: Tensors, options: DiagnosisOptions, more: [string, unknown][] = []): Promise<Diagnosis> {
  if (model === undefined || model === null) throw new SinterError('InvalidInput', `${verb} wants a model, not ${show(model)}`, 'give a URL, bytes, a Blob or a Response');
  return diagnose(verb, model, [...specLines('a', first, a), ...specLines('b', second, b), ['b.inject', options.inject], ...more], inputs, options);
}

/** Runs the model in both ways and compares every node's output. Inputs that are not given are seeded; faults act on `b`. */
export async function compare(model: ModelSource, a: Spec | string, b: Spec | string, inputs: Tensors = {},
                              options: DiagnosisOptions = {}): Promise<CompareResult> {
  check('compare', options, DIAGNOSIS_OPTIONS);
  const { json, files } = await run('compare', model, [a, b], ["the way 'a'", "the way 'b'"], inputs, options, [['model_name', modelName(model)]]);
  return { ...(json as CompareResult), svg: new TextDecoder().decode(files['errors.svg']) };
}

/** Finds the rewrite of the passes, or else the node, that makes the bad way differ from the good one, or fail. */
export async function bisect(model: ModelSource, good: Spec | string, bad: Spec | string, inputs: Tensors = {},
                             options: BisectOptions = {}): Promise<BisectResult> {
  check('bisect', options, { ...DIAGNOSIS_OPTIONS, repro: flag });
  const { repro = true, ...rest } = options;
  const name = modelName(model);
  const [goodSpec, badSpec] = [good, bad].map((spec) => (typeof spec === 'string' ? parseSpec('a way', spec) : spec)) as [Spec, Spec];
  const { json, files } = await run('bisect', model, [good, bad], ["the way 'good'", "the way 'bad'"], inputs, rest, [
    ['repro', repro], ['model_name', name], ['version.browser', runtimeName()],
    ...commands(name, goodSpec, badSpec, inputs, options).map((line): [string, unknown] => ['command', line]),
    ...code(model, good, bad, inputs, options).map((line): [string, unknown] => ['code', line]),
  ]);
  return { ...(json as BisectResult), repro: Object.keys(files).length ? { ...files, ...inputFiles(inputs) } : null };
}
