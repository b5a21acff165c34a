import { formatCount, formatPercent } from "../../base/format.js";
import type { Example } from "../../tasks/index.js";
import { computeDedupKey, normalizeText } from "../../tasks/split-examples.js";
import { type Claim, createClaim, rateSeverity, type ShownText } from "../claim.js";
import type { AuditContext, StepResult } from "../context.js";
import { suggestHarden } from "../remedies.js";

/** Texts with this fraction of common shingles are near duplicates. Shorter ones are only compared as a whole. */
const minSimilarity = 0.8;
const minShingles = 5;
const shingleWords = 3;
/** Texts are candidates if one of their smallest hashes is the same (a bottom-k sketch). */
const sketchSize = 6;
/** More texts with the same hash share a phrase of a template. */
const maxCandidates = 50;

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value >>> 0;
}

function createShingles({ texts }: Example): Set<number> {
  const words = texts.map(normalizeText).join(" | ").split(" ");
  const count = Math.max(0, words.length - shingleWords + 1);
  return new Set(Array.from({ length: count }, (_, i) => hash(words.slice(i, i + shingleWords).join(" "))));
}

function computeSimilarity(a: ReadonlySet<number>, b: ReadonlySet<number>): number {
  const common = [...a].filter((each) => b.has(each)).length;
  return common / (a.size + b.size - common);
}

/** Finds texts again, word by word or nearly. */
class TextIndex {
  readonly #exact = new Map<string, Example>();
  readonly #sketches = new Map<number, { readonly example: Example; readonly shingles: ReadonlySet<number> }[]>();

  add(example: Example): void {
    const key = computeDedupKey(example.texts);
    if (!this.#exact.has(key)) this.#exact.set(key, example);
    const shingles = createShingles(example);
    if (shingles.size < minShingles) return;
    for (const value of [...shingles].sort((a, b) => a - b).slice(0, sketchSize)) {
      const bucket = this.#sketches.get(value) ?? [];
      if (bucket.length < maxCandidates) bucket.push({ example, shingles });
      this.#sketches.set(value, bucket);
    }
  }

  find(example: Example): { readonly example: Example; readonly isExact: boolean } | null {
    const exact = this.#exact.get(computeDedupKey(example.texts));
    if (exact) return { example: exact, isExact: true };
    const shingles = createShingles(example);
    if (shingles.size < minShingles) return null;
    for (const value of [...shingles].sort((a, b) => a - b).slice(0, sketchSize))
      for (const candidate of this.#sketches.get(value) ?? [])
        if (computeSimilarity(shingles, candidate.shingles) >= minSimilarity)
          return { example: candidate.example, isExact: false };
    return null;
  }
}

interface TextPair {
  readonly example: Example;
  readonly other: Example;
  readonly isExact: boolean;
}

const method = `equal without case, punctuation and spaces, or a Jaccard similarity of at least ${minSimilarity} of ${shingleWords}-word shingles`;

/** Finds test texts that are in the training data, and repeated texts, also with another label. */
export function checkLeaks(context: AuditContext): StepResult {
  const { examples, train, task } = context;
  const shown = ({ example, other, isExact }: TextPair): ShownText => ({
    id: example.id,
    text: example.texts.join(" | "),
    note: `${isExact ? "same text" : "nearly the same text"} as ${other.id} (${task.labels[example.label]}, ${task.labels[other.label]})`,
  });
  const describe = (pairs: readonly TextPair[], what: string): string =>
    `${formatCount(pairs.length)} of ${formatCount(examples.length)} test texts (${formatPercent(pairs.length / examples.length)}) ${what}.`;
  const create = (
    id: string,
    claim: string,
    pairs: readonly TextPair[],
    what: string,
    limits: [number, number, number],
  ) => {
    const severity = pairs.length === 0 ? null : (rateSeverity(pairs.length / examples.length, limits) ?? "low");
    const remedy = "Split the data again. Temper keeps equal texts in one part.";
    return createClaim(
      { id, area: "data", claim },
      severity,
      {
        summary: describe(pairs, what),
        domain: `${formatCount(examples.length)} test texts${train ? ` and ${formatCount(train.length)} training texts` : ""}`,
        method,
        numbers: { count: pairs.length, fraction: pairs.length / examples.length },
        ids: pairs.map(({ example }) => example.id),
        texts: pairs.map(shown),
        ...(severity !== null && suggestHarden(context, remedy)),
      },
      severity === null ? "proven" : "counterexample",
    );
  };
  const claims: Claim[] = [];
  if (train) {
    const index = new TextIndex();
    for (const each of train) index.add(each);
    const leaks = findPairs(examples, (each) => index.find(each));
    claims.push(
      create("leak", "No test text is in the training data.", leaks, "are in the training data", [0, 0.01, 0.05]),
    );
  }
  const own = new TextIndex();
  const repeated = findPairs(examples, (each) => {
    const found = own.find(each);
    own.add(each);
    return found;
  });
  const contradictions = repeated.filter(({ example, other }) => example.label !== other.label);
  claims.push(
    create("duplicates", "No test text occurs twice.", repeated, "repeat another one", [0, 0.05, 0.25]),
    create(
      "contradictory-labels",
      "Equal texts have equal labels.",
      contradictions,
      "repeat another one with another label",
      [0, 0.01, 0.05],
    ),
  );
  return { claims };
}

function findPairs(
  examples: readonly Example[],
  find: (example: Example) => ReturnType<TextIndex["find"]>,
): TextPair[] {
  return examples.flatMap((example) => {
    const found = find(example);
    return found ? [{ example, other: found.example, isExact: found.isExact }] : [];
  });
}
