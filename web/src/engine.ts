// SPDX-License-Identifier: Apache-2.0
import { SinterError } from './errors.js';
import { Host, type TraceEvent } from './host.js';
import { imageTensor, type ImageOptions, type ImageSource } from './image.js';
import { moduleUrl } from './module.js';
import { Session, type IoInfo } from './session.js';
import { readModel, type ModelSource, type Progress } from './source.js';
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
  signal?: AbortSignal | null;
  onProgress?: (progress: Progress) => void;
  /** A fault to test the diagnosis with: what the node computes is wrong or NaN, it fails, or it never ends. */
  inject?: `${string}=${'wrong' | 'nan' | 'error' | 'hang'}`;
}

export type EngineState = 'initialising' | 'ready' | 'closed' | 'dead';

/** Options cross as lines KEY=VALUE. */
function lines(entries: [string, unknown][]): string {
  return entries.filter(([, value]) => value !== undefined).map(([key, value]) => {
    const line = `${key}=${value}`;
    if (line.includes('\n')) throw new SinterError('InvalidInput', `option ${key} cannot hold a line break`);
    return line;
  }).join('\n');
}

/**
 * Loads the module and, where WebGPU was asked for, opens a device. Engines are independent of each other; what they load
 * (module, adapter, device) is shared.
 */
export async function createEngine(options: EngineOptions = {}): Promise<Engine> {
  const host = await Host.start(moduleUrl(options.wasmUrl), options.device);
  host.timeoutMs = options.timeoutMs ?? 30000;
  host.onEvent = options.onEvent;
  const text = lines([
    ['backend', options.backend], ['threads', options.threads], ['timeout_ms', host.timeoutMs],
    ['low_power', options.powerPreference && options.powerPreference === 'low-power'], ['events', options.onEvent ? true : undefined],
  ]);
  try {
    const handle = await host.request('sinter_engine_open',
      (request) => host.withText(text, (address, bytes) => host.exports.sinter_engine_open(request, address, bytes)),
      (address, bytes) => (JSON.parse(host.text(address, bytes)) as { engine: number }).engine);
    return new Engine(host, handle);
  } catch (error) {
    host.end(new SinterError('InvalidInput', 'the engine did not start'));
    throw error;
  }
}

export class Engine {
  private readonly sessions = new Set<Session>();

  /** @internal */
  constructor(private readonly host: Host, private readonly handle: number) {}

  get state(): EngineState {
    if (!this.host.ended) return 'ready';
    return this.host.dead ? 'dead' : 'closed';
  }

  /** Loads a model from a URL (relative to the page; in Node to the current folder), bytes, a Blob or a Response. */
  async load(source: ModelSource, options: LoadOptions = {}): Promise<Session> {
    const { host, handle } = this;
    if (host.ended) throw host.ended;
    const text = lines([
      ['fusion', options.fusion], ...(options.off ?? []).map((pass): [string, unknown] => ['off', pass]),
      ['inject', options.inject], ...Object.entries(options.dims ?? {}).map(([name, size]): [string, unknown] => ['dim', `${name}=${size}`]),
    ]);
    const model = await readModel(host, source, options);
    const opened = await host.request('sinter_session_open',
      (request) => host.withText(text, (address, bytes) =>
        host.exports.sinter_session_open(request, handle, model.address, model.bytes, address, bytes)),
      (address, bytes) => JSON.parse(host.text(address, bytes)) as { session: number; inputs: IoInfo[]; outputs: IoInfo[] },
      options.signal);
    const session = new Session(host, opened.session, opened.inputs, opened.outputs);
    this.sessions.add(session);
    return session;
  }

  /** An image as a model's input: resized (bilinear, antialiased), cropped to the centre and normalised. */
  imageTensor(image: ImageSource, options: ImageOptions = {}): Promise<Tensor> {
    return imageTensor(image, options);
  }

  /** Closes every session; what still runs ends as Cancelled. WebAssembly memory goes back to the system. */
  close(): void {
    const { host } = this;
    if (host.ended) return;
    for (const session of this.sessions) session.close();
    host.outside(() => {
      if (host.ended) return;
      host.enter('sinter_engine_close', () => host.exports.sinter_engine_close(this.handle));
      host.end(new SinterError('Cancelled', 'the engine was closed', 'createEngine() makes a new one'));
    });
  }

  /** @internal Calls across the module's border so far, by name: '> ' into it, '< ' out of it. */
  get crossings(): Readonly<Record<string, number>> {
    return this.host.crossings;
  }
}
