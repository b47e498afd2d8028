// SPDX-License-Identifier: Apache-2.0
import { SinterError } from './errors.js';
import { show } from './options.js';

type Constructor<T> = { new (length: number): T; new (buffer: ArrayBufferLike, offset?: number, length?: number): T };

// Float16Array is newer than the other typed arrays; without it the bits are handed out as Uint16Array.
const Float16Array = (globalThis as { Float16Array?: Constructor<Uint16Array> }).Float16Array;
const Float16 = Float16Array ?? Uint16Array;

// Plain arrays, by dtype: [what an element is, its value; nothing where it is something else].
type Convert = readonly [wanted: string, (element: unknown) => number | bigint | undefined];
const numbers = (convert: (number: number) => number): Convert => ['numbers', (element) => (typeof element === 'number' ? convert(element) : undefined)];
const range = (least: number, most: number): Convert => [`integers from ${least} to ${most}`, (element) =>
  (typeof element === 'number' && Number.isInteger(element) && element >= least && element <= most ? element : undefined)];
const wide = (least: bigint, most: bigint): Convert => [`bigint values (1n) from ${least} to ${most}`, (element) =>
  (typeof element === 'bigint' && element >= least && element <= most ? element : undefined)];

const CONVERT = {
  float32: numbers(Number),
  uint8: range(0, 255),
  int8: range(-128, 127),
  uint16: range(0, 65535),
  int16: range(-32768, 32767),
  int32: range(-(2 ** 31), 2 ** 31 - 1),
  int64: wide(-(2n ** 63n), 2n ** 63n - 1n),
  bool: ['true and false, or 1 and 0', (element) => (element === true || element === 1 ? 1 : element === false || element === 0 ? 0 : undefined)],
  float16: numbers(Float16Array ? Number : float16Bits),
  float64: numbers(Number),
  uint32: range(0, 2 ** 32 - 1),
  uint64: wide(0n, 2n ** 64n - 1n),
  bfloat16: numbers(bfloat16Bits),
} as const satisfies Record<string, Convert>;

/** To the nearest half, ties to even, straight from the double. */
export function float16Bits(number: number): number {
  const sign = number < 0 || Object.is(number, -0) ? 0x8000 : 0;
  const size = Math.abs(number);
  if (Number.isNaN(size)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  // Steps of 2^-24 below the smallest normal number, of 2^-10 of the power of two above.
  const exponent = Math.max(-14, size === 0 ? -14 : Math.floor(Math.log2(size)));
  const steps = toEven(size / 2 ** (exponent - 10));
  return sign | (steps + (exponent + 14) * 1024);
}

function bfloat16Bits(number: number): number {
  const bits = new Uint32Array(Float32Array.of(number).buffer)[0]!;
  if (Number.isNaN(number)) return 0x7fc0;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

function toEven(number: number): number {
  const rounded = Math.round(number);
  return rounded - number === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}

// dtype: [ONNX number, array type]
const DTYPES = {
  float32: [1, Float32Array],
  uint8: [2, Uint8Array],
  int8: [3, Int8Array],
  uint16: [4, Uint16Array],
  int16: [5, Int16Array],
  int32: [6, Int32Array],
  int64: [7, BigInt64Array],
  bool: [9, Uint8Array],
  float16: [10, Float16],
  float64: [11, Float64Array],
  uint32: [12, Uint32Array],
  uint64: [13, BigUint64Array],
  bfloat16: [16, Uint16Array],
} as const;

export type DType = keyof typeof DTYPES;

export type TensorData =
  | Float32Array | Float64Array | Uint8Array | Int8Array | Uint16Array | Int16Array | Int32Array | Uint32Array
  | BigInt64Array | BigUint64Array;

export type TensorSource = TensorData | Uint8ClampedArray | readonly number[] | readonly bigint[] | readonly boolean[];

export function dtypeNumber(dtype: DType): number {
  return DTYPES[dtype][0];
}

export function dtypeFromNumber(code: number): DType {
  for (const name of Object.keys(DTYPES) as DType[]) if (DTYPES[name][0] === code) return name;
  throw new SinterError('Internal', `the engine answered with element type ${code}`);
}

/** An array of `dtype` over a copy of the bytes. */
export function copyOf(dtype: DType, bytes: Uint8Array): TensorData {
  return new (DTYPES[dtype][1] as unknown as Constructor<TensorData>)(bytes.slice().buffer);
}

function checkedShape(shape: unknown): number[] {
  const dims = Array.isArray(shape) || ArrayBuffer.isView(shape) ? Array.from(shape as ArrayLike<unknown>) : undefined;
  if (!dims?.every((dim): dim is number => Number.isSafeInteger(dim) && (dim as number) >= 0)) {
    throw new SinterError('InvalidInput', `a tensor cannot have shape ${show(shape)}`, 'give an array of integers of at least 0; [] for a single value');
  }
  return dims;
}

function valuesOf(dtype: DType, data: unknown): TensorData {
  const ArrayType = DTYPES[dtype][1] as unknown as Constructor<TensorData> & { name: string };
  // By tag: arrays of other frames and of test runners are no instances of this one's constructors.
  const tag = ArrayBuffer.isView(data) ? (data as unknown as Record<symbol, string>)[Symbol.toStringTag] : undefined;
  if (tag === ArrayType.name || (tag === 'Uint16Array' && dtype === 'float16')) return data as TensorData;
  if (tag === 'Uint8ClampedArray' && (dtype === 'uint8' || dtype === 'bool')) {
    const { buffer, byteOffset, length } = data as Uint8ClampedArray;
    return new Uint8Array(buffer, byteOffset, length);
  }
  if (!Array.isArray(data)) {
    throw new SinterError('InvalidInput', `a tensor of ${dtype} cannot be made from ${show(data)}`, `give ${ArrayType.name} or a plain array`);
  }
  const [wanted, convert] = CONVERT[dtype] as Convert;
  const values = new ArrayType(data.length);
  for (let i = 0; i < data.length; ++i) {
    const value = convert(data[i]);
    if (value === undefined) {
      throw new SinterError('InvalidInput', `value ${i} of a tensor of ${dtype} cannot be ${show(data[i])}`,
        Array.isArray(data[i]) ? `give one flat array, such as values.flat(Infinity), and the shape` : `give ${wanted}`);
    }
    (values as { [index: number]: number | bigint })[i] = value;
  }
  return values;
}

/** Dense, row-major data with a shape. Values are read asynchronously, whatever backend made them. */
export class Tensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly size: number;
  /** @internal */ readonly values: TensorData;

  /**
   * A typed array of the dtype's own kind is shared, not copied. float16 takes a Float16Array or the bits as Uint16Array,
   * bfloat16 the bits, int64 a BigInt64Array, bool bytes of 0 and 1. Plain arrays are converted: numbers to the nearest
   * value of a float type; integers must fit as they are, 64-bit ones as bigint.
   */
  constructor(dtype: DType, data: TensorSource, shape: readonly number[]) {
    if (typeof dtype !== 'string' || !Object.hasOwn(DTYPES, dtype)) {
      throw new SinterError('InvalidInput', `a tensor cannot have dtype ${show(dtype)}`, `one of ${Object.keys(DTYPES).join(', ')}`);
    }
    this.dtype = dtype;
    this.shape = checkedShape(shape);
    this.size = this.shape.reduce((product, dim) => product * dim, 1);
    this.values = valuesOf(dtype, data);
    if (this.values.length !== this.size) {
      throw new SinterError('InvalidInput',
        `${this.values.length} values do not fill a tensor of shape [${this.shape.join(', ')}], which has ${this.size}`);
    }
  }

  /** The values as a typed array (int64: BigInt64Array; float16: Float16Array where there is one, else bits as Uint16Array). */
  data(): Promise<TensorData> {
    return Promise.resolve(this.values);
  }

  /** @internal */ get [Symbol.toStringTag](): string {
    return 'Tensor';
  }

  /** @internal */ get bytes(): Uint8Array {
    return new Uint8Array(this.values.buffer, this.values.byteOffset, this.values.byteLength);
  }
}
