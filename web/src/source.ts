// SPDX-License-Identifier: Apache-2.0
// Brings a model into module memory: streamed chunk by chunk to its place where the length is known, so that it is held once.
import { SinterError, cancelled, textOf } from './errors.js';
import type { Host } from './host.js';
import { nodeModule, resolveUrl } from './module.js';

export type ModelSource = string | URL | Uint8Array | ArrayBuffer | Blob | Response;

export interface Progress {
  /** Bytes so far. */
  loaded: number;
  /** Bytes in all, where known. */
  total?: number;
}

export interface ReadOptions {
  signal?: AbortSignal | null;
  onProgress?: (progress: Progress) => void;
}

interface Body {
  name: string;
  length: number | undefined;
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** The block that holds the model; it is the module's to free once a session was opened on it. */
export interface ModelBlock {
  address: number;
  bytes: number;
}

export async function readModel(host: Host, source: ModelSource, options: ReadOptions): Promise<ModelBlock> {
  const { signal } = options;
  if (signal?.aborted) throw cancelled(signal);
  try {
    const body = await open(source, signal ?? undefined);
    return body.length === undefined ? await gather(host, body, options) : await stream(host, body, body.length, options);
  } catch (error) {
    if (signal?.aborted) throw cancelled(signal);
    throw error;
  }
}

async function open(source: ModelSource, signal: AbortSignal | undefined): Promise<Body> {
  if (source instanceof ArrayBuffer) return open(new Uint8Array(source), signal);
  if (ArrayBuffer.isView(source)) {
    const bytes = new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
    return { name: 'the model', length: bytes.length, chunks: [bytes] };
  }
  if (source instanceof Blob) return { name: 'the model', length: source.size, chunks: source.stream() as unknown as AsyncIterable<Uint8Array> };
  if (source instanceof Response) return openResponse(source, source.url || 'the response');
  if (typeof source !== 'string' && !(source instanceof URL)) {
    throw new SinterError('InvalidInput', 'a model is loaded from a URL, bytes, a Blob or a Response',
      'give one of them as the first argument of load()');
  }
  const url = resolveUrl(source);
  if (url.protocol === 'file:' && globalThis.process?.versions?.node) return openFile(url);
  let response: Response;
  try {
    response = await fetch(url, signal ? { signal } : {});
  } catch (error) {
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
    const { size } = await stat(url);
    return { name: url.pathname, length: size, chunks: createReadStream(url, { highWaterMark: 1 << 20 }) };
  } catch (error) {
    throw new SinterError('Io', `could not read ${url.pathname}: ${textOf(error)}`, 'check the path', [], error);
  }
}

/** The next chunk; a source that gives none for so long has stalled. */
function within<T>(next: Promise<T>, milliseconds: number, name: string): Promise<T> {
  if (!milliseconds) return next;
  let timer: ReturnType<typeof setTimeout>;
  const stalled = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new SinterError('Timeout', `no bytes of ${name} for ${milliseconds} ms`, 'raise timeoutMs if the line is only slow')), milliseconds);
  });
  return Promise.race([next, stalled]).finally(() => clearTimeout(timer));
}

async function* checked(host: Host, body: Body, signal: AbortSignal | null | undefined): AsyncGenerator<Uint8Array> {
  const source = body.chunks as AsyncIterable<Uint8Array> & Iterable<Uint8Array>;
  const iterator = source[Symbol.asyncIterator]?.() ?? source[Symbol.iterator]();
  let open = true;
  try {
    for (;;) {
      const { done, value } = await within(Promise.resolve(iterator.next()), host.timeoutMs, body.name);
      if (signal?.aborted) throw cancelled(signal);
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

async function stream(host: Host, body: Body, length: number, { signal, onProgress }: ReadOptions): Promise<ModelBlock> {
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
      onProgress?.({ loaded, total: length });
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
async function gather(host: Host, body: Body, { signal, onProgress }: ReadOptions): Promise<ModelBlock> {
  const chunks: Uint8Array[] = [];
  let loaded = 0;
  try {
    for await (const chunk of checked(host, body, signal)) {
      chunks.push(chunk);
      host.hold(chunk.length);
      loaded += chunk.length;
      onProgress?.({ loaded });
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
