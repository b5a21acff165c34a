import { rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { AbleVictim } from "../../attacks/victim.js";
import { claim } from "../../base/claim.js";
import { createFolder, writeFileAtomic } from "../../base/files.js";
import { readJsonIfExists } from "../../base/read-json.js";
import {
  type BlockLine,
  blockSize,
  countCombinations,
  findLastLevel,
  type Level,
  LevelScorer,
  limitLevel,
  listSubstitutions,
  type ProofLine,
  proofLineSchema,
  proveText,
  type SubstitutionList,
  type TextLine,
} from "../../proofs/index.js";
import type { Example } from "../../tasks/index.js";
import type { ExactText } from "./prepare-exact.js";

/** The proofs of many texts, as parts that several processes compute. */
export interface PartedProof {
  readonly victim: AbleVictim;
  readonly examples: readonly Example[];
  readonly texts: readonly ExactText[];
  /** The substitutions with which an attack fooled each text; null if none did. */
  readonly bounds: readonly (SubstitutionList | null)[];
  readonly maxChanges: number;
  readonly budget: number;
  /** The folder of the parts. */
  readonly folder: string;
  /** Called with the number of candidates of each call. */
  onCall(count: number): void;
}

const linesSchema = z.array(proofLineSchema);

/** A block of a level, which needs the order of the substitutions only. */
interface PlannedBlock {
  readonly block: number;
  readonly level: Omit<Level, "start">;
}

/**
 * Computes parts until none is left that nobody works on. A part is the start of a text (its
 * margin, its single substitutions and their order), or one block of candidates. It is written at
 * once, so a killed process loses one block at most.
 */
export async function computeParts(proof: PartedProof): Promise<void> {
  createFolder(proof.folder);
  for (const index of proof.texts.keys()) await computePart(proof, `${index}`, () => startText(proof, index));
  for (const index of proof.texts.keys()) {
    const start = await readPart(proof, `${index}`);
    for (const planned of start ? planBlocks(proof, start) : []) {
      const name = getBlockName(planned);
      const lines = await computePart(proof, name, () => scorePlanned(proof, planned));
      // Later candidates of a text that is fooled do not matter.
      if (isFooled(lines)) break;
    }
  }
}

/** The lines of each text, as far as its parts are computed without a gap. */
export async function readParts(proof: PartedProof): Promise<ProofLine[][]> {
  return Promise.all(
    proof.texts.map(async (_, index) => {
      const start = await readPart(proof, `${index}`);
      const lines = [...(start ?? [])];
      for (const planned of start ? planBlocks(proof, start) : []) {
        const block = await readPart(proof, getBlockName(planned));
        if (!block) break;
        lines.push(...block);
        if (isFooled(block)) break;
      }
      return lines;
    }),
  );
}

/** The number of texts whose parts are not all computed. */
export async function countOpenTexts(proof: PartedProof): Promise<number> {
  const lines = await readParts(proof);
  return lines.filter((each) => {
    const blocks = each.filter((line) => line.kind === "block" && line.changes > 1).length;
    return each.length === 0 || (!isFooled(each) && blocks < planBlocks(proof, each).length);
  }).length;
}

/** Removes the parts, when the proof has their lines. */
export async function removeParts({ folder }: Pick<PartedProof, "folder">): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 3 });
}

function getBlockName({ block, level }: PlannedBlock): string {
  return `${level.index}-${level.changes}-${block}`;
}

function isFooled(lines: readonly ProofLine[] | null): boolean {
  return lines?.some((line) => line.kind === "block" && line.margin < 0) ?? false;
}

function readPart({ folder }: PartedProof, name: string): Promise<ProofLine[] | null> {
  return readJsonIfExists(join(folder, `${name}.json`), linesSchema, "a part of a proof");
}

/** Computes a part, unless it exists or another process computes it. Returns its lines. */
function computePart(
  proof: PartedProof,
  name: string,
  compute: () => Promise<ProofLine[]>,
): Promise<ProofLine[] | null> {
  const path = join(proof.folder, `${name}.json`);
  return claim({
    lock: `${path}.lock`,
    readResult: () => readPart(proof, name),
    async compute() {
      const lines = await compute();
      await writeFileAtomic(path, JSON.stringify(lines));
      return lines;
    },
  });
}

/** The lines of a text up to the order of its substitutions, or up to its result. */
async function startText(proof: PartedProof, index: number): Promise<ProofLine[]> {
  const { victim, examples, texts, bounds, maxChanges, budget, onCall } = proof;
  const { original, words } = texts[index]!;
  const problem = { index, example: examples[index]!, original, words, attack: bounds[index]! };
  const lines: ProofLine[] = [];
  for await (const line of proveText(victim, problem, { maxChanges, budget, onCall })) {
    lines.push(line);
    if (line.kind === "order") break;
  }
  return lines;
}

/** Lists the blocks of a text from two substitutions on. */
function planBlocks({ texts, maxChanges, budget }: PartedProof, start: readonly ProofLine[]): PlannedBlock[] {
  const first = start[0] as TextLine;
  const order = start.find((line) => line.kind === "order")?.order;
  if (!order) return [];
  const { index, label } = first;
  const listed = listSubstitutions(first);
  const substitutions = order.map((each) => listed[each]!);
  const sizes = first.words.map(({ substitutes }) => substitutes.length);
  const { original } = texts[index]!;
  const planned: PlannedBlock[] = [];
  let scored = countCombinations(sizes, 1);
  for (let changes = 2; changes <= findLastLevel(first, maxChanges); changes++) {
    const total = countCombinations(sizes, changes);
    const end = limitLevel(total, budget - scored);
    for (let block = 0; block * blockSize < end; block++)
      planned.push({ block, level: { original, label, index, changes, substitutions, end } });
    if (end < total) break;
    scored += total;
  }
  return planned;
}

async function scorePlanned({ victim, onCall }: PartedProof, { block, level }: PlannedBlock): Promise<ProofLine[]> {
  const first = block * blockSize;
  const end = Math.min(level.end, first + blockSize);
  const line: BlockLine | null = await new LevelScorer(victim, { ...level, start: first, end }).scoreBlock(onCall);
  return line ? [line] : [];
}
