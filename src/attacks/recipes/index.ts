import type { RecipeDefinition } from "../recipe.js";
import { a2t } from "./a2t.js";
import { alzantot } from "./alzantot.js";
import { badCharacters } from "./bad-characters.js";
import { bae } from "./bae.js";
import { bertAttack } from "./bert-attack.js";
import { checklist } from "./checklist.js";
import { clare } from "./clare.js";
import { deepwordbug } from "./deepwordbug.js";
import { evasion } from "./evasion.js";
import { fasterAlzantot } from "./faster-alzantot.js";
import { hotflip } from "./hotflip.js";
import { iga } from "./iga.js";
import { inputReduction } from "./input-reduction.js";
import { leap } from "./leap.js";
import { pruthi } from "./pruthi.js";
import { pso } from "./pso.js";
import { textbugger } from "./textbugger.js";
import { textfooler } from "./textfooler.js";

/** The recipes by name. */
export const recipes: ReadonlyMap<string, RecipeDefinition> = new Map(
  [
    ...[textfooler, deepwordbug, textbugger, pruthi, inputReduction, checklist, badCharacters, leap, pso],
    ...[alzantot, fasterAlzantot, iga, hotflip, a2t, bae, bertAttack, clare, evasion],
  ].map((recipe) => [recipe.name, recipe]),
);
