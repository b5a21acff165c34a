import { z } from "zod";
import { formatCommandLine, toFlag } from "../base/shell.js";

export const severities = ["high", "medium", "low"] as const;
export type Severity = (typeof severities)[number];

/** The three outcomes of ISO/IEC 24029-2. */
const outcomes = ["proven", "counterexample", "inconclusive"] as const;

const exampleSchema = z.object({
  id: z.string().optional(),
  text: z.string(),
  /** The problem that the text shows. */
  note: z.string(),
});
export type ShownText = Readonly<z.output<typeof exampleSchema>>;

const evidenceSchema = z.object({
  /** The finding in one or two sentences. */
  summary: z.string(),
  /** The texts that the claim is about. */
  domain: z.string(),
  method: z.string(),
  numbers: z.record(z.string(), z.number()).default({}),
  /** The IDs of all texts that show it. */
  ids: z.array(z.string()).default([]),
  /** The first of them. */
  texts: z.array(exampleSchema).default([]),
  /** The next thing to do, and the command that does it. */
  remedy: z.string().nullable().default(null),
  command: z.string().nullable().default(null),
});

/** A property that a model or its data should have, and what was found about it. */
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

/** Texts that a finding shows, and characters of each. */
const maxTexts = 5;
const maxCharacters = 400;

/** Creates a claim. Without a severity it is not a finding. */
export function createClaim(
  { id, area, claim }: Pick<Claim, "id" | "area" | "claim">,
  severity: Severity | null,
  evidence: z.input<typeof evidenceSchema>,
  outcome: Claim["outcome"] = severity === null ? "inconclusive" : "counterexample",
): Claim {
  const texts = (evidence.texts ?? []).slice(0, maxTexts).map(({ text, ...rest }) => ({
    ...rest,
    text: text.length > maxCharacters ? `${text.slice(0, maxCharacters)}…` : text,
  }));
  return { id, area, severity, claim, outcome, evidence: evidenceSchema.parse({ ...evidence, texts }) };
}

/** The severity of a rate from its limits for low, medium and high; null below all. */
export function rateSeverity(rate: number, [low, medium, high]: readonly [number, number, number]): Severity | null {
  return rate >= high ? "high" : rate >= medium ? "medium" : rate >= low ? "low" : null;
}

/** A command line with flags of a request: { textColumn: ["a"] } is --text-column a. Empty values are left out. */
export function formatRemedy(words: readonly string[], flags: Readonly<Record<string, unknown>> = {}): string {
  const options = Object.entries(flags).flatMap(([key, value]) =>
    [value ?? []].flat().flatMap((each) => [toFlag(key), String(each)]),
  );
  return formatCommandLine(["temper", ...words, ...options]);
}
