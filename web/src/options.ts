// SPDX-License-Identifier: Apache-2.0
// What callers give, checked before anything is done with it: a wrong option is an InvalidInput that says what would be right.
import { SinterError } from './errors.js';

/** What is wanted, in words, and whether a value is that. */
export type Rule = readonly [wanted: string, fits: (value: unknown) => boolean];

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;
const isString = (value: unknown): boolean => typeof value === 'string' && value !== '';

export const list = (names: readonly string[]): string => `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;

export const oneOf = (...names: string[]): Rule => [list(names), (value) => names.includes(value as string)];
export const integer = (most: number, wanted: string): Rule =>
  [wanted, (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most];
export const callback: Rule = ['a function', (value) => typeof value === 'function'];
export const flag: Rule = ['true or false', (value) => typeof value === 'boolean'];
export const text: Rule = ['a text', isString];
export const names: Rule = ['an array of names', (value) => Array.isArray(value) && value.every(isString)];
export const record: Rule = ['an object', (value) => isObject(value) && !Array.isArray(value)];
export const address: Rule = ['an address as text or URL', (value) => isString(value) || value instanceof URL];
// By what they can do: polyfills and other frames have constructors of their own.
export const abortSignal: Rule = ['an AbortSignal, such as new AbortController().signal', (value) =>
  value === null || (isObject(value) && typeof (value as AbortSignal).aborted === 'boolean' &&
    typeof (value as AbortSignal).addEventListener === 'function')];
export const gpuDevice: Rule = ['a GPUDevice, from adapter.requestDevice()', (value) =>
  isObject(value) && typeof (value as GPUDevice).createComputePipelineAsync === 'function' && isObject((value as GPUDevice).queue)];

/** A value in a message. */
export function show(value: unknown): string {
  if (typeof value === 'string') return `'${value}'`;
  if (Array.isArray(value)) return `[${value.slice(0, 8).map(show).join(', ')}${value.length > 8 ? ', ...' : ''}]`;
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return 'a function';
  if (isObject(value)) {
    const tag = Object.prototype.toString.call(value).slice(8, -1);
    return tag === 'Object' ? value.constructor?.name ?? 'an object' : tag;
  }
  return String(value);
}

export function wrong(what: string, value: unknown, wanted: string): SinterError {
  return new SinterError('InvalidInput', `${what} cannot be ${show(value)}`, `give ${wanted}`);
}

export function demand(what: string, value: unknown, [wanted, fits]: Rule): void {
  if (!fits(value)) throw wrong(what, value, wanted);
}

/** Checks the options of a call by name and value; undefined counts as not given. */
export function check(call: string, given: unknown, rules: Readonly<Record<string, Rule>>): void {
  demand(`the options of ${call}`, given, record);
  for (const [key, value] of Object.entries(given as object)) {
    const rule = Object.hasOwn(rules, key) ? rules[key] : undefined;
    if (!rule) {
      throw new SinterError('InvalidInput', `${call} has no option '${key}'`, `there are ${Object.keys(rules).join(', ')}`);
    }
    if (value !== undefined) demand(`option ${key}`, value, rule);
  }
}
