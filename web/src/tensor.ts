// SPDX-License-Identifier: Apache-2.0
import { SinterError } from './errors.js';

type Constructor<T> = { new (length: number): T; new (buffer: ArrayBufferLike, offset?: number, length?: number): T };

// Float16Array is newer than the other typed arrays; without it the bits are handed out as Uint16Array.
const Float16 = (globalThis as { Float16Array?: Constructor<Uint16Array> }).Float16Array ?? Uint16Array;

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

/** The elements as numbers, for any dtype but the 64-bit integers; those want bigint. */
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

function isFloat16Bits(dtype: DType, data: object): boolean {
  return dtype === 'float16' && data instanceof Uint16Array;
}

/** Dense, row-major data with a shape. Values are read asynchronously, whatever backend made them. */
export class Tensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly size: number;
  /** @internal */ readonly values: TensorData;

  /**
   * A typed array of the dtype's own kind is shared, not copied. Plain arrays are converted. float16 takes a
   * Float16Array or the bits as Uint16Array; int64 a BigInt64Array; bool bytes of 0 and 1 or booleans.
   */
  constructor(dtype: DType, data: TensorSource, shape: readonly number[]) {
    const entry = DTYPES[dtype];
    if (!entry) {
      throw new SinterError('InvalidInput', `a tensor cannot have dtype '${dtype}'`, `one of ${Object.keys(DTYPES).join(', ')}`);
    }
    this.dtype = dtype;
    this.shape = Array.from(shape, Number);
    this.size = 1;
    for (const dim of this.shape) {
      if (!Number.isSafeInteger(dim) || dim < 0) {
        throw new SinterError('InvalidInput', `a tensor cannot have shape [${shape.join(', ')}]`, 'dimensions are integers of at least 0');
      }
      this.size *= dim;
    }
    const ArrayType = entry[1] as unknown as { from(items: ArrayLike<unknown>): TensorData; name: string } & Function;
    if (data instanceof ArrayType || isFloat16Bits(dtype, data)) {
      this.values = data as TensorData;
    } else if (data instanceof Uint8ClampedArray && (dtype === 'uint8' || dtype === 'bool')) {
      this.values = new Uint8Array(data.buffer, data.byteOffset, data.length);
    } else if (Array.isArray(data)) {
      try {
        this.values = ArrayType.from(data);
      } catch (error) {
        throw new SinterError('InvalidInput', `the values do not make a tensor of ${dtype}`,
          dtype.endsWith('int64') ? 'give bigint values (1n) for 64-bit integers' : 'give numbers', [], error);
      }
    } else {
      const given = data === null || data === undefined ? String(data) : data.constructor.name;
      throw new SinterError('InvalidInput', `a tensor of ${dtype} cannot be made from ${given}`, `give ${ArrayType.name} or a plain array`);
    }
    if (this.values.length !== this.size) {
      throw new SinterError('InvalidInput',
        `${this.values.length} values do not fill a tensor of shape [${this.shape.join(', ')}], which has ${this.size}`);
    }
  }

  /** The values as a typed array (int64: BigInt64Array; float16: Float16Array where there is one, else bits as Uint16Array). */
  data(): Promise<TensorData> {
    return Promise.resolve(this.values);
  }

  /** @internal */ get bytes(): Uint8Array {
    return new Uint8Array(this.values.buffer, this.values.byteOffset, this.values.byteLength);
  }
}
