// SPDX-License-Identifier: Apache-2.0
// What the browser tests share: a server, a browser with a WebGPU adapter, a page on which the package runs.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ROOT, startServer } from '../../site/serve.mjs';
import { chromium } from '../../web/node_modules/playwright-core/index.mjs';

export { ROOT };

const SHARED = process.env.SINTER_SHARED ?? join(ROOT, '..', 'shared');

/** A folder of test data that is not part of the repository, or undefined. */
export function sharedFolder() {
  return existsSync(join(SHARED, 'models/golden/golden.json')) ? SHARED : undefined;
}

function browserPath() {
  const lavapipe = join(ROOT, '.cache/lavapipe/chromium/lavapipe');
  return process.env.SINTER_CHROMIUM ?? (existsSync(lavapipe) ? lavapipe : '/usr/bin/chromium');
}

const FLAGS = [
  '--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update',
  '--disable-sync',
];

/** webgpu: false gives a browser without an adapter. */
export function launch({ webgpu = true, flags = [] } = {}) {
  const gpu = webgpu ? ['--enable-unsafe-webgpu'] : ['--disable-gpu'];
  return chromium.launch({ executablePath: browserPath(), args: [...FLAGS, ...gpu, ...flags] });
}

/** The package, the models, the test pages and, where present, the shared test data. */
export function serve({ extra = {}, ...options } = {}) {
  const shared = sharedFolder();
  return startServer({
    mounts: {
      '/sinter/': join(ROOT, 'web/dist'),
      '/models/': join(ROOT, 'models'),
      '/golden/': join(ROOT, 'build/golden'),
      '/pages/': join(ROOT, 'tests/browser/pages'),
      ...(shared ? { '/shared/': shared } : {}),
      ...extra,
    },
    ...options,
  });
}

/** Takes away what could suspend or block a thread; a page that still works has not used it. */
export function forbidWaiting() {
  for (const [owner, name] of [[WebAssembly, 'Suspending'], [WebAssembly, 'promising'], [Atomics, 'wait'], [Atomics, 'waitAsync']]) {
    Object.defineProperty(owner, name, { get() { throw new Error(`${name} was used`); } });
  }
}

/** A fresh page with the test functions in `cases`; what the page logs as an error is thrown at `check()`. */
export async function openPage(browser, url, path = '/pages/blank.html') {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(0);
  await page.addInitScript(forbidWaiting);
  const problems = [];
  page.on('pageerror', (error) => problems.push(`uncaught: ${error.message}`));
  page.on('console', (message) => { if (message.type() === 'error') problems.push(message.text()); });
  await page.goto(`${url}${path}`);
  return {
    page,
    problems,
    /** Calls a function of pages/cases.js on the page's main thread. */
    call: (name, ...args) => callIn(page, 'cases', name, args),
    /** Calls a function of another file of pages/. */
    callIn: (file, name, ...args) => callIn(page, file, name, args),
    /** The same in a worker. */
    callInWorker: (name, ...args) => page.evaluate(([name, args]) => new Promise((resolve, reject) => {
      const worker = new Worker('/pages/worker.js', { type: 'module' });
      worker.onmessage = ({ data }) => { worker.terminate(); resolve(data); };
      worker.onerror = (event) => reject(new Error(event.message));
      worker.postMessage([name, args]);
    }), [name, args]).then(unwrap),
    close: () => context.close(),
  };
}

function callIn(page, file, name, args) {
  return page.evaluate(async ([file, name, args]) => {
    const [{ guarded }, functions] = await Promise.all([import('/pages/cases.js'), import(`/pages/${file}.js`)]);
    return guarded(() => functions[name](...args));
  }, [file, name, args]).then(unwrap);
}

// Errors lose their fields on the way out of a page, so pages/cases.js packs them.
function unwrap({ value, error }) {
  if (error) throw Object.assign(new Error(`${error.code ?? error.name}: ${error.message}`), error);
  return value;
}

/** A .npy file's { dtype, shape, data }. */
export function readNpy(path) {
  const bytes = readFileSync(path);
  const header = bytes.toString('latin1', 10, 10 + bytes.readUInt16LE(8));
  const shape = header.match(/'shape': \(([^)]*)\)/)[1].split(',').map((part) => part.trim()).filter(Boolean).map(Number);
  const descr = header.match(/'descr': '([^']*)'/)[1];
  const start = 10 + bytes.readUInt16LE(8);
  const buffer = bytes.buffer.slice(bytes.byteOffset + start, bytes.byteOffset + bytes.length);
  const types = { '<f4': ['float32', Float32Array], '<i8': ['int64', BigInt64Array], '|u1': ['uint8', Uint8Array] };
  const [dtype, ArrayType] = types[descr];
  return { dtype, shape, data: new ArrayType(buffer) };
}

/** Whether `actual` is `expected` within 1e-4 of its scale, with the same top five but for near ties. */
export function compare(actual, expected) {
  if (actual.length !== expected.length) return `${actual.length} values instead of ${expected.length}`;
  let scale = 1;
  for (const value of expected) scale = Math.max(scale, Math.abs(value));
  const tolerance = 1e-4 * scale;
  let worst = 0;
  for (let i = 0; i < expected.length; ++i) {
    const difference = Math.abs(actual[i] - expected[i]);
    if (!(difference <= tolerance)) return `value ${i} is ${actual[i]} instead of ${expected[i]} (tolerance ${tolerance})`;
    worst = Math.max(worst, difference);
  }
  const order = (values) => Array.from(values.keys()).sort((a, b) => values[b] - values[a]).slice(0, 5);
  const [mine, theirs] = [order(actual), order(expected)];
  for (let rank = 0; rank < mine.length; ++rank) {
    if (mine[rank] !== theirs[rank] && Math.abs(expected[mine[rank]] - expected[theirs[rank]]) > 2 * tolerance) {
      return `rank ${rank} is class ${mine[rank]} instead of ${theirs[rank]}`;
    }
  }
  return undefined;
}

export const generated = (name) => join(ROOT, 'models/generated', name);
export const fashion = (name) => join(ROOT, 'models/fashion', name);
export { dirname, existsSync, join };
