#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// A small static server for the demo site and the tests. It knows the media types, answers with lengths, and can send the
// headers that isolate a page (for WebAssembly threads).
//   node site/serve.mjs [PORT] [--isolate]
import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));

const TYPES = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.jpg': 'image/jpeg',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.map': 'application/json',
  '.mjs': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
};

const ISOLATION = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };

/** The file for a URL path below one of the mounts ({ '/models/': folder }), the longest first; nothing outside of them. */
function find(path, mounts) {
  const prefix = Object.keys(mounts).sort((a, b) => b.length - a.length).find((start) => path.startsWith(start));
  if (!prefix) return undefined;
  const folder = normalize(mounts[prefix] + sep);
  let file = normalize(join(folder, path.slice(prefix.length)));
  if (!file.startsWith(folder) && file + sep !== folder) return undefined;
  if (existsSync(file) && statSync(file).isDirectory()) file = join(file, 'index.html');
  return existsSync(file) ? file : undefined;
}

/**
 * Starts a server on localhost. `mounts` maps URL prefixes to folders; `intercept(request, response)` returns true where it
 * has answered itself. Gives { url, close }.
 */
export function startServer({ port = 0, isolate = false, mounts, headers = {}, intercept }) {
  const server = createServer((request, response) => {
    if (intercept?.(request, response)) return;
    let path;
    try {
      path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    } catch {
      path = '\0';
    }
    const file = path.includes('\0') ? undefined : find(path, mounts);
    if (!file || (request.method !== 'GET' && request.method !== 'HEAD')) {
      response.writeHead(file ? 405 : 404, { 'Content-Type': 'text/plain' });
      response.end(file ? 'only GET and HEAD\n' : `not found: ${path}\n`);
      return;
    }
    response.writeHead(200, {
      'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream',
      'Content-Length': statSync(file).size,
      'Cache-Control': 'no-cache',
      'X-Content-Type-Options': 'nosniff',
      ...(isolate ? ISOLATION : {}),
      ...headers,
    });
    if (request.method === 'HEAD') response.end();
    else createReadStream(file).on('error', () => response.destroy()).pipe(response);
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, 'localhost', () => {
      const close = () => new Promise((done) => {
        server.close(done);
        server.closeAllConnections();
      });
      resolve({ url: `http://localhost:${server.address().port}`, close });
    });
  });
}

/** Where the demo site's files are. */
export const SITE_MOUNTS = { '/': join(ROOT, 'site/dist'), '/models/': join(ROOT, 'models') };

if (process.argv[1] && fileURLToPath(import.meta.url) === process.argv[1]) {
  const words = process.argv.slice(2);
  const isolate = words.includes('--isolate');
  const [portText = '8080', ...rest] = words.filter((word) => word !== '--isolate');
  const port = Number(portText);
  if (rest.length || !Number.isInteger(port) || port < 0 || port > 65535) {
    console.error('usage: node site/serve.mjs [PORT] [--isolate]');
    process.exit(2);
  }
  if (!existsSync(join(ROOT, 'site/dist/index.html'))) {
    console.error('site/serve.mjs: the site is not built; run ./dev build web');
    process.exit(1);
  }
  try {
    const { url } = await startServer({ port, isolate, mounts: SITE_MOUNTS });
    console.log(`${url}/`);
  } catch (error) {
    console.error(`site/serve.mjs: ${error.code === 'EADDRINUSE' ? `port ${port} is taken; give another one` : error.message}`);
    process.exit(1);
  }
}
