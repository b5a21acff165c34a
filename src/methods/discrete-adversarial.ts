import { z } from "zod";
import { UserError } from "../base/errors.js";
import { orNull } from "../base/validate.js";
import type { FindAdversarialTexts, TrainingContext } from "../train/index.js";
import { defineMethod } from "./define-method.js";
import { createTextRounds, roundOptions } from "./text-rounds.js";

const optionsSchema = z.strictObject({
  attack: z.string().default("pwws").describe("attack of the current model, such as pwws or genetic:population=20"),
  ...roundOptions,
  maxQueries: orNull(z.number().int().positive(), "no limit").describe("queries per text"),
  maskedLm: orNull(z.string()).describe("masked language model of attacks that need one (bert-attack, bae, clare)"),
  precision: z
    .enum(["auto", "bf16", "int8", "fp32"])
    .default("auto")
    .describe("precision of the search on a CPU; every success is confirmed in float32"),
});

const name = "discrete-adversarial";

function runAttack(
  { job }: TrainingContext,
  { attack, maskedLm, maxQueries, precision }: z.output<typeof optionsSchema>,
  request: Pick<Parameters<FindAdversarialTexts>[0], "examples" | "seed" | "onResult">,
) {
  if (!job.attackTexts) throw new Error("The training has no attackTexts.");
  return job.attackTexts({ attack, maskedLm, maxQueries, precision, ...request });
}

async function checkAttack(training: TrainingContext, options: z.output<typeof optionsSchema>): Promise<void> {
  // Loaded only here: other trainings need no attacks.
  const [{ loadAttack }, { getNeeds }] = await Promise.all([
    import("../attacks/load-attack.js"),
    import("../attacks/define-attack.js"),
  ]);
  const { attack, maskedLm } = options;
  const loaded = await loadAttack(attack);
  if (maskedLm === null && getNeeds(loaded.definition, loaded.options).includes("mlm"))
    throw new UserError(
      `${name}: attack ${attack} needs a masked language model. Set maskedLm, such as ` +
        `--method ${name}:attack=${attack},maskedLm=MODEL.`,
    );
  // Without examples, this only loads what the attack needs, so that errors come before training.
  await runAttack(training, options, { examples: [], seed: "" });
}

export const discreteAdversarial = defineMethod({
  name,
  summary: "also trains on texts that an attack has changed to fool the current model (A2T and others)",
  paper: "Yoo and Qi 2021, Towards Improving Adversarial Training of NLP Models; Ivgi and Berant 2021",
  cost: {
    gpu: "2.1",
    cpu: "1.9",
    extra: "the attacks (pwws on SST-2 on a CPU: about 1.7 standard epochs per epoch)",
  },
  options: optionsSchema,
  create: (options) =>
    createTextRounds({
      name,
      traits: { exclusiveRoles: { adversary: "attacks the texts" } },
      options,
      loss: "attacked",
      prepare: (training) => checkAttack(training, options),
      canChange: () => true,
      createTexts: (training, examples, rng) =>
        runAttack(training, options, {
          examples,
          seed: String(rng.seed()),
          onResult: (done) => training.reportProgress(`attack ${options.attack}`, done, examples.length),
        }),
    }),
});
