// SPDX-License-Identifier: Apache-2.0
// Every golden case that tests/golden/cases.py has collected, in Node on the CPU, fused and unfused.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { compare, readNpy, ROOT } from '../../tests/browser/harness.mjs';
import { createEngine, Tensor } from '../dist/sinter.js';

const cases = JSON.parse(readFileSync(join(ROOT, 'build/golden/manifest.json'), 'utf8'));
assert.ok(cases.length > 0);

describe('golden cases in Node', () => {
  for (const { name, model, input, output } of cases) {
    for (const fusion of [true, false]) {
      test(`${name}${fusion ? '' : ', unfused'}`, async () => {
        const engine = await createEngine({ backend: 'cpu' });
        try {
          const session = await engine.load(pathToFileURL(model), { fusion });
          const given = readNpy(input.file);
          const wanted = readNpy(output.file);
          const out = await session.run({ [input.name]: new Tensor('float32', given.data, given.shape) });
          const got = await out[output.name].data();
          assert.equal(session.report.backend, 'cpu');
          const width = wanted.data.length / wanted.shape[0];
          assert.equal(got.length, wanted.data.length);
          for (let row = 0; row < wanted.shape[0]; ++row) {
            const part = (values) => values.subarray(row * width, (row + 1) * width);
            assert.equal(compare(part(got), part(wanted.data)), undefined, `row ${row}`);
          }
        } finally {
          engine.close();
        }
      });
    }
  }
});
