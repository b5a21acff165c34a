import * as runtime from "onnxruntime-web/wasm";
import type { Score } from "../../src/models/inference/score.js";
import { openPortableModel, type ReadFile } from "../../src/onnx/portable-model.js";

export type { ReadFile };

/** A classifier in the browser. */
export interface BrowserModel {
  readonly labels: readonly string[];
  /** The token of a hidden word. */
  readonly unknown: string;
  score(texts: readonly string[]): Promise<Score[]>;
  classify(text: string): Promise<ArrayLike<number>>;
}

/** Loads the folder that `temper export` wrote. */
export async function loadBrowserModel(read: ReadFile): Promise<BrowserModel> {
  // More threads would need a page that is isolated from other origins.
  runtime.env.wasm.numThreads = 1;
  const { labels, unknown, predictor } = await openPortableModel(read, runtime);
  const score = (texts: readonly string[]) => predictor.predict(predictor.prepare(texts.map((text) => [text])));
  return { labels, unknown, score, classify: async (text) => (await score([text]))[0]!.probabilities };
}
