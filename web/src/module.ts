// SPDX-License-Identifier: Apache-2.0
// Finds, loads and compiles sinter.wasm or, where the browser has relaxed SIMD, its faster twin. Concurrent callers share one load; a failed load is forgotten, so that the next
// call tries again.
import { SinterError, textOf, within } from './errors.js';

const modules = new Map<string, Promise<WebAssembly.Module>>();

// The smallest module with a relaxed SIMD instruction.
export const RELAXED_SIMD = [1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11];

/** Whether the browser takes a module of these sections. */
export function validates(sections: readonly number[]): boolean {
  return globalThis.WebAssembly?.validate(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, ...sections)) === true;
}

export function moduleUrl(wasmUrl?: string | URL): URL {
  if (wasmUrl !== undefined) return resolveUrl(wasmUrl);
  return validates(RELAXED_SIMD) ? new URL('./sinter-relaxed.wasm', import.meta.url) : new URL('./sinter.wasm', import.meta.url);
}

/** A URL relative to the page, to the worker's script or, in Node, to the current folder. */
export function resolveUrl(url: string | URL): URL {
  const base = globalThis.document?.baseURI ?? globalThis.location?.href ?? `file://${globalThis.process?.cwd?.() ?? ''}/`;
  try {
    return new URL(url, base);
  } catch (error) {
    throw new SinterError('InvalidInput', `'${url}' is not a URL`, '', [], error);
  }
}

/** Node's file system; a bundler for the web must not follow this import. */
export function nodeModule<T>(name: string): Promise<T> {
  const specifier = ['node', name].join(':');
  return import(/* @vite-ignore */ /* webpackIgnore: true */ specifier) as Promise<T>;
}

export function loadModule(url: URL, timeoutMs: number): Promise<WebAssembly.Module> {
  let module = modules.get(url.href);
  if (!module) {
    module = within(compile(url), timeoutMs, `${url} did not load`);
    modules.set(url.href, module);
    module.catch(() => modules.delete(url.href));
  }
  return module;
}

async function compile(url: URL): Promise<WebAssembly.Module> {
  const bytes = await fetchModule(url);
  try {
    return bytes instanceof Response ? await WebAssembly.compileStreaming(bytes) : await WebAssembly.compile(bytes as BufferSource);
  } catch (error) {
    const text = textOf(error);
    const blocked = /unsafe-eval|Content Security Policy|disallowed by embedder/i.test(text);
    throw new SinterError('Io', `${url} could not be compiled: ${text}`,
      blocked ? "the page's Content-Security-Policy needs script-src 'wasm-unsafe-eval'"
        : 'the address must serve the sinter.wasm of this package; check it, or pass wasmUrl', [], error);
  }
}

async function fetchModule(url: URL): Promise<Response | Uint8Array> {
  try {
    if (url.protocol === 'file:') {
      return await (await nodeModule<typeof import('node:fs/promises')>('fs/promises')).readFile(url);
    }
    const response = await fetch(url, { credentials: 'same-origin' });
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    // Servers that do not know .wasm break streaming compilation only.
    const type = response.headers.get('content-type') ?? '';
    if (type.startsWith('application/wasm') && 'compileStreaming' in WebAssembly) return response;
    return new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    throw new SinterError('Io', `could not load ${url}: ${textOf(error)}`,
      'serve sinter.wasm beside sinter.js, or pass its address as wasmUrl', [], error);
  }
}
