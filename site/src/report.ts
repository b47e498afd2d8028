// SPDX-License-Identifier: Apache-2.0
import type { DoctorReport } from 'sinter';

/** A report to paste into an issue. */
export function reportText(report: DoctorReport): string {
  const { versions, features, isolation, adapter, self_test: tests, model, runs, stages } = report;
  const lines = [`**${report.verdict}**`, ...(report.hint ? [`What to do: ${report.hint}`] : []), ''];
  const add = (name: string, value: unknown) => lines.push(`- ${name}: ${Array.isArray(value) ? value.join(', ') : String(value)}`);
  for (const [name, value] of Object.entries({ ...versions, ...features, ...isolation })) add(name, value);
  if (adapter.available) {
    add('adapter', [adapter.vendor, adapter.architecture, adapter.name, adapter.driver, adapter.software ? '(software)' : ''].filter(Boolean).join(' '));
    if (adapter.self_test) add('numeric test', adapter.self_test.right ? 'right' : adapter.self_test.wrong);
    add('adapter features', adapter.features ?? []);
  } else {
    add('adapter', `none: ${adapter.reason}`);
  }
  for (const [backend, numbers] of Object.entries(tests)) {
    add(`operator cases on ${backend}`, `${numbers.passed} right, ${numbers.failed} wrong, ${numbers.skipped} left to the CPU; largest error ${numbers.worst_abs}`);
    for (const { op, case: name, reason } of numbers.failures.slice(0, 20)) lines.push(`  - ${op} '${name}': ${reason}`);
    if (numbers.stopped) lines.push(`  - stopped ${numbers.stopped}`);
  }
  if (model) add('model', `${model.name}, ${model.nodes} nodes, ${model.bytes} bytes, ${model.producer}`);
  for (const run of runs) {
    add(`on ${run.backend}`, run.error ? `${run.error.code}: ${run.error.message} (${run.error.chain.join('; ')})`
      : `${run.agrees ? 'right' : run.difference}, first run ${run.first_ms.toFixed(1)} ms`);
  }
  for (const stage of stages.filter(({ error }) => error)) lines.push(`- stage '${stage.stage}' on ${stage.backend} failed: ${stage.error}`);
  return lines.join('\n');
}
