import { z } from "zod";
import { formatSpec, parseSpec } from "../base/spec.js";

export const sizesSchema = z.object({
  /** Optimizer steps of each training, if a batch has 32 texts. */
  steps: z.number(),
  trainTexts: z.number(),
  maxTokens: z.number(),
  /** Weight of the robust loss of the default method. With few steps, a high one hides the task. */
  beta: z.number().default(4),
  /** Steps of the adversary of the default method per optimizer step. */
  innerSteps: z.number(),
  /** Attacked texts of that length. Of shorter ones, more are attacked. */
  attackedTexts: z.number(),
});
export type Sizes = Readonly<z.output<typeof sizesSchema>>;

/** Sizes from the least work to the most. With fewer than 75 steps, the small model learns little. */
export const sizeLadder: readonly Sizes[] = [
  { steps: 25, trainTexts: 400, maxTokens: 32, beta: 1, innerSteps: 1, attackedTexts: 20 },
  { steps: 40, trainTexts: 600, maxTokens: 48, beta: 1, innerSteps: 1, attackedTexts: 30 },
  { steps: 60, trainTexts: 1000, maxTokens: 64, beta: 1, innerSteps: 1, attackedTexts: 40 },
  { steps: 75, trainTexts: 1500, maxTokens: 96, beta: 1, innerSteps: 2, attackedTexts: 100 },
  { steps: 75, trainTexts: 2000, maxTokens: 128, beta: 1, innerSteps: 2, attackedTexts: 150 },
  { steps: 150, trainTexts: 5000, maxTokens: 128, beta: 4, innerSteps: 2, attackedTexts: 200 },
  { steps: 300, trainTexts: 10_000, maxTokens: 128, beta: 4, innerSteps: 3, attackedTexts: 400 },
  { steps: 600, trainTexts: 20_000, maxTokens: 256, beta: 4, innerSteps: 5, attackedTexts: 1000 },
];

/** 600 reviews of 120 words take less than 15 minutes of CPU time with AVX2: less than 10 minutes on two idle cores. */
export const defaultSizes: Sizes = sizeLadder[3]!;

/** Both the queries of a text and the time of a query grow with its length. */
export function countAttackedTexts({ attackedTexts, maxTokens }: Sizes, length: number): number {
  const affordable = Math.floor(attackedTexts * Math.max(1, maxTokens / length) ** 2);
  return Math.min(affordable, Math.max(attackedTexts, maxShortTexts));
}

/** More texts than this sharpen a comparison only a little. */
const maxShortTexts = 200;

export async function chooseSizes(seconds: number, estimate: (sizes: Sizes) => Promise<number>): Promise<Sizes> {
  let best = { sizes: sizeLadder[0]!, seconds: Number.POSITIVE_INFINITY };
  for (const sizes of sizeLadder) {
    const found = { sizes, seconds: await estimate(sizes) };
    if (found.seconds > seconds && best.seconds < Number.POSITIVE_INFINITY) break;
    best = found;
    if (found.seconds > seconds) break;
  }
  return best.sizes;
}

/** The default method with the weight and the inner steps of these sizes. */
export function sizeMethod(method: string, { beta, innerSteps }: Sizes): string {
  const { name, options } = parseSpec(method, "--method");
  return formatSpec({ name, options: { ...options, beta, innerSteps } });
}
