import { formatCount, formatPercent } from "../../base/format.js";
import type { Example } from "../../tasks/index.js";
import { computeDedupKey, normalizeText } from "../../tasks/split-examples.js";
import { type Claim, createClaim, rateSeverity, showExample } from "../claim.js";
import { type AuditContext, suggestTraining } from "../context.js";

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

function sketch(shingles: ReadonlySet<number>): number[] {
  return shingles.size < minShingles ? [] : [...shingles].sort((a, b) => a - b).slice(0, sketchSize);
}

/** A text that occurs again, word by word or nearly. */
interface TextPair {
  readonly example: Example;
  readonly other: Example;
  readonly isExact: boolean;
}

class TextIndex {
  readonly #exact = new Map<string, Example>();
  readonly #sketches = new Map<number, { readonly other: Example; readonly shingles: ReadonlySet<number> }[]>();

  add(example: Example): void {
    const key = computeDedupKey(example.texts);
    if (!this.#exact.has(key)) this.#exact.set(key, example);
    const shingles = createShingles(example);
    for (const value of sketch(shingles)) {
      const bucket = this.#sketches.get(value) ?? [];
      if (bucket.length < maxCandidates) bucket.push({ other: example, shingles });
      this.#sketches.set(value, bucket);
    }
  }

  find(example: Example): TextPair | null {
    const exact = this.#exact.get(computeDedupKey(example.texts));
    if (exact) return { example, other: exact, isExact: true };
    const shingles = createShingles(example);
    const candidates = sketch(shingles).flatMap((value) => this.#sketches.get(value) ?? []);
    const found = candidates.find((each) => computeSimilarity(shingles, each.shingles) >= minSimilarity);
    return found ? { example, other: found.other, isExact: false } : null;
  }
}

const method = `equal without case, punctuation and spaces, or a Jaccard similarity of at least ${minSimilarity} of ${shingleWords}-word shingles`;

export function checkLeaks(context: AuditContext): Claim[] {
  const { examples, train, task } = context;
  const [known, own] = [new TextIndex(), new TextIndex()];
  for (const each of train ?? []) known.add(each);
  const repeated = examples.flatMap((each) => {
    const found = own.find(each);
    own.add(each);
    return found ?? [];
  });
  const leak = {
    id: "leak",
    claim: "No test text is in the training data.",
    what: "are in the training data",
    remedy: "Remove them from the training data, and train again.",
    pairs: examples.flatMap((each) => known.find(each) ?? []),
    limits: [0, 0.01, 0.05],
  } as const;
  const repetitions = [
    {
      id: "duplicates",
      claim: "No test text occurs twice.",
      what: "repeat another one",
      remedy: "Remove them from the test data. Temper keeps equal texts in one part when it splits a file.",
      pairs: repeated,
      limits: [0, 0.05, 0.25],
    },
    {
      id: "contradictory-labels",
      claim: "Equal texts have equal labels.",
      what: "repeat another one with another label",
      remedy: "Read these texts, and correct their labels.",
      pairs: repeated.filter(({ example, other }) => example.label !== other.label),
      limits: [0, 0.01, 0.05],
    },
  ] as const;
  const count = formatCount(examples.length);
  return [...(train ? [leak] : []), ...repetitions].map(({ id, claim, what, pairs, limits, remedy }) => {
    const fraction = pairs.length / examples.length;
    return createClaim({
      id,
      area: "data",
      severity: pairs.length === 0 ? null : rateSeverity(fraction, limits),
      claim,
      outcome: pairs.length === 0 ? "proven" : "counterexample",
      summary: `${formatCount(pairs.length)} of ${count} test texts (${formatPercent(fraction)}) ${what}.`,
      domain: `${count} test texts${train ? ` and ${formatCount(train.length)} training texts` : ""}`,
      method,
      numbers: { count: pairs.length, fraction },
      texts: pairs.map(({ example, other, isExact }) => {
        const labels = [example, other].map(({ label }) => task.labels[label]).join(", ");
        return showExample(example, `${isExact ? "same text" : "nearly the same text"} as ${other.id} (${labels})`);
      }),
      remedy: id === "leak" ? suggestTraining(context, remedy) : { remedy },
    });
  });
}
