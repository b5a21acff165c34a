import { UserError } from "../errors.js";
import { didYouMean } from "../near-miss.js";
import type { Layer } from "../train/index.js";
import { validate } from "../validate.js";
import { ascc } from "./ascc.js";
import { childTuning } from "./child-tuning.js";
import { freelb } from "./freelb.js";
import type { Method } from "./method.js";
import { mixout } from "./mixout.js";
import { ptwd } from "./ptwd.js";
import { rDrop } from "./r-drop.js";
import { rift } from "./rift.js";
import { rose } from "./rose.js";
import { smart } from "./smart.js";

// Registration is an import and a line here.
const all: readonly Method[] = [
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

export const methods: ReadonlyMap<string, Method> = new Map(all.map((method) => [method.name, method]));

/** A method as a config names it: alone, or with options. */
export interface MethodChoice {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/** Names the place of a method, or of one of its options, in messages. */
export type MethodPlace = (index: number, name: string, path?: readonly PropertyKey[]) => string;

/** The layers of a list of methods, innermost first. `standard` is the base of all and adds none. */
export function createLayers(choices: readonly MethodChoice[], place: MethodPlace = (i, name) => `method[${i}] (${name})`): Layer[] {
  return choices.flatMap(({ name, options }, i) => {
    if (name === "standard") return [];
    const method = methods.get(name);
    const names = ["standard", ...methods.keys()];
    if (!method)
      throw new UserError(`${place(i, name)}: there is no such method${didYouMean(name, names)}; the methods are ${names.join(", ")}`);
    return [method.create(validate(method.options, options, (path) => place(i, name, path)))];
  });
}
