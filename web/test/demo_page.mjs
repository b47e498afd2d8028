// SPDX-License-Identifier: Apache-2.0
// The browser's half of ./dev demo: classifies pictures on a page's main thread in headless Chromium, on each backend.
// Reads [{ model, images, labels }] (paths) from standard input; prints a JSON array with an entry per job and backend:
// { model, backend, answers } with the answers of `sinter classify --json`, or { model, backend, error }.
import { readFileSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { ROOT, launch, openPage, serve } from '../../tests/browser/harness.mjs';

const TOP = 10;

/** The address of a file of the repository. */
function address(path) {
  const inside = relative(ROOT, resolve(path));
  if (!inside.startsWith('models/')) throw new Error(`${path} is not in models/`);
  return `/${inside}`;
}

async function answer(page, job, backend) {
  const entry = { model: job.model, backend };
  try {
    const answers = await page.call('answers', {
      model: address(job.model), images: job.images.map(address), labels: address(job.labels), backend, top: TOP,
    });
    return { ...entry, answers: answers.map((item, i) => ({ ...item, image: job.images[i] })) };
  } catch (error) {
    return { ...entry, error: error.message };
  }
}

const jobs = JSON.parse(readFileSync(0, 'utf8'));
const server = await serve();
const browser = await launch();
const entries = [];
try {
  for (const job of jobs) {
    for (const backend of ['cpu', 'webgpu']) {
      const page = await openPage(browser, server.url);
      entries.push(await answer(page, job, backend));
      await page.close();
    }
  }
} finally {
  await browser.close();
  await server.close();
}
console.log(JSON.stringify(entries));
