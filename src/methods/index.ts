import { UserError } from "../errors.js";
import { didYouMean } from "../near-miss.js";
import type { Layer } from "../train/index.js";
import { validate } from "../validate.js";
import { childTuning } from "./child-tuning.js";
import { freelb } from "./freelb.js";
import type { Method } from "./method.js";
import { rDrop } from "./r-drop.js";
import { rose } from "./rose.js";
import { smart } from "./smart.js";

// Registration is an import and a line here.
const all: readonly Method[] = [
  rDrop, //
  rose,
  childTuning,
  smart,
  freelb,
];

export const methods: ReadonlyMap<string, Method> = new Map(all.map((method) => [method.name, method]));

/** A method as a config names it: alone, or with options. */
export interface MethodChoice {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/** The layers of a list of methods, innermost first. `standard` is the base of all and adds none. */
export function createLayers(choices: readonly MethodChoice[], where = "method"): Layer[] {
  return choices.flatMap(({ name, options }, i) => {
    if (name === "standard") return [];
    const method = methods.get(name);
    const names = ["standard", ...methods.keys()];
    if (!method)
      throw new UserError(`${where}[${i}]: unknown method "${name}"${didYouMean(name, names)}; the methods are ${names.join(", ")}`);
    return [method.create(validate(method.options, options, `${where}[${i}] (${name})`))];
  });
}
