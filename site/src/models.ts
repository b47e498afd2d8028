// SPDX-License-Identifier: Apache-2.0
// The models that the site offers; files are under models/ beside the page.

export interface Sample {
  url: string;
  name: string;
}

export interface DemoModel {
  id: string;
  title: string;
  url: string;
  labels: string;
  about: string;
  samples: Sample[];
}

const FASHION = 'models/fashion/';
const fashionNames = ['T-shirt/top', 'Trouser', 'Pullover', 'Dress', 'Coat', 'Sandal', 'Shirt', 'Sneaker', 'Bag', 'Ankle boot'];
const fashionSamples = fashionNames.map((name, i) => ({ url: `${FASHION}images/fashion_${i}.png`, name }));
const fashionAbout = 'Knows ten kinds of clothing and shoes, trained on Fashion-MNIST: give it one garment on black.';

const MODELS: DemoModel[] = [
  {
    id: 'mobilenetv2_fashion',
    title: 'MobileNetV2, clothes (8.9 MB)',
    url: `${FASHION}mobilenetv2_fashion.onnx`,
    labels: `${FASHION}labels.txt`,
    about: fashionAbout,
    samples: fashionSamples,
  },
  {
    id: 'squeezenet1_1_fashion',
    title: 'SqueezeNet 1.1, clothes (2.9 MB)',
    url: `${FASHION}squeezenet1_1_fashion.onnx`,
    labels: `${FASHION}labels.txt`,
    about: fashionAbout,
    samples: fashionSamples,
  },
];

const IMAGENET: DemoModel = {
  id: 'efficientnet_lite0',
  title: 'EfficientNet-Lite0, 1,000 things (18.8 MB)',
  url: 'models/generated/efficientnet_lite0.onnx',
  labels: 'models/generated/efficientnet_lite0.labels.txt',
  about: 'Knows the 1,000 classes of ImageNet: animals, plants, tools, food, vehicles.',
  samples: [
    { url: 'models/photos/chelsea.png', name: 'cat' },
    { url: 'models/photos/coffee.png', name: 'coffee' },
    { url: 'models/photos/rocket.jpg', name: 'rocket' },
  ],
};

/** The ImageNet model is made at set-up where its weights can be had; without it the others remain. */
export async function availableModels(): Promise<DemoModel[]> {
  const answer = await fetch(IMAGENET.url, { method: 'HEAD' }).catch(() => undefined);
  return answer?.ok ? [...MODELS, IMAGENET] : MODELS;
}

export async function readLabels(url: string): Promise<string[]> {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`the labels ${url} could not be read: HTTP ${answer.status}`);
  return (await answer.text()).split('\n').filter(Boolean);
}
