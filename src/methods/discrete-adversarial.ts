import { z } from "zod";
import { UserError } from "../base/errors.js";
import { orNull } from "../base/validate.js";
import { keep, scope, type Tensor, tensor, zeros } from "../tensor/index.js";
import type { Encoding } from "../text/encoding.js";
import {
  collateTexts,
  readExtraTexts,
  type TextAttackRequest,
  type TokenizedExample,
  type TrainingContext,
  type TrainingMethod,
  toDataset,
} from "../train/index.js";
import { defineMethod, fractionSchema, nonnegativeSchema } from "./define-method.js";

const optionsSchema = z.strictObject({
  attack: z.string().default("pwws").describe("attack of the current model, such as pwws or genetic:population=20"),
  interval: orNull(z.number().int().positive(), "one epoch").describe(
    "optimizer steps between attacks, also before the first one",
  ),
  fraction: fractionSchema.default(0.2).describe("fraction of the training texts that each attack changes"),
  alpha: nonnegativeSchema.default(1).describe("weight of the loss of attacked texts; 0: standard"),
  maxQueries: orNull(z.number().int().positive(), "no limit").describe("queries per text"),
  maskedLm: orNull(z.string()).describe("masked language model of attacks that need one (bert-attack, bae, clare)"),
  precision: z
    .enum(["auto", "bf16", "int8", "fp32"])
    .default("auto")
    .describe("precision of the search on a CPU; every success is confirmed in float32"),
});

type Options = z.output<typeof optionsSchema>;

const name = "discrete-adversarial";
const prefix = `${name}.text`;
const maskName = `${name}.attacked`;

/** The attacked texts of a round in tensors of fixed shape. float32 holds every token ID exactly. */
class AttackedTexts {
  readonly buffers: ReadonlyMap<"items" | "lengths" | "ids" | "types", Tensor>;
  readonly #width: number;
  #known: ReadonlyMap<number, Encoding> | null = null;

  constructor(count: number, width: number) {
    this.#width = width;
    this.buffers = new Map([
      // Which training text each row belongs to, and its number of tokens: 0 if the attack failed.
      ["items", keep(zeros([count]))],
      ["lengths", keep(zeros([count]))],
      ["ids", keep(zeros([count, width]))],
      ["types", keep(zeros([count, width]))],
    ]);
  }

  get count(): number {
    return this.buffers.get("items")!.size(0);
  }

  set(found: ReadonlyMap<number, Encoding | null>): void {
    const rows = [...found];
    const flatten = (select: (tokens: Encoding) => ArrayLike<number>): Float32Array => {
      const values = new Float32Array(rows.length * this.#width);
      for (const [row, [, tokens]] of rows.entries()) if (tokens) values.set(select(tokens), row * this.#width);
      return values;
    };
    const write = (key: "items" | "lengths" | "ids" | "types", values: Float32Array): void =>
      scope(() => void this.buffers.get(key)!.copy_(tensor(values, this.buffers.get(key)!.shape)));
    write(
      "items",
      Float32Array.from(rows, ([item]) => item),
    );
    write(
      "lengths",
      Float32Array.from(rows, ([, tokens]) => tokens?.ids.length ?? 0),
    );
    write(
      "ids",
      flatten(({ ids }) => ids),
    );
    write(
      "types",
      flatten(({ tokenTypeIds }) => tokenTypeIds),
    );
    this.#known = null;
  }

  /** The attacked tokens of a training text, if there are any. */
  get(item: number): Encoding | undefined {
    this.#known ??= this.#read();
    return this.#known.get(item);
  }

  /** Reads the tensors, which a checkpoint may have restored. */
  #read(): ReadonlyMap<number, Encoding> {
    const [items, lengths, ids, types] = (["items", "lengths", "ids", "types"] as const).map((key) =>
      this.buffers.get(key)!.toFloat32Array(),
    ) as [Float32Array, Float32Array, Float32Array, Float32Array];
    const found = new Map<number, Encoding>();
    for (const [row, length] of lengths.entries()) {
      if (length === 0) continue;
      const slice = (values: Float32Array): Int32Array =>
        Int32Array.from(values.subarray(row * this.#width, row * this.#width + length));
      found.set(items[row]!, { ids: slice(ids), tokenTypeIds: slice(types), truncated: false });
    }
    return found;
  }
}

function runAttack(
  { job }: TrainingContext,
  { attack, maskedLm, maxQueries, precision }: Options,
  request: Pick<TextAttackRequest, "examples" | "seed" | "onResult">,
) {
  if (!job.attackTexts) throw new Error("The training has no attackTexts.");
  return job.attackTexts({ attack, maskedLm, maxQueries, precision, ...request });
}

async function checkAttack(training: TrainingContext, options: Options): Promise<void> {
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

/** CE(x) + alpha CE(x'), where x' is a text that fooled the model. Without one, only CE(x). */
function createDiscreteAdversarial(options: Options): TrainingMethod {
  let interval = 1;
  let usesTypes = false;
  let attacked: AttackedTexts | null = null;
  let job: TrainingContext["job"] | null = null;
  /** Until the first attack, training is standard. */
  let isActive = false;

  const attackTexts = async (training: TrainingContext, stepIndex: number): Promise<void> => {
    const { train, model } = training.job;
    const rng = training.rng.fork(name, stepIndex);
    const chosen = rng.shuffle([...train.items.keys()]).slice(0, attacked!.count);
    const examples = chosen.map((item) => train.items[item]!.example);
    const texts = await runAttack(training, options, {
      ...{ examples, seed: String(rng.seed()) },
      onResult: (done) => training.reportProgress(`attack ${options.attack}`, done, examples.length),
    });
    const changed = examples.flatMap((example, i) => (texts[i] ? [{ ...example, texts: texts[i]! }] : []));
    const encodings = toDataset(model, changed).items.values();
    attacked!.set(
      new Map(chosen.map((item, i) => [item, texts[i] ? (encodings.next().value as TokenizedExample).encoding : null])),
    );
  };

  return {
    name,
    traits: { exclusiveRoles: { adversary: "attacks the texts" } },
    async prepare(training) {
      await checkAttack(training, options);
      ({ job } = training);
      const { train, model } = job;
      interval = options.interval ?? training.stepsPerEpoch;
      usesTypes = train.items.some(({ encoding }) => encoding.tokenTypeIds.some((type) => type !== 0));
      const count = Math.max(1, Math.round(options.fraction * train.items.length));
      attacked = new AttackedTexts(count, model.maxLength);
    },
    state: () => ({
      buffers: new Map([...(attacked?.buffers ?? [])].map(([key, value]) => [`${name}.${key}`, value])),
    }),
    async beforeStep(training, stepIndex) {
      isActive = options.alpha > 0 && stepIndex >= interval;
      if (isActive && stepIndex % interval === 0) await attackTexts(training, stepIndex);
    },
    collate({ indices, items }): ReturnType<NonNullable<TrainingMethod["collate"]>> {
      if (!isActive) return {};
      const found = Array.from(indices, (item) => attacked!.get(item));
      const encodings = found.map((tokens, row) => tokens ?? items[row]!.encoding);
      const mask = Float32Array.from(found, (tokens) => Number(tokens !== undefined));
      return {
        ...collateTexts(prefix, encodings, job!, usesTypes),
        [maskName]: { values: mask, shape: [mask.length] },
      };
    },
    losses(context, next) {
      const losses = next();
      const { batch } = context;
      if (!batch.hasExtra(maskName)) return losses;
      const mask = batch.getExtra(maskName);
      const { logits } = context.pass(`${name}.pass`, { input: readExtraTexts(prefix, batch, usesTypes) });
      context.log(`${name}.fraction`, mask.mean());
      const loss = context.training.taskLoss.perExample(logits, batch.labels).mul(mask).mean();
      return new Map(losses).set("attacked", loss.mul(options.alpha));
    },
  };
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
  create: createDiscreteAdversarial,
});
