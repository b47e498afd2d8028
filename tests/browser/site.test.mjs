// SPDX-License-Identifier: Apache-2.0
// The site's pages, as a visitor uses them. SINTER_SCREENSHOT and SINTER_SCREENSHOT_DOCTOR name files for pictures of them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { ROOT, SITE_MOUNTS, startServer } from '../../site/serve.mjs';
import { existsSync, forbidWaiting, generated, join, launch } from './harness.mjs';

const BACKENDS = { webgpu: /Ran on WebGPU: /, cpu: /Ran on the CPU: /, auto: /Ran on (WebGPU|the CPU): / };

let server, browser;
before(async () => {
  server = await startServer({ mounts: SITE_MOUNTS });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

async function onSite(query, body, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 760 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(240000);
  await page.addInitScript(forbidWaiting);
  const problems = [];
  page.on('pageerror', (error) => problems.push(`uncaught: ${error.message}`));
  page.on('console', (message) => { if (message.type() === 'error') problems.push(message.text()); });
  try {
    await page.goto(`${server.url}/${query}`);
    await body(page, problems);
  } finally {
    await context.close();
  }
}

const answered = (page) => page.waitForSelector('body[data-state="done"]');
const best = async (page) => (await page.locator('#results li').first().innerText()).split('\n')[0];

describe('the demo page', () => {
  for (const [backend, report] of Object.entries(BACKENDS)) {
    test(`names the first picture and says where it ran (${backend})`, () => onSite(`?sample=9&backend=${backend}`, async (page, problems) => {
      await answered(page);
      assert.equal(await best(page), 'Ankle boot');
      assert.equal(await page.locator('#results li').count(), 5);
      assert.match(await page.locator('#report').innerText(), report);
      for (const id of ['load-ms', 'first-ms', 'warm-ms']) assert.match(await page.locator(`#${id}`).innerText(), /^[\d.,]+ ms$/);
      if (backend !== 'auto') assert.equal(await page.locator('body').getAttribute('data-backend'), backend);
      // A model of its own page that asks for more than scripts and 'wasm-unsafe-eval' would be reported here.
      assert.deepEqual(problems, []);
    }));
  }

  test('classifies another sample, another model and a chosen file', () => onSite('?sample=9&backend=cpu', async (page, problems) => {
    await answered(page);
    await page.getByRole('button', { name: 'Bag' }).click();
    await page.waitForFunction(() => document.querySelector('#results li span')?.textContent === 'Bag');
    await page.selectOption('#model', 'squeezenet1_1_fashion');
    await answered(page);
    assert.equal(await best(page), 'Bag');
    await page.setInputFiles('#file', join(ROOT, 'models/fashion/images/fashion_1.png'));
    await page.waitForFunction(() => document.querySelector('#results li span')?.textContent === 'Trouser');
    await page.setInputFiles('#file', join(ROOT, 'models/fashion/labels.txt'));
    await page.waitForSelector('#error:not([hidden])');
    assert.match(await page.locator('#error').innerText(), /InvalidInput[\s\S]*labels\.txt is not a picture/);
    assert.deepEqual(problems, []);
  }));

  test('knows a cat', { skip: !existsSync(generated('efficientnet_lite0.onnx')) && 'the ImageNet model is not here' },
    () => onSite('?model=efficientnet_lite0&backend=cpu', async (page) => {
      await answered(page);
      assert.match(await best(page), /cat|tabby/i);
    }));

  test('fits a telephone and works from the keyboard', () => onSite('?backend=cpu', async (page) => {
    await answered(page);
    const { scroll, width } = await page.evaluate(() => ({ scroll: document.documentElement.scrollWidth, width: innerWidth }));
    assert.ok(scroll <= width, `${scroll} pixels in a window of ${width}`);
    const visited = new Set();
    for (let i = 0; i < 16; ++i) {
      await page.keyboard.press('Tab');
      visited.add(await page.evaluate(() => document.activeElement.id || document.activeElement.title));
    }
    for (const stop of ['model', 'backend', 'file', 'Trouser', 'Ankle boot']) assert.ok(visited.has(stop), `Tab reaches ${stop}`);
    await page.getByRole('button', { name: 'Trouser' }).focus();
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.querySelector('#results li span')?.textContent === 'Trouser');
  }, { viewport: { width: 360, height: 700 }, isMobile: true, hasTouch: true }));

  test('follows the reader in light and dark', () => onSite('?backend=cpu', async (page) => {
    const colour = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.emulateMedia({ colorScheme: 'light' });
    const light = await colour();
    await page.emulateMedia({ colorScheme: 'dark' });
    assert.notEqual(await colour(), light);
  }));

  test('leads to the doctor', () => onSite('?backend=cpu', async (page) => {
    await page.getByRole('link', { name: /doctor/i }).click();
    await page.waitForURL('**/doctor.html');
  }));

  test('has its picture taken', { skip: !process.env.SINTER_SCREENSHOT && 'SINTER_SCREENSHOT is not set' }, () => {
    const model = existsSync(generated('efficientnet_lite0.onnx')) ? '?model=efficientnet_lite0' : '?sample=9';
    return onSite(`${model}&backend=webgpu`, async (page) => {
      await answered(page);
      // The first picture's times hold the set-up of a cold browser.
      await page.locator('#samples button').first().click();
      await page.waitForSelector('body[data-answers="2"][data-state="done"]');
      await page.mouse.move(0, 0);
      await page.screenshot({ path: process.env.SINTER_SCREENSHOT, fullPage: true });
    }, { viewport: { width: 1000, height: 720 }, colorScheme: 'light' });
  });
});

describe("the doctor's page", () => {
  const examined = (page) => page.waitForSelector('body[data-state="done"]');
  const MODEL = join(ROOT, 'models/fashion/squeezenet1_1_fashion.onnx');

  test('examines the browser, then a model that is dropped', () => onSite('doctor.html?operators=off', async (page, problems) => {
    await examined(page);
    assert.match(await page.locator('#verdict').innerText(), /^Models run on the CPU/);
    assert.match(await page.locator('#adapter').innerText(), /numeric test\s+right/);
    assert.match(await page.locator('#browser').innerText(), /compiler\s+clang/);
    await page.setInputFiles('#file', MODEL);
    await page.waitForSelector('#model table');
    await examined(page);
    const text = await page.locator('#model').innerText();
    assert.match(text, /squeezenet1_1_fashion\.onnx: 65 nodes/);
    assert.match(text, /agrees with the reference/);
    assert.match(await page.locator('#verdict').innerText(), /agrees with the reference/);
    await page.locator('#model summary').click();
    for (const stage of ['parse', 'import', 'plan', 'warm-up']) await page.getByRole('cell', { name: stage, exact: true }).first().waitFor();
    if (process.env.SINTER_SCREENSHOT_DOCTOR) await page.screenshot({ path: process.env.SINTER_SCREENSHOT_DOCTOR, fullPage: true });
    assert.deepEqual(problems, []);
  }));

  test('says what is wrong with a file that is no model', () => onSite('doctor.html?operators=off', async (page) => {
    await examined(page);
    await page.setInputFiles('#file', join(ROOT, 'models/fashion/images/fashion_1.png'));
    await page.waitForFunction(() => /PNG picture/.test(document.querySelector('#verdict').textContent));
    assert.match(await page.locator('#verdict').getAttribute('class'), /bad/);
    assert.match(await page.locator('#hint').innerText(), /What to do: /);
  }));

  test('copies and downloads the report, and stops', () => onSite('doctor.html?operators=off', async (page) => {
    await examined(page);
    await page.locator('#copy').click();
    await page.waitForFunction(() => document.querySelector('#copy').textContent === 'Copied');
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(copied, /^\*\*models run on the CPU/);
    assert.match(copied, /- sinter: \d/);
    assert.match(copied, /- adapter features: /);
    const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#download').click()]);
    assert.equal(download.suggestedFilename(), 'sinter-doctor.json');
    const report = JSON.parse(readFileSync(await download.path(), 'utf8'));
    assert.ok(report.healthy && report.versions.browser && report.adapter.limits);
    await page.locator('#operators').check();
    await page.locator('#again').click();
    await page.waitForFunction(() => /operator cases/.test(document.querySelector('#verdict').textContent));
    await page.locator('#stop').click();
    await page.waitForSelector('body[data-state="failed"]');
    assert.equal(await page.locator('#verdict').innerText(), 'Stopped.');
  }, { permissions: ['clipboard-read', 'clipboard-write'] }));

  test('fits a telephone', () => onSite('doctor.html?operators=off', async (page) => {
    await examined(page);
    const { scroll, width } = await page.evaluate(() => ({ scroll: document.documentElement.scrollWidth, width: innerWidth }));
    assert.ok(scroll <= width, `${scroll} pixels in a window of ${width}`);
  }, { viewport: { width: 360, height: 700 }, isMobile: true, hasTouch: true }));
});
