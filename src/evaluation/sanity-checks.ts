import type { AttackSuiteSummary } from "./attack-summary.js";

/** What a summary alone does not show. */
export interface SanityFacts {
  /** True where the victim gave different answers to the same text. */
  readonly dropoutOn?: boolean;
  /** How the model was trained to read text, and how it was attacked. */
  readonly trainedEncoding?: string;
  readonly encoding?: string;
  /** Names of the attacks that use gradients. */
  readonly whiteBox?: readonly string[];
  /** Names of the attacks whose texts were made on another model. */
  readonly transfer?: readonly string[];
}

export interface SanityWarning {
  readonly name:
    | "label-map"
    | "dropout"
    | "black-beats-white"
    | "not-converged"
    | "transfer-beats-adaptive"
    | "few-substitutes"
    | "encoding";
  /** What is odd, and what it may mean. */
  readonly message: string;
}

type SanityCheck = (summary: AttackSuiteSummary, facts: SanityFacts) => SanityWarning[];

/** Differences below this many standard errors are luck, not signs. */
const significantStandardErrors = 2;

/** Signs that the numbers may not mean what they seem to; printed with every attack. */
export function runSanityChecks(summary: AttackSuiteSummary, facts: SanityFacts = {}): SanityWarning[] {
  return [
    checkLabelMap,
    checkDropout,
    checkBlackBeatsWhite,
    checkConvergence,
    checkTransferBeatsAdaptive,
    checkFewSubstitutes,
    checkEncoding,
  ].flatMap((check) => check(summary, facts));
}

const checkLabelMap: SanityCheck = ({ clean, majority }) =>
  clean < majority
    ? [
        {
          name: "label-map",
          message: `clean accuracy ${formatPercent(clean)} is below the share of the most frequent label (${formatPercent(majority)}): the label order may be wrong`,
        },
      ]
    : [];

const checkDropout: SanityCheck = (_, { dropoutOn }) =>
  dropoutOn
    ? [{ name: "dropout", message: "the victim gave different answers to the same text: dropout may be on" }]
    : [];

const checkBlackBeatsWhite: SanityCheck = (summary, { whiteBox = [] }) => {
  const black = findStrongestAttack(summary, (name) => !whiteBox.includes(name));
  const white = findStrongestAttack(summary, (name) => whiteBox.includes(name));
  if (!black || !white || !isClearlyBelow(black.accuracy, white.accuracy, summary.examples)) return [];
  return [
    {
      name: "black-beats-white",
      message: `${black.name} (${formatPercent(black.accuracy)}) is stronger than the white-box ${white.name} (${formatPercent(white.accuracy)}): gradients may be masked, or its steps too few`,
    },
  ];
};

const checkConvergence: SanityCheck = ({ attacks }) =>
  Object.entries(attacks)
    .filter(([, { limited, lateSuccesses, attacked }]) => limited && lateSuccesses > Math.max(1, 0.01 * attacked))
    .map(([name, { lateSuccesses, attacked }]) => ({
      name: "not-converged",
      message: `${name}: ${lateSuccesses} of ${attacked} fell in the last tenth of the budget: accuracy was still falling, a larger budget would find more`,
    }));

const checkTransferBeatsAdaptive: SanityCheck = (summary, { transfer = [] }) => {
  const moved = findStrongestAttack(summary, (name) => transfer.includes(name));
  const adaptive = findStrongestAttack(summary, (name) => !transfer.includes(name));
  if (!moved || !adaptive || !isClearlyBelow(moved.accuracy, adaptive.accuracy, summary.examples)) return [];
  return [
    {
      name: "transfer-beats-adaptive",
      message: `texts made on another model (${moved.name}, ${formatPercent(moved.accuracy)}) fool this one more than ${adaptive.name} does (${formatPercent(adaptive.accuracy)}): the adaptive attack is too weak`,
    },
  ];
};

const checkFewSubstitutes: SanityCheck = ({ space }) =>
  space.openWords < 0.1 * space.words
    ? [
        {
          name: "few-substitutes",
          message: `only ${space.openWords.toFixed(1)} of ${space.words.toFixed(1)} words a text have substitutes: the attack has little to work with`,
        },
      ]
    : [];

const checkEncoding: SanityCheck = (_, { trainedEncoding, encoding: used }) =>
  trainedEncoding !== undefined && used !== undefined && trainedEncoding !== used
    ? [
        {
          name: "encoding",
          message: `the model was trained with ${trainedEncoding} encoding and is attacked with ${used}`,
        },
      ]
    : [];

function findStrongestAttack(
  summary: AttackSuiteSummary,
  wanted: (name: string) => boolean,
): { name: string; accuracy: number } | undefined {
  const found = Object.entries(summary.attacks).filter(([name]) => wanted(name));
  found.sort(([, a], [, b]) => a.accuracyUnderAttack - b.accuracyUnderAttack);
  return found[0] && { name: found[0][0], accuracy: found[0][1].accuracyUnderAttack };
}

function isClearlyBelow(lower: number, higher: number, count: number): boolean {
  const middle = (lower + higher) / 2;
  return higher - lower > significantStandardErrors * Math.sqrt((middle * (1 - middle)) / count);
}

function formatPercent(value: number): string {
  return `${(100 * value).toFixed(1)} %`;
}
