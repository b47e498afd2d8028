// SPDX-License-Identifier: Apache-2.0
import { SinterError } from 'sinter';
import { Classifier, type Answer, type Backend } from './classifier';
import { availableModels, type DemoModel, type Sample } from './models';

const element = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T;

const modelSelect = element<HTMLSelectElement>('model');
const backendSelect = element<HTMLSelectElement>('backend');
const fileInput = element<HTMLInputElement>('file');
const drop = element<HTMLLabelElement>('drop');
const preview = element<HTMLImageElement>('preview');
const progress = element<HTMLProgressElement>('progress');

let models: DemoModel[] = [];
let classifier: { key: string; opened: Promise<Classifier> } | undefined;
let picture: ImageBitmap | undefined;
let turn = 0;
let answers = 0;

const currentModel = (): DemoModel => models.find((model) => model.id === modelSelect.value) ?? models[0]!;

function say(text: string): void {
  element('status').textContent = text;
}

function milliseconds(ms: number): string {
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms).toLocaleString('en')} ms`;
}

function showAnswer(answer: Answer): void {
  const rows = answer.rows.map(({ label, probability }) => {
    const row = document.createElement('li');
    const name = document.createElement('span');
    name.textContent = label;
    const percent = document.createElement('span');
    percent.className = 'percent';
    percent.textContent = `${(probability * 100).toFixed(1)} %`;
    const bar = document.createElement('div');
    bar.className = 'bar';
    const filled = document.createElement('div');
    filled.style.width = `${probability * 100}%`;
    bar.append(filled);
    row.append(name, percent, bar);
    return row;
  });
  element('results').replaceChildren(...rows);
  element('load-ms').textContent = milliseconds(answer.loadMs);
  element('first-ms').textContent = milliseconds(answer.firstMs);
  element('warm-ms').textContent = milliseconds(answer.warmMs);
  element('times').hidden = false;
  const { backend, why, fallbacks, cpuSteps, dispatches, pipelines } = answer.report;
  const lines = [`Ran on ${backend === 'webgpu' ? 'WebGPU' : 'the CPU'}: ${why}.`];
  if (dispatches) lines.push(`${dispatches} dispatches of ${pipelines} kernels, one call across the module's border.`);
  for (const { from, to, reason } of fallbacks) lines.push(`Moved from ${from} to ${to}: ${reason}.`);
  if (cpuSteps.length) lines.push(`${cpuSteps.length} steps ran on the CPU.`);
  element('report').textContent = lines.join(' ').replaceAll('..', '.');
  document.body.dataset['backend'] = backend;
}

function showError(error: unknown): void {
  const known = error instanceof SinterError ? error : undefined;
  element('error-code').textContent = known ? known.code : 'Error';
  element('error-message').textContent = error instanceof Error ? error.message : String(error);
  element('error-chain').replaceChildren(...(known?.chain ?? []).map((context) => {
    const item = document.createElement('li');
    item.textContent = `while ${context}`;
    return item;
  }));
  element('error-hint').textContent = known?.hint ?? '';
  element('error').hidden = false;
  element('results').replaceChildren();
  element('times').hidden = true;
  element('report').textContent = '';
  say('');
}

function open(model: DemoModel, backend: Backend): Promise<Classifier> {
  const key = `${model.id} ${backend}`;
  if (classifier?.key === key) return classifier.opened;
  classifier?.opened.then((old) => old.close(), () => {});
  progress.removeAttribute('value');
  progress.hidden = false;
  const opened = Classifier.open(model, backend, ({ loaded, total }) => {
    if (total) progress.value = loaded / total;
    if (loaded === total) progress.hidden = true;
  }).finally(() => { progress.hidden = true; });
  classifier = { key, opened };
  // A failed load is tried again at the next change.
  opened.catch(() => { if (classifier?.opened === opened) classifier = undefined; });
  return opened;
}

/** Classifies the current picture with the current choice; a newer call takes over from an older one. */
async function classify(): Promise<void> {
  const mine = ++turn;
  if (!picture) return;
  document.body.dataset['state'] = 'busy';
  element('error').hidden = true;
  try {
    say('Loading the model …');
    const opened = await open(currentModel(), backendSelect.value as Backend);
    if (mine !== turn) return;
    say('Running …');
    const answer = await opened.classify(picture);
    if (mine !== turn) return;
    say('');
    showAnswer(answer);
    document.body.dataset['state'] = 'done';
    document.body.dataset['answers'] = String(++answers);
  } catch (error) {
    if (mine !== turn) return;
    showError(error);
    document.body.dataset['state'] = 'failed';
  }
}

async function show(image: Blob, name: string): Promise<void> {
  try {
    picture = await createImageBitmap(image, { premultiplyAlpha: 'none', colorSpaceConversion: 'none' });
  } catch {
    showError(new SinterError('InvalidInput', `${name} is not a picture that this browser can read`, 'choose a PNG, JPEG or WebP file'));
    return;
  }
  URL.revokeObjectURL(preview.src);
  preview.src = URL.createObjectURL(image);
  preview.alt = name;
  preview.hidden = false;
  drop.classList.add('filled');
  element('drop-text').textContent = 'Drop or choose another picture';
  await classify();
}

async function showSample(sample: Sample): Promise<void> {
  try {
    const answer = await fetch(sample.url);
    if (!answer.ok) throw new Error(`the picture ${sample.url} could not be read: HTTP ${answer.status}`);
    await show(await answer.blob(), sample.name);
  } catch (error) {
    showError(error);
  }
}

function showSamples(model: DemoModel): void {
  element('samples').replaceChildren(...model.samples.map((sample) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.title = sample.name;
    const image = document.createElement('img');
    image.src = sample.url;
    image.alt = sample.name;
    image.loading = 'lazy';
    button.append(image);
    button.addEventListener('click', () => void showSample(sample));
    return button;
  }));
  element('about').textContent = model.about;
}

function listen(): void {
  fileInput.addEventListener('change', () => {
    const file = fileInput.files?.[0];
    if (file) void show(file, file.name);
  });
  for (const type of ['dragover', 'dragleave', 'drop'] as const) {
    drop.addEventListener(type, (event) => {
      event.preventDefault();
      drop.classList.toggle('over', type === 'dragover');
      const file = type === 'drop' ? event.dataTransfer?.files[0] : undefined;
      if (file) void show(file, file.name);
    });
  }
  document.addEventListener('paste', (event) => {
    const file = event.clipboardData?.files[0];
    if (file) void show(file, 'pasted picture');
  });
  element('controls').addEventListener('submit', (event) => event.preventDefault());
  backendSelect.addEventListener('change', () => void classify());
  let samples = currentModel().samples;
  modelSelect.addEventListener('change', () => {
    const model = currentModel();
    showSamples(model);
    // A picture of clothes says nothing to a model of other things.
    if (model.samples === samples) {
      void classify();
    } else {
      samples = model.samples;
      void showSample(model.samples[0]!);
    }
  });
}

async function start(): Promise<void> {
  models = await availableModels();
  modelSelect.replaceChildren(...models.map((model) => new Option(model.title, model.id)));
  const query = new URLSearchParams(location.search);
  for (const [select, name] of [[modelSelect, 'model'], [backendSelect, 'backend']] as const) {
    const wanted = query.get(name);
    if (wanted && [...select.options].some((option) => option.value === wanted)) select.value = wanted;
  }
  listen();
  showSamples(currentModel());
  const wanted = Number(query.get('sample') ?? 0);
  const { samples } = currentModel();
  await showSample(samples[wanted] ?? samples[0]!);
}

void start().catch(showError);
