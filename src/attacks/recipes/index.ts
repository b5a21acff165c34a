import type { AttackDefinition } from "../define-attack.js";
import { a2t } from "./a2t.js";
import { alzantot } from "./alzantot.js";
import { ascc } from "./ascc.js";
import { auto } from "./auto.js";
import { badCharacters } from "./bad-characters.js";
import { bae } from "./bae.js";
import { bertAttack } from "./bert-attack.js";
import { charmer } from "./charmer.js";
import { checklist } from "./checklist.js";
import { clare } from "./clare.js";
import { deepwordbug } from "./deepwordbug.js";
import { exhaustive } from "./exhaustive.js";
import { fasterAlzantot } from "./faster-alzantot.js";
import { genetic } from "./genetic.js";
import { greedy } from "./greedy.js";
import { guard } from "./guard.js";
import { hotflip } from "./hotflip.js";
import { iga } from "./iga.js";
import { inputReduction } from "./input-reduction.js";
import { leap } from "./leap.js";
import { localSearch } from "./local-search.js";
import { pruthi } from "./pruthi.js";
import { pso } from "./pso.js";
import { pwws } from "./pwws.js";
import { random } from "./random.js";
import { textbugger } from "./textbugger.js";
import { textfooler } from "./textfooler.js";

/** The built-in attacks. */
const builtIn = {
  pwws,
  genetic,
  greedy,
  random,
  exhaustive,
  ascc,
  auto,
  localSearch,
  textfooler,
  deepwordbug,
  textbugger,
  pruthi,
  inputReduction,
  checklist,
  badCharacters,
  leap,
  pso,
  alzantot,
  fasterAlzantot,
  iga,
  hotflip,
  a2t,
  bae,
  bertAttack,
  clare,
  guard,
  charmer,
};

export type AttackName = (typeof builtIn)[keyof typeof builtIn]["name"];

export const attacks: ReadonlyMap<string, AttackDefinition> = new Map(
  Object.values(builtIn).map((attack) => [attack.name, attack as unknown as AttackDefinition]),
);
