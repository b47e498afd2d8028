// SPDX-License-Identifier: Apache-2.0
// Host: one instance of the WebAssembly module with all that it needs from outside. Requests go in by number and come back
// through one import; a trap ends every one of them with the same error, and the host is dead from then on.
import { ERROR_CODES, SinterError, cancelled, tell, textOf, type FirstFailure, type TraceEvent } from './errors.js';
import { GpuHost } from './gpu.js';
import { loadModule } from './module.js';

declare const SINTER_VERSION: string;

export interface Exports extends Record<string, unknown> {
  memory: WebAssembly.Memory;
  sinter_version?(): number;
  sinter_events(): number;
}

interface Request {
  read(address: number, bytes: number): unknown;
  /** Where the caller asked for it. */
  from: Error;
  signal?: AbortSignal | null | undefined;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();

const EVENTS = 256;
const PHASES = ['begin', 'end', 'point'] as const;

/** Errors that several engines of a page may be told of, with what the first one was told. */
const causes = new WeakMap<object, FirstFailure>();

interface TurnPoster {
  post(): void;
  /** An open channel would keep everything that its listener knows. */
  close(): void;
}

/** Runs a callback in a fresh turn of the event loop, soon: timers would be clamped to 4 ms. */
function turnPoster(callback: () => void): TurnPoster {
  const immediate = globalThis.setImmediate as ((callback: () => void) => void) | undefined;
  if (immediate) return { post: () => immediate(callback), close() {} };
  const channel = new MessageChannel();
  channel.port1.onmessage = callback;
  return { post: () => channel.port2.postMessage(0), close: () => channel.port1.close() };
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    const poster = turnPoster(() => {
      poster.close();
      resolve();
    });
    poster.post();
  });
}

export class Host {
  exports!: Exports;
  readonly gpu: GpuHost;
  /** Set once the module has trapped or was closed; what every later call is answered with. */
  ended: SinterError | undefined;
  /** What those are answered with who waited then. */
  failure: SinterError | undefined;
  dead = false;
  onEvent: ((event: TraceEvent) => void) | undefined;
  private ring = 0;
  // As they were before anything could go wrong with the module's memory.
  private ringSize = 0;
  private recordBytes = 0;
  private kept: TraceEvent[] | undefined;
  // What happened before the module had an engine to log it.
  private readonly early: TraceEvent[] = [];
  private readonly born = performance.now();
  private opened = 0;
  /** Calls into the host, by import: what the crossing tests count. */
  readonly crossings: Record<string, number> = {};

  private readonly requests = new Map<number, Request>();
  // What to do when the module is done with a request, even where its promise was rejected before.
  private readonly releases = new Map<number, () => void>();
  private readonly records = new Map<number, FirstFailure>();
  private nextRequest = 1;
  private depth = 0;
  private turnPosted = false;
  private readonly turns = turnPoster(() => {
    this.turnPosted = false;
    this.quietly(() => this.enter('sinter_turn'));
  });
  /** How long a request may make no progress; 0: for ever. */
  timeoutMs = 0;
  private watchdog: ReturnType<typeof setInterval> | undefined;
  private held = 0;
  private peak = 0;
  private heldPeak = 0;

  constructor(device: GPUDevice | undefined) {
    this.gpu = new GpuHost(this, device);
  }

  /** Loads the module; after this the engine can be opened. */
  async start(url: URL): Promise<void> {
    const { timeoutMs } = this;
    const end = this.stage('fetch module', url.href);
    try {
      // Short limits are meant for the engine's work, not for the line to it.
      await this.instantiate(url, await loadModule(url, timeoutMs && Math.max(timeoutMs, 30000)));
      end();
    } catch (error) {
      end(textOf(error));
      throw error;
    }
    this.enter('_initialize');
    this.ring = this.exports.sinter_events();
    [this.ringSize, this.recordBytes] = new Uint32Array(this.exports.memory.buffer, this.ring + 4, 2) as unknown as [number, number];
  }

  /** The next call opens the module's engine, which from then on logs the events. */
  opening(): void {
    this.opened = performance.now() - this.born;
  }

  private async instantiate(url: URL, module: WebAssembly.Module): Promise<void> {
    let instance: WebAssembly.Instance;
    try {
      instance = await WebAssembly.instantiate(module, this.imports());
    } catch (error) {
      throw error instanceof RangeError
        ? new SinterError('OutOfMemory', `no memory for the module: ${textOf(error)}`, 'close other tabs or engines', [], error)
        : new SinterError('InvalidInput', `${url} does not fit this sinter.js: ${textOf(error)}`,
          'serve the sinter.wasm that came with this sinter.js', [], error);
    }
    this.exports = instance.exports as unknown as Exports;
    const version = this.exports.sinter_version ? this.textAt(this.exports.sinter_version()) : 'unknown';
    if (version !== SINTER_VERSION) {
      throw new SinterError('InvalidInput', `${url} is version ${version}, this is sinter ${SINTER_VERSION}`,
        'serve the sinter.wasm that came with this sinter.js; a cache may hold an older one');
    }
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
    // The module counts in 32 bits.
    const address = bytes < 2 ** 32 ? this.enter('sinter_alloc', bytes) >>> 0 : 0;
    if (!address) {
      throw new SinterError('OutOfMemory', `no memory for ${what}: ${bytes} bytes, with ${this.exports.memory.buffer.byteLength} in use`,
        'close sessions that are no longer needed; memory returns to the system when the last engine is closed');
    }
    this.hold(0);
    return address;
  }

  free(address: number): void {
    if (!this.ended) this.enter('sinter_free', address);
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
  enter(name: string, ...args: number[]): number {
    if (this.ended) throw this.ended;
    this.count(`> ${name}`);
    ++this.depth;
    try {
      return (this.exports[name] as (...args: number[]) => number)(...args);
    } catch (error) {
      throw this.die(error);
    } finally {
      --this.depth;
    }
  }

  /** Does something that nobody waits for, or nothing where the module has ended; never throws. */
  quietly(call: () => unknown): void {
    this.outside(() => {
      if (this.ended) return;
      try {
        call();
      } catch {
        // A trap has told everyone who waits.
      }
    });
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
  request<T>(start: (request: number) => void, read: (address: number, bytes: number) => T,
             signal?: AbortSignal | null, release?: () => void): Promise<T> {
    const id = this.nextRequest++;
    const onAbort = () => this.quietly(() => {
      if (this.requests.has(id)) this.enter('sinter_cancel', id);
    });
    if (release) this.releases.set(id, release);
    const from = new Error('asked for here');
    return new Promise<T>((resolve, reject) => {
      const done = <A>(settle: (value: A) => void) => (value: A) => {
        signal?.removeEventListener('abort', onAbort);
        settle(value);
      };
      this.requests.set(id, { read, from, signal, resolve: done(resolve as (value: unknown) => void), reject: done(reject) });
      signal?.addEventListener('abort', onAbort);
      this.watch();
      this.outside(() => {
        try {
          if (this.failure) throw this.failure;
          start(id);
          if (signal?.aborted) onAbort();
        } catch (error) {
          // Nothing was handed over: the module does not know of the request.
          this.releases.delete(id);
          this.take(id)?.reject(error);
        }
      });
    });
  }

  /** `promise`, or what comes before it: the caller's signal, or the end of the module. */
  wait<T>(promise: Promise<T>, signal?: AbortSignal | null): Promise<T> {
    const id = this.nextRequest++;
    return new Promise<T>((resolve, reject) => {
      const done = <A>(settle: (value: A) => void) => (value: A) => {
        signal?.removeEventListener('abort', onAbort);
        this.take(id);
        settle(value);
      };
      const onAbort = (): void => fail(cancelled(signal!));
      const fail = done(reject);
      this.requests.set(id, { read() {}, from: new Error('asked for here'), resolve() {}, reject: fail });
      if (signal?.aborted) onAbort();
      signal?.addEventListener('abort', onAbort);
      promise.then(done(resolve), fail);
      if (this.failure) fail(this.failure);
    });
  }

  private take(id: number): Request | undefined {
    const request = this.requests.get(id);
    this.requests.delete(id);
    if (!this.requests.size) this.unwatch();
    return request;
  }

  /** A request whose text the module answers before it returns. */
  now(name: string, ...args: number[]): string {
    const id = this.nextRequest++;
    let answer: string | SinterError = '';
    this.requests.set(id, {
      read: (address, bytes) => this.text(address, bytes),
      from: new Error(),
      resolve: (text) => { answer = text as string; },
      reject: (error) => { answer = error as SinterError; },
    });
    this.enter(name, id, ...args);
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
          this.turns.post();
        },
        event: (_engine: number) => {
          this.count('< event');
          tell(this.onEvent, this.eventAt(this.eventCount() - 1));
        },
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
    const request = this.take(id);
    if (!request) return;
    try {
      if (status === 0) request.resolve(request.read(address, bytes));
      else request.reject(this.errorFrom(status, this.text(address, bytes), request));
    } catch (error) {
      request.reject(error instanceof RangeError
        ? new SinterError('OutOfMemory', `no memory for the answer: ${textOf(error)}`, '', [], error) : error);
    }
  }

  private errorFrom(status: number, json: string, { from, signal }: Request): SinterError {
    const { message, hint, chain, firstFailure, echoOf } = JSON.parse(json) as Partial<SinterError> & { message: string };
    const code = ERROR_CODES[status - 1] ?? 'Internal';
    const error = new SinterError(code, message, hint, chain, code === 'Cancelled' ? signal?.reason : undefined);
    if (!firstFailure) return error;
    // An echo has the record that the first one was given.
    let record = this.records.get(firstFailure.id);
    if (!record) {
      record = { ...firstFailure, stack: { js: callerStack(from) }, events: this.events() };
      this.records.set(record.id, record);
      if (this.records.size > 32) this.records.delete(this.records.keys().next().value!);
    }
    return error.of(record, echoOf);
  }

  /** What createEngine fails with. Of one cause (a module that does not load, no adapter) the first engine is told whole. */
  refusal(error: unknown, from: Error): unknown {
    if (!(error instanceof SinterError)) return error;
    const cause = this.gpu.refusal ?? error;
    let record = causes.get(cause);
    if (record) return error.again().of(record, record.id);
    record = error.firstFailure ?? this.recordOf(error, 1, this.early.at(-1)?.stage ?? '', from);
    causes.set(cause, record);
    return error.of(record);
  }

  /** A failure of the host's own while the engine is open, numbered among the engine's. */
  failed(stage: string, error: SinterError, from: Error): SinterError {
    if (error.firstFailure || error.code === 'Cancelled' || this.ended) return error;
    let id = 0;
    this.withText(error.message, (address, bytes) => { id = this.enter('sinter_failure', address, bytes); });
    const record = this.recordOf(error, id, stage, from);
    this.records.set(id, record);
    return error.of(record);
  }

  private recordOf({ code, message, hint, chain }: SinterError, id: number, stage: string, from: Error): FirstFailure {
    return { id, code, message, chain, ...(hint && { hint }), stage, stack: { js: callerStack(from) }, events: this.events() };
  }

  // --- events ---

  /** A stage of the host's own, among the engine's; ended by the first call of the function that is returned. */
  stage(stage: string, detail = ''): (detail?: string) => void {
    let id = 0;
    const log = (text: string): void => {
      if (this.opened) {
        this.quietly(() => this.withText(`${stage}\0${text}`, (address, bytes) => {
          id = this.enter('sinter_stage', 0, id, address, bytes);
        }));
        return;
      }
      const phase = PHASES[id ? 1 : 0]!;
      id ||= -1 - this.early.length;
      this.early.push({ id, t_ms: performance.now() - this.born, stage, phase, ...(text && { detail: text }) });
      tell(this.onEvent, this.early.at(-1)!);
    };
    log(detail);
    return (text = '') => {
      if (id) log(text);
      id = 0;
    };
  }

  private eventCount(): number {
    return this.opened ? new Uint32Array(this.exports.memory.buffer, this.ring, 1)[0]! : 0;
  }

  /** Event number `index` of the ring (engine/api/abi.h), whatever a trap has left there. */
  private eventAt(index: number): TraceEvent {
    const address = this.ring + 16 + (index % this.ringSize) * this.recordBytes;
    const record = new DataView(this.exports.memory.buffer, address, this.recordBytes);
    const [stage, node, detail] = this.text(address + 20, Math.min(record.getUint32(16, true), this.recordBytes - 20)).split('\0');
    return {
      id: record.getUint32(8, true), t_ms: this.opened + record.getFloat64(0, true), stage: stage!,
      phase: PHASES[record.getUint32(12, true)] ?? 'point',
      ...(node && { node }), ...(detail && { detail }),
    };
  }

  /** The events in the ring, oldest first. It is plain memory: it can be read when the module cannot run any more. */
  events(): TraceEvent[] {
    if (this.kept) return this.kept;
    const count = this.eventCount();
    const first = Math.max(0, count - this.ringSize);
    return [...this.early, ...Array.from({ length: count - first }, (_, i) => this.eventAt(first + i))].slice(-EVENTS);
  }

  // --- the end ---

  /** The module has trapped: its memory can no longer be trusted, and nothing waits for it any more. */
  die(thrown: unknown): SinterError {
    if (this.ended) return this.ended;
    this.dead = true;
    const message = thrown instanceof SinterError ? thrown.message : `the WebAssembly module stopped: ${textOf(thrown)}`;
    const events = this.events();
    const [from] = [...this.requests.values()].map((request) => request.from);
    const stage = innermost(events);
    const node = events.at(-1)?.node;
    const record: FirstFailure = {
      id: Math.max(0, ...this.records.keys()) + 1, code: 'Internal', message, ...(stage && { stage }), ...(node && { node }),
      stack: { ...(from && { js: callerStack(from) }), wasm: (thrown as Error)?.stack ?? textOf(thrown) }, events,
    };
    const error = new SinterError('Internal', message, 'this engine is dead, createEngine() makes a fresh one; please report this with the model',
      stage ? [`in stage '${stage}'${node ? `, last at node '${node}'` : ''}`] : [], thrown);
    this.end(error.of(record));
    // Who comes later meets the consequence, not the failure.
    this.ended = new SinterError('Internal', message, error.hint, error.chain, thrown).of(record, record.id);
    return error;
  }

  /** Ends every request with the same error; later calls get it too. */
  end(error: SinterError): SinterError {
    this.kept = this.events();
    this.failure = this.ended = error;
    this.rejectAll(error);
    this.turns.close();
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
    this.watchdog = setInterval(() => this.quietly(() => this.enter('sinter_tick')), Math.min(this.timeoutMs / 8, 10000));
  }

  private unwatch(): void {
    clearInterval(this.watchdog);
    this.watchdog = undefined;
  }
}

/** The caller's part of a stack. */
function callerStack({ stack = '' }: Error): string {
  return stack.replace(/^Error.*\n/, '');
}

/** The module's stage that began last of those that have not ended; the host's own (fetch, open adapter) cannot trap. */
function innermost(events: TraceEvent[]): string | undefined {
  const open = new Map<number, string>();
  for (const { id, phase, stage } of events) {
    if (phase === 'begin' && !/^(fetch|open adapter)/.test(stage)) open.set(id, stage);
    else open.delete(id);
  }
  return [...open.values()].at(-1);
}
