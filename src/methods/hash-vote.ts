import { z } from "zod";
import { orNull, seedSchema } from "../base/validate.js";
import { computeMetrics } from "../evaluation/metrics.js";
import { predictProbabilities, tokenizeAll } from "../models/index.js";
import {
  countVoters,
  createTrainedVote,
  splitIntoGroups,
  sumScores,
  toGroupProbabilities,
  wordHashVersion,
} from "../proofs/certificates/index.js";
import type { Example } from "../tasks/example.js";
import { arange, type Tensor, topk, where } from "../tensor/index.js";
import { bucketLength } from "../text/batch.js";
import type { Encoding } from "../text/encoding.js";
import {
  collateTexts,
  readExtraTexts,
  type TokenizedExample,
  type TrainingJob,
  type TrainingMethod,
} from "../train/index.js";
import { defineMethod } from "./define-method.js";

const optionsSchema = z.strictObject({
  groups: z
    .union([z.number().int().min(2).max(1000), z.literal("words")], {
      error: 'expected a number of groups from 2 to 1000, or "words"',
    })
    .default(25)
    .describe("groups of words per text; words: each distinct word is a group"),
  clip: orNull(z.number().positive().max(100), "groups vote").describe(
    "a group gives a label its lead in log-probability, and a lead of this size is a full vote",
  ),
  margin: orNull(z.number().nonnegative().max(1000), "each group is trained alone").describe(
    "train the groups of a text together: the sum of their leads should exceed this many full votes",
  ),
  hashSeed: seedSchema.default(0).describe("which hash assigns words to groups"),
  hashVersion: z.literal(wordHashVersion).default(wordHashVersion).describe("version of the hash"),
});
const name = "hash-vote";
const role = { exclusiveRoles: { examples: "replaces each text by groups of its words" } };

export const hashVote = defineMethod({
  name,
  summary: "trains on groups of words by hash, for a certified vote of the groups",
  paper: "Pei et al., NDSS 2024 (TextGuard); here against edits of the text that is classified",
  cost: { gpu: "0.5 (an epoch: 11.6)", cpu: "0.3 (an epoch: 5.6)" },
  options: optionsSchema,
  certificate: ({ groups, clip, hashSeed, hashVersion }) => createTrainedVote({ groups, clip, hashSeed, hashVersion }),
  create: (options) => (options.margin === null ? createSeparate(options) : createJoint(options, options.margin)),
});

function createSeparate({ groups, hashSeed }: z.output<typeof optionsSchema>): TrainingMethod {
  return {
    name,
    traits: role,
    transformExamples(examples, { modifiableFields: editableFields }) {
      return examples.flatMap((example): Example[] => {
        const parts = splitIntoGroups(example.texts, { groups, hashSeed, editableFields });
        return parts.flatMap((texts, group) => (texts ? [{ ...example, id: `${example.id}#${group}`, texts }] : []));
      });
    },
  };
}

/** The number of sub-texts of a batch is a multiple of this, so that few CUDA graphs are captured. */
const rowMultiple = 512;
/** The slope of the scores of leads that are far beyond the clip. */
const leak = 0.1;
const prefix = `${name}.text`;
const memberName = `${name}.members`;
const weightName = `${name}.weights`;
const centering = 10;

/**
 * Trains the sum that is certified. With leads d_g between the labels of group g, from -1 to 1, the
 * loss is the cross-entropy of
 *
 *     (sum over g of d_g - margin) / temperature,    temperature = margin / 2, or 1 without a margin.
 *
 * The mean lead of a batch, with the same weight for each label, is subtracted and has a penalty of
 * its own. Otherwise most of the gradient would move the leads of all words at once, which a sum of
 * many leads multiplies. Groups that say little about the label learn to abstain, and a sum beyond
 * the margin is not worth more. tanh and a small multiple of the lead replace the clip of the
 * certificate, so that leads beyond it have gradients, too. A sub-text that several texts of a batch
 * have is computed once.
 */
function createJoint({ groups, hashSeed, clip }: z.output<typeof optionsSchema>, margin: number): TrainingMethod {
  let voters: Voters | null = null;
  let job: TrainingJob | null = null;
  let usesTypes = false;
  const collect = (items: readonly TokenizedExample[], training: TrainingJob): Voters =>
    collectVoters(items, training, (texts) => {
      const editableFields = training.task.modifiableFields;
      return splitIntoGroups(texts, { groups, hashSeed, editableFields }).filter((part) => part !== null);
    });
  return {
    name,
    traits: role,
    async prepare(training) {
      job = training.job;
      usesTypes = job.task.fields.length > 1;
      voters = collect(job.train.items, job);
    },
    collate({ indices, labels }) {
      const known = new Map<number, number>();
      const rows = Array.from(indices, (index) =>
        Array.from(voters!.ofItem[index]!, (voter) => {
          if (!known.has(voter)) known.set(voter, known.size);
          return known.get(voter)!;
        }),
      );
      const used = [...known.keys()];
      // Rows that no text uses fill the batch.
      const count = bucketLength(Math.max(1, used.length), job!.deviceConfig.device === "cpu" ? 1 : rowMultiple);
      const encodings = Array.from({ length: count }, (_, i) => voters!.encodings[used[i] ?? used[0] ?? 0]!);
      const { members, weights } = createVoteArrays(rows, labels, count, job!.model.labels.length);
      return {
        ...collateTexts(prefix, encodings, job!, usesTypes),
        [memberName]: { values: members, shape: [indices.length, count] },
        [weightName]: { values: weights, shape: [1, count] },
      };
    },
    losses(context) {
      const { batch } = context;
      const { logits } = context.pass(`${name}.groups`, { input: readExtraTexts(prefix, batch, usesTypes) });
      const uncentered = computeLeads(logits.to("float32")).div(clip ?? 1);
      const mean = batch.getExtra(weightName).matmul(uncentered); // [1, label]
      const leads = uncentered.sub(mean);
      const scores = leads
        .tanh()
        .add(leads.mul(leak))
        .div(2 * (1 + leak));
      const totals = batch.getExtra(memberName).matmul(scores); // [text, label]
      const temperature = margin === 0 ? 1 : margin / 2;
      const isGold = batch.labels.unsqueeze(1).eq(arange(totals.size(1), totals.device)); // [text, label]
      const remaining = totals.sub(isGold.to("float32").mul(margin));
      return new Map([
        ["task", context.training.taskLoss(remaining.div(temperature), batch.labels)],
        ["centering", mean.square().sum().mul(centering)],
      ]);
    },
    /** The metrics of the vote replace those of complete texts. */
    async extraMetrics({ job: { model, deviceConfig }, computeRows }, items) {
      const { encodings, ofItem } = collect(items, job!);
      const all = await computeRows(encodings, (own) => predictProbabilities(model, model.weights, own, deviceConfig));
      const probabilities = ofItem.map((own) => {
        const rows = Array.from(own, (voter) => all[voter]!);
        const { totals } = sumScores(rows, { numLabels: model.labels.length, clip });
        return Float32Array.from(toGroupProbabilities(totals, clip, countVoters(groups, rows.length)));
      });
      return computeMetrics(
        probabilities,
        items.map(({ example }) => example.label),
        model.labels,
      );
    },
  };
}

function createVoteArrays(
  rows: readonly (readonly number[])[],
  labels: Int32Array,
  count: number,
  numLabels: number,
): Record<"members" | "weights", Float32Array> {
  const members = new Float32Array(rows.length * count);
  for (const [row, own] of rows.entries()) for (const each of own) members[row * count + each] = 1;
  const voterCounts = new Float64Array(numLabels);
  for (const [row, own] of rows.entries()) voterCounts[labels[row]!]! += own.length;
  const present = voterCounts.filter((each) => each > 0).length;
  const weights = new Float32Array(count);
  for (const [row, own] of rows.entries())
    for (const each of own) weights[each]! += 1 / (present * voterCounts[labels[row]!]!);
  return { members, weights };
}

interface Voters {
  readonly encodings: readonly Encoding[];
  /** The sub-texts of each example, as positions in `encodings`. */
  readonly ofItem: readonly Int32Array[];
}

function collectVoters(
  items: readonly TokenizedExample[],
  { model }: TrainingJob,
  split: (texts: readonly string[]) => readonly (readonly string[])[],
): Voters {
  const known = new Map<string, number>();
  const texts: (readonly string[])[] = [];
  const ofItem = items.map(({ example }) =>
    Int32Array.from(split(example.texts), (part) => {
      const key = part.join("\n");
      const position = known.get(key) ?? texts.push(part) - 1;
      known.set(key, position);
      return position;
    }),
  );
  return { encodings: tokenizeAll(model, texts), ofItem };
}

function computeLeads(logits: Tensor): Tensor {
  const [best] = topk(logits, 2, -1);
  const [first, second] = [best.narrow(-1, 0, 1), best.narrow(-1, 1, 1)];
  return logits.sub(where(logits.eq(first), second, first));
}
