import { formatCount } from "../base/format.js";
import { checkAttack } from "./checks/attacked.js";
import { checkClean } from "./checks/clean.js";
import { checkInput } from "./checks/input.js";
import { checkLabelErrors } from "./checks/label-errors.js";
import { checkLeaks } from "./checks/leaks.js";
import { checkCertificates, checkExact } from "./checks/proven.js";
import { checkWords } from "./checks/words.js";
import type { AuditContext, StepResult } from "./context.js";
import type { AuditPlan } from "./plan.js";

/** A part of an audit that is done or not. */
export interface AuditStep {
  readonly name: string;
  /** What it measures, as the plan says; null if the plan does not mention it. */
  readonly what: string | null;
  /** The sizes of the plan that decide whether the step has to be repeated. */
  readonly uses: readonly (keyof AuditPlan)[];
  /**
   * The fraction of the remaining time that the step may take at first, because a slow host must not spend
   * everything on one step; default: all of it.
   */
  readonly share?: number;
  run(context: AuditContext): Promise<StepResult>;
}

/** The steps of a plan, in the order of what is known soonest. */
export function listSteps({ plan, train }: Pick<AuditContext, "plan" | "train">): AuditStep[] {
  const { cleanTexts, inputTexts, triggerWords, attacks, attackedTexts, queryBudget, exactTexts, maxChanges } = plan;
  return [
    {
      name: "clean",
      what: `${formatCount(cleanTexts)} texts: accuracy, calibration, slices`,
      uses: ["cleanTexts"],
      run: checkClean,
    },
    {
      name: "data",
      what: `duplicates, label errors${train ? ", leaks, cross-validation" : " (more with --train-data)"}`,
      uses: ["cleanTexts"],
      share: 0.15,
      run: async (context) => ({ claims: [...checkLeaks(context), ...(await checkLabelErrors(context))] }),
    },
    {
      name: "input",
      what: `${formatCount(inputTexts)} texts: hidden text, length, look-alikes, spelling, languages`,
      uses: ["cleanTexts", "inputTexts"],
      share: 0.2,
      run: async (context) => ({ claims: await checkInput(context) }),
    },
    ...attacks.map(
      ({ name }, i): AuditStep => ({
        name: `attack ${name}`,
        what: `${formatCount(attackedTexts)} texts, ${formatCount(queryBudget)} queries each`,
        uses: ["attackedTexts", "queryBudget", "attacks"],
        share: 0.7 / (attacks.length - i),
        run: (context) => checkAttack(context, name),
      }),
    ),
    {
      name: "words",
      what: `${formatCount(triggerWords)} words: spurious words, universal triggers`,
      uses: ["cleanTexts", "triggerWords"],
      share: 0.5,
      run: async (context) => ({ claims: await checkWords(context) }),
    },
    {
      name: "exact",
      what:
        maxChanges === 0 ? "not enough time" : `${formatCount(exactTexts)} texts, up to ${maxChanges} substitutions`,
      uses: ["exactTexts", "maxChanges"],
      share: 0.7,
      run: async (context) => ({ claims: await checkExact(context) }),
    },
    {
      name: "certificates",
      what: null,
      uses: ["exactTexts"],
      run: async (context) => ({ claims: [await checkCertificates(context)] }),
    },
  ];
}
