// SPDX-License-Identifier: Apache-2.0
// Runs ONNX backend test directories on a page.
import { createEngine, Tensor } from '/sinter/sinter.js';

const DTYPES = {
  1: ['float32', Float32Array, 4], 2: ['uint8', Uint8Array, 1], 3: ['int8', Int8Array, 1], 4: ['uint16', Uint16Array, 2],
  5: ['int16', Int16Array, 2], 6: ['int32', Int32Array, 4], 7: ['int64', BigInt64Array, 8], 9: ['bool', Uint8Array, 1],
  10: ['float16', Uint16Array, 2], 11: ['float64', Float64Array, 8], 12: ['uint32', Uint32Array, 4],
  13: ['uint64', BigUint64Array, 8], 16: ['bfloat16', Uint16Array, 2],
};

function varint(bytes, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [value, at];
  }
}

/** A serialised TensorProto: { name, dtype, shape, data }, or undefined for a type without an array. */
function parseTensor(bytes) {
  const shape = [];
  const fields = {};  // typed data by field number, as bigint
  let type = 0, name = '', raw;
  for (let at = 0; at < bytes.length;) {
    let key, value;
    [key, at] = varint(bytes, at);
    const field = Number(key >> 3n);
    switch (Number(key & 7n)) {
      case 0:
        [value, at] = varint(bytes, at);
        if (field === 1) shape.push(Number(value));
        if (field === 2) type = Number(value);
        if (field === 5 || field === 7 || field === 11) (fields[field] ??= []).push(value);
        break;
      case 1: at += 8; break;
      case 5: at += 4; break;
      default: {
        [value, at] = varint(bytes, at);
        const part = bytes.slice(at, at + Number(value));
        at += Number(value);
        if (field === 8) name = new TextDecoder().decode(part);
        if (field === 9) raw = part;
        if (field === 4 || field === 10) raw = part;  // packed floats and doubles are the bytes themselves
        if (field === 1 || field === 5 || field === 7 || field === 11) {
          for (let i = 0; i < part.length;) {
            let item;
            [item, i] = varint(part, i);
            if (field === 1) shape.push(Number(item));
            else (fields[field] ??= []).push(item);
          }
        }
      }
    }
  }
  const known = DTYPES[type];
  if (!known) return undefined;
  const [dtype, ArrayType, size] = known;
  const count = shape.reduce((a, b) => a * b, 1);
  const packed = Object.values(fields)[0];
  const data = raw ? new ArrayType(raw.buffer, 0, raw.byteLength / size) : new ArrayType(count);
  if (packed) packed.forEach((item, i) => { data[i] = size === 8 ? BigInt.asIntN(64, item) : Number(BigInt.asIntN(32, item)); });
  return { name, dtype, shape, data };
}

function halfToFloat(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  if (exponent === 31) return mantissa ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + mantissa / 1024) : mantissa * 2 ** -24);
}

function numbers(dtype, data) {
  if (dtype === 'float16' && data instanceof Uint16Array) return Array.from(data, halfToFloat);
  if (dtype === 'bfloat16') return Array.from(data, (bits) => new Float32Array(new Uint32Array([bits << 16]).buffer)[0]);
  return Array.from(data, Number);
}

const TOLERANCE = { float32: [1e-3, 1e-5], float64: [1e-3, 1e-5], float16: [1e-2, 1e-3], bfloat16: [2e-2, 1e-2] };

function disagreement(want, dtype, shape, data) {
  if (dtype !== want.dtype || shape.join() !== want.shape.join()) {
    return `${dtype}[${shape}] instead of ${want.dtype}[${want.shape}]`;
  }
  const [rtol, atol] = TOLERANCE[dtype] ?? [0, 0];
  const a = numbers(dtype, data), b = numbers(want.dtype, want.data);
  for (let i = 0; i < b.length; ++i) {
    const same = Object.is(a[i], b[i]) || a[i] === b[i] || (Number.isNaN(a[i]) && Number.isNaN(b[i]));
    if (!same && !(Math.abs(a[i] - b[i]) <= atol + rtol * Math.abs(b[i]))) return `value ${i} is ${a[i]} instead of ${b[i]}`;
  }
  return '';
}

const fetched = async (url) => new Uint8Array(await (await fetch(url)).arrayBuffer());

async function runOne(engine, { folder, inputs, outputs }) {
  const session = await engine.load(`${folder}/model.onnx`, {});
  try {
    const given = {};
    for (let i = 0; i < inputs; ++i) {
      const tensor = parseTensor(await fetched(`${folder}/test_data_set_0/input_${i}.pb`));
      given[session.inputs[i].name] = new Tensor(tensor.dtype, tensor.data, tensor.shape);
    }
    const got = await session.run(given);
    for (let i = 0; i < outputs; ++i) {
      const want = parseTensor(await fetched(`${folder}/test_data_set_0/output_${i}.pb`));
      const mine = got[session.outputs[i].name];
      const problem = disagreement(want, mine.dtype, mine.shape, await mine.data());
      if (problem) return problem;
    }
    return '';
  } finally {
    session.close();
  }
}

/** One line per test that fails; tests whose model the engine refuses as unsupported are counted apart. */
export async function run({ backend, tests }) {
  const engine = await createEngine({ backend, timeoutMs: 300000 });
  const result = { passed: 0, unsupported: [], failures: [] };
  for (const test of tests) {
    try {
      const problem = await runOne(engine, test);
      if (problem) result.failures.push(`${test.name}: ${problem}`);
      else ++result.passed;
    } catch (error) {
      if (error.code === 'Unsupported') result.unsupported.push(test.name);
      else result.failures.push(`${test.name}: ${error.code ?? error.name}: ${error.message}`);
    }
  }
  engine.close();
  return result;
}
