// SPDX-License-Identifier: Apache-2.0
// The doctor's work. What the module finds out is engine/diag/doctor.h; what only the browser knows comes from here.
import { diagnose, DIAGNOSIS_OPTIONS, modelName, RULES, runtimeName, type DiagnosisOptions } from './diagnose.js';
import { SinterError, textOf, type ErrorCode } from './errors.js';
import { isSoftware } from './gpu.js';
import { RELAXED_SIMD, validates } from './module.js';
import { check, flag, record, type Rule } from './options.js';
import type { Tensors } from './session.js';
import type { ModelSource } from './source.js';

declare const SINTER_VERSION: string;

export interface DoctorOptions extends DiagnosisOptions {
  /** A model to look at, on every backend. */
  model?: ModelSource;
  /** Its inputs; those not given are seeded. */
  inputs?: Tensors;
  /** Only this backend, beside the reference. */
  backend?: 'auto' | 'cpu' | 'webgpu' | 'reference';
  fusion?: boolean;
  off?: readonly string[];
  /** Whether to run every operator's own cases, or those of the operators named. Default true. */
  operators?: boolean | readonly string[];
}

export interface CaseNumbers {
  cases: number;
  passed: number;
  failed: number;
  /** WebGPU: cases that run on the CPU there. */
  skipped: number;
  worst_abs: number;
  /** The largest difference as a part of what its case tolerates. */
  worst_of_tolerance: number;
  worst_case: string;
  ms: number;
}

export interface BackendCases extends CaseNumbers {
  /** Why not all cases were run; empty otherwise. */
  stopped: string;
  failures: { op: string; case: string; reason: string }[];
  operators: Record<string, CaseNumbers>;
}

export interface DoctorReport {
  versions: Record<string, string>;
  features: Record<string, boolean | string | string[] | number>;
  isolation: { secureContext: boolean; crossOriginIsolated: boolean };
  adapter: {
    available: boolean;
    /** Where there is none. */
    reason?: string;
    hint?: string;
    name?: string;
    vendor?: string;
    architecture?: string;
    driver?: string;
    software?: boolean;
    features?: string[];
    limits?: Record<string, number>;
    /** The numeric test that decides whether 'auto' uses the device. */
    self_test?: { right: boolean; wrong: string; first_ms: number; warm_ms: number };
  };
  /** By backend. */
  self_test: Record<string, BackendCases>;
  model?: { name: string; producer: string; producer_version: string; ir: number; opsets: Record<string, number>; nodes: number; initializers: number; bytes: number };
  stages: { backend: string; stage: string; node: string; detail: string; depth: number; ms: number; ended: boolean; error: string }[];
  runs: {
    backend: string; ran: boolean; agrees: boolean; difference: string; max_abs: number; load_ms: number; prepare_ms: number; first_ms: number;
    warm_ms: number; dispatches: number; pipelines: number; peak_bytes: number; cpu_steps: { node: string; op: string; reason: string }[];
    error: { code: ErrorCode; message: string; chain: string[]; hint: string } | null;
  }[];
  /** Whether what was asked about works. */
  healthy: boolean;
  /** One sentence. */
  verdict: string;
  hint: string;
}

const OPTIONS: Readonly<Record<keyof DoctorOptions, Rule>> = {
  ...DIAGNOSIS_OPTIONS, ...RULES, inputs: record, model: ['a URL, bytes, a Blob or a Response', (value) => value !== null],
  operators: ['true, false or an array of names', (value) => flag[1](value) || RULES.off[1](value)],
};

// The smallest modules that use each feature.
const PROBES = {
  simd: [1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11],
  relaxedSimd: RELAXED_SIMD,
  threads: [1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 5, 4, 1, 3, 1, 1, 10, 11, 1, 9, 0, 65, 0, 254, 16, 2, 0, 26, 11],
};

/** What the browser itself says. */
async function surroundings(): Promise<Pick<DoctorReport, 'versions' | 'features' | 'isolation' | 'adapter'>> {
  return {
    versions: { sinter: SINTER_VERSION, browser: runtimeName() },
    features: {
      simd: validates(PROBES.simd), relaxedSimd: validates(PROBES.relaxedSimd), wasmThreads: validates(PROBES.threads),
      float16Array: 'Float16Array' in globalThis, webgpu: !!globalThis.navigator?.gpu,
    },
    isolation: { secureContext: globalThis.isSecureContext !== false, crossOriginIsolated: globalThis.crossOriginIsolated === true },
    adapter: await describeAdapter(globalThis.navigator?.gpu as GPU | undefined),
  };
}

async function describeAdapter(gpu: GPU | undefined): Promise<DoctorReport['adapter']> {
  if (!gpu) {
    return {
      available: false, reason: 'navigator.gpu is missing',
      hint: globalThis.isSecureContext === false ? 'serve the page over https or from localhost' : 'use a browser with WebGPU',
    };
  }
  try {
    const adapter = await gpu.requestAdapter();
    if (!adapter) return { available: false, reason: 'there is no WebGPU adapter', hint: 'update the graphics driver, and look at chrome://gpu' };
    const { vendor = '', architecture = '', device = '', description = '' } = adapter.info ?? {};
    const limits: Record<string, number> = {};
    for (const name in adapter.limits) {
      const value = (adapter.limits as unknown as Record<string, unknown>)[name];
      if (typeof value === 'number') limits[name] = value;
    }
    return {
      available: true, name: device, vendor, architecture, driver: description, software: isSoftware(adapter.info),
      features: [...adapter.features].sort(), limits,
    };
  } catch (error) {
    return { available: false, reason: `asking for an adapter failed: ${textOf(error)}`, hint: 'update the graphics driver' };
  }
}

export async function examine(options: DoctorOptions = {}): Promise<DoctorReport> {
  check('doctor', options, OPTIONS);
  const { model, inputs = {}, backend, fusion, off = [], operators = true, ...rest } = options;
  const here = await surroundings();
  const only = Array.isArray(operators) ? operators as readonly string[] : [];
  const wish: [string, unknown][] = [
    ['backend', backend], ['fusion', fusion], ...off.map((pass): [string, unknown] => ['off', pass]), ['inject', options.inject],
    ['operators', operators === true || only.length > 0], ...only.map((op): [string, unknown] => ['only', op]), ['model_name', modelName(model)],
    ['version.browser', here.versions['browser']], ...Object.entries(here.features).filter(([key]) => key !== 'webgpu').map(([key, value]): [string, unknown] => [`feature.${key}`, value]),
  ];
  try {
    const { json } = await diagnose('doctor', model, wish, inputs, rest, (fetchMs) => [['fetch_ms', fetchMs]]);
    return merge(json as DoctorReport, here);
  } catch (error) {
    if (!(error instanceof SinterError) || error.code === 'Cancelled' || error.code === 'InvalidInput') throw error;
    // The examination itself has failed: that is the finding.
    const stages = (error.firstFailure?.events ?? []).map(({ stage, node = '', detail = '', phase }) =>
      ({ backend: '', stage, node, detail, depth: 0, ms: 0, ended: phase !== 'begin', error: '' }));
    return {
      ...here, self_test: {}, stages, runs: [], healthy: false,
      verdict: here.features['simd'] ? `the examination stopped: ${error.code}, ${error.message}` : 'WebAssembly has no SIMD here: the engine does not load',
      hint: here.features['simd'] ? error.hint ?? '' : 'update the browser',
    };
  }
}

/** The browser knows the adapter's features and limits beyond those that the engine looks at. */
function merge(report: DoctorReport, here: Awaited<ReturnType<typeof surroundings>>): DoctorReport {
  const adapter = report.adapter.available ? { ...here.adapter, ...report.adapter, features: here.adapter.features ?? [], limits: here.adapter.limits ?? {} }
    : { ...report.adapter };
  // The module can use WebGPU; whether there is one is for the browser to say.
  return { ...report, features: { ...report.features, webgpu: here.features['webgpu']! }, isolation: here.isolation, adapter };
}
