// SPDX-License-Identifier: Apache-2.0
import { textOf } from './errors.js';
import { isSoftware } from './gpu.js';

declare const SINTER_VERSION: string;

export interface DoctorReport {
  versions: { sinter: string; userAgent: string };
  features: { simd: boolean; relaxedSimd: boolean; threads: boolean; float16Array: boolean };
  isolation: { secureContext: boolean; crossOriginIsolated: boolean };
  adapter: { available: true; software: boolean; info: Record<string, string>; features: string[]; limits: Record<string, number> }
    | { available: false; reason: string };
  /** One sentence. */
  verdict: string;
  hint: string;
}

// The smallest modules that use each feature.
const PROBES = {
  simd: [1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11],
  relaxedSimd: [1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11],
  threads: [1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 5, 4, 1, 3, 1, 1, 10, 11, 1, 9, 0, 65, 0, 254, 16, 2, 0, 26, 11],
};

export function hasWasmFeature(name: keyof typeof PROBES): boolean {
  return WebAssembly.validate(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, ...PROBES[name]));
}

/** What this browser or runtime offers to the engine. */
export async function doctor(): Promise<DoctorReport> {
  const features = {
    simd: hasWasmFeature('simd'),
    relaxedSimd: hasWasmFeature('relaxedSimd'),
    threads: hasWasmFeature('threads'),
    float16Array: 'Float16Array' in globalThis,
  };
  const secure = globalThis.isSecureContext !== false;
  const adapter = await describeAdapter();
  let verdict = 'everything is there: models run on WebGPU';
  let hint = '';
  if (!features.simd) {
    verdict = 'WebAssembly has no SIMD here: the engine does not load';
    hint = 'update the browser';
  } else if (!adapter.available) {
    verdict = `models run on the CPU: ${adapter.reason}`;
    hint = secure ? 'use a browser with WebGPU, or update the graphics driver' : 'serve the page over https or from localhost';
  } else if (adapter.software) {
    verdict = "the only WebGPU adapter is a software one: backend 'auto' takes the CPU";
    hint = 'enable hardware acceleration';
  }
  return {
    versions: { sinter: SINTER_VERSION, userAgent: globalThis.navigator?.userAgent ?? `Node ${globalThis.process?.version ?? ''}` },
    features,
    isolation: { secureContext: secure, crossOriginIsolated: globalThis.crossOriginIsolated === true },
    adapter,
    verdict,
    hint,
  };
}

async function describeAdapter(): Promise<DoctorReport['adapter']> {
  const gpu = globalThis.navigator?.gpu as GPU | undefined;
  if (!gpu) return { available: false, reason: 'navigator.gpu is missing' };
  try {
    const adapter = await gpu.requestAdapter();
    if (!adapter) return { available: false, reason: 'there is no WebGPU adapter' };
    const { vendor = '', architecture = '', device = '', description = '' } = adapter.info ?? {};
    const limits: Record<string, number> = {};
    for (const name in adapter.limits) {
      const value = (adapter.limits as unknown as Record<string, unknown>)[name];
      if (typeof value === 'number') limits[name] = value;
    }
    return {
      available: true,
      software: isSoftware(adapter.info),
      info: { vendor, architecture, device, description },
      features: [...adapter.features].sort(),
      limits,
    };
  } catch (error) {
    return { available: false, reason: `asking for an adapter failed: ${textOf(error)}` };
  }
}
