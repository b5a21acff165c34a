import { z } from "zod";
import type { JournalHeader } from "../../attacks/journal.js";
import { formatCommandLine, toFlag } from "../../base/shell.js";
import { formatSpec, type Spec } from "../../base/spec.js";
import type { AttackFolder } from "../../runs/attack-folder.js";
import type { RunFolder } from "../../runs/run-folder.js";
import { listChanges, type Settings } from "../train/format-train-command.js";
import { attackRequestSchema, toBudgetKeys } from "./attack-request.js";

export function formatAttackCommands({ folder, config }: RunFolder, { journals, report }: AttackFolder): string[] {
  const requested = readSpecs(report?.request.attacks);
  const earlier = [...journals].filter(
    ([name]) => !requested.some((spec) => spec.name === name) && !name.startsWith("transfer-"),
  );
  return [
    ...earlier.map(([, { header }]) => formatAttackCommand(toAttackRequest(header, folder, config.substitutions))),
    ...(report ? [formatAttackCommand(report.request)] : []),
  ];
}

function toAttackRequest(header: JournalHeader, model: string, substitutions: string | null): Settings {
  const { attack, options, settings, seed, examples } = header;
  const { task, split, budget, maxModificationRate, protectStopWords, matchPartOfSpeech } = settings;
  return {
    model,
    attacks: [{ name: attack, options: options ?? {} }],
    task,
    split,
    substitutions,
    maxModificationRate,
    protectStopWords,
    matchPartOfSpeech,
    ...toBudgetKeys(budget),
    numExamples: examples,
    seed,
  };
}

const specSchema = z.object({ name: z.string(), options: z.record(z.string(), z.unknown()) });

/** A report of other versions, or a damaged one, may have anything instead of attacks. */
function readSpecs(attacks: unknown): Spec[] {
  if (!Array.isArray(attacks)) return [];
  return attacks.flatMap((attack) => specSchema.safeParse(attack).data ?? []);
}

/**
 * The command of an attack request. Headers of an endpoint are left out, because they can contain
 * secrets.
 */
export function formatAttackCommand({ model, attacks, endpoint, resume: _, ...all }: Settings): string {
  const { endpoint: endpointDefaults, ...defaults } = attackRequestSchema.parse({ model: "MODEL" });
  // Requests of earlier versions have other keys, and 1 where this one has null.
  const given = Object.fromEntries(
    Object.entries(all).filter(([key, value]) => key in defaults && !(key === "maxModificationRate" && value === 1)),
  );
  return formatCommandLine([
    ...["temper", "attack", String(model)],
    ...readSpecs(attacks).flatMap((spec) => ["--attack", formatSpec(spec)]),
    ...listChanges(given, defaults).flatMap(([key, value]) => formatFlag(key, value)),
    ...listChanges((endpoint ?? {}) as Settings, endpointDefaults as Settings)
      .filter(([key]) => key !== "headers")
      .flatMap(([key, value]) => ["--endpoint", `${key}=${value}`]),
  ]);
}

function formatFlag(key: string, value: unknown): string[] {
  const flag = toFlag(key);
  if (value === true) return [flag];
  if (value === false) return [flag.replace("--", "--no-")];
  return [value].flat().flatMap((each) => (each === null ? [] : [flag, String(each)]));
}
