import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { openVictim } from "../../../src/actions/load/open-victim.js";
import { getMemoryStats } from "../../../src/tensor/index.js";
import { type TinyVictim, tinyVictim } from "../../attacks/tiny-victim.js";
import { temporaryFolder } from "../../temporary.js";

const folder = temporaryFolder();
let victim: TinyVictim;

beforeAll(async () => {
  victim = await tinyVictim(join(folder, "victim"));
});

const open = () => openVictim({ model: victim.run, device: "cpu", threads: 1 });

test("everything that was loaded is freed at the end, also after an error", async () => {
  const before = getMemoryStats().tensors;
  const request = { sentenceEncoder: join(folder, "victim/tiny-bert") };
  const fail = async (): Promise<void> => {
    await using opened = await open();
    const model = getMemoryStats().tensors;
    expect(model).toBeGreaterThan(before);
    await opened.loadAttacks([], request, [], ["encoder"]);
    expect(getMemoryStats().tensors).toBeGreaterThan(model);
    await opened.loadAttacks(["no such attack"], request, []);
  };
  await expect(fail()).rejects.toThrow("no such attack");
  expect(getMemoryStats().tensors).toBe(before);
});

test("a model is closed once, and one that others use stays open", async () => {
  const closed: string[] = [];
  await using outer = await open();
  const inner = await openVictim({ model: { ...outer, close: () => void closed.push("model") } });
  inner.close();
  await inner[Symbol.asyncDispose]();
  expect(closed).toEqual(["model"]);
  // The model of another one is still open.
  const { victim: shared } = outer;
  expect(await shared.predict(shared.prepare([["a good film"]]))).toHaveLength(1);
});

test("a task with other labels is rejected", async () => {
  await using opened = await open();
  expect(() => opened.checkTask({ name: "colors", labels: ["red", "green", "blue"] })).toThrow(/red, green, blue/);
});
