import { checkAttack } from "./checks/attacked.js";
import { checkClean } from "./checks/clean.js";
import { checkInput } from "./checks/input.js";
import { checkLabelErrors } from "./checks/label-errors.js";
import { checkLeaks } from "./checks/leaks.js";
import { checkCertificates, checkExact } from "./checks/proven.js";
import { checkWords } from "./checks/words.js";
import type { AuditContext, StepResult } from "./context.js";
import type { AuditPlan } from "./plan.js";

/** A part of an audit that is done or not. What it uses of the plan decides whether it has to be repeated. */
export interface AuditStep {
  readonly name: string;
  readonly uses: readonly (keyof AuditPlan)[];
  /** The fraction of the time that is left which the step may take at first; default: all of it. */
  readonly share?: number;
  run(context: AuditContext): StepResult | Promise<StepResult>;
}

/** The steps of a plan, in the order of what is known soonest. */
export function listSteps({ attacks, maxChanges }: AuditPlan): AuditStep[] {
  const exact: AuditStep = { name: "exact", uses: ["exactTexts", "maxChanges"], run: checkExact };
  return [
    { name: "clean", uses: ["cleanTexts"], run: checkClean },
    { name: "duplicates", uses: ["cleanTexts"], run: checkLeaks },
    { name: "label errors", uses: ["cleanTexts"], run: checkLabelErrors },
    { name: "input", uses: ["cleanTexts", "inputTexts"], run: checkInput },
    ...attacks.map(
      ({ name }, i): AuditStep => ({
        name: `attack ${name}`,
        uses: ["attackedTexts", "queryBudget", "attacks"],
        // A slow host must not spend everything on the first attack.
        share: 0.7 / (attacks.length - i),
        run: (context) => checkAttack(context, name),
      }),
    ),
    { name: "words", uses: ["cleanTexts", "triggerWords"], run: checkWords },
    ...(maxChanges > 0 ? [exact] : []),
    { name: "certificates", uses: ["exactTexts"], run: checkCertificates },
  ];
}
