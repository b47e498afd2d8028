// SPDX-License-Identifier: Apache-2.0
// Writes ONNX files of a few nodes, for tests.
const varint = (value) => {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return [...bytes, value];
};

/** A protobuf message from [field, value] pairs: integers, texts and nested messages. */
function message(...fields) {
  return fields.flatMap(([field, value]) => {
    if (typeof value === 'number') return [...varint(field * 8), ...varint(value)];
    const bytes = typeof value === 'string' ? [...Buffer.from(value)] : value;
    return [...varint(field * 8 + 2), ...varint(bytes.length), ...bytes];
  });
}

const FLOAT = 1;
const info = (name, dims) => message([1, name], [2, message([1, message([1, FLOAT],
  [2, message(...dims.map((dim) => [1, message(typeof dim === 'string' ? [2, dim] : [1, dim])]))])])]);

/** A float32 initialiser of `count` values kept in file `location` from byte `offset` on. */
export const external = (name, count, location, offset = 0) => message([1, count], [2, FLOAT], [8, name],
  [13, message([1, 'location'], [2, location])], [13, message([1, 'offset'], [2, String(offset)])],
  [13, message([1, 'length'], [2, String(count * 4)])], [14, 1]);

/** Nodes are { name, op, inputs, outputs }, values [name, dims]; all of float32, opset 13. */
export function model({ nodes, inputs, outputs, initializers = [] }) {
  const graph = message(
    ...nodes.map(({ name, op, inputs: from, outputs: to }) =>
      [1, message(...from.map((value) => [1, value]), ...to.map((value) => [2, value]), [3, name], [4, op])]),
    [2, 'graph'], ...initializers.map((tensor) => [5, tensor]), ...inputs.map((value) => [11, info(...value)]),
    ...outputs.map((value) => [12, info(...value)]));
  return Uint8Array.from(message([1, 8], [7, graph], [8, message([2, 13])]));
}

/** y = x + w, with w[2] in `location`. */
export const addExternal = (location, offset) => model({
  nodes: [{ name: 'add', op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }], inputs: [['x', [2]]], outputs: [['y', [2]]],
  initializers: [external('w', 2, location, offset)],
});
