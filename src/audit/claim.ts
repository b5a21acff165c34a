import { z } from "zod";
import type { Example } from "../tasks/index.js";

export const severities = ["high", "medium", "low"] as const;
type Severity = (typeof severities)[number];

/** The three outcomes of ISO/IEC 24029-2. */
const outcomes = ["proven", "counterexample", "inconclusive"] as const;

const exampleSchema = z.object({
  id: z.string().optional(),
  text: z.string(),
  note: z.string(),
});
export type ShownText = Readonly<z.output<typeof exampleSchema>>;

const evidenceSchema = z.object({
  summary: z.string(),
  domain: z.string(),
  method: z.string(),
  numbers: z.record(z.string(), z.number()).default({}),
  /** The IDs of all texts that show it. */
  ids: z.array(z.string()).default([]),
  texts: z.array(exampleSchema).default([]),
  /** The next thing to do, and the command that does it. */
  remedy: z.string().nullable().default(null),
  command: z.string().nullable().default(null),
});

export const claimSchema = z.object({
  id: z.string(),
  area: z.enum(["clean", "attacked", "proven", "input", "data"]),
  /** Null if nothing speaks against the claim. */
  severity: z.enum(severities).nullable(),
  claim: z.string(),
  outcome: z.enum(outcomes),
  evidence: evidenceSchema,
});
export type Claim = z.output<typeof claimSchema>;

/** The next thing to do about a finding, and the command that does it, if there is one. */
export interface Remedy {
  readonly remedy: string;
  readonly command?: string | null;
}

type ClaimFacts = Omit<Claim, "outcome" | "evidence"> &
  Omit<z.input<typeof evidenceSchema>, "remedy" | "command"> & {
    /** Default: a finding has a counterexample, and everything else is inconclusive. */
    readonly outcome?: Claim["outcome"];
    readonly remedy?: Remedy;
  };

/** Texts that a finding shows, and characters of each. */
const maxTexts = 5;
const maxCharacters = 400;

/** Creates a claim. Without a severity it is not a finding, and needs no remedy. */
export function createClaim({ id, area, severity, claim, outcome, remedy, ...evidence }: ClaimFacts): Claim {
  const { texts = [], ids = texts.flatMap((each) => each.id ?? []) } = evidence;
  const shown = texts.slice(0, maxTexts).map(({ text, ...rest }) => ({
    ...rest,
    // Half a character could not be written to a file.
    text: text.length > maxCharacters ? `${text.slice(0, maxCharacters).replace(/[\ud800-\udbff]$/, "")}…` : text,
  }));
  return {
    id,
    area,
    severity,
    claim,
    outcome: outcome ?? (severity === null ? "inconclusive" : "counterexample"),
    evidence: evidenceSchema.parse({ ...evidence, ids, texts: shown, ...(severity !== null && remedy) }),
  };
}

export function showExample({ id, texts }: Pick<Example, "id" | "texts">, note: string): ShownText {
  return { id, text: texts.join(" | "), note };
}

export function rateSeverity(rate: number, [low, medium, high]: readonly [number, number, number]): Severity | null {
  return rate >= high ? "high" : rate >= medium ? "medium" : rate >= low ? "low" : null;
}
