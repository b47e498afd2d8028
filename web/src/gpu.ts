// SPDX-License-Identifier: Apache-2.0
// The device behind engine/gpu/device_web.cc: decodes its blocks of records (engine/gpu/wire.h) in one loop and answers
// its requests by number.
import { SinterError, textOf, within, type ErrorCode, ERROR_CODES } from './errors.js';
import type { Host } from './host.js';

// The numbers of engine/gpu/wire.h.
const enum Op {
  CreateBuffer = 1, DestroyBuffer, WriteInline, WriteFrom, CreatePipelines, DestroyPipeline, CreateBindGroup, DestroyBindGroup,
  Submit, Read, PushScope, PopScope, Forget, Close,
}

const COMMAND_WORDS = 12;
const FEATURES = ['shader-f16', 'subgroups', 'timestamp-query'] as const;
const SCOPES = ['validation', 'out-of-memory', 'internal'] as const;
const decoder = new TextDecoder();

interface Pipeline {
  pipeline: GPUComputePipeline;
  layout: GPUBindGroupLayout;
}

/** The failure of one request. */
interface Failure {
  code: ErrorCode;
  message: string;
  hint?: string;
}

/** A device that engines of one page share: it is opened once, and closed with its last user. */
interface Shared {
  users: number;
  /** Neither refused nor lost so far. */
  alive: boolean;
  adapter: Promise<GPUAdapter | undefined>;
  opened: Promise<{ device: GPUDevice; info: GPUAdapterInfo | undefined }>;
}

const shared = new Map<string, Shared>();

function acquire(flags: number, bindingBytes: number, bufferBytes: number): Shared {
  const key = `${flags} ${bindingBytes} ${bufferBytes}`;
  let entry = shared.get(key);
  if (!entry) {
    const adapter = openAdapter(flags);
    const fresh: Shared = { users: 0, alive: true, adapter, opened: adapter.then((found) => openDevice(found, bindingBytes, bufferBytes)) };
    const forget = () => {
      fresh.alive = false;
      if (shared.get(key) === fresh) shared.delete(key);
    };
    // Neither a failure nor a lost device is kept: the next engine tries again.
    fresh.opened.then(({ device }) => device.lost.then(forget), forget);
    shared.set(key, fresh);
    entry = fresh;
  }
  ++entry.users;
  return entry;
}

function release(entry: Shared): void {
  if (--entry.users) return;
  // At once: who opens a device in the meantime must not be given this one.
  for (const [key, other] of shared) if (other === entry) shared.delete(key);
  void entry.opened.then(({ device }) => device.destroy(), () => {});
}

// What the engine asks for (engine/runtime/engine.cc): a device that is opened before the engine must be the one it wants.
const ALLOW_SOFTWARE = 2;
const BINDING_BYTES = 0xfffffffc;
const BUFFER_BYTES = 2 ** 40;

const failure = (code: ErrorCode, message: string, hint = ''): Failure => ({ code, message, hint });

export class GpuHost {
  private readonly devices = new Map<number, DeviceHost>();
  private nextDevice = 1;
  private injectedLost = false;
  private early: Shared | undefined;
  private atOnce = false;
  /** Why a device was refused: the same object for all who share the attempt. */
  refusal: object | undefined;

  constructor(private readonly host: Host, private readonly injected: GPUDevice | undefined) {
    // Weakly, here and below: a device may outlive its engines by far.
    const self = new WeakRef(this);
    void injected?.lost.then(() => {
      const gpu = self.deref();
      if (gpu) gpu.injectedLost = true;
    });
  }

  /**
   * Starts to open the device that the engine will ask for. `atOnce`: it asks as soon as the module is there, and there must be
   * an adapter, which the promise waits for.
   */
  openEarly(lowPower: boolean, atOnce: boolean): Promise<void> | undefined {
    this.atOnce = atOnce;
    if (!atOnce && !globalThis.navigator?.gpu) return undefined;
    const entry = acquire(ALLOW_SOFTWARE | Number(lowPower), BINDING_BYTES, BUFFER_BYTES);
    this.early = entry;
    if (!atOnce) return undefined;
    const { timeoutMs } = this.host;
    const found = within(this.watchAdapter(entry), timeoutMs && Math.max(timeoutMs, 30000), 'no WebGPU adapter');
    found.catch(() => {});
    return found;
  }

  private async watchAdapter(entry: Shared): Promise<void> {
    const end = this.host.stage('open adapter');
    try {
      const adapter = await entry.adapter;
      end(nameOf(adapter?.info));
    } catch (error) {
      end(textOf(error));
      throw error;
    }
  }

  imports(): WebAssembly.ModuleImports {
    return {
      open: (request: number, flags: number, bindingBytes: number, bufferBytes: number) => {
        this.host.count('< gpu.open');
        void this.open(request, flags, bindingBytes, bufferBytes);
      },
      flush: (device: number, batch: number, address: number, words: number) => {
        this.host.count('< gpu.flush');
        this.devices.get(device)?.run(batch, new Uint32Array(this.host.exports.memory.buffer, address >>> 0, words));
      },
    };
  }

  closeAll(): void {
    for (const device of this.devices.values()) device.close();
    this.devices.clear();
    if (this.early) release(this.early);
    this.early = undefined;
  }

  forget(handle: number): void {
    this.devices.delete(handle);
  }

  /** Answers a request; the module goes on at the next `done`. */
  settle(request: number, error?: Failure): void {
    const { host } = this;
    if (!error) {
      host.enter('sinter_gpu_settle', request, 0, 0, 0);
      return;
    }
    const code = ERROR_CODES.indexOf(error.code) + 1;
    host.withText(`${error.message}\0${error.hint ?? ''}`, (address, bytes) =>
      host.enter('sinter_gpu_settle', request, code, address, bytes));
  }

  done(batch: number): void {
    this.host.enter('sinter_gpu_done', batch);
  }

  private async open(request: number, flags: number, bindingBytes: number, bufferBytes: number): Promise<void> {
    // The caller's device, as long as it lives; after that one of the engine's own.
    const { injected, early } = this;
    this.early = undefined;
    let entry: Shared;
    if (injected && !this.injectedLost) {
      entry = { users: Infinity, alive: true, adapter: Promise.resolve(undefined), opened: Promise.resolve({ device: injected, info: injected.adapterInfo }) };
    } else if (early && (early.alive || this.atOnce)) {
      entry = early;
    } else {
      if (early) release(early);
      entry = acquire(flags, bindingBytes, bufferBytes);
    }
    // Where it was opened early, that is in the log.
    const end = early && entry === early && this.atOnce ? () => {} : this.host.stage('open adapter');
    let opened: Awaited<Shared['opened']> | undefined;
    let error: Failure | undefined;
    try {
      const adapter = await entry.adapter;
      end(adapter ? nameOf(adapter.info) : "the caller's device");
      opened = await entry.opened;
    } catch (thrown) {
      end(textOf(thrown));
      this.refusal = thrown as object;
      error = thrown instanceof SinterError ? failure(thrown.code, thrown.message, thrown.hint)
        : failure('Gpu', `opening a WebGPU device failed: ${textOf(thrown)}`);
    }
    if (!opened || this.host.ended) release(entry);
    this.guarded(() => {
      if (opened) this.answerOpen(request, entry, opened.device, opened.info);
      else this.settle(request, error);
      this.done(0);
    });
  }

  private answerOpen(request: number, entry: Shared, device: GPUDevice, info: GPUAdapterInfo | undefined): void {
    const { host } = this;
    const handle = this.nextDevice++;
    this.devices.set(handle, new DeviceHost(this, host, handle, device, () => release(entry)));
    const { limits } = device;
    const features = FEATURES.reduce((bits, name, i) => bits | (device.features.has(name) ? 1 << i : 0), isSoftware(info) ? 8 : 0);
    const words = Uint32Array.of(handle, features, limits.maxStorageBuffersPerShaderStage, limits.maxUniformBufferBindingSize,
      limits.minStorageBufferOffsetAlignment, limits.minUniformBufferOffsetAlignment, limits.maxComputeWorkgroupsPerDimension,
      limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX, limits.maxComputeWorkgroupSizeY,
      limits.maxComputeWorkgroupSizeZ, limits.maxComputeWorkgroupStorageSize);
    const sizes = Float64Array.of(limits.maxStorageBufferBindingSize, limits.maxBufferSize);
    const text = new TextEncoder().encode(
      [info?.vendor, info?.architecture, info?.device, info?.description, ''].map((field) => `${field ?? ''}\0`).join(''));
    const bytes = words.byteLength + sizes.byteLength + text.length;
    const address = host.alloc(bytes, 'the adapter facts');
    const reply = host.bytes(address, bytes);
    reply.set(new Uint8Array(words.buffer));
    reply.set(new Uint8Array(sizes.buffer), words.byteLength);
    reply.set(text, words.byteLength + sizes.byteLength);
    host.enter('sinter_gpu_opened', request, address, bytes);
    host.free(address);
  }

  /** Calls into the module from an event: a trap has already rejected everything, nobody is left to tell. */
  guarded(call: () => void): void {
    if (this.host.ended) return;
    try {
      call();
    } catch (error) {
      this.host.die(error);
    }
  }
}

class DeviceHost {
  private readonly buffers = new Map<number, GPUBuffer>();
  private readonly pipelines = new Map<number, Pipeline>();
  private readonly groups = new Map<number, GPUBindGroup>();
  private readonly layouts = new Map<string, GPUBindGroupLayout>();
  private readonly reads = new Set<number>();
  // The device may be shared, so its own scopes never stay open across blocks: a scope here is the list of the sections
  // that ran while it was the innermost one. What fails outside of every scope waits for the next one to be popped.
  private readonly scopes: Promise<Failure | undefined>[][] = [];
  private readonly stray = new Set<Promise<Failure | undefined>>();
  private inSection = false;
  // The first exception that a call threw in this section (browsers differ in what they throw).
  private thrown: Failure | undefined;
  private lostNow: Failure | undefined;
  // Who is to be told of a loss. Races with the device's own promise would gather there, one for each run.
  private readonly losing = new Set<(loss: Failure) => void>();
  private closed = false;
  private readonly onUncaptured = (event: GPUUncapturedErrorEvent) => this.uncaptured(event.error.message);

  constructor(private readonly gpu: GpuHost, private readonly host: Host, private readonly handle: number,
              private readonly device: GPUDevice, private readonly release: () => void) {
    const self = new WeakRef(this);
    void device.lost.then((info) => self.deref()?.loseDevice(info));
    device.addEventListener('uncapturederror', this.onUncaptured);
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.device.removeEventListener('uncapturederror', this.onUncaptured);
    for (const buffer of this.buffers.values()) buffer.destroy();
    this.buffers.clear();
    this.reads.clear();
    this.release();
    this.gpu.forget(this.handle);
  }

  private loseDevice(info: GPUDeviceLostInfo): void {
    const { host } = this;
    const reason = `the WebGPU device was lost${info.reason === 'destroyed' ? ' (destroyed)' : ''}: ${info.message || 'no reason given'}`;
    const loss = failure('DeviceLost', reason, 'run again: a new device is opened');
    this.lostNow = loss;
    if (!this.closed) {
      this.gpu.guarded(() => host.withText(reason, (address, bytes) =>
        host.enter('sinter_gpu_lost', this.handle, address, bytes)));
    }
    for (const tell of this.losing) tell(loss);
    this.losing.clear();
  }

  /** `promise`, or the loss of the device if that comes first. */
  private race<T>(promise: Promise<T>): Promise<T | Failure> {
    if (this.lostNow) {
      promise.catch(() => {});
      return Promise.resolve(this.lostNow);
    }
    return new Promise((resolve, reject) => {
      this.losing.add(resolve);
      const done = <A>(settle: (value: A) => void) => (value: A) => {
        this.losing.delete(resolve);
        settle(value);
      };
      promise.then(done(resolve), done(reject));
    });
  }

  /** Runs one block. A block's requests are answered together, so that they cost one call into the module. */
  run(batch: number, words: Uint32Array): void {
    const waits: Promise<void>[] = [];
    for (let at = 0; at < words.length; at += words[at + 1]!) {
      try {
        this.record(words, at, waits);
      } catch (error) {
        this.thrown ??= failure(error instanceof RangeError ? 'OutOfMemory' : 'Gpu', textOf(error));
      }
    }
    this.endSection();
    if (batch) void Promise.all(waits).then(() => this.gpu.guarded(() => this.gpu.done(batch)));
  }

  private record(words: Uint32Array, at: number, waits: Promise<void>[]): void {
    const word = (index: number): number => words[at + index]!;
    const wide = (index: number): number => word(index) + word(index + 1) * 2 ** 32;
    const data = (index: number, bytes: number): Uint8Array<ArrayBuffer> =>
      new Uint8Array(words.buffer as ArrayBuffer, words.byteOffset + (at + index) * 4, bytes);
    const id = word(2);
    const op = word(0) as Op;
    if (op <= Op.Submit && op !== Op.CreatePipelines) this.beginSection();
    switch (op) {
      case Op.CreateBuffer: {
        const label = decoder.decode(data(7, word(6)));
        this.buffers.set(id, this.device.createBuffer({ size: wide(4), usage: word(3), label }));
        break;
      }
      case Op.DestroyBuffer:
        this.buffers.get(id)?.destroy();
        this.buffers.delete(id);
        break;
      case Op.WriteInline:
        this.write(id, wide(3), data(6, word(5)));
        break;
      case Op.WriteFrom:
        this.write(id, wide(3), new Uint8Array(words.buffer as ArrayBuffer, word(5), word(6)));
        break;
      case Op.CreatePipelines:
        this.createPipelines(words, at);
        break;
      case Op.DestroyPipeline:
        this.pipelines.delete(id);
        break;
      case Op.CreateBindGroup: {
        const entries: GPUBindGroupEntry[] = [];
        for (let i = 0; i < word(4); ++i) {
          const field = 5 + i * 5;
          entries.push({ binding: i, resource: { buffer: this.buffer(word(field)), offset: wide(field + 1), size: wide(field + 3) } });
        }
        this.groups.set(id, this.device.createBindGroup({ layout: this.pipeline(word(3)).layout, entries }));
        break;
      }
      case Op.DestroyBindGroup:
        this.groups.delete(id);
        break;
      case Op.Submit:
        this.submit(words, at + 3, id);
        break;
      case Op.Read:
        waits.push(this.read(id, word(3), wide(4), word(6), word(7)));
        break;
      case Op.PushScope:
        this.endSection();
        this.scopes.push([]);
        break;
      case Op.PopScope:
        this.endSection();
        waits.push(this.popScope(id));
        break;
      case Op.Forget:
        this.reads.delete(id);
        break;
      case Op.Close:
        this.close();
        break;
    }
  }

  private buffer(id: number): GPUBuffer {
    const buffer = this.buffers.get(id);
    if (!buffer) throw new Error(`buffer ${id} was not created`);
    return buffer;
  }

  private pipeline(id: number): Pipeline {
    const pipeline = this.pipelines.get(id);
    if (!pipeline) throw new Error(`pipeline ${id} was not compiled`);
    return pipeline;
  }

  private write(id: number, offset: number, bytes: Uint8Array<ArrayBuffer>): void {
    this.device.queue.writeBuffer(this.buffer(id), offset, bytes);
  }

  private beginSection(): void {
    if (this.inSection) return;
    this.inSection = true;
    for (const scope of SCOPES) this.device.pushErrorScope(scope);
  }

  private endSection(): void {
    if (!this.inSection) return;
    this.inSection = false;
    const { thrown } = this;
    this.thrown = undefined;
    // Popped innermost first: internal, out-of-memory, validation.
    const pops = Promise.all(SCOPES.map(() => this.device.popErrorScope()));
    const result = this.orLost(pops.then((errors) => {
      const found = errors.findIndex(Boolean);
      return found < 0 ? thrown : failure(found === 1 ? 'OutOfMemory' : 'Gpu', errors[found]!.message);
    })).catch((error) => thrown ?? failure('Gpu', textOf(error)));
    const scope = this.scopes.at(-1);
    if (scope) {
      scope.push(result);
    } else {
      this.stray.add(result);
      void result.then((error) => { if (!error) this.stray.delete(result); });
    }
  }

  private uncaptured(message: string): void {
    // Not from inside a block: the module is running then.
    queueMicrotask(() => this.gpu.guarded(() => {
      if (!this.closed) {
        this.host.withText(message, (address, bytes) =>
          this.host.enter('sinter_gpu_uncaptured', this.handle, address, bytes));
        this.gpu.done(0);
      }
    }));
  }

  private layout(bindings: number, writes: number, uniform: boolean): GPUBindGroupLayout {
    const key = `${bindings} ${writes} ${uniform}`;
    let layout = this.layouts.get(key);
    if (!layout) {
      const entries: GPUBindGroupLayoutEntry[] = [];
      for (let binding = 0; binding < bindings; ++binding) {
        entries.push({ binding, visibility: 4, buffer: { type: writes & (1 << binding) ? 'storage' : 'read-only-storage' } });
      }
      if (uniform) entries.push({ binding: bindings, visibility: 4, buffer: { type: 'uniform' } });
      layout = this.device.createBindGroupLayout({ entries });
      this.layouts.set(key, layout);
    }
    return layout;
  }

  private createPipelines(words: Uint32Array, at: number): void {
    const request = words[at + 2]!;
    const count = words[at + 3]!;
    const made: Promise<Failure | undefined>[] = [];
    let field = at + 4;
    for (let i = 0; i < count; ++i) {
      const [id, uniform, bindings, writes, labelBytes, textBytes] = words.subarray(field, field + 6) as unknown as
        [number, number, number, number, number, number];
      field += 6;
      const text = (bytes: number): string => {
        const part = decoder.decode(new Uint8Array(words.buffer as ArrayBuffer, words.byteOffset + field * 4, bytes));
        field += (bytes + 3) >> 2;
        return part;
      };
      made.push(this.createPipeline(id, text(labelBytes), text(textBytes), bindings, writes, uniform !== 0));
    }
    void Promise.all(made).then((failures) => {
      this.gpu.guarded(() => {
        this.gpu.settle(request, this.lostNow ?? failures.find(Boolean));
        this.gpu.done(0);
      });
    });
  }

  private async createPipeline(id: number, label: string, code: string, bindings: number, writes: number, uniform: boolean): Promise<Failure | undefined> {
    const { device } = this;
    let module: GPUShaderModule | undefined;
    try {
      const layout = this.layout(bindings, writes, uniform);
      // A shader error is reported by the pipeline's promise, with the compiler's text: the scope keeps it from being
      // reported a second time.
      device.pushErrorScope('validation');
      module = device.createShaderModule({ code, label });
      device.popErrorScope().catch(() => {});
      const pipeline = await this.race(device.createComputePipelineAsync(
        { label, layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }), compute: { module, entryPoint: 'main' } }));
      if (pipeline === this.lostNow) return this.lostNow;
      if (!this.closed) this.pipelines.set(id, { pipeline: pipeline as GPUComputePipeline, layout });
      return undefined;
    } catch (error) {
      return this.lostNow ?? failure('Gpu', `compiling kernel ${label}: ${await compilerText(module, code, textOf(error))}`,
        'run on the CPU backend, and report this kernel');
    }
  }

  private submit(words: Uint32Array, first: number, count: number): void {
    const encoder = this.device.createCommandEncoder();
    let pass: GPUComputePassEncoder | undefined;
    let pipeline = 0;
    for (let i = 0, at = first; i < count; ++i, at += COMMAND_WORDS) {
      const a = words[at + 1]!;
      const b = words[at + 2]!;
      if (words[at] === 1) {
        if (!pass) {
          pass = encoder.beginComputePass();
          pipeline = 0;
        }
        if (a !== pipeline) pass.setPipeline(this.pipeline(a).pipeline);
        pipeline = a;
        const group = this.groups.get(b);
        if (!group) throw new Error(`bind group ${b} was not created`);
        pass.setBindGroup(0, group);
        pass.dispatchWorkgroups(words[at + 3]!, words[at + 4]!, words[at + 5]!);
      } else {
        pass?.end();
        pass = undefined;
        const wide = (index: number): number => words[at + index]! + words[at + index + 1]! * 2 ** 32;
        encoder.copyBufferToBuffer(this.buffer(a), wide(6), this.buffer(b), wide(8), wide(10));
      }
    }
    pass?.end();
    this.device.queue.submit([encoder.finish()]);
  }

  /**
   * Chromium looks for finished work when commands arrive and otherwise every 2 ms, longer than a small model takes: one empty
   * scope at a time keeps it looking. Nobody waits for this; it ends with the map, or where the work is long anyway.
   */
  private async nudge(mapped: Promise<unknown>): Promise<void> {
    let pending = true;
    const stop = (): void => { pending = false; };
    mapped.then(stop, stop);
    for (let left = 100; pending && left > 0; --left) {
      this.device.pushErrorScope('validation');
      await this.device.popErrorScope();
    }
  }

  private async read(request: number, id: number, offset: number, address: number, bytes: number): Promise<void> {
    this.reads.add(request);
    let error: Failure | undefined;
    try {
      const buffer = this.buffer(id);
      // Maps start at multiples of 8 and have multiples of 4.
      const start = offset & ~7;
      const size = (offset - start + bytes + 3) & ~3;
      // A map that fails is reported by its promise: the scope keeps it from being reported a second time.
      this.device.pushErrorScope('validation');
      const mapped = buffer.mapAsync(1, start, size);
      this.device.popErrorScope().catch(() => {});
      this.nudge(mapped).catch(() => {});
      error = await this.orLost(mapped);
      if (!error) {
        if (this.reads.has(request) && !this.host.ended) {
          this.host.bytes(address, bytes).set(new Uint8Array(buffer.getMappedRange(start, size), offset - start, bytes));
        }
        buffer.unmap();
      }
    } catch (thrown) {
      error = failure('Gpu', `the device's answer could not be read: ${textOf(thrown)}`);
    }
    if (error && this.reads.has(request)) this.gpu.guarded(() => this.gpu.settle(request, error));
    this.reads.delete(request);
  }

  private async popScope(request: number): Promise<void> {
    const sections = [...this.stray, ...(this.scopes.pop() ?? [])];
    this.stray.clear();
    const error = (await Promise.all(sections)).find(Boolean);
    if (error) this.gpu.guarded(() => this.gpu.settle(request, error));
  }

  /** The promise's failure, if any; a lost device answers for a promise that would never end. */
  private async orLost(promise: Promise<Failure | undefined | void>): Promise<Failure | undefined> {
    try {
      return (await this.race(promise)) ?? undefined;
    } catch (error) {
      // A rejection may come before the loss that caused it.
      const lost = await this.race(new Promise<undefined>((resolve) => setTimeout(resolve, 50)));
      if (lost) return lost;
      throw error;
    }
  }
}

/** The compiler's messages, each with its line; the whole text with the line marked is in the failure's record. */
async function compilerText(module: GPUShaderModule | undefined, code: string, fallback: string): Promise<string> {
  const info = await module?.getCompilationInfo().catch(() => undefined);
  const errors = info?.messages.filter(({ type }) => type === 'error').slice(0, 4) ?? [];
  const lines = code.split('\n');
  return errors.map(({ message, lineNum, linePos }) =>
    lineNum ? `${message} (line ${lineNum}, column ${linePos})\n> ${lineNum} | ${lines[lineNum - 1]}` : message).join('\n') || fallback;
}

/** Browsers do not agree on how an adapter says that it computes on the CPU. */
export function isSoftware(info: GPUAdapterInfo | undefined): boolean {
  return info?.isFallbackAdapter === true || /swiftshader|llvmpipe|lavapipe|basic render/i.test(
    `${info?.architecture} ${info?.device} ${info?.description}`);
}

function unavailable(message: string, hint: string): SinterError {
  return new SinterError('Gpu', message, hint);
}

function nameOf(info: GPUAdapterInfo | undefined): string {
  return [info?.vendor, info?.architecture, info?.device, info?.description].filter(Boolean).join(' ');
}

async function openAdapter(flags: number): Promise<GPUAdapter> {
  const gpu = globalThis.navigator?.gpu as GPU | undefined;
  if (!gpu) {
    throw unavailable('there is no WebGPU here: navigator.gpu is missing',
      globalThis.isSecureContext === false ? 'serve the page over https or from localhost: WebGPU needs a secure context'
        : "use a browser with WebGPU, or backend 'cpu'");
  }
  let adapter: GPUAdapter | null;
  try {
    adapter = await gpu.requestAdapter({ powerPreference: flags & 1 ? 'low-power' : 'high-performance' });
  } catch (error) {
    throw unavailable(`asking for a WebGPU adapter failed: ${textOf(error)}`, "update the graphics driver, or use backend 'cpu'");
  }
  if (!adapter) {
    throw unavailable('there is no WebGPU adapter',
      "the browser knows WebGPU but no usable GPU: look at chrome://gpu, update the driver, on Linux try --enable-unsafe-webgpu, or use backend 'cpu'");
  }
  if (isSoftware(adapter.info) && !(flags & 2)) {
    throw unavailable('the only WebGPU adapter is a software one', "allow software adapters, or use backend 'cpu'");
  }
  return adapter;
}

async function openDevice(adapter: GPUAdapter, bindingBytes: number, bufferBytes: number): Promise<{ device: GPUDevice; info: GPUAdapterInfo }> {
  const { limits, info } = adapter;
  const requiredLimits: Record<string, number> = {
    maxStorageBufferBindingSize: Math.min(limits.maxStorageBufferBindingSize, Math.max(128 * 2 ** 20, bindingBytes)),
    maxBufferSize: Math.min(limits.maxBufferSize, Math.max(256 * 2 ** 20, bufferBytes)),
  };
  for (const name of ['maxStorageBuffersPerShaderStage', 'maxComputeInvocationsPerWorkgroup', 'maxComputeWorkgroupSizeX',
    'maxComputeWorkgroupSizeY', 'maxComputeWorkgroupSizeZ', 'maxComputeWorkgroupStorageSize'] as const) {
    requiredLimits[name] = limits[name];
  }
  try {
    const device = await adapter.requestDevice({ requiredFeatures: FEATURES.filter((name) => adapter.features.has(name)), requiredLimits });
    return { device, info };
  } catch (error) {
    throw unavailable(`the WebGPU device was refused: ${textOf(error)}`, "reload the page, update the graphics driver, or use backend 'cpu'");
  }
}
