// SPDX-License-Identifier: Apache-2.0
// Host: one instance of the WebAssembly module with all that it needs from outside. Requests go in by number and come back
// through one import; a trap ends every one of them with the same error, and the host is dead from then on.
import { ERROR_CODES, SinterError, textOf } from './errors.js';
import { GpuHost, type GpuExports } from './gpu.js';
import { loadModule } from './module.js';

declare const SINTER_VERSION: string;

export interface Exports extends GpuExports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  sinter_version?(): number;
  sinter_last_stage(): number;
  sinter_alloc(bytes: number): number;
  sinter_free(address: number): void;
  sinter_turn(): void;
  sinter_tick(): void;
  sinter_cancel(request: number): void;
  sinter_engine_open(request: number, options: number, bytes: number): void;
  sinter_engine_close(engine: number): void;
  sinter_session_open(request: number, engine: number, model: number, modelBytes: number, options: number, bytes: number): void;
  sinter_session_run(request: number, session: number, tensors: number, count: number): void;
  sinter_session_report(request: number, session: number): void;
  sinter_session_close(session: number): void;
}

interface Request {
  read(address: number, bytes: number): unknown;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** What a trace event looks like to `onEvent`. */
export interface TraceEvent {
  id: number;
  t_ms: number;
  stage: string;
  phase: 'begin' | 'end' | 'point';
  node?: string;
  detail?: string;
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** Runs a callback in a fresh turn of the event loop, soon: timers would be clamped to 4 ms. */
function turnPoster(callback: () => void): () => void {
  const immediate = globalThis.setImmediate as ((callback: () => void) => void) | undefined;
  if (immediate) return () => immediate(callback);
  const channel = new MessageChannel();
  channel.port1.onmessage = callback;
  return () => channel.port2.postMessage(0);
}

export class Host {
  exports!: Exports;
  readonly gpu: GpuHost;
  /** Set once the module has trapped or was closed; what every later call is answered with. */
  ended: SinterError | undefined;
  dead = false;
  onEvent: ((event: TraceEvent) => void) | undefined;
  /** Calls into the host, by import: what the crossing tests count. */
  readonly crossings: Record<string, number> = {};

  private readonly requests = new Map<number, Request>();
  // What to do when the module is done with a request, even where its promise was rejected before.
  private readonly releases = new Map<number, () => void>();
  private nextRequest = 1;
  private depth = 0;
  private turnPosted = false;
  private readonly postTurn = turnPoster(() => {
    this.turnPosted = false;
    if (!this.ended) this.enter('sinter_turn', () => this.exports.sinter_turn());
  });
  /** How long a request may make no progress; 0: for ever. */
  timeoutMs = 0;
  private watchdog: ReturnType<typeof setInterval> | undefined;
  private held = 0;
  private peak = 0;
  private heldPeak = 0;

  private constructor(device: GPUDevice | undefined) {
    this.gpu = new GpuHost(this, device);
  }

  static async start(url: URL, device?: GPUDevice): Promise<Host> {
    const module = await loadModule(url);
    const host = new Host(device);
    let instance: WebAssembly.Instance;
    try {
      instance = await WebAssembly.instantiate(module, host.imports());
    } catch (error) {
      throw error instanceof RangeError
        ? new SinterError('OutOfMemory', `no memory for the module: ${textOf(error)}`, 'close other tabs or engines', [], error)
        : new SinterError('InvalidInput', `${url} does not fit this sinter.js: ${textOf(error)}`,
          'serve the sinter.wasm that came with this sinter.js', [], error);
    }
    host.exports = instance.exports as unknown as Exports;
    const version = host.exports.sinter_version ? host.textAt(host.exports.sinter_version()) : 'unknown';
    if (version !== SINTER_VERSION) {
      throw new SinterError('InvalidInput', `${url} is version ${version}, this is sinter ${SINTER_VERSION}`,
        'serve the sinter.wasm that came with this sinter.js; a cache may hold an older one');
    }
    host.enter('_initialize', () => host.exports._initialize());
    return host;
  }

  // --- memory ---

  bytes(address: number, length: number): Uint8Array {
    return new Uint8Array(this.exports.memory.buffer, address >>> 0, length);
  }

  text(address: number, length: number): string {
    return decoder.decode(this.bytes(address, length));
  }

  /** The text up to the zero byte. */
  private textAt(address: number): string {
    const bytes = this.bytes(address, 128);
    return decoder.decode(bytes.subarray(0, bytes.indexOf(0)));
  }

  alloc(bytes: number, what: string): number {
    const address = this.enter('sinter_alloc', () => this.exports.sinter_alloc(bytes)) >>> 0;
    if (!address) {
      throw new SinterError('OutOfMemory', `no memory for ${what}: ${bytes} bytes, with ${this.exports.memory.buffer.byteLength} in use`,
        'close sessions that are no longer needed; memory returns to the system when the last engine is closed');
    }
    this.hold(0);
    return address;
  }

  free(address: number): void {
    if (!this.ended) this.enter('sinter_free', () => this.exports.sinter_free(address));
  }

  /** Calls `use` with the text in module memory. */
  withText(text: string, use: (address: number, bytes: number) => void): void {
    const bytes = encoder.encode(text);
    const address = bytes.length ? this.alloc(bytes.length, 'a text') : 0;
    if (address) this.bytes(address, bytes.length).set(bytes);
    use(address, bytes.length);
    if (address) this.free(address);
  }

  /** Notes that ArrayBuffers of so many bytes are held (or given up) outside of module memory. */
  hold(bytes: number): void {
    this.held += bytes;
    this.heldPeak = Math.max(this.heldPeak, this.held);
    this.peak = Math.max(this.peak, this.held + (this.exports?.memory.buffer.byteLength ?? 0));
  }

  memory(): { wasm: number; host: number; peak: number } {
    this.hold(0);
    return { wasm: this.exports.memory.buffer.byteLength, host: this.heldPeak, peak: this.peak };
  }

  // --- calls into the module ---

  /** Every call into the module goes through here: whatever comes out as an exception is a trap. */
  enter<T>(name: string, call: () => T): T {
    if (this.ended) throw this.ended;
    this.count(`> ${name}`);
    ++this.depth;
    try {
      return call();
    } catch (error) {
      throw this.die(error);
    } finally {
      --this.depth;
    }
  }

  /** Runs `call` now or, where the module is running (a listener was called from it), as soon as it has returned. */
  outside(call: () => void): void {
    if (this.depth) queueMicrotask(call);
    else call();
  }

  /**
   * Starts a request. `read` decodes the answer while its memory is still valid; `release` is called when the module is
   * done with what it was given.
   */
  request<T>(name: string, start: (request: number) => void, read: (address: number, bytes: number) => T,
             signal?: AbortSignal | null, release?: () => void): Promise<T> {
    const id = this.nextRequest++;
    const onAbort = () => this.outside(() => {
      if (this.requests.has(id)) this.enter('sinter_cancel', () => this.exports.sinter_cancel(id));
    });
    if (release) this.releases.set(id, release);
    return new Promise<T>((resolve, reject) => {
      const done = <A>(settle: (value: A) => void) => (value: A) => {
        signal?.removeEventListener('abort', onAbort);
        settle(value);
      };
      this.requests.set(id, { read, resolve: done(resolve as (value: unknown) => void), reject: done(reject) });
      signal?.addEventListener('abort', onAbort);
      this.watch();
      this.outside(() => {
        try {
          this.enter(name, () => start(id));
        } catch (error) {
          this.requests.get(id)?.reject(error);
          this.requests.delete(id);
        }
      });
    });
  }

  /** A request whose text the module answers before it returns. */
  now(name: string, start: (request: number) => void): string {
    const id = this.nextRequest++;
    let answer: string | SinterError = '';
    this.requests.set(id, {
      read: (address, bytes) => this.text(address, bytes),
      resolve: (text) => { answer = text as string; },
      reject: (error) => { answer = error as SinterError; },
    });
    this.enter(name, () => start(id));
    if (typeof answer !== 'string') throw answer;
    return answer;
  }

  // --- calls from the module ---

  private imports(): WebAssembly.Imports {
    return {
      sinter: {
        complete: (request: number, status: number, address: number, bytes: number) => this.complete(request, status, address, bytes),
        schedule_turn: () => {
          if (this.turnPosted) return;
          this.turnPosted = true;
          this.postTurn();
        },
        event: (_engine: number, address: number, bytes: number) => this.event(this.text(address, bytes)),
        panic: (address: number, bytes: number) => {
          throw new SinterError('Internal', this.text(address, bytes));
        },
      },
      sinter_gpu: this.gpu.imports(),
      sinter_math: Math as unknown as WebAssembly.ModuleImports,
      wasi_snapshot_preview1: {
        clock_time_get: (_clock: number, _precision: bigint, result: number) => {
          new DataView(this.exports.memory.buffer).setBigUint64(result, BigInt(Math.round(performance.now() * 1e6)), true);
          return 0;
        },
      },
    };
  }

  count(name: string): void {
    this.crossings[name] = (this.crossings[name] ?? 0) + 1;
  }

  private complete(id: number, status: number, address: number, bytes: number): void {
    this.count('< complete');
    this.releases.get(id)?.();
    this.releases.delete(id);
    const request = this.requests.get(id);
    if (!request) return;
    this.requests.delete(id);
    if (!this.requests.size) this.unwatch();
    try {
      if (status === 0) request.resolve(request.read(address, bytes));
      else request.reject(this.errorFrom(status, this.text(address, bytes)));
    } catch (error) {
      request.reject(error instanceof RangeError
        ? new SinterError('OutOfMemory', `no memory for the answer: ${textOf(error)}`, '', [], error) : error);
    }
  }

  private errorFrom(status: number, json: string): SinterError {
    const { message, hint, chain } = JSON.parse(json) as { message: string; hint?: string; chain?: string[] };
    return new SinterError(ERROR_CODES[status - 1] ?? 'Internal', message, hint, chain);
  }

  private event(json: string): void {
    this.count('< event');
    try {
      this.onEvent?.(JSON.parse(json) as TraceEvent);
    } catch (error) {
      // The listener is the caller's; its exception must not unwind the module.
      queueMicrotask(() => { throw error; });
    }
  }

  /** The context of errors that the module cannot make itself; its memory stays readable after a trap. */
  private lastStage(): string[] {
    const stage = this.textAt(this.exports.sinter_last_stage());
    return stage ? [`the last stage begun was '${stage}'`] : [];
  }

  /** The module has trapped: its memory can no longer be trusted, and nothing waits for it any more. */
  die(error: unknown): SinterError {
    if (this.ended) return this.ended;
    this.dead = true;
    const first = error instanceof SinterError ? error.message : `the WebAssembly module stopped: ${textOf(error)}`;
    return this.end(new SinterError('Internal', first,
      'this engine is dead, createEngine() makes a fresh one; please report this with the model', this.lastStage(), error));
  }

  /** Ends every request with the same error; later calls get it too. */
  end(error: SinterError): SinterError {
    this.ended = error;
    this.rejectAll(error);
    this.gpu.closeAll();
    return error;
  }

  private rejectAll(error: SinterError): void {
    const open = [...this.requests.values()];
    this.requests.clear();
    this.unwatch();
    for (const request of open) request.reject(error);
  }

  /** While requests are under way the module looks for those that make no progress, eight times in the time they have. */
  private watch(): void {
    if (this.watchdog !== undefined || !this.timeoutMs) return;
    this.watchdog = setInterval(() => {
      try {
        this.enter('sinter_tick', () => this.exports.sinter_tick());
      } catch {
        // A trap has rejected everything.
      }
    }, this.timeoutMs / 8);
  }

  private unwatch(): void {
    clearInterval(this.watchdog);
    this.watchdog = undefined;
  }
}
