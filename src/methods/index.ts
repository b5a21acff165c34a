import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import type { TrainingMethod } from "../train/index.js";
import { validate } from "../validate.js";
import { ascc } from "./ascc/ascc.js";
import { childTuning } from "./child-tuning.js";
import type { MethodDefinition } from "./define-method.js";
import { freelb } from "./freelb.js";
import { mixout } from "./mixout.js";
import { ptwd } from "./ptwd.js";
import { rDrop } from "./r-drop.js";
import { rift } from "./rift/rift.js";
import { rose } from "./rose/rose.js";
import { smart } from "./smart.js";

// Registration is an import and a line here.
const allMethods: readonly MethodDefinition[] = [
  ascc, //
  rift,
  ptwd,
  mixout,
  rDrop,
  rose,
  childTuning,
  smart,
  freelb,
];

export const methods: ReadonlyMap<string, MethodDefinition> = new Map(
  allMethods.map((method) => [method.name, method]),
);

/** A method as a config names it: alone, or with options. */
export interface MethodSpec {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/** Names the place of a method, or of one of its options, in messages. */
export type MethodLocator = (index: number, name: string, path?: readonly PropertyKey[]) => string;

/** The layers of a list of methods, innermost first. `standard` is the base of all and adds none. */
export function createMethods(
  choices: readonly MethodSpec[],
  locate: MethodLocator = (i, name) => `method[${i}] (${name})`,
): TrainingMethod[] {
  return choices.flatMap(({ name, options }, i) => {
    if (name === "standard") return [];
    const method = methods.get(name);
    const names = ["standard", ...methods.keys()];
    if (!method)
      throw new UserError(
        `${locate(i, name)}: there is no such method${didYouMean(name, names)}; the methods are ${names.join(", ")}`,
      );
    return [method.create(validate(method.options, options, (path) => locate(i, name, path)))];
  });
}
