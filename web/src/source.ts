// SPDX-License-Identifier: Apache-2.0
// Brings a model into module memory: streamed chunk by chunk to its place where the length is known, so that it is held once.
import { SinterError, cancelled, tell, textOf, within } from './errors.js';
import { nextTurn, type Host } from './host.js';
import { nodeModule, resolveUrl } from './module.js';
import { show } from './options.js';

export type ModelSource = string | URL | Uint8Array | ArrayBuffer | Blob | Response;

export interface Progress {
  /** Bytes so far. */
  loaded: number;
  /** Bytes in all, where known. */
  total?: number;
  /** The name of the external file; absent for the model itself. */
  file?: string;
}

export interface ReadOptions {
  externalData?: Readonly<Record<string, ModelSource>> | ReadonlyMap<string, ModelSource>;
  signal?: AbortSignal | null;
  onProgress?: (progress: Progress) => void;
}

interface Body {
  name: string;
  length: number | undefined;
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** A block of module memory; it is the module's to free once a session was opened on it. */
interface Block {
  name: string;
  address: number;
  bytes: number;
}

export interface ModelFiles {
  model: Block;
  external: Block[];
}

export function freeFiles(host: Host, { model, external }: ModelFiles): void {
  for (const { address } of [model, ...external]) if (address) host.free(address);
}

/** Brings the model and its external files into module memory, one after the other. */
export async function readFiles(host: Host, source: ModelSource, options: ReadOptions): Promise<ModelFiles> {
  const { externalData = {} } = options;
  const named = externalData instanceof Map ? [...externalData] : Object.entries(externalData);
  const files: ModelFiles = { model: { name: '', address: 0, bytes: 0 }, external: [] };
  try {
    files.model = await read(host, source, '', options);
    for (const [name, from] of named as [string, ModelSource][]) files.external.push(await read(host, from, name, options));
    return files;
  } catch (error) {
    freeFiles(host, files);
    throw host.failure ?? error;
  }
}

async function read(host: Host, source: ModelSource, file: string, options: ReadOptions): Promise<Block> {
  const { signal, onProgress } = options;
  if (signal?.aborted) throw cancelled(signal);
  const what = file ? `external file '${file}'` : 'the model';
  const from = new Error('asked for here');
  const end = host.stage('fetch', source instanceof URL || typeof source === 'string' ? String(source) : what);
  let bytes = -1;
  try {
    const body = await open(host, source, what, signal);
    const report = (progress: Progress): void => tell(onProgress, file ? { ...progress, file } : progress);
    const block = body.length === undefined ? await gather(host, body, signal, report) : await stream(host, body, body.length, signal, report);
    ({ bytes } = block);
    return { name: file, ...block };
  } catch (error) {
    if (signal?.aborted) throw cancelled(signal);
    if (!(error instanceof SinterError) || host.ended) throw error;
    throw host.failed('fetch', file ? error.in(`reading ${what}`) : error, from);
  } finally {
    end(bytes < 0 ? 'failed' : `${bytes} bytes`);
  }
}

const encoder = new TextEncoder();

/** Calls `use` with the files as an array of sinter_file (engine/api/abi.h). */
export function withFiles(host: Host, files: Block[], use: (address: number) => void): void {
  if (!files.length) return use(0);
  const names = files.map(({ name }) => encoder.encode(name));
  let at = files.length * 16;
  const address = host.alloc(names.reduce((sum, { length }) => sum + length, at), 'the names of the files');
  files.forEach((file, i) => {
    const name = names[i]!;
    new Uint32Array(host.exports.memory.buffer, address + i * 16, 4).set([address + at, name.length, file.address, file.bytes]);
    host.bytes(address + at, name.length).set(name);
    at += name.length;
  });
  use(address);
  host.free(address);
}

async function open(host: Host, source: ModelSource, what: string, signal: Signal): Promise<Body> {
  if (ArrayBuffer.isView(source) || isA(source, 'ArrayBuffer') || isA(source, 'SharedArrayBuffer')) {
    const bytes = ArrayBuffer.isView(source) ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
      : new Uint8Array(source as ArrayBuffer);
    return { name: what, length: bytes.length, chunks: inPieces(bytes) };
  }
  if (isA(source, 'Blob') || isA(source, 'File')) {
    return { name: what, length: (source as Blob).size, chunks: (source as Blob).stream() as unknown as AsyncIterable<Uint8Array> };
  }
  if (isA(source, 'Response')) return openResponse(source as Response, (source as Response).url || 'the response');
  if (typeof source !== 'string' && !(source instanceof URL)) {
    throw new SinterError('InvalidInput', `${what} is loaded from a URL, bytes, a Blob or a Response, not from ${show(source)}`,
      'give one of them');
  }
  if (!String(source).trim()) {
    throw new SinterError('InvalidInput', `the address of ${what} is empty, which is the page itself`, 'give the address of the .onnx file');
  }
  const url = resolveUrl(source);
  if (url.protocol === 'file:' && globalThis.process?.versions?.node) return openFile(url);
  let response: Response;
  try {
    response = await within(host.wait(fetch(url, signal ? { signal } : {}), signal), host.timeoutMs, `no answer from ${url}`);
  } catch (error) {
    if (error instanceof SinterError) throw error;
    throw new SinterError('Io', `could not fetch ${url}: ${textOf(error)}`,
      'check the address; another origin must allow this page (CORS)', [], error);
  }
  return openResponse(response, url.href);
}

function openResponse(response: Response, name: string): Body {
  if (!response.ok) {
    throw new SinterError('Io', `could not fetch ${name}: HTTP ${response.status} ${response.statusText}`.trimEnd(), 'check the address');
  }
  if (!response.body) throw new SinterError('Io', `${name} has no body, or it was already read`);
  // With a content encoding the header gives the length before decoding.
  const header = response.headers.get('content-encoding') ? null : response.headers.get('content-length');
  return { name, length: header === null ? undefined : Number(header), chunks: readAll(response.body) };
}

/** By its tag: other frames and test runners have constructors of their own. */
const isA = (value: unknown, tag: string): boolean => Object.prototype.toString.call(value) === `[object ${tag}]`;

/** Copying a large model at once would keep the page waiting. */
function* inPieces(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
}

// Async iteration of ReadableStream is not everywhere yet.
async function* readAll(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  let whole = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      yield value;
    }
    whole = true;
  } finally {
    if (!whole) reader.cancel().catch(() => {});
  }
}

async function openFile(url: URL): Promise<Body> {
  try {
    const { stat } = await nodeModule<typeof import('node:fs/promises')>('fs/promises');
    const { createReadStream } = await nodeModule<typeof import('node:fs')>('fs');
    const found = await stat(url);
    if (found.isDirectory()) {
      throw new SinterError('Io', `${url.pathname} is a folder, not a model`, 'give the path of the .onnx file in it');
    }
    return { name: url.pathname, length: found.size, chunks: createReadStream(url, { highWaterMark: 1 << 20 }) };
  } catch (error) {
    if (error instanceof SinterError) throw error;
    throw new SinterError('Io', `could not read ${url.pathname}: ${textOf(error)}`, 'check the path', [], error);
  }
}

async function* checked(host: Host, body: Body, signal: Signal): AsyncGenerator<Uint8Array> {
  const source = body.chunks as AsyncIterable<Uint8Array> & Iterable<Uint8Array>;
  const iterator = source[Symbol.asyncIterator]?.() ?? source[Symbol.iterator]();
  let open = true;
  let turn = performance.now();
  try {
    for (;;) {
      // What has arrived already comes without a turn of the event loop.
      if (performance.now() - turn > SLICE_MS) {
        await nextTurn();
        turn = performance.now();
      }
      const { done, value } = await within(host.wait(Promise.resolve(iterator.next()), signal), host.timeoutMs, `no bytes of ${body.name}`);
      if (done) break;
      yield value;
    }
    open = false;
  } catch (error) {
    if (error instanceof SinterError) throw error;
    throw new SinterError('Io', `reading ${body.name} failed: ${textOf(error)}`, 'the transfer broke off; try again', [], error);
  } finally {
    // Not awaited: a stalled source would stall its own end.
    if (open) void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

const PIECE_BYTES = 1 << 21;
const SLICE_MS = 8;

type Signal = AbortSignal | null | undefined;

async function stream(host: Host, body: Body, length: number, signal: Signal, report: (progress: Progress) => void): Promise<Omit<Block, 'name'>> {
  const address = host.alloc(length, body.name);
  let loaded = 0;
  try {
    for await (const chunk of checked(host, body, signal)) {
      if (loaded + chunk.length > length) {
        throw new SinterError('Io', `${body.name} is longer than the ${length} bytes that were announced`);
      }
      host.hold(chunk.buffer.byteLength);
      host.bytes(address + loaded, chunk.length).set(chunk);
      host.hold(-chunk.buffer.byteLength);
      loaded += chunk.length;
      report({ loaded, total: length });
    }
    if (loaded !== length) {
      throw new SinterError('Io', `${body.name} ended after ${loaded} of ${length} bytes`, 'the transfer broke off; try again');
    }
    return { address, bytes: length };
  } catch (error) {
    host.free(address);
    throw error;
  }
}

/** Without a length the chunks are kept until their sum is known, and given up one by one. */
async function gather(host: Host, body: Body, signal: Signal, report: (progress: Progress) => void): Promise<Omit<Block, 'name'>> {
  const chunks: Uint8Array[] = [];
  let loaded = 0;
  try {
    for await (const chunk of checked(host, body, signal)) {
      chunks.push(chunk);
      host.hold(chunk.length);
      loaded += chunk.length;
      report({ loaded });
    }
    const address = host.alloc(loaded, body.name);
    let at = address;
    for (let chunk = chunks.shift(); chunk; chunk = chunks.shift()) {
      host.bytes(at, chunk.length).set(chunk);
      host.hold(-chunk.length);
      at += chunk.length;
    }
    return { address, bytes: loaded };
  } finally {
    for (const chunk of chunks) host.hold(-chunk.length);
  }
}
