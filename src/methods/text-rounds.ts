import { z } from "zod";
import { orNull } from "../base/validate.js";
import type { Example } from "../tasks/example.js";
import { keep, type Rng, scope, type Tensor, tensor, zeros } from "../tensor/index.js";
import type { Encoding } from "../text/encoding.js";
import {
  collateTexts,
  readExtraTexts,
  type TokenizedExample,
  type TrainingContext,
  type TrainingMethod,
  toDataset,
} from "../train/index.js";
import { fractionSchema, nonnegativeSchema } from "./define-method.js";

export const roundOptions = {
  interval: orNull(z.number().int().positive(), "one epoch, at most half of the training").describe(
    "optimizer steps between rounds, also before the first one",
  ),
  fraction: fractionSchema.default(0.2).describe("fraction of the texts that each round changes"),
  alpha: nonnegativeSchema.default(1).describe("weight of the loss of changed texts; 0: standard"),
};

interface TextRounds extends Pick<TrainingMethod, "name" | "traits" | "checkCompatibility"> {
  readonly options: z.output<z.ZodObject<typeof roundOptions>>;
  readonly loss: string;
  prepare(training: TrainingContext): Promise<void>;
  canChange(item: TokenizedExample): boolean;
  /** Returns the changed text of each example; null if there is none. */
  createTexts(
    training: TrainingContext,
    examples: readonly Example[],
    rng: Rng,
  ): Promise<readonly (readonly string[] | null)[]>;
}

/** The changed texts of a round in tensors of fixed shape. float32 holds every token ID exactly. */
class ChangedTexts {
  readonly buffers: ReadonlyMap<"items" | "lengths" | "ids" | "types", Tensor>;
  readonly #width: number;
  #known: ReadonlyMap<number, Encoding> | null = null;

  constructor(count: number, width: number) {
    this.#width = width;
    this.buffers = new Map([
      // The training text of each row, and its number of tokens: 0 if it was not changed.
      ["items", keep(zeros([count]))],
      ["lengths", keep(zeros([count]))],
      ["ids", keep(zeros([count, width]))],
      ["types", keep(zeros([count, width]))],
    ]);
  }

  get count(): number {
    return this.buffers.get("items")!.size(0);
  }

  set(found: readonly (readonly [item: number, tokens: Encoding | null])[]): void {
    const values = new Map([...this.buffers].map(([key, { numel }]) => [key, new Float32Array(numel)]));
    for (const [row, [item, tokens]] of found.entries()) {
      values.get("items")![row] = item;
      if (!tokens) continue;
      values.get("lengths")![row] = tokens.ids.length;
      values.get("ids")!.set(tokens.ids, row * this.#width);
      values.get("types")!.set(tokens.tokenTypeIds, row * this.#width);
    }
    scope(() => {
      for (const [key, buffer] of this.buffers) buffer.copy_(tensor(values.get(key)!, buffer.shape));
    });
    this.#known = null;
  }

  get(item: number): Encoding | undefined {
    this.#known ??= this.#read();
    return this.#known.get(item);
  }

  /** Reads the tensors, which a checkpoint may have restored. */
  #read(): ReadonlyMap<number, Encoding> {
    const values = new Map([...this.buffers].map(([key, buffer]) => [key, buffer.toFloat32Array()]));
    const found = new Map<number, Encoding>();
    for (const [row, length] of values.get("lengths")!.entries()) {
      const slice = (key: "ids" | "types"): Int32Array =>
        Int32Array.from(values.get(key)!.subarray(row * this.#width, row * this.#width + length));
      const tokens = { ids: slice("ids"), tokenTypeIds: slice("types"), truncated: false };
      if (length > 0) found.set(values.get("items")![row]!, tokens);
    }
    return found;
  }
}

/** CE(x) + alpha CE(x'), where x' is the text that the last round made of x. Without one, only CE(x). */
export function createTextRounds({
  options,
  loss: lossName,
  prepare,
  canChange,
  createTexts,
  ...rounds
}: TextRounds): TrainingMethod {
  const { name } = rounds;
  const prefix = `${name}.text`;
  const maskName = `${name}.changed`;
  let interval = 1;
  let usesTypes = false;
  let changed: ChangedTexts | null = null;
  let job: TrainingContext["job"] | null = null;
  let changeable: readonly number[] = [];
  /** Until the first round, training is standard. */
  let isActive = false;

  const runRound = async (training: TrainingContext, stepIndex: number): Promise<void> => {
    const { train, model } = training.job;
    const rng = training.rng.fork(name, stepIndex);
    const chosen = rng.shuffle([...changeable]).slice(0, changed!.count);
    const examples = chosen.map((item) => train.items[item]!.example);
    const texts = await createTexts(training, examples, rng);
    const found = examples.flatMap((example, i) => (texts[i] ? [{ ...example, texts: texts[i]! }] : []));
    const encodings = toDataset(model, found).items.values();
    changed!.set(
      chosen.map((item, i) => [item, texts[i] ? (encodings.next().value as TokenizedExample).encoding : null]),
    );
  };

  return {
    ...rounds,
    async prepare(training) {
      await prepare(training);
      ({ job } = training);
      const { train, model } = job;
      const { stepsPerEpoch, totalSteps } = training;
      // Without a round before the end, training would be standard.
      interval = options.interval ?? Math.min(stepsPerEpoch, Math.ceil(totalSteps / 2));
      usesTypes = train.items.some(({ encoding }) => encoding.tokenTypeIds.some((type) => type !== 0));
      changeable = [...train.items.keys()].filter((item) => canChange(train.items[item]!));
      changed = new ChangedTexts(Math.max(1, Math.round(options.fraction * changeable.length)), model.maxLength);
    },
    state: () => ({
      buffers: new Map([...(changed?.buffers ?? [])].map(([key, value]) => [`${name}.${key}`, value])),
    }),
    async beforeStep(training, stepIndex) {
      isActive = options.alpha > 0 && stepIndex >= interval;
      if (isActive && stepIndex % interval === 0) await runRound(training, stepIndex);
    },
    collate({ indices, items }): ReturnType<NonNullable<TrainingMethod["collate"]>> {
      if (!isActive) return {};
      const found = Array.from(indices, (item) => changed!.get(item));
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
      return new Map(losses).set(lossName, loss.mul(options.alpha));
    },
  };
}
