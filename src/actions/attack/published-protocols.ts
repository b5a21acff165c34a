import { minSentenceSimilarity } from "../../attacks/constraints/sentence-similarity.js";
import type { Attack } from "../../attacks/define-attack.js";
import type { Constraint } from "../../attacks/protocol.js";
import type { AttackResources } from "../../attacks/resources.js";
import type { Example } from "../../tasks/example.js";

/** The protocol of a publication, so that numbers can stand beside its own. */
interface Protocol {
  readonly attacks: readonly Pick<Attack, "name" | "options">[];
  readonly queriesPerWord: number;
  /** Returns true if a text can be drawn for the attacked sample. */
  isAttacked(example: Example): boolean;
  /** The largest fraction of changed words, by task. */
  getMaxModificationRate(task: string): number;
  /** Creates the constraints that every attack has besides its own. */
  createConstraints(resources: Partial<AttackResources>): Constraint[];
}

const neighbors = 50;
/** Texts of at most four words are not attacked (main.py:253 of the released code). */
const minWords = 5;
/** The angular similarity of windows that TextFooler published, for the Universal Sentence Encoder. */
const similarity = 0.840845057;

/** The recipes of TextAttack. Its searches compare probabilities. */
const textattack = { compat: "textattack", scores: "probabilities" };

/**
 * Li et al. 2021, Searching for an Effective Defender, as in the released code: TextFooler and
 * TextBugger swap words with 50 neighbors of any distance, BERT-Attack with 50 predicted words.
 */
const textdefender: Protocol = {
  attacks: [
    { name: "textfooler", options: { ...textattack, neighbors, wordSimilarity: -1, similarity } },
    { name: "textbugger", options: { ...textattack, neighbors, characters: false } },
    { name: "bert-attack", options: { ...textattack, candidates: neighbors } },
  ],
  queriesPerWord: neighbors,
  isAttacked: ({ texts }) => texts[0]!.split(" ").length >= minWords,
  getMaxModificationRate: (task) => (task === "imdb" ? 0.1 : 0.3),
  createConstraints: ({ encoder }) => [
    minSentenceSimilarity(encoder!, {
      threshold: similarity,
      metric: "angular",
      window: 15,
      reference: "current",
      skipsShortTexts: true,
    }),
  ],
};

export const protocolNames = ["textdefender"] as const;
export type ProtocolName = (typeof protocolNames)[number];
const protocols: Readonly<Record<ProtocolName, Protocol>> = { textdefender };

/** Fills in the attacks and the budget of a protocol. Values that the request has are kept. */
export function applyProtocol<
  Request extends {
    readonly protocol?: ProtocolName | null | undefined;
    readonly attacks?: unknown;
    readonly queryBudget?: number | null | undefined;
    readonly queriesPerWord?: number | null | undefined;
  },
>(request: Request): Request {
  const found = request.protocol && protocols[request.protocol];
  if (!found) return request;
  const queriesPerWord = request.queriesPerWord ?? (request.queryBudget ? null : found.queriesPerWord);
  return { ...request, attacks: request.attacks ?? found.attacks, queriesPerWord };
}

/** Fills in the largest fraction of changed words, which depends on the task, unless the request has one. */
export function limitModification<
  Request extends { readonly protocol: ProtocolName | null; readonly maxModificationRate: number | null },
>(request: Request, task: string): Request {
  const { protocol } = request;
  if (protocol === null || request.maxModificationRate !== null) return request;
  return { ...request, maxModificationRate: protocols[protocol].getMaxModificationRate(task) };
}

/** The texts that a protocol attacks: all of them without one. */
export function selectAttacked(protocol: ProtocolName | null, examples: readonly Example[]): readonly Example[] {
  return protocol === null ? examples : examples.filter(protocols[protocol].isAttacked);
}

/** The constraints that a protocol adds to every attack. They need the resource "encoder". */
export function createProtocolConstraints(
  protocol: ProtocolName | null,
  resources: Partial<AttackResources>,
): Constraint[] {
  return protocol === null ? [] : protocols[protocol].createConstraints(resources);
}
