// SPDX-License-Identifier: Apache-2.0
// TensorFlow.js, on what bench/peers/onnx_to_tfjs.py wrote.
const script = (src) => new Promise((resolve, reject) => {
  const element = document.createElement('script');
  Object.assign(element, { src, onload: resolve, onerror: () => reject(new Error(src)) });
  document.head.append(element);
});

export async function open({ model, backend }, fetched) {
  const name = backend === 'webgpu' ? 'webgpu' : 'wasm';
  await script('/peers/@tensorflow/tfjs/dist/tf.min.js');
  await script(`/peers/@tensorflow/tfjs-backend-${name}/dist/tf-backend-${name}.min.js`);
  const { tf } = globalThis;
  if (name === 'wasm') tf.wasm.setWasmPaths('/peers/@tensorflow/tfjs-backend-wasm/dist/');
  await tf.setBackend(name);
  await tf.ready();
  const [text, blob] = await Promise.all(['json', 'bin'].map((ending) => fetched(`/tfjs/${model}.${ending}`)));
  const { input, output, calls } = JSON.parse(new TextDecoder().decode(text));
  const count = (shape) => shape.reduce((a, b) => a * b, 1);
  const tensor = ({ at, shape }) => tf.tensor(new Float32Array(blob, at, count(shape)), shape);
  for (const call of calls) {
    if (call.filter) Object.assign(call, { filter: tensor(call.filter), bias: tensor(call.bias) });
  }
  const steps = {
    conv2d: (c, x) => tf.fused.conv2d({ x, filter: c.filter, bias: c.bias, strides: c.strides, pad: c.pad, activation: c.activation }),
    depthwiseConv2d: (c, x) =>
      tf.fused.depthwiseConv2d({ x, filter: c.filter, bias: c.bias, strides: c.strides, pad: c.pad, activation: c.activation }),
    matMul: (c, x) => tf.fused.matMul({ a: x, b: c.filter, bias: c.bias }),
    maxPool: (c, x) => tf.maxPool(x, c.size, c.strides, c.pad, c.rounding),
    Relu: (c, x) => tf.relu(x),
    Softmax: (c, x) => tf.softmax(x),
    Dropout: (c, x) => x,
    GlobalAveragePool: (c, x) => tf.mean(x, [1, 2], true),
    Flatten: (c, x) => tf.reshape(x, [1, -1]),
    Reshape: (c, x) => tf.reshape(x, [1, -1]),
  };
  return {
    async run(values) {
      const result = tf.tidy(() => {
        const made = { [input]: tf.transpose(tf.tensor(values, [1, 3, 224, 224]), [0, 2, 3, 1]) };
        for (const call of calls) {
          if (call.call === 'Add') made[call.y] = tf.add(made[call.x], made[call.b]);
          else if (call.call === 'Concat') made[call.y] = tf.concat(call.xs.map((x) => made[x]), 3);
          else made[call.y] = steps[call.call](call, made[call.x]);
        }
        return made[output];
      });
      const data = await result.data();
      result.dispose();
      return data;
    },
  };
}
