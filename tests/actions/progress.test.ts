import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { attack, calibrate, certify, evaluate, exact, exportModel, gate, harden, train, verify } from "temper-nlp";
import { beforeAll, expect, test, vi } from "vitest";
import type { Callbacks, TemperEvent } from "../../src/base/events.js";
import { isOnnxSuite, type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
let victim: TinyVictim;
let data: { path: string; textColumn: string[]; labelColumn: string };
const cpu = { device: "cpu", threads: 1 } as const;
const sizes = { batchSize: 8, learningRate: 1e-2 };

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  victim = await tinyVictim(folder);
  data = { path: victim.data, textColumn: ["text"], labelColumn: "label" };
  const lines = Array.from({ length: 160 }, (_, i) => `fine plot ${i}\n`);
  writeFileSync(join(folder, "benign.txt"), lines.join(""));
  return () => vi.unstubAllEnvs();
});

/** The commands that work for more than a moment, as functions. */
const commands: Record<string, (callbacks: Callbacks) => Promise<unknown>> = {
  train: (callbacks) =>
    train(
      {
        model: join(folder, "tiny-bert"),
        data,
        ...cpu,
        maxLength: 12,
        train: { epochs: 1, ...sizes },
        out: join(folder, "trained"),
      },
      callbacks,
    ),
  attack: (callbacks) =>
    attack(
      {
        model: victim.run,
        data,
        attacks: ["pwws", "genetic:population=4,iterations=2"],
        numExamples: 12,
        concurrency: 4,
        ...cpu,
        out: join(folder, "attacks"),
      },
      callbacks,
    ),
  verify: (callbacks) =>
    verify({ journals: [join(folder, "attacks/pwws.jsonl")], model: victim.run, repeat: 3, ...cpu }, callbacks),
  exact: (callbacks) =>
    exact({ model: victim.run, data, maxChanges: 1, numExamples: 8, ...cpu, out: join(folder, "exact") }, callbacks),
  certify: (callbacks) =>
    certify(
      {
        model: victim.run,
        data,
        kind: "windows:size=4,positiveLabel=positive",
        numExamples: 50,
        ...cpu,
        out: join(folder, "certificates"),
      },
      callbacks,
    ),
  evaluate: (callbacks) => evaluate({ model: victim.run, data, ...cpu }, callbacks),
  calibrate: (callbacks) =>
    calibrate({ model: victim.run, benign: join(folder, "benign.txt"), fpr: 0.05, ...cpu }, callbacks),
  gate: (callbacks) =>
    gate(
      {
        model: victim.run,
        baseline: victim.run,
        data,
        numExamples: 12,
        maxDrop: 100,
        ...cpu,
        out: join(folder, "gate"),
      },
      callbacks,
    ),
  export: (callbacks) => exportModel({ model: victim.run, out: join(folder, "exported") }, callbacks),
  harden: (callbacks) =>
    harden(
      {
        model: join(folder, "tiny-bert"),
        data,
        substitutions: victim.substitutions,
        method: "r-drop",
        epochs: 1,
        ...sizes,
        numExamples: 8,
        ...cpu,
        out: join(folder, "hardened"),
      },
      callbacks,
    ),
};

test.skipIf(isOnnxSuite).each(Object.entries(commands))(
  "%s: progress never exceeds 100% and never decreases in a phase",
  async (_, execute) => {
    const events: Extract<TemperEvent, { type: "progress" }>[] = [];
    await execute({ onEvent: (event) => void (event.type === "progress" && events.push(event)) });
    for (const [i, { stage, done, total }] of events.entries()) {
      expect(stage).not.toBe("");
      expect(done).toBeLessThanOrEqual(total);
      expect(done).toBeGreaterThanOrEqual(0);
      const before = events[i - 1];
      // A phase can be repeated after it has ended, such as a validation.
      if (before?.stage === stage && before.done < before.total)
        expect({ stage, done, total }).toMatchObject({
          total: before.total,
          done: expect.toSatisfy((now: number) => now >= before.done),
        });
    }
    // A phase that has begun also ends.
    const last = new Map(events.map((event) => [event.stage, event]));
    for (const { stage, done, total } of last.values()) expect({ stage, done }).toEqual({ stage, done: total });
  },
);
