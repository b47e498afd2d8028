// SPDX-License-Identifier: Apache-2.0
// What a report needs so that somebody else sees the same: the call, commands for the shell, and the inputs as .npy files.
import type { BisectOptions, Spec } from './diag.js';
import type { Tensors } from './session.js';
import type { ModelSource } from './source.js';
import { copyOf, type DType, type Tensor } from './tensor.js';

const NPY: Readonly<Record<DType, string>> = {
  float32: '<f4', float64: '<f8', float16: '<f2', int8: '|i1', int16: '<i2', int32: '<i4', int64: '<i8', uint8: '|u1', uint16: '<u2',
  uint32: '<u4', uint64: '<u8', bool: '|b1', bfloat16: '<u2',
};

// The version, the length and the text of a header together: shapes have at most eight dimensions, so it always fits.
const HEADER_BYTES = 192;

export function npy({ dtype, shape, bytes }: Tensor): Uint8Array {
  const text = `{'descr': '${NPY[dtype]}', 'fortran_order': False, 'shape': (${shape.join(', ')}${shape.length === 1 ? ',' : ''}), }`;
  const header = `\x93NUMPY\x01\x00${String.fromCharCode(HEADER_BYTES - 10)}\x00${text.padEnd(HEADER_BYTES - 11)}\n`;
  const file = new Uint8Array(HEADER_BYTES + bytes.length);
  file.set(Array.from(header, (letter) => letter.charCodeAt(0)));
  file.set(bytes, HEADER_BYTES);
  return file;
}

const fileOf = (input: string): string => `${input.replace(/[^A-Za-z0-9._-]/g, '_')}.npy`;

export function inputFiles(inputs: Tensors): Record<string, Uint8Array> {
  return Object.fromEntries(Object.entries(inputs).map(([name, tensor]) => [fileOf(name), npy(tensor)]));
}

const js = (value: unknown): string => JSON.stringify(value);
const isAddress = (source: unknown): boolean => typeof source === 'string' || source instanceof URL;

export function specText(spec: Spec | string): string {
  if (typeof spec === 'string') return spec;
  return Object.entries(spec).filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${Array.isArray(value) ? value.join('+') : value === true ? 'on' : value === false ? 'off' : value}`).join(',');
}

/** The call as a module of its own, line by line. */
export function code(model: ModelSource, good: Spec | string, bad: Spec | string, inputs: Tensors, options: BisectOptions): string[] {
  const given = Object.entries(inputs).map(([name, { dtype, shape }]) => {
    const { name: type } = copyOf(dtype, new Uint8Array(0)).constructor;
    return `  ${js(name)}: new Tensor(${js(dtype)}, new ${type}(await bytesOf(${js(fileOf(name))})), ${js(shape)}),`;
  });
  const external = options.externalData instanceof Map ? [...options.externalData] : Object.entries(options.externalData ?? {});
  const files = Object.fromEntries(external.map(([name, source]) => [name, isAddress(source) ? String(source) : name]));
  const told = (['seed', 'rtol', 'atol', 'dims', 'inject', 'repro', 'powerPreference', 'timeoutMs'] as const)
    .filter((key) => options[key] !== undefined).map((key) => `${key}: ${js(options[key])}`);
  if (external.length) told.push(`externalData: ${js(files)}`);
  return [
    ...(given.length ? ["import { Tensor } from 'sinter';"] : []),
    "import { bisect } from 'sinter/diag';",
    '',
    ...(isAddress(model) ? [] : ['// The model was given as bytes: this is their address.']),
    `const model = ${js(isAddress(model) ? String(model) : 'model.onnx')};`,
    ...(given.length ? ['// The .npy files lie beside this report.', `const bytesOf = async (file) => (await (await fetch(file)).arrayBuffer()).slice(${HEADER_BYTES});`] : []),
    `const found = await bisect(model, ${js(specText(good))}, ${js(specText(bad))}, {${given.length ? '' : `}, {${told.length ? ` ${told.join(', ')} ` : ''}});`}`,
    ...(given.length ? [...given, `}, {${told.length ? ` ${told.join(', ')} ` : ''}});`] : []),
    'console.log(found.kind, found.pass ?? found.node, found.first ?? found.failure);',
  ];
}

const quoted = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function flags({ backend = 'cpu', fusion, off, dtype }: Spec, inject?: string): string {
  return [`--backend ${backend}`, fusion === false && '--fusion off', off?.length && `--off ${off.join(',')}`, dtype === 'f16' && '--dtype f16',
    inject && `--inject ${quoted(inject)}`].filter(Boolean).join(' ');
}

/** The same for the command line tool, in the folder that holds the report. */
export function commands(model: string, good: Spec, bad: Spec, inputs: Tensors, options: BisectOptions): string[] {
  const { rtol, atol, seed, dims = {}, inject } = options;
  const limits = [rtol !== undefined && ` --rtol ${rtol}`, atol !== undefined && ` --atol ${atol}`].filter(Boolean).join('');
  const more = [
    inject && ` --inject ${quoted(inject)}`, ...Object.keys(inputs).map((name) => ` --input ${quoted(`${name}=${fileOf(name)}`)}`),
    ...Object.entries(dims).map(([name, size]) => ` --dim ${quoted(`${name}=${size}`)}`), seed && ` --seed ${seed}`,
  ].filter(Boolean).join('');
  return [
    `sinter test . ${flags(bad, inject)}${limits}  # fails`, `sinter test . ${flags(good)}${limits}  # passes`,
    `sinter bisect ${quoted(model)} --good ${quoted(specText(good))} --bad ${quoted(specText(bad))}${more}${limits}`,
  ];
}
