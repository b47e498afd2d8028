// SPDX-License-Identifier: Apache-2.0
import { SinterError, cancelled } from './errors.js';
import type { Host } from './host.js';
import { abortSignal, check, demand, record, show, type Rule } from './options.js';
import { Tensor, copyOf, dtypeFromNumber, dtypeNumber, type DType } from './tensor.js';

export interface IoInfo {
  name: string;
  dtype: DType;
  /** Symbolic dimensions by name, '?' where nothing is known. */
  shape: (number | string)[];
}

export interface Report {
  backend: 'cpu' | 'webgpu' | 'reference';
  /** Why this backend. */
  why: string;
  fallbacks: { from: string; to: string; reason: string }[];
  /** High-water mark of what the engine allocated, host and device. */
  peakBytes: number;
  pipelines: number;
  dispatches: number;
  /** How often this session has lost its device and was built anew. */
  losses: number;
  /** Steps that a WebGPU session runs on the CPU. */
  cpuSteps: { node: string; op: string; reason: string }[];
  unsupported: { node: string; op: string; reason: string; hint: string }[];
  /** What was given and has no effect: files that the model does not use, threads beyond the first. */
  notices: string[];
  loadMs: number;
  prepareMs: number;
  /** Bytes: WebAssembly memory now, ArrayBuffers outside of it at their peak, and the peak of both together. */
  memory: { wasm: number; host: number; peak: number };
}

/** @internal The module's answer to a load. */
export interface Opened {
  session: number;
  inputs: IoInfo[];
  outputs: IoInfo[];
  /** External files that nothing referred to. */
  unused: string[];
}

export interface RunOptions {
  signal?: AbortSignal | null;
}

export type Tensors = Record<string, Tensor>;

const RUN_OPTIONS: Readonly<Record<keyof RunOptions, Rule>> = { signal: abortSignal };
const INPUTS: Rule = ['an object with a Tensor for each input: { name: tensor }', (value) => record[1](value) && !(value instanceof Tensor)];

// sinter_tensor (engine/api/abi.h) as 32-bit words: name, name bytes, dtype, dims, rank, data, bytes.
const TENSOR_BYTES = 28;
const encoder = new TextEncoder();
const align = (offset: number, to: number): number => Math.ceil(offset / to) * to;

export function checkedInputs(inputs: Tensors): [string, Tensor][] {
  demand('the inputs', inputs, INPUTS);
  const entries = Object.entries(inputs);
  for (const [name, tensor] of entries) {
    if (!(tensor instanceof Tensor)) {
      throw new SinterError('InvalidInput', `input '${name}' is not a Tensor but ${show(tensor)}`, "give new Tensor('float32', values, shape)");
    }
  }
  return entries;
}

interface Block {
  address: number;
  bytes: number;
}

/** One block: the tensor records, then names and dimensions, then the data. */
export function packTensors(host: Host, entries: [string, Tensor][], take: (bytes: number) => Block): Block {
  const names = entries.map(([name]) => encoder.encode(name));
  let size = align(entries.length * TENSOR_BYTES, 8);
  const dimsAt = entries.map(([, tensor]) => (size += tensor.shape.length * 8) - tensor.shape.length * 8);
  const namesAt = names.map((name) => (size += name.length) - name.length);
  const dataAt = entries.map(([, tensor]) => {
    const at = align(size, 64);
    size = at + tensor.bytes.length;
    return at;
  });
  const block = take(size);
  const { address } = block;
  const view = new DataView(host.exports.memory.buffer, address, size);
  entries.forEach(([, tensor], i) => {
    const words = [address + namesAt[i]!, names[i]!.length, dtypeNumber(tensor.dtype), address + dimsAt[i]!, tensor.shape.length,
      address + dataAt[i]!, tensor.bytes.length];
    words.forEach((word, field) => view.setUint32(i * TENSOR_BYTES + field * 4, word, true));
    tensor.shape.forEach((dim, axis) => view.setBigInt64(dimsAt[i]! + axis * 8, BigInt(dim), true));
    host.bytes(address + namesAt[i]!, names[i]!.length).set(names[i]!);
    host.bytes(address + dataAt[i]!, tensor.bytes.length).set(tensor.bytes);
  });
  return block;
}

/** Blocks for the inputs of runs; kept, so that a warm run allocates nothing. */
class BlockPool {
  private readonly free: Block[] = [];

  constructor(private readonly host: Host) {}

  take(bytes: number): Block {
    const at = this.free.findIndex((block) => block.bytes >= bytes);
    if (at >= 0) return this.free.splice(at, 1)[0]!;
    this.clear();
    return { address: this.host.alloc(bytes, 'the inputs'), bytes };
  }

  give(block: Block): void {
    this.free.push(block);
  }

  clear(): void {
    for (const block of this.free.splice(0)) this.host.free(block.address);
  }
}

export class Session {
  readonly inputs: readonly IoInfo[];
  readonly outputs: readonly IoInfo[];
  private readonly handle: number;
  private readonly pool: BlockPool;
  private last: Report | undefined;
  private closed = false;

  /** @internal */
  constructor(private readonly host: Host, opened: Opened, private readonly notices: string[], private readonly forget: (session: Session) => void) {
    this.handle = opened.session;
    this.inputs = opened.inputs;
    this.outputs = opened.outputs;
    this.pool = new BlockPool(host);
  }

  /** What this session does and why; after close() as it was then. */
  get report(): Report {
    if (!this.closed && !this.host.ended) this.refresh();
    if (!this.last) throw this.host.ended ?? new SinterError('InvalidInput', 'the session is closed');
    return this.last;
  }

  private refresh(): void {
    const { host, handle } = this;
    const json = host.now('sinter_session_report', handle);
    this.last = { ...(JSON.parse(json) as Report), notices: this.notices, memory: host.memory() };
  }

  /** Runs the model. Concurrent calls queue in order. */
  async run(inputs: Tensors, options: RunOptions = {}): Promise<Tensors> {
    const { host, handle, pool } = this;
    check('run', options, RUN_OPTIONS);
    const { signal } = options;
    if (host.ended) throw host.ended;
    if (this.closed) throw new SinterError('InvalidInput', 'the session is closed', 'load the model again');
    if (signal?.aborted) throw cancelled(signal);
    const entries = checkedInputs(inputs);
    const block = packTensors(host, entries, (bytes) => pool.take(bytes));
    return host.request(
      (request) => host.enter('sinter_session_run', request, handle, block.address, entries.length),
      (address, bytes) => this.read(address, bytes), signal, () => (this.closed ? host.free(block.address) : pool.give(block)));
  }

  /** Frees the model's memory. Runs that still wait end as Cancelled. Never throws. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.forget(this);
    const { host } = this;
    host.quietly(() => {
      this.refresh();
      host.enter('sinter_session_close', this.handle);
      this.pool.clear();
    });
  }

  private read(address: number, bytes: number): Tensors {
    const { host } = this;
    const view = new DataView(host.exports.memory.buffer, address, bytes);
    const outputs: Tensors = {};
    for (let at = 0; at < bytes; at += TENSOR_BYTES) {
      const word = (field: number): number => view.getUint32(at + field * 4, true);
      const dims = new BigInt64Array(host.exports.memory.buffer, word(3), word(4));
      const dtype = dtypeFromNumber(word(2));
      outputs[host.text(word(0), word(1))] = new Tensor(dtype, copyOf(dtype, host.bytes(word(5), word(6))), Array.from(dims, Number));
    }
    return outputs;
  }
}
