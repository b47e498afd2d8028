// SPDX-License-Identifier: Apache-2.0
import { SinterError, type TraceEvent } from './errors.js';
import { Host, nextTurn } from './host.js';
import { imageTensor, type ImageOptions, type ImageSource } from './image.js';
import { moduleUrl } from './module.js';
import { abortSignal, address, callback, check, demand, flag, gpuDevice, integer, names, oneOf, record, type Rule } from './options.js';
import { Session, type Opened } from './session.js';
import { freeFiles, readFiles, withFiles, type ModelFiles, type ModelSource, type Progress } from './source.js';
import type { Tensor } from './tensor.js';

export interface EngineOptions {
  /** 'auto' (default) takes WebGPU where a hardware adapter answers, and the CPU otherwise. */
  backend?: 'auto' | 'webgpu' | 'cpu' | 'reference';
  /** A device of the caller's own; the engine does not destroy it. */
  device?: GPUDevice;
  threads?: number;
  /** Where sinter.wasm is, if not beside sinter.js. */
  wasmUrl?: string | URL;
  onEvent?: (event: TraceEvent) => void;
  /** A request that makes no progress for so long ends as Timeout; 0: never. Default 30000. */
  timeoutMs?: number;
  powerPreference?: 'low-power' | 'high-performance';
}

export interface LoadOptions {
  /** Default true. */
  fusion?: boolean;
  /** Names of passes not to run. */
  off?: readonly string[];
  /** Sizes of symbolic dimensions to prepare for; 1 where not given. Other sizes work too, they are prepared on first use. */
  dims?: Readonly<Record<string, number>>;
  /** The files in which the model keeps weights, under the names it uses: each a URL, bytes, a Blob or a Response. */
  externalData?: Readonly<Record<string, ModelSource>> | ReadonlyMap<string, ModelSource>;
  signal?: AbortSignal | null;
  onProgress?: (progress: Progress) => void;
  /** A fault to test the diagnosis with: what the node computes is wrong or NaN, it fails, or it never ends. */
  inject?: `${string}=${'wrong' | 'nan' | 'error' | 'hang'}`;
  /** Likewise of the device: it is lost or out of memory at a step (its number, or a node's name), or there is none. */
  injectDevice?: `${'lost' | 'oom'}@${string}` | 'no-adapter';
}

export type EngineState = 'initialising' | 'ready' | 'closed' | 'dead';

const fault: Rule = ['NODE=KIND with KIND one of wrong, nan, error, hang',
  (value) => typeof value === 'string' && /^.+=(wrong|nan|error|hang)$/s.test(value)];

export const ENGINE_OPTIONS = {
  backend: oneOf('auto', 'cpu', 'webgpu', 'reference'),
  device: gpuDevice,
  threads: integer(1024, 'a number of threads, or 0 for all'),
  wasmUrl: address,
  onEvent: callback,
  timeoutMs: ['milliseconds, or 0 for no limit', (value) => typeof value === 'number' && value >= 0],
  powerPreference: oneOf('low-power', 'high-performance'),
} as const satisfies Record<keyof EngineOptions, Rule>;

const deviceFault: Rule = ['lost@STEP, oom@STEP or no-adapter',
  (value) => typeof value === 'string' && /^((lost|oom)@.+|no-adapter)$/s.test(value)];

const DIMENSION = integer(Number.MAX_SAFE_INTEGER, 'an integer of at least 0');

export const LOAD_OPTIONS = {
  fusion: flag, off: names, dims: record, externalData: record, signal: abortSignal, onProgress: callback, inject: fault, injectDevice: deviceFault,
} as const satisfies Record<keyof LoadOptions, Rule>;

/** Options cross as lines KEY=VALUE. */
export function lines(entries: [string, unknown][]): string {
  return entries.filter(([, value]) => value !== undefined).map(([key, value]) => {
    const line = `${key}=${value}`;
    if (line.includes('\n')) throw new SinterError('InvalidInput', `option ${key} cannot hold a line break`, 'names are texts of one line');
    return line;
  }).join('\n');
}

/**
 * Loads the module and, where WebGPU was asked for, looks for an adapter and begins to open its device. Engines are independent of each other; what they load
 * (module, adapter, device) is shared.
 */
export async function createEngine(options: EngineOptions = {}): Promise<Engine> {
  check('createEngine', options, ENGINE_OPTIONS);
  return openEngine(moduleUrl(options.wasmUrl), options);
}

/** @internal */
export async function openEngine(url: URL, options: EngineOptions): Promise<Engine> {
  const { timeoutMs = 30000, backend = 'auto', device, threads, onEvent } = options;
  const lowPower = options.powerPreference === 'low-power';
  const onGpu = backend === 'auto' || backend === 'webgpu';
  const from = new Error('asked for here');
  const host = new Host(device);
  host.timeoutMs = Number.isFinite(timeoutMs) ? Math.ceil(timeoutMs) : 0;
  host.onEvent = onEvent;
  // Module and device take their time, and neither needs the other.
  const adapter = onGpu && !device ? host.gpu.openEarly(lowPower, backend === 'webgpu') : undefined;
  const settings = lines([
    ['backend', backend], ['threads', threads], ['timeout_ms', host.timeoutMs], ['low_power', lowPower], ['events', !!onEvent],
  ]);
  try {
    await host.start(url);
    // That there is none shows at once; the device may open while the first model is read.
    await adapter;
    host.opening();
    const handle = await host.request(
      (request) => host.withText(settings, (at, bytes) => host.enter('sinter_engine_open', request, at, bytes)),
      (at, bytes) => (JSON.parse(host.text(at, bytes)) as { engine: number }).engine);
    const notices: string[] = [];
    if (threads! > 1) notices.push(`threads: ${threads} were asked for, this build computes on one`);
    if (device && !onGpu) notices.push(`device: backend '${backend}' uses none`);
    return new Engine(host, handle, notices);
  } catch (error) {
    const told = host.refusal(error, from);
    host.end(new SinterError('InvalidInput', 'the engine did not start'));
    throw told;
  }
}

export class Engine {
  private readonly sessions = new Set<Session>();

  /** @internal */
  constructor(private readonly host: Host, private readonly handle: number, private readonly notices: string[]) {}

  get state(): EngineState {
    if (!this.host.ended) return 'ready';
    return this.host.dead ? 'dead' : 'closed';
  }

  /** Loads a model from a URL (relative to the page; in Node to the current folder), bytes, a Blob or a Response. */
  async load(source: ModelSource, options: LoadOptions = {}): Promise<Session> {
    const { host, handle } = this;
    if (host.ended) throw host.ended;
    check('load', options, LOAD_OPTIONS);
    const dims = Object.entries(options.dims ?? {});
    for (const [name, size] of dims) demand(`the size of dimension '${name}'`, size, DIMENSION);
    const settings = lines([
      ['fusion', options.fusion], ...(options.off ?? []).map((pass): [string, unknown] => ['off', pass]),
      ['inject', options.inject], ['inject_device', options.injectDevice], ...dims.map(([name, size]): [string, unknown] => ['dim', `${name}=${size}`]),
    ]);
    const files = await readFiles(host, source, options);
    await nextTurn();
    const opened = await host.request(
      (request) => openSession(host, request, handle, files, settings),
      (at, bytes) => JSON.parse(host.text(at, bytes)) as Opened, options.signal);
    const notices = [...this.notices, ...opened.unused.map((name) => `externalData: the model does not use '${name}'`)];
    const session = new Session(host, opened, notices, (closed) => this.sessions.delete(closed));
    this.sessions.add(session);
    return session;
  }

  /** An image as a model's input: resized (bilinear, antialiased), cropped to the centre and normalised. */
  imageTensor(image: ImageSource, options: ImageOptions = {}): Promise<Tensor> {
    return imageTensor(image, options);
  }

  /** The last 256 events, oldest first; after a trap, and after close(), as they were then. */
  events(): TraceEvent[] {
    return this.host.events();
  }

  /** Closes every session; what still runs ends as Cancelled. WebAssembly memory goes back to the system. Never throws. */
  close(): void {
    const { host } = this;
    for (const session of this.sessions) session.close();
    this.sessions.clear();
    host.quietly(() => {
      host.enter('sinter_engine_close', this.handle);
      host.end(new SinterError('Cancelled', 'the engine was closed', 'createEngine() makes a new one'));
    });
  }

  /** @internal For requests that are not the core's. */
  ask<T>(question: (host: Host, handle: number) => Promise<T>): Promise<T> {
    return question(this.host, this.handle);
  }

  /** @internal Calls across the module's border so far, by name: '> ' into it, '< ' out of it. */
  get crossings(): Readonly<Record<string, number>> {
    return this.host.crossings;
  }
}

/** The module frees the files' blocks, unless it was never reached. */
function openSession(host: Host, request: number, engine: number, files: ModelFiles, settings: string): void {
  let taken = false;
  try {
    host.withText(settings, (at, bytes) => withFiles(host, files.external, (external) => {
      taken = true;
      const { address, bytes: modelBytes } = files.model;
      host.enter('sinter_session_open', request, engine, address, modelBytes, external, files.external.length, at, bytes);
    }));
  } finally {
    if (!taken) freeFiles(host, files);
  }
}
