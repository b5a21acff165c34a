import { z } from "zod";
import type { CertifiedModel } from "./certified-model.js";
import { defineCertificate, listEditRows, maxEditsSchema, type TrainedCertificate } from "./define-certificate.js";
import { findLargestScore, type LabelScores } from "./scoring.js";
import {
  certifyVotes,
  computeWordMargins,
  countCertifiedEdits,
  countVoters,
  coversEdits,
  type HashVoteOptions,
  listVoters,
  toGroupProbabilities,
} from "./votes.js";
import { coversWordEdits } from "./words.js";

const trainingSchema = z.strictObject({
  groups: z.union([z.int().min(2).max(1000), z.literal("words")]),
  hashSeed: z.int().min(0),
  hashVersion: z.int(),
  /** The lead in log-probability that is a full vote; null: every group has one vote. */
  clip: z.number().positive().nullable().default(null),
});
const name = "hash-vote";

/**
 * The certificate of a vote of groups of words. If each distinct word is a group, a journal also records
 * the lead that the label keeps in the worst case.
 */
export const hashVote = defineCertificate({
  name,
  summary: "a vote of groups of words, proven for any word edits (train with --method hash-vote)",
  covers: coversWordEdits,
  trainedBy: "hash-vote:groups=25",
  options: z.strictObject({}),
  recorded: {
    maxEdits: maxEditsSchema,
    ...trainingSchema.shape,
  },
  line: {
    /** The votes, or the sums of clipped leads, of each label. */
    votes: z.array(z.number()),
    undecided: z.int().min(0),
    changeableGroups: z.int(),
    /** For distinct words: the lead that is left in the worst case, for each row of the table. */
    margins: z.array(z.number()).optional(),
  },
  create(options) {
    const rows = listEditRows(options.maxEdits);
    return {
      rows,
      *certify({ texts }) {
        const scored = yield listVoters(texts, options);
        const { label: predicted, totals, undecided, changeableGroups } = certifyVotes(scored, options);
        const found = { predicted, votes: [...totals], undecided, changeableGroups };
        return options.groups === "words" ? { ...found, margins: computeWordMargins(scored, options, rows) } : found;
      },
      isCertified: ({ margins, changeableGroups }, row) =>
        margins ? margins[row]! > 0 : coversEdits({ changeableGroups }, rows[row]!),
    };
  },
});

/** The certificate of a model that was trained on groups of words. It always answers by its vote. */
export function createTrainedVote(options: z.input<typeof trainingSchema>): TrainedCertificate {
  const { groups, hashSeed, clip = null } = options;
  return {
    definition: hashVote,
    options,
    createModel: (facts) => createVotingModel({ groups, hashSeed, clip, ...facts }),
  };
}

/** The model that classifies by the votes, or by the clipped scores, of groups of words. */
export function createVotingModel(options: HashVoteOptions): CertifiedModel {
  const { groups, hashSeed, editableFields, numLabels, clip = null } = options;
  return {
    identity: { kind: name, groups, hashSeed, clip, editableFields },
    split: (texts) => listVoters(texts, options),
    answer(rows) {
      const certificate = certifyVotes(rows, options);
      return {
        probabilities: toGroupProbabilities(certificate.totals, clip, countVoters(groups, rows.length)),
        certified: { kind: name, edits: countCertifiedEdits(certificate) },
      };
    },
    ...(clip === null && {
      score: (rows: readonly LabelScores[]) => scoreVotes(rows, numLabels, countVoters(groups, rows.length)),
    }),
  };
}

/**
 * Votes alone would not tell a search whether it comes closer, so mean probabilities are added. They
 * are too small to change the order of the labels: between labels with equal votes, in the order of
 * their indices, there is a gap that they cannot close.
 */
function scoreVotes(rows: readonly LabelScores[], numLabels: number, maxVotes: number): number[] {
  const votes = new Array<number>(numLabels).fill(0);
  for (const row of rows) votes[findLargestScore(row)]! += 1;
  const gap = 0.5 / numLabels;
  return votes.map((count, label) => {
    const mean = rows.reduce((sum, row) => sum + row[label]!, 0) / Math.max(1, rows.length);
    return (count - gap * label + 0.9 * gap * mean + 0.5) / (maxVotes + 1);
  });
}
