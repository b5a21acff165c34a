import { z } from "zod";
import { splitIntoGroups, wordHashVersion } from "../certificates/hash-groups.js";
import type { Example } from "../tasks/example.js";
import { countSchema, orNull, seedSchema } from "../validate.js";
import { defineMethod } from "./define-method.js";

/**
 * Hash-vote: each text is replaced by its sub-texts, the words of one group each. The model then
 * classifies all sub-texts of a text and takes a vote (src/certificates/hash-vote.ts). The groups
 * never change, so all sub-texts together have the words of the text once.
 */
export const hashVote = defineMethod({
  name: "hash-vote",
  summary: "trains on groups of words by hash, for a certified vote of the groups",
  paper: "Pei et al., NDSS 2024 (TextGuard); here against edits of the text that is classified",
  cost: { gpu: "1", cpu: "1" },
  options: z.strictObject({
    groups: z.number().int().min(2).max(1000).default(25).describe("groups of words per text"),
    hashes: countSchema
      .max(1000)
      .default(1)
      .describe("hash functions that split each training text; the first one is that of the certificate"),
    clip: orNull(z.number().positive().max(100)).describe(
      "a group gives a label its lead in log-probability, and a lead of this size is a full vote; null: groups vote",
    ),
    perText: orNull(countSchema).describe("sub-texts per text, chosen at random; null: all"),
    hashSeed: seedSchema.default(0).describe("which hash assigns words to groups"),
    hashVersion: z.literal(wordHashVersion).default(wordHashVersion).describe("version of the hash"),
  }),
  certificate: ({ groups, clip, hashSeed, hashVersion }) => ({
    kind: "hash-vote",
    ...{ groups, clip, hashSeed, hashVersion },
  }),
  create: ({ groups, hashSeed, hashes, perText }) => ({
    name: "hash-vote",
    traits: { acrossProcesses: "mean", exclusiveRoles: { examples: "replaces each text by groups of its words" } },
    transformExamples(examples, { modifiableFields: editableFields }, rng) {
      return examples.flatMap((example): Example[] => {
        const parts = Array.from({ length: hashes }, (_, i) =>
          splitIntoGroups(example.texts, { groups, hashSeed: hashSeed + i, editableFields }),
        ).flat();
        const used = [...parts.keys()].filter((group) => parts[group] !== null);
        const chosen = perText === null ? used : rng.fork(example.id).shuffle(used).slice(0, perText);
        return chosen.map((group) => ({ ...example, id: `${example.id}#${group}`, texts: parts[group]! }));
      });
    },
  }),
});
