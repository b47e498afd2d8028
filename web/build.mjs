// SPDX-License-Identifier: Apache-2.0
// Builds the package into dist/: one minified ES module, its types, and the WebAssembly module of build/web.
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

process.chdir(fileURLToPath(new URL('.', import.meta.url)));
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
const wasm = '../build/web/sinter.wasm';
if (!existsSync(wasm)) {
  console.error(`web/build.mjs: ${wasm} is missing; run ./dev build web`);
  process.exit(1);
}

rmSync('dist', { recursive: true, force: true });
await build({
  entryPoints: ['src/index.ts'],
  outfile: 'dist/sinter.js',
  bundle: true,
  format: 'esm',
  target: 'es2022',
  minify: true,
  sourcemap: true,
  define: { SINTER_VERSION: JSON.stringify(version) },
  logLevel: 'warning',
});
execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', '.'], { stdio: 'inherit' });
copyFileSync(wasm, 'dist/sinter.wasm');
copyFileSync('../LICENSE', 'dist/LICENSE');
