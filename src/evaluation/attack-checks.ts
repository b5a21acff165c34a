import { z } from "zod";
import type { AttackResult } from "../attacks/result.js";
import { mcNemar } from "./statistics.js";

/** The conditions of an attack whose failures say something about a model. */
const checkNames = ["budget", "random", "white-box", "transfer"] as const;

/**
 * Attacks on some of the texts again, by which an attack is checked: with a tenth of the budget, with
 * random changes, and guided by gradients.
 */
export const controlKinds = ["smaller-budget", "random", "white-box"] as const;
export type ControlKind = (typeof controlKinds)[number];

export const attackCheckSchema = z.object({
  name: z.enum(checkNames),
  /** Null if nothing was compared. The message says why. */
  isPassed: z.boolean().nullable(),
  message: z.string(),
});

/** One check of an attack: whether it holds, and the numbers. */
export type AttackCheck = Readonly<z.output<typeof attackCheckSchema>>;

/** Marks a number whose attack is weaker than another one that it must beat. */
export const notAdequate = "attack not adequate";

/** Returns false if a check of the attack failed. Its number is then no evidence of robustness. */
export function isAdequate(checks: readonly AttackCheck[] = []): boolean {
  return checks.every(({ isPassed }) => isPassed !== false);
}

export interface CheckedAttack {
  readonly results: readonly Pick<AttackResult, "id" | "outcome">[];
  readonly isWhiteBox: boolean;
  /** True if it tries the final texts of an attack on another model. */
  readonly isTransfer: boolean;
}

export type Controls = Partial<Readonly<Record<ControlKind, Pick<CheckedAttack, "results">>>>;

/**
 * Checks an attack by its controls and by the other attacks on the same model. A text that only one of
 * two attacks fools counts for that one; the sign test over these texts decides.
 *
 *     const checks = checkAttack("guard", attacks, { random, "smaller-budget": smaller });
 *     const isEvidence = isAdequate(checks);
 */
export function checkAttack(
  name: string,
  attacks: ReadonlyMap<string, CheckedAttack>,
  controls: Controls = {},
): AttackCheck[] {
  const attack = attacks.get(name)!;
  if (attack.isTransfer) return [];
  const others = [...attacks].filter(([other]) => other !== name);
  const random = controls.random ?? (name === "random" ? undefined : attacks.get("random"));
  const transfers = others.filter(([, { isTransfer }]) => isTransfer);
  return [
    checkBudget(attack, controls["smaller-budget"]),
    random
      ? checkRival("random", attack, [["random changes", random]])
      : skip("random", "no random changes were tried; --checks tries them"),
    checkWhiteBox(attack, others, controls["white-box"]),
    transfers.length > 0
      ? checkRival("transfer", attack, transfers)
      : skip("transfer", "no texts of another model were tried; --transfer-from JOURNAL tries them"),
  ];
}

/** The checks of an attack in one line each, or how many of them passed. */
export function describeChecks(checks: readonly AttackCheck[]): string {
  const words = ["passed", "failed", "not run"];
  const counts = [true, false, null].map((wanted) => checks.filter(({ isPassed }) => isPassed === wanted).length);
  const shown = counts.flatMap((count, i) => (count > 0 ? [`${count} ${words[i]}`] : []));
  return `${shown.join(", ")}${isAdequate(checks) ? "" : `: ${notAdequate}`}`;
}

const skip = (name: AttackCheck["name"], message: string): AttackCheck => ({ name, isPassed: null, message });

/** The texts that only the first or only the second of two attacks fools, of those that both have. */
function compareAttacks(first: Pick<CheckedAttack, "results">, second: Pick<CheckedAttack, "results">) {
  const outcomes = new Map(second.results.map(({ id, outcome }) => [id, outcome]));
  const common = first.results.filter(({ id }) => outcomes.has(id));
  // A text that one of them skips because the answer has changed is an error, too.
  const isFooled = (outcome: AttackResult["outcome"] | undefined): boolean => outcome !== "failed";
  const onlyFirst = common.filter(({ id, outcome }) => isFooled(outcome) && !isFooled(outcomes.get(id))).length;
  const onlySecond = common.filter(({ id, outcome }) => !isFooled(outcome) && isFooled(outcomes.get(id))).length;
  return { texts: common.length, onlyFirst, onlySecond };
}

/** A search with a smaller budget is the beginning of the same search, so it can fool no other text. */
function checkBudget(attack: CheckedAttack, smaller: Controls["smaller-budget"]): AttackCheck {
  if (!smaller) return skip("budget", "no smaller budget was tried; --checks tries one");
  const { texts, onlySecond } = compareAttacks(attack, smaller);
  const message = `a tenth of the budget fooled ${onlySecond} of ${texts} texts that the complete budget did not`;
  return { name: "budget", isPassed: onlySecond === 0, message };
}

/** Fails if another attack fools significantly more texts. */
function checkRival(
  name: AttackCheck["name"],
  attack: CheckedAttack,
  rivals: readonly (readonly [name: string, attack: Pick<CheckedAttack, "results">])[],
): AttackCheck {
  const found = rivals.map(([title, rival]) => ({ title, ...compareAttacks(attack, rival) }));
  const worst = found.reduce((a, b) => (b.onlySecond - b.onlyFirst > a.onlySecond - a.onlyFirst ? b : a));
  const { title, texts, onlyFirst, onlySecond } = worst;
  const isBeaten = onlySecond > onlyFirst && mcNemar(onlyFirst, onlySecond).exact < 0.05;
  const message = `of ${texts} texts, only the attack fooled ${onlyFirst}, and only ${title} ${onlySecond}`;
  return { name, isPassed: !isBeaten, message };
}

/** An attack that reads gradients knows more, so no attack that only asks may beat it. */
function checkWhiteBox(
  attack: CheckedAttack,
  others: readonly (readonly [string, CheckedAttack])[],
  control: Controls["white-box"],
): AttackCheck {
  const blackBoxes = others.filter(([, { isTransfer, isWhiteBox }]) => !isTransfer && !isWhiteBox);
  if (attack.isWhiteBox)
    return blackBoxes.length > 0
      ? checkRival("white-box", attack, blackBoxes)
      : skip("white-box", "no attack without gradients was tried");
  if (!control) return skip("white-box", "the attack was not guided by gradients; --checks does it for a local model");
  const { texts, onlyFirst, onlySecond } = compareAttacks(attack, control);
  const isMasked = onlyFirst > onlySecond && mcNemar(onlyFirst, onlySecond).exact < 0.05;
  const message = `of ${texts} texts, gradients fooled ${onlySecond} more, and missed ${onlyFirst}`;
  return { name: "white-box", isPassed: !isMasked, message };
}
