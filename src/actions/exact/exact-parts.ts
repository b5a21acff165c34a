import { rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { AbleVictim } from "../../attacks/victim.js";
import { claim } from "../../base/claim.js";
import { createFolder, writeFileAtomic } from "../../base/files.js";
import { readJsonIfExists } from "../../base/read-json.js";
import {
  countCandidates,
  findLastLevel,
  type ProofLine,
  type ProofOptions,
  proofLineSchema,
  proveText,
  type TextProblem,
} from "../../proofs/index.js";

/** The proofs of many texts. Several processes share them: a part is the proof of one text. */
export interface PartedProof {
  readonly victim: AbleVictim;
  readonly problems: readonly TextProblem[];
  readonly options: ProofOptions;
  readonly folder: string;
}

/** The largest number of candidates that a text can need. One that is fooled early needs fewer. */
export function countMaxCandidates({ words, attack }: TextProblem, { maxChanges, budget }: ProofOptions): number {
  return Math.min(budget, countCandidates(words, findLastLevel({ attack }, maxChanges)));
}

export async function computeParts(proof: PartedProof): Promise<void> {
  const { victim, problems, options, folder } = proof;
  createFolder(folder);
  const sizes = problems.map((problem) => countMaxCandidates(problem, options));
  for (const problem of [...problems].sort((a, b) => sizes[b.index]! - sizes[a.index]!)) {
    const path = getPartPath(proof, problem);
    await claim({
      lock: `${path}.lock`,
      readResult: () => readPart(proof, problem),
      async compute() {
        const lines: ProofLine[] = [];
        for await (const line of proveText(victim, problem, options)) lines.push(line);
        await writeFileAtomic(path, JSON.stringify(lines));
        return lines;
      },
    });
  }
}

export function readParts(proof: PartedProof): Promise<ProofLine[][]> {
  return Promise.all(proof.problems.map(async (problem) => (await readPart(proof, problem)) ?? []));
}

export async function countOpenTexts(proof: PartedProof): Promise<number> {
  return (await readParts(proof)).filter(({ length }) => length === 0).length;
}

export async function removeParts({ folder }: Pick<PartedProof, "folder">): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 3 });
}

function getPartPath({ folder }: PartedProof, { index }: TextProblem): string {
  return join(folder, `${index}.json`);
}

function readPart(proof: PartedProof, problem: TextProblem): Promise<ProofLine[] | null> {
  return readJsonIfExists(getPartPath(proof, problem), z.array(proofLineSchema), "a part of a proof");
}
