import { z } from "zod";

/** Candidates whose scores have one hash. */
export const blockSize = 65_536;

/** More substitutions cannot be enumerated. */
export const maxSubstitutions = 64;

const index = z.int().min(0);
const editsSchema = z.array(z.tuple([index, z.string()]).readonly()).readonly();
/** The substitutions of a text: pairs of a position and a word. */
export type SubstitutionList = z.output<typeof editsSchema>;

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

/** A line of a proof after its header. Lines are in the order in which they were computed. */
export const proofLineSchema = z.discriminatedUnion("kind", [
  /** The start of a text: its space after the reduction, and what the attack found. */
  z.object({
    kind: z.literal("text"),
    index,
    id: z.string(),
    label: index,
    texts: z.array(z.string()).min(1).max(2).readonly(),
    /** The logit margin of the original text. */
    margin: z.number(),
    words: z
      .array(
        z.object({
          position: index,
          field: index,
          start: index,
          end: index,
          substitutes: z.array(z.string()).min(1).readonly(),
        }),
      )
      .readonly(),
    /** The substitutions of the attack, if it fooled the victim; otherwise null. */
    attack: editsSchema.nullable(),
  }),
  /** Candidates of one level, in the order of the enumeration. */
  z.object({
    kind: z.literal("block"),
    index,
    changes: z.int().min(1).max(maxSubstitutions),
    block: index,
    /** The number of candidates: `blockSize`, or fewer at the end of a level. */
    count: z.int().min(1).max(blockSize),
    /** The smallest logit margin, and the candidate that has it. */
    margin: z.number(),
    edits: editsSchema,
    /** Candidates that were scored again, because a rough score could not decide them. */
    repeated: index,
    /** SHA-256 of the logit margins, in the order of the candidates. */
    hash: sha256,
  }),
  /** The substitutions from the most to the least promising, by their margins alone. */
  z.object({ kind: z.literal("order"), index, order: z.array(index) }),
  /** The end of a text. */
  z.object({
    kind: z.literal("result"),
    index,
    minChanges: z.int().min(0).nullable(),
    provenUpTo: z.int().min(-1),
    /** Substitutions that fool the victim; null if none are known. */
    edits: editsSchema.nullable(),
    /** Candidates that were scored. */
    scored: index,
  }),
]);

export type ProofLine = z.output<typeof proofLineSchema>;
export type TextLine = Extract<ProofLine, { kind: "text" }>;
export type BlockLine = Extract<ProofLine, { kind: "block" }>;
export type ResultLine = Extract<ProofLine, { kind: "result" }>;
