// SPDX-License-Identifier: Apache-2.0
// Images as model inputs. The resize works on the raw pixels, not through a canvas, so that every browser, Node and the
// command line tool give the same numbers.
import { SinterError, textOf } from './errors.js';
import { Tensor } from './tensor.js';

/** 8-bit RGBA pixels, row by row; ImageData is one. */
export interface Pixels {
  data: Uint8Array | Uint8ClampedArray;
  width: number;
  height: number;
}

export type ImageSource = Pixels | ImageBitmap | VideoFrame | HTMLImageElement | HTMLVideoElement | HTMLCanvasElement | OffscreenCanvas | Blob;

/**
 * torch: (v/255 - mean) / std, RGB, float32 [1,3,H,W]. unit: v/255, likewise. caffe_bgr: v - mean in B, G, R order,
 * likewise. uint8_nhwc: the bytes, RGB, uint8 [1,H,W,3].
 */
export type Preprocess = 'torch' | 'unit' | 'caffe_bgr' | 'uint8_nhwc';

export interface ImageOptions {
  /** The model's height and width, or one number for both. Default 224. */
  size?: number | readonly [height: number, width: number];
  /** The shorter side before the centre crop; by default size * 256 / 224. */
  resize?: number;
  preprocess?: Preprocess;
}

// value = v * scale + offset, per channel in output order; order lists the RGBA channels.
const torch = [[0.485, 0.229], [0.456, 0.224], [0.406, 0.225]] as const;
const FORMATS: Record<Preprocess, { order: number[]; scale: number[]; offset: number[] } | undefined> = {
  torch: { order: [0, 1, 2], scale: torch.map(([, std]) => 1 / 255 / std), offset: torch.map(([mean, std]) => -mean / std) },
  unit: { order: [0, 1, 2], scale: [1 / 255, 1 / 255, 1 / 255], offset: [0, 0, 0] },
  caffe_bgr: { order: [2, 1, 0], scale: [1, 1, 1], offset: [-104, -117, -123] },
  uint8_nhwc: undefined,
};

export async function imageTensor(image: ImageSource, options: ImageOptions = {}): Promise<Tensor> {
  const { size = 224, preprocess = 'torch' } = options;
  const [height, width] = typeof size === 'number' ? [size, size] : size;
  if (!(preprocess in FORMATS)) {
    throw new SinterError('InvalidInput', `there is no preprocessing '${preprocess}'`, Object.keys(FORMATS).join(', '));
  }
  for (const side of [height, width, options.resize ?? 1]) {
    if (!Number.isInteger(side) || side < 1 || side > 16384) {
      throw new SinterError('InvalidInput', `an image cannot be made ${side} pixels large`, 'sizes are integers from 1 to 16384');
    }
  }
  const rgb = fit(await pixelsOf(image), height, width, options.resize);
  const format = FORMATS[preprocess];
  if (!format) return new Tensor('uint8', rgb, [1, height, width, 3]);
  const plane = height * width;
  const values = new Float32Array(3 * plane);
  format.order.forEach((channel, c) => {
    const scale = format.scale[c]!;
    const offset = format.offset[c]!;
    for (let i = 0; i < plane; ++i) values[c * plane + i] = rgb[i * 3 + channel]! * scale + offset;
  });
  return new Tensor('float32', values, [1, 3, height, width]);
}

/** The pixels as they are stored: no scaling, no colour conversion, as the command line reads them. */
async function pixelsOf(image: ImageSource): Promise<Pixels> {
  if (typeof Blob !== 'undefined' && image instanceof Blob) {
    let bitmap: ImageBitmap;
    try {
      bitmap = await createImageBitmap(image, { premultiplyAlpha: 'none', colorSpaceConversion: 'none' });
    } catch (error) {
      throw new SinterError('InvalidInput', `the file is not an image that can be read here: ${textOf(error)}`, 'give a PNG, JPEG or WebP file', [], error);
    }
    try {
      return draw(bitmap, bitmap.width, bitmap.height);
    } finally {
      bitmap.close();
    }
  }
  if (image && 'data' in image) {
    const { data, width, height } = image;
    if (data.length !== width * height * 4) {
      throw new SinterError('InvalidInput', `${data.length} bytes are not ${width} x ${height} RGBA pixels`);
    }
    return image;
  }
  const any = image as Partial<HTMLImageElement & HTMLVideoElement & VideoFrame>;
  const width = any?.displayWidth ?? any?.naturalWidth ?? any?.videoWidth ?? any?.width;
  const height = any?.displayHeight ?? any?.naturalHeight ?? any?.videoHeight ?? any?.height;
  if (!width || !height) throw new SinterError('InvalidInput', 'the image has no pixels', 'wait until it has loaded');
  return draw(image as CanvasImageSource, width, height);
}

function draw(image: CanvasImageSource, width: number, height: number): Pixels {
  const canvas = typeof OffscreenCanvas === 'undefined' ? Object.assign(document.createElement('canvas'), { width, height })
    : new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d', { willReadFrequently: true }) as CanvasRenderingContext2D | null;
  if (!context) throw new SinterError('Unsupported', 'there is no 2D canvas here to read the image with', 'give { data, width, height }');
  try {
    context.drawImage(image, 0, 0, width, height);
    return context.getImageData(0, 0, width, height);
  } catch (error) {
    throw new SinterError('InvalidInput', `the image could not be read: ${textOf(error)}`,
      'an image of another origin needs crossorigin="anonymous" and CORS headers', [], error);
  }
}

/** RGB bytes of the model's size. An image of that size is untouched. */
function fit(image: Pixels, height: number, width: number, resize: number | undefined): Uint8Array {
  if (image.height === height && image.width === width) {
    const rgb = new Uint8Array(height * width * 3);
    for (let from = 0, to = 0; to < rgb.length; from += 4) {
      rgb[to++] = image.data[from]!;
      rgb[to++] = image.data[from + 1]!;
      rgb[to++] = image.data[from + 2]!;
    }
    return rgb;
  }
  const shorter = Math.max(height, width, resize ?? Math.round((Math.min(height, width) * 256) / 224));
  const scale = shorter / Math.min(image.height, image.width);
  const fullHeight = image.height <= image.width ? shorter : Math.round(image.height * scale);
  const fullWidth = image.width <= image.height ? shorter : Math.round(image.width * scale);
  const columns = taps(image.width, fullWidth, (fullWidth - width) >> 1, width);
  const rows = taps(image.height, fullHeight, (fullHeight - height) >> 1, height);

  // Only the source rows that the crop needs are resized across.
  const firstRow = rows[0]!.first;
  const lastRow = rows[height - 1]!.first + rows[height - 1]!.weights.length;
  const across = new Float32Array((lastRow - firstRow) * width * 3);
  let to = 0;
  for (let y = firstRow; y < lastRow; ++y) {
    for (const { first, weights } of columns) {
      let r = 0, g = 0, b = 0;
      let from = (y * image.width + first) * 4;
      for (const weight of weights) {
        r += weight * image.data[from]!;
        g += weight * image.data[from + 1]!;
        b += weight * image.data[from + 2]!;
        from += 4;
      }
      across[to++] = r;
      across[to++] = g;
      across[to++] = b;
    }
  }
  const rgb = new Uint8Array(height * width * 3);
  const line = width * 3;
  rows.forEach(({ first, weights }, y) => {
    for (let x = 0; x < line; ++x) {
      let sum = 0;
      for (let i = 0; i < weights.length; ++i) sum += weights[i]! * across[(first - firstRow + i) * line + x]!;
      rgb[y * line + x] = Math.min(255, Math.max(0, Math.floor(sum + 0.5)));
    }
  });
  return rgb;
}

interface Taps {
  first: number;
  weights: number[];
}

/** For each of `count` output positions from `start`: a triangle filter as wide as the reduction, its weights summing to 1. */
function taps(from: number, to: number, start: number, count: number): Taps[] {
  const scale = from / to;
  const support = Math.max(scale, 1);
  return Array.from({ length: count }, (_, i) => {
    const centre = (start + i + 0.5) * scale;
    const first = Math.max(0, Math.floor(centre - support + 0.5));
    const last = Math.min(from, Math.floor(centre + support + 0.5));
    const weights: number[] = [];
    let sum = 0;
    for (let x = first; x < last; ++x) {
      const weight = Math.max(0, 1 - Math.abs((x - centre + 0.5) / support));
      weights.push(weight);
      sum += weight;
    }
    return { first, weights: weights.map((weight) => weight / sum) };
  });
}
