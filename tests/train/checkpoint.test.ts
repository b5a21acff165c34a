import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { free, keep, tensor } from "../../src/tensor/index.js";
import { CheckpointStore } from "../../src/train/checkpoint.js";
import type { CheckpointState } from "../../src/train/checkpoint-state.js";
import { chooseExtent } from "../extent.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const original = join(folder, "original");
const newest = "step-00000008";
let copies = 0;

const createState = (step: number): CheckpointState => ({
  ...{ step, epoch: 0, stepInEpoch: step, lastEvaluatedStep: 4, evaluationsSinceBest: 0 },
  ...{
    best: { step: 4, value: 0.5, metrics: { accuracy: 0.5 }, degeneracy: null },
    eventBytes: 10 * step,
    timingBytes: 7 * step,
  },
});

beforeAll(async () => {
  mkdirSync(original);
  const tensors = new Map([["w", keep(tensor([1, 2, 3]))]]);
  const store = new CheckpointStore(original);
  for (const step of [4, 8])
    await store.save(createState(step), { weights: tensors, moments: tensors, buffers: new Map() });
  free(tensors);
});

/** Copies the two checkpoints, changes the copy, and looks for the newest one. */
async function findAfter(
  change: (checkpoints: string) => void,
): Promise<{ found: CheckpointState | null; error: unknown; warnings: string[]; names: string[] }> {
  const copy = join(folder, `copy-${copies++}`);
  cpSync(original, copy, { recursive: true });
  change(copy);
  const warnings: string[] = [];
  let [found, error]: [CheckpointState | null, unknown] = [null, null];
  try {
    found = await new CheckpointStore(copy).findNewest(true, (message) => warnings.push(message));
  } catch (thrown) {
    error = thrown;
  }
  return { found, error, warnings, names: readdirSync(copy).sort() };
}

const readState = (checkpoints: string): { [key: string]: unknown } =>
  JSON.parse(readFileSync(join(checkpoints, newest, "state.json"), "utf8")) as { [key: string]: unknown };

/** Writes another state with a valid seal, as a newer version or a forger would. */
function writeSealed(checkpoints: string, { seal: _old, ...content }: { [key: string]: unknown }): void {
  const seal = createHash("sha256").update(JSON.stringify(content)).digest("hex");
  writeFileSync(join(checkpoints, newest, "state.json"), JSON.stringify({ ...content, seal }));
}

describe("a read error never deletes a checkpoint", () => {
  test.each(["state.json", "weights.safetensors"])("%s that cannot be read stops with a message", async (file) => {
    // A folder in place of the file fails with EISDIR, for root too.
    const { error, names } = await findAfter((path) => {
      rmSync(join(path, newest, file));
      mkdirSync(join(path, newest, file));
    });
    expect(error).toBeInstanceOf(UserError);
    expect(String(error)).toMatch(/cannot read .*this is a folder.*Nothing was changed\. Resume when/);
    expect(names).toEqual(["step-00000004", newest]);
  });

  test.each([2, 4, 99])("format %i stops with a message", async (format) => {
    const { error, names } = await findAfter((path) => writeSealed(path, { ...readState(path), format }));
    expect(String(error)).toMatch(
      new RegExp(`expected a checkpoint of format 3, received format ${format}\\. Resume with the version`),
    );
    expect(names).toEqual(["step-00000004", newest]);
  });

  test("the unsealed format 2 stops with a message", async () => {
    const { error, names } = await findAfter((path) =>
      writeFileSync(join(path, newest, "state.json"), '{"state":{"format":2,"step":8},"hashes":{}}'),
    );
    expect(String(error)).toContain("received format 2");
    expect(names).toEqual(["step-00000004", newest]);
  });

  test("checkpoints that are in the way of a new run are not removed", async () => {
    const store = new CheckpointStore(original);
    await expect(store.findNewest(false, () => undefined)).rejects.toThrow("contains checkpoints of another run");
    expect(await store.listSteps()).toEqual([4, 8]);
  });

  test("pruning keeps everything while a state cannot be read", async () => {
    const copy = join(folder, "prune");
    cpSync(original, copy, { recursive: true });
    const store = new CheckpointStore(copy);
    rmSync(join(copy, newest, "state.json"));
    mkdirSync(join(copy, newest, "state.json"));
    await store.prune(1);
    expect(await store.listSteps()).toEqual([4, 8]);
  });
});

describe("a checkpoint's state is sealed", () => {
  test("a changed bit of state.json is noticed", async () => {
    const copy = join(folder, "bits");
    cpSync(original, copy, { recursive: true });
    const path = join(copy, newest, "state.json");
    const bytes = readFileSync(path);
    const store = new CheckpointStore(copy);
    const warnings: string[] = [];
    let silent = 0;
    const step = chooseExtent(12, 3);
    for (let at = 0; at < bytes.length - 1; at += step) {
      const changed = Buffer.from(bytes);
      changed[at]! ^= 1 << (at % 7);
      cpSync(join(original, newest), join(copy, newest), { recursive: true });
      writeFileSync(path, changed);
      const found = await store.findNewest(true, (message) => warnings.push(message)).catch(() => null);
      if (found?.step === 8) silent++;
      rmSync(join(copy, `damaged-${newest}`), { recursive: true, force: true });
    }
    expect(silent).toBe(0);
    expect(warnings.length).toBeGreaterThan(bytes.length / (2 * step));
  });

  test("missing hashes, other file names and states out of range are rejected", async () => {
    const escaping = { "../../x": "0".repeat(64) };
    for (const change of [
      (state: { [key: string]: unknown }) => ({ ...state, hashes: {} }),
      (state: { [key: string]: unknown }) => ({ ...state, hashes: { ...(state.hashes as object), ...escaping } }),
      (state: { [key: string]: unknown }) => ({ ...state, state: { ...(state.state as object), step: 12 } }),
      (state: { [key: string]: unknown }) => ({ ...state, state: { ...(state.state as object), stepInEpoch: -1 } }),
      (state: { [key: string]: unknown }) => ({ ...state, state: { ...(state.state as object), eventBytes: 1e99 } }),
      (state: { [key: string]: unknown }) => ({ ...state, state: { ...(state.state as object), best: { step: 9 } } }),
    ]) {
      const { found, names } = await findAfter((path) => writeSealed(path, change(readState(path))));
      expect(found?.step).toBe(4);
      expect(names).toContain(`damaged-${newest}`);
    }
  });
});
