// SPDX-License-Identifier: Apache-2.0
import { createEngine, type Engine, type EngineOptions, type Progress, type Report, type Session } from 'sinter';
import { readLabels, type DemoModel } from './models';

export type Backend = NonNullable<EngineOptions['backend']>;

export interface Row {
  label: string;
  probability: number;
}

export interface Answer {
  rows: Row[];
  report: Report;
  loadMs: number;
  firstMs: number;
  warmMs: number;
}

export function softmax(logits: ArrayLike<number>): number[] {
  const values = Array.from(logits);
  const top = Math.max(...values);
  const powers = values.map((value) => Math.exp(value - top));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

/** A model on a backend, loaded once; its engine is its own, so that closing it gives all memory back. */
export class Classifier {
  private first: number | undefined;

  private constructor(private readonly engine: Engine, private readonly session: Session, private readonly labels: string[],
                      private readonly loadMs: number) {}

  static async open(model: DemoModel, backend: Backend, onProgress: (progress: Progress) => void): Promise<Classifier> {
    const labels = readLabels(model.labels);
    // Its failure is for the await below, which an earlier failure may keep from happening.
    labels.catch(() => {});
    const started = performance.now();
    const engine = await createEngine({ backend });
    try {
      const session = await engine.load(new URL(model.url, document.baseURI), { onProgress });
      return new Classifier(engine, session, await labels, performance.now() - started);
    } catch (error) {
      engine.close();
      throw error;
    }
  }

  async classify(image: ImageBitmap): Promise<Answer> {
    const input = await this.engine.imageTensor(image, { size: 224, preprocess: 'torch' });
    const name = this.session.inputs[0]!.name;
    const timedRun = async () => {
      const started = performance.now();
      const outputs = await this.session.run({ [name]: input });
      const logits = (await outputs[this.session.outputs[0]!.name]!.data()) as Float32Array;
      return { logits, ms: performance.now() - started };
    };
    this.first ??= (await timedRun()).ms;
    const { logits, ms } = await timedRun();
    const rows = softmax(logits).map((probability, i) => ({ label: this.labels[i] ?? `class ${i}`, probability }))
      .sort((a, b) => b.probability - a.probability).slice(0, 5);
    return { rows, report: this.session.report, loadMs: this.loadMs, firstMs: this.first, warmMs: ms };
  }

  close(): void {
    this.engine.close();
  }
}
