// SPDX-License-Identifier: Apache-2.0
import { doctor, SinterError, type DoctorReport, type TraceEvent } from 'sinter';
import { reportText } from './report';

const element = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T;

const operatorsBox = element<HTMLInputElement>('operators');
const fileInput = element<HTMLInputElement>('file');
const drop = element<HTMLLabelElement>('drop');
const progress = element<HTMLProgressElement>('progress');
const stopButton = element<HTMLButtonElement>('stop');
const copyButton = element<HTMLButtonElement>('copy');
const downloadButton = element<HTMLButtonElement>('download');

let model: File | undefined;
let report: DoctorReport | undefined;
let examination: AbortController | undefined;

const ms = (value: number): string => (value < 10 ? `${value.toFixed(1)} ms` : `${Math.round(value).toLocaleString('en')} ms`);
const small = (value: number): string => (value === 0 ? '0' : value.toPrecision(2));
const backendName = (backend: string): string => ({ webgpu: 'WebGPU', cpu: 'CPU', reference: 'reference' })[backend] ?? '';

type Cell = string | { text: string; kind: 'good' | 'bad' | 'quiet' };

function table(head: string[], rows: Cell[][]): HTMLElement {
  const made = document.createElement('table');
  const line = (cells: Cell[], tag: 'th' | 'td') => {
    const row = document.createElement('tr');
    row.append(...cells.map((cell) => {
      const field = document.createElement(tag);
      field.textContent = typeof cell === 'string' ? cell : cell.text;
      if (typeof cell !== 'string') field.className = cell.kind;
      return field;
    }));
    return row;
  };
  made.createTHead().append(line(head, 'th'));
  made.createTBody().append(...rows.map((row) => line(row, 'td')));
  return made;
}

function facts(id: string, entries: [string, string][]): void {
  element(id).replaceChildren(...entries.filter(([, value]) => value).map(([name, value]) => {
    const pair = document.createElement('div');
    const term = document.createElement('dt');
    term.textContent = name;
    const description = document.createElement('dd');
    description.textContent = value;
    pair.append(term, description);
    return pair;
  }));
}

function note(text: string): HTMLElement {
  const paragraph = document.createElement('p');
  paragraph.className = 'note';
  paragraph.textContent = text;
  return paragraph;
}

function showCases({ self_test: tests }: DoctorReport): void {
  const backends = Object.entries(tests);
  if (!backends.length) {
    element('cases').replaceChildren(note('Not run.'));
    return;
  }
  const failures = backends.flatMap(([backend, { failures: list }]) =>
    list.map((failure): Cell[] => [backendName(backend), failure.op, failure.case, { text: failure.reason, kind: 'bad' }]));
  const stopped = backends.filter(([, { stopped: at }]) => at).map(([backend, { stopped: at }]) => note(`${backendName(backend)} stopped ${at}`));
  element('cases').replaceChildren(
    table(['backend', 'cases', 'right', 'wrong', 'left to the CPU', 'largest error', 'of what is allowed', 'time'], backends.map(([backend, numbers]) => [
      backendName(backend), String(numbers.cases), String(numbers.passed),
      { text: String(numbers.failed), kind: numbers.failed ? 'bad' : 'good' }, String(numbers.skipped),
      small(numbers.worst_abs), `${Math.round(numbers.worst_of_tolerance * 100)} %`, ms(numbers.ms),
    ])),
    ...stopped, ...(failures.length ? [table(['backend', 'operator', 'case', 'what is wrong'], failures)] : []));
}

function showModel({ model: about, runs, stages }: DoctorReport): void {
  if (!about && !runs.length) {
    element('model').replaceChildren();
    return;
  }
  const parts: HTMLElement[] = [];
  if (about) {
    const opsets = Object.entries(about.opsets).map(([domain, version]) => `${domain} ${version}`).join(', ');
    parts.push(note(`${about.name}: ${about.nodes} nodes, ${(about.bytes / 1e6).toFixed(1)} MB, opset ${opsets}, IR ${about.ir}, made by ${about.producer || 'an unnamed tool'}.`));
  }
  parts.push(table(['backend', 'load', 'prepare', 'first run', 'warm run', 'largest error', 'outcome'], runs.map((run): Cell[] => [
    backendName(run.backend), ms(run.load_ms), ms(run.prepare_ms), ms(run.first_ms), run.warm_ms ? ms(run.warm_ms) : '', run.ran ? small(run.max_abs) : '',
    run.error ? { text: `${run.error.code}: ${run.error.message}`, kind: 'bad' }
      : run.agrees ? { text: run.backend === 'reference' ? 'runs' : 'agrees with the reference', kind: 'good' } : { text: run.difference, kind: 'bad' },
  ])));
  const shown = stages.filter((stage) => stage.depth < 3 || stage.error);
  const details = document.createElement('details');
  const summary = document.createElement('summary');
  summary.textContent = `${stages.length} stages, one by one`;
  details.open = stages.some((stage) => stage.error);
  details.append(summary, table(['backend', 'stage', 'time', 'about'], shown.map((stage): Cell[] => [
    backendName(stage.backend), `${'\u2003'.repeat(stage.depth)}${stage.stage}`, stage.ended ? ms(stage.ms) : 'did not end',
    stage.error ? { text: stage.error, kind: 'bad' } : { text: [stage.node, stage.detail].filter(Boolean).join(' '), kind: 'quiet' },
  ])));
  element('model').replaceChildren(...parts, details);
}

function showSurroundings({ adapter, versions, features, isolation }: DoctorReport): void {
  const limits = adapter.limits ?? {};
  const mib = (bytes: number | undefined): string => (bytes === undefined ? '' : `${Math.round(bytes / 2 ** 20).toLocaleString('en')} MiB`);
  facts('adapter', adapter.available ? [
    ['adapter', [adapter.vendor, adapter.architecture, adapter.name].filter(Boolean).join(' ')], ['driver', adapter.driver ?? ''],
    ['kind', adapter.software ? 'computes in software' : 'hardware'],
    ['numeric test', adapter.self_test ? (adapter.self_test.right ? `right, ${ms(adapter.self_test.warm_ms)} warm` : adapter.self_test.wrong) : ''],
    ['features', (adapter.features ?? []).join(', ')], ['storage buffers', String(limits['maxStorageBuffersPerShaderStage'] ?? '')],
    ['largest binding', mib(limits['maxStorageBufferBindingSize'])], ['largest buffer', mib(limits['maxBufferSize'])],
    ['threads a group', String(limits['maxComputeInvocationsPerWorkgroup'] ?? '')],
  ] : [['adapter', 'none'], ['why', adapter.reason ?? ''], ['what to do', adapter.hint ?? '']]);
  const said = (value: unknown): string => (value === true ? 'yes' : value === false ? 'no' : Array.isArray(value) ? value.join(', ') : String(value));
  facts('browser', [...Object.entries(versions), ...Object.entries(features).map(([name, value]): [string, string] => [name, said(value)]),
    ['secure context', said(isolation.secureContext)], ['isolated', said(isolation.crossOriginIsolated)]]);
}

function show(found: DoctorReport): void {
  report = found;
  element('verdict').textContent = `${found.verdict.charAt(0).toUpperCase()}${found.verdict.slice(1)}.`;
  element('verdict').classList.toggle('bad', !found.healthy);
  element('verdict').classList.toggle('good', found.healthy);
  element('hint').textContent = found.hint ? `What to do: ${found.hint}.` : '';
  showCases(found);
  showModel(found);
  showSurroundings(found);
}

function onEvent({ stage, phase, detail, node }: TraceEvent): void {
  if (phase === 'begin') element('verdict').textContent = `${stage}${node || detail ? `: ${node || detail}` : ''} …`;
}

async function examine(): Promise<void> {
  examination?.abort();
  const mine = new AbortController();
  examination = mine;
  document.body.dataset['state'] = 'busy';
  element('verdict').className = 'verdict';
  element('hint').textContent = '';
  progress.hidden = false;
  stopButton.disabled = false;
  copyButton.disabled = downloadButton.disabled = true;
  try {
    show(await doctor({ ...(model && { model }), operators: operatorsBox.checked, signal: mine.signal, onEvent }));
    copyButton.disabled = downloadButton.disabled = false;
    document.body.dataset['state'] = 'done';
  } catch (error) {
    if (examination !== mine) return;
    const known = error instanceof SinterError ? error : undefined;
    element('verdict').textContent = known?.code === 'Cancelled' ? 'Stopped.' : `${known?.code ?? 'Error'}: ${error instanceof Error ? error.message : String(error)}`;
    element('hint').textContent = known?.hint ?? '';
    document.body.dataset['state'] = 'failed';
  } finally {
    if (examination === mine) {
      progress.hidden = true;
      stopButton.disabled = true;
    }
  }
}

function take(file: File): void {
  model = file;
  element('drop-text').textContent = `${file.name}; drop or choose another one`;
  void examine();
}

async function copy(): Promise<void> {
  if (!report) return;
  const label = copyButton.textContent;
  try {
    await navigator.clipboard.writeText(reportText(report));
    copyButton.textContent = 'Copied';
  } catch {
    copyButton.textContent = 'Copying was refused';
  }
  setTimeout(() => { copyButton.textContent = label; }, 2000);
}

function download(): void {
  if (!report) return;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([JSON.stringify(report, undefined, 2)], { type: 'application/json' }));
  link.download = 'sinter-doctor.json';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

element('again').addEventListener('click', () => void examine());
stopButton.addEventListener('click', () => examination?.abort());
copyButton.addEventListener('click', () => void copy());
downloadButton.addEventListener('click', download);
fileInput.addEventListener('change', () => {
  const file = fileInput.files?.[0];
  if (file) take(file);
});
for (const type of ['dragover', 'dragleave', 'drop'] as const) {
  drop.addEventListener(type, (event) => {
    event.preventDefault();
    drop.classList.toggle('over', type === 'dragover');
    const file = type === 'drop' ? event.dataTransfer?.files[0] : undefined;
    if (file) take(file);
  });
}

if (new URLSearchParams(location.search).get('operators') === 'off') operatorsBox.checked = false;
void examine();
