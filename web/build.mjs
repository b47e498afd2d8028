// SPDX-License-Identifier: Apache-2.0
// Builds the package into dist/: the minified ES modules of its two entries (what they share is a file of its own), their
// types, and the WebAssembly modules of build/web.
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

process.chdir(fileURLToPath(new URL('.', import.meta.url)));
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
const modules = ['sinter.wasm', 'sinter-relaxed.wasm', 'sinter-diag.wasm'];
for (const name of modules) {
  if (existsSync(`../build/web/${name}`)) continue;
  console.error(`web/build.mjs: build/web/${name} is missing; run ./dev build web`);
  process.exit(1);
}

rmSync('dist', { recursive: true, force: true });
await build({
  entryPoints: { sinter: 'src/index.ts', diag: 'src/diag.ts' },
  outdir: 'dist',
  splitting: true,
  chunkNames: 'shared-[hash]',
  bundle: true,
  format: 'esm',
  target: 'es2022',
  minify: true,
  // Names that are this package's own business and nobody else's.
  mangleProps: /^(withText|quietly|guarded|lostNow|inSection|turnPosted|heldPeak|unwatch|injectedLost|onUncaptured|errorFrom|eventAt|eventCount|answerOpen|beginSection|endSection|popScope|loseDevice|closeAll|nextRequest|nextDevice|rejectAll|createPipelines|createPipeline|postTurn|turns|losing|releases|records|layouts|scopes|refresh|textAt|describeAdapter|openEarly|recordOf|ringSize|recordBytes|refusal|atOnce|alive|opened|early|born|take|again|uncaptured|injected|held|hold|kept|thrown)$/,
  sourcemap: 'external',
  define: { SINTER_VERSION: JSON.stringify(version) },
  logLevel: 'warning',
});
execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', '.'], { stdio: 'inherit' });
for (const name of modules) copyFileSync(`../build/web/${name}`, `dist/${name}`);
copyFileSync('../LICENSE', 'dist/LICENSE');
