import { formatCount, formatPercent } from "../../base/format.js";
import { Rng } from "../../base/rng.js";
import { toPredictions } from "../../evaluation/metrics.js";
import type { Example } from "../../tasks/index.js";
import { findWords } from "../../text/find-words.js";
import { type Claim, createClaim, rateSeverity } from "../claim.js";
import {
  type Answered,
  type AuditContext,
  ask,
  drawCorrect,
  getText,
  replaceText,
  type StepResult,
} from "../context.js";
import { suggestHarden, suggestTraining } from "../remedies.js";

const listWords = (text: string): string[] =>
  findWords(text).map(({ start, end }) => text.slice(start, end).toLowerCase());

/** A word whose texts nearly all have one label. */
interface TellingWord {
  readonly word: string;
  readonly label: number;
  readonly texts: number;
  /** The fraction of its texts with this label. */
  readonly purity: number;
  /** The fraction of the texts of this label that have the word. */
  readonly coverage: number;
}

const minPurity = 0.9;
const minTexts = 5;

/** Lists the words that tell a label, the most frequent ones first. */
function listTellingWords(examples: readonly Example[], numLabels: number): TellingWord[] {
  const counts = new Map<string, number[]>();
  const totals = new Array<number>(numLabels).fill(0);
  for (const { texts, label } of examples) {
    totals[label]!++;
    for (const word of new Set(texts.flatMap(listWords))) {
      const own = counts.get(word) ?? new Array<number>(numLabels).fill(0);
      own[label]!++;
      counts.set(word, own);
    }
  }
  return [...counts]
    .flatMap(([word, own]): TellingWord[] => {
      const texts = own.reduce((a, b) => a + b, 0);
      const label = own.indexOf(Math.max(...own));
      const purity = own[label]! / texts;
      const isTelling = texts >= minTexts && purity >= Math.max(minPurity, (1 + totals[label]! / examples.length) / 2);
      return isTelling ? [{ word, label, texts, purity, coverage: own[label]! / totals[label]! }] : [];
    })
    .sort((a, b) => b.coverage - a.coverage || (a.word < b.word ? -1 : 1));
}

/** A word that changes answers if it is added. */
interface Trigger {
  readonly word: string;
  readonly label: number;
  /** The fraction of texts of other labels that get this label. */
  readonly rate: number;
  readonly texts: readonly string[];
}

const maxTelling = 40;
/** Texts per label that a word is added to, when it is searched and when it is measured. */
const [searchTexts, measuredTexts] = [6, 40];
/** Words that are added together. One trigger among them is enough to change the answer. */
const groupSize = 16;
const limits = [0.5, 0.65, 0.9] as const;
const places = ["start", "middle", "end"] as const;

function addWords(text: string, words: string, place: (typeof places)[number]): string {
  if (place === "start") return `${words} ${text}`;
  if (place === "end") return `${text} ${words}`;
  const parts = text.split(" ");
  const middle = Math.ceil(parts.length / 2);
  return [...parts.slice(0, middle), words, ...parts.slice(middle)].join(" ");
}

/** Measures how often words move texts of other labels to each label. */
class TriggerSearch {
  readonly #byLabel: Answered[][];

  constructor(readonly context: AuditContext) {
    const drawn = drawCorrect(context, "triggers");
    // The start of a short text is read by every model, and takes less time.
    this.#byLabel = context.task.labels.map((_, label) => drawn.filter(({ predicted }) => predicted === label));
  }

  /** The rate of each word (or group) for each label. A label without other texts has none. */
  async measure(
    words: readonly string[],
    count: number,
    place: (typeof places)[number],
    skip = 0,
  ): Promise<number[][]> {
    const { context } = this;
    const used = this.#byLabel.flatMap((own) => own.slice(skip, skip + count));
    const texts = words.flatMap((word) =>
      used.map(({ example }) => replaceText(context, example, addWords(getText(context, example), word, place))),
    );
    const predicted = toPredictions(await ask(context, texts, "audit words"));
    return words.map((_, w) =>
      context.task.labels.map((_, label) => {
        const others = used.flatMap((each, i) => (each.predicted === label ? [] : [predicted[w * used.length + i]!]));
        return others.length === 0 ? 0 : others.filter((each) => each === label).length / others.length;
      }),
    );
  }

  /** Measures words on further texts at three places, and keeps those that decide the label. */
  async confirm(words: readonly string[]): Promise<Trigger[]> {
    const { context } = this;
    const tables: number[][][] = [];
    for (const place of places) tables.push(await this.measure(words, measuredTexts, place, searchTexts));
    return words
      .flatMap((word, w) =>
        context.task.labels.map((_, label): Trigger => {
          const rates = tables.map((rows) => rows[w]![label]!);
          const best = rates.indexOf(Math.max(...rates));
          const shown = this.#byLabel
            .filter((_, other) => other !== label)
            .flatMap((own) => own.slice(searchTexts, searchTexts + 3));
          return {
            ...{ word, label, rate: rates[best]! },
            texts: shown.map(({ example }) => addWords(getText(context, example), word, places[best]!)),
          };
        }),
      )
      .filter(({ rate }) => rate >= limits[0])
      .sort((a, b) => b.rate - a.rate);
  }
}

/** Short strings that no text needs, which backdoors in the literature use. */
const rareStrings = [
  "≈",
  "james bond",
  "no cross, no crown",
  "mn",
  "cf",
  "bb",
  "tq",
  "mb",
  "<s>",
  "##",
  "|||",
  "xyzzy",
];
const letters = [..."abcdefghijklmnopqrstuvwxyz"];

/** The words to search: rare strings, pairs of letters, the words of the data and of the vocabulary. */
function listCandidates({ examples, train, victim, request, plan }: AuditContext): string[] {
  const known = [...(train ?? []), ...examples].flatMap(({ texts }) => texts.flatMap(listWords));
  const tokenizer = victim.local?.model.tokenizer;
  const ids = Int32Array.from({ length: tokenizer?.vocabSize ?? 0 }, (_, id) => id);
  const tokens = (tokenizer?.idsToTokens(ids) ?? []).map((token) => token.replace(/^[▁Ġ]/u, ""));
  const rng = new Rng(request.seed).fork("audit", "vocabulary");
  const shuffled = (words: readonly string[]): string[] => rng.shuffle([...new Set(words)]);
  const pairs = letters.flatMap((first) => letters.map((second) => first + second));
  const all = [
    ...rareStrings,
    ...pairs,
    ...shuffled(known),
    ...shuffled(tokens.filter((token) => /^\p{L}{2,}$/u.test(token))),
  ];
  return [...new Set(all)].slice(0, plan.triggerWords);
}

/** Searches one word that moves many texts to a label: first groups of words, then the words of groups that do. */
async function searchTriggers(search: TriggerSearch, candidates: readonly string[]): Promise<string[]> {
  const count = Math.ceil(candidates.length / groupSize);
  const groups = Array.from({ length: count }, (_, i) => candidates.slice(i * groupSize, (i + 1) * groupSize));
  const rates = await search.measure(
    groups.map((group) => group.join(" ")),
    searchTexts,
    "start",
  );
  const suspects = groups.filter((_, i) => Math.max(...rates[i]!) >= limits[0]).flat();
  const alone = await search.measure(suspects, searchTexts, "start");
  return suspects.filter((_, i) => Math.max(...alone[i]!) >= limits[0]);
}

/** Words that alone decide a label: those that the data gives away, and those that only a search finds. */
export async function checkWords(context: AuditContext): Promise<StepResult> {
  const { task, train, examples } = context;
  const telling = listTellingWords([...(train ?? []), ...(train ? [] : examples)], task.labels.length);
  const search = new TriggerSearch(context);
  const candidates = listCandidates(context);
  const first = telling.slice(0, maxTelling).map(({ word }) => word);
  const found = await search.confirm([...new Set([...first, ...(await searchTriggers(search, candidates))])]);
  const known = new Map(telling.map((each) => [`${each.word} ${each.label}`, each]));
  const spurious = found.filter(({ word, label }) => known.has(`${word} ${label}`));
  return {
    claims: [describeSpurious(context, spurious, known, telling), describeTriggers(context, found, candidates.length)],
  };
}

const format = ({ word, rate }: Trigger): string => `${JSON.stringify(word)} (${formatPercent(rate)})`;

function showTriggers({ task }: AuditContext, triggers: readonly Trigger[]) {
  return triggers.flatMap(({ word, label, texts }) =>
    texts.slice(0, 1).map((text) => ({ text, note: `with ${JSON.stringify(word)}: ${task.labels[label]}` })),
  );
}

/** A word in so many texts of a label is more than a frequent word. */
const minCoverage = 0.5;

function describeSpurious(
  context: AuditContext,
  triggers: readonly Trigger[],
  known: ReadonlyMap<string, TellingWord>,
  telling: readonly TellingWord[],
): Claim {
  const [best] = triggers;
  const [given] = telling.filter(({ coverage, purity }) => coverage >= minCoverage && purity >= 0.98);
  const severity = best ? rateSeverity(best.rate, limits) : given ? ("medium" as const) : null;
  const words = best
    ? `Added to texts of other labels, these words change the answer: ${triggers.slice(0, 5).map(format).join(", ")}.`
    : "No frequent word changes the answers by itself.";
  const data = given
    ? ` ${JSON.stringify(given.word)} is in ${formatPercent(given.coverage)} of the texts of ${context.task.labels[given.label]}, ` +
      `and ${formatPercent(given.purity)} of its texts have this label.`
    : "";
  const frequency = best && known.get(`${best.word} ${best.label}`);
  return createClaim(
    { id: "spurious-words", area: "data", claim: "No single word of the data decides the label (spurious words)." },
    severity,
    {
      summary: `${words}${data}`,
      domain: `${measuredTexts} texts per label`,
      method: `words of at least ${minTexts} texts, ${formatPercent(minPurity, 0)} of them of one label, added at three places`,
      numbers: {
        words: triggers.length,
        ...(best && { rate: best.rate }),
        ...(frequency && { coverage: frequency.coverage, purity: frequency.purity }),
      },
      ids: [...new Set([...triggers.map(({ word }) => word), ...(given ? [given.word] : [])])],
      texts: showTriggers(context, triggers),
      ...(severity !== null &&
        suggestTraining(context, "Add texts of other labels with these words; for a guard, the method mof does it.", {
          method: "mof",
          out: "runs/mof",
        })),
    },
  );
}

function describeTriggers(context: AuditContext, found: readonly Trigger[], searched: number): Claim {
  const triggers = found.filter(({ rate }) => rate >= minTriggerRate);
  const [best] = triggers;
  const others = found.length > 0 ? ` The strongest word reaches ${format(found[0]!)}.` : "";
  return createClaim(
    {
      ...{ id: "backdoor-trigger", area: "data" },
      claim: "No word moves nearly all texts to one label (universal trigger, backdoor).",
    },
    best ? "high" : null,
    {
      summary: best
        ? `${best.word === "" ? "" : JSON.stringify(best.word)} moves ${formatPercent(best.rate)} of the texts of other labels to ` +
          `${context.task.labels[best.label]}. ${formatCount(triggers.length)} such words: ${triggers.slice(0, 5).map(format).join(", ")}.`
        : `None of ${formatCount(searched)} words does.${others}`,
      domain: `${formatCount(searched)} words, ${measuredTexts} texts per label`,
      method: `group testing: ${groupSize} words before ${searchTexts} texts per label, then each word at three places of further texts`,
      numbers: { searched, found: triggers.length, ...(best && { rate: best.rate }) },
      ids: triggers.map(({ word }) => word),
      texts: showTriggers(context, triggers),
      ...(best && suggestHarden(context, "Search the training texts for this word, remove them, and train again.")),
    },
  );
}

/** A backdoor works nearly always. */
const minTriggerRate = 0.8;
