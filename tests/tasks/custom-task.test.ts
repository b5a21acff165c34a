import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { listen } from "../../src/base/events.js";
import { type InMemoryExample, loadTask, writeExamplesFile } from "../../src/tasks/index.js";
import type { Task } from "../../src/tasks/task.js";
import { makeFolder } from "./folder.js";

const csv = (count: number, label: (index: number) => string | number) =>
  `review,stars\n${Array.from({ length: count }, (_, index) => `review number ${index},${label(index)}\n`).join("")}`;
const columns = { textColumn: ["review"], labelColumn: "stars" };
const fixture = (name: string) => join("tests", "fixtures", "tasks", name);

describe("custom data", () => {
  it("splits a single file into train, validation and test, with numeric labels in order", async () => {
    const data = join(await makeFolder({ "reviews.csv": csv(300, (i) => (i % 3 === 0 ? 10 : i % 3)) }), "reviews.csv");
    const task = await loadTask({ data, ...columns });
    expect(task).toMatchObject({
      name: "reviews",
      labels: ["1", "2", "10"],
      fields: ["review"],
      splits: ["train", "validation", "test"],
    });
    expect(task.sourceNames).toEqual({});
    const [train, validation, test] = await Promise.all(
      (["train", "validation", "test"] as const).map((split) => task.load(split)),
    );
    expect([train!.length, validation!.length, test!.length]).toEqual([240, 30, 30]);
    for (const label of [0, 1, 2]) expect(test!.filter((example) => example.label === label)).toHaveLength(10);
    const again = await (await loadTask({ data, ...columns })).load("test");
    expect(again).toEqual(test);
    const evaluated = await loadTask({ data, ...columns, evaluationOnly: true });
    await expect(evaluated.load("train")).rejects.toThrow(
      /^reviews has no train split\. It has: test\. It was loaded for evaluation only\.$/,
    );
  });

  it("uses the files of a folder as splits", async () => {
    const files = {
      "train.csv": csv(40, (i) => (i % 2 ? "yes" : "no")),
      "valid.csv": csv(4, () => "yes"),
      "test.csv": csv(6, () => "no"),
    };
    const three = await loadTask({ data: await makeFolder(files), ...columns });
    expect(three).toMatchObject({
      labels: ["no", "yes"],
      splits: ["train", "validation", "test"],
    });
    expect(three.sourceNames).toEqual({ validation: "valid" });
    expect(
      [await three.load("train"), await three.load("validation"), await three.load("test")].map(
        (split) => split.length,
      ),
    ).toEqual([40, 4, 6]);
    const two = await loadTask({
      data: await makeFolder({ "train.csv": files["train.csv"], "dev.csv": files["valid.csv"] }),
      ...columns,
    });
    expect(two).toMatchObject({ splits: ["train", "validation", "test"] });
    expect(two.sourceNames).toEqual({ test: "dev" });
    await expect(loadTask({ data: await makeFolder({ "reviews.csv": "x" }) })).rejects.toThrow(
      /expected a file named train .*found reviews\.csv.*--data/,
    );
  });

  it("reads pairs from two columns", async () => {
    const rows = Array.from({ length: 20 }, (_, i) => `a ${i}\tb ${i}\t${i % 2}\n`).join("");
    const data = join(await makeFolder({ "pairs.tsv": `left\tright\tsame\n${rows}` }), "pairs.tsv");
    const task = await loadTask({ data, textColumn: ["right", "left"], labelColumn: "same" });
    expect(task).toMatchObject({ fields: ["right", "left"], modifiableFields: [0, 1] });
    expect((await task.load("train"))[0]!.texts).toEqual([expect.stringMatching(/^b /), expect.stringMatching(/^a /)]);
  });

  it("rejects a label that train does not have", async () => {
    const files = { "train.csv": csv(40, (i) => i % 2), "dev.csv": csv(4, () => 7) };
    const task = await loadTask({ data: await makeFolder(files), ...columns });
    await expect(task.load("test")).rejects.toThrow(/the label "7", expected one of 0, 1/);
  });

  it("rejects columns that cannot be text or label", async () => {
    const data = join(await makeFolder({ "reviews.csv": csv(80, (i) => i) }), "reviews.csv");
    await expect(loadTask({ data, ...columns })).rejects.toThrow(
      /80 different values in 80 rows, so it is not a label/,
    );
    await expect(loadTask({ data, textColumn: ["reviw"], labelColumn: "stars" })).rejects.toThrow(
      /no column "reviw" \(did you mean "review"\?\)/,
    );
    await expect(loadTask({ data, textColumn: ["review"] })).rejects.toThrow(
      /no column looks like labels, whose values repeat\. The columns are review, stars\. .* --label-column\.$/,
    );
    await expect(loadTask({ data, textColumn: ["stars"], labelColumn: "stars" })).rejects.toThrow(
      /cannot be both text and label/,
    );
    await expect(loadTask({ data: `${data}x`, ...columns })).rejects.toThrow(/no such file/);
    const same = join(await makeFolder({ "same.csv": csv(9, () => 1) }), "same.csv");
    await expect(loadTask({ data: same, ...columns })).rejects.toThrow(/needs at least two labels/);
  });

  it("reports unreadable rows before problems of columns and labels", async () => {
    const line = (i: number): string => JSON.stringify({ review: `number ${i}`, stars: i % 2 });
    const folder = await makeFolder({
      "pretty.jsonl": JSON.stringify([{ review: "a", stars: 1 }, { review: "b", stars: 0 }], null, 2), // biome-ignore format: one line
      "commas.csv": "review,stars\ngood, but long,1\nbad, and long,0\n",
      "broken.jsonl": `${line(0)}\n{"review": "number 1", "stars": \n`,
      "mostly.jsonl": `${line(0)}\n${line(1)}\n{"review"\n${Array.from({ length: 40 }, (_, i) => line(i)).join("\n")}\n`,
    });
    const open = (name: string, more = {}) => loadTask({ data: join(folder, name), ...columns, ...more });
    for (const more of [{}, { skipBadRows: true }]) {
      await expect(open("pretty.jsonl", more)).rejects.toThrow(/pretty\.jsonl: no row can be used: line 1 is not JSON/);
      await expect(open("pretty.jsonl", { textColumn: undefined, ...more })).rejects.toThrow(
        /no row can be used: line 1 is not JSON/,
      );
      await expect(open("commas.csv", more)).rejects.toThrow(
        /commas\.csv: no row can be used: line 2 has 3 fields, but the header has 2/,
      );
      await expect(open("broken.jsonl", more)).rejects.toThrow(
        /broken\.jsonl: 1 of 2 rows cannot be used: line 2 is not JSON.* Without them: .*"stars" has 1 different value\./,
      );
    }
    await expect(open("mostly.jsonl", { labelColumn: "star" })).rejects.toThrow(
      /line 3 is not JSON.* Without them: .* has no column "star"/,
    );
    await expect((await open("mostly.jsonl")).load("train")).rejects.toThrow(
      /1 of 43 rows cannot be used: line 3 is not JSON/,
    );
    expect(await (await open("mostly.jsonl", { skipBadRows: true })).load("train")).not.toHaveLength(0);
  });

  it("reports unreadable rows of other splits", async () => {
    const train = csv(40, (i) => i % 2);
    const withDev = await loadTask({
      data: await makeFolder({ "train.csv": train, "dev.jsonl": '{\n"review"\n' }),
      ...columns,
    });
    await expect(withDev.load("test")).rejects.toThrow(/dev\.jsonl: no row can be used: line 1 is not JSON/);
    const withTest = await loadTask({
      data: await makeFolder({ "train.csv": train, "test.csv": "review,stars\na, b,1\n" }),
      ...columns,
    });
    await expect(withTest.load("test")).rejects.toThrow(/test\.csv: no row can be used: line 2 has 3 fields/);
  });

  it("uses a complete file for evaluation, with the labels of the model", async () => {
    const labels = ["negative", "positive"];
    const folder = await makeFolder({
      "names.csv": csv(6, () => "positive"),
      "numbers.csv": csv(6, () => 1),
      "other.csv": csv(6, () => "spam"),
    });
    const warnings: string[] = [];
    const open = (name: string) =>
      loadTask({
        data: join(folder, name),
        ...columns,
        labels,
        evaluationOnly: true,
        ...listen({ warning: ({ message }) => warnings.push(message) }),
      });
    for (const name of ["names.csv", "numbers.csv"]) {
      const task = await open(name);
      expect(task).toMatchObject({ splits: ["test"], labels });
      expect((await task.load("test")).map((example) => example.label)).toEqual([1, 1, 1, 1, 1, 1]);
    }
    expect(warnings).toEqual([expect.stringContaining("0 as negative, 1 as positive")]);
    await expect(open("other.csv")).rejects.toThrow(/expected the labels negative, positive in "stars"; received spam/);
  });

  it("reads Parquet with its class names and ignores a test split without labels", async () => {
    const warnings: string[] = [];
    const task = await loadTask({ data: fixture(""), ...listen({ warning: ({ message }) => warnings.push(message) }) });
    expect(task).toMatchObject({
      labels: ["negative", "positive"],
      fields: ["sentence"],
      splits: ["train", "validation", "test"],
    });
    expect(task.sourceNames).toEqual({ test: "validation" });
    expect((await task.load("test")).map(({ texts, label }) => [texts[0], label])).toEqual([
      ["café fine", 1],
      ["dull 🎬", 0],
      ["so so", 0],
    ]);
    expect(warnings).toEqual([
      expect.stringContaining("using sentence as text"),
      expect.stringContaining("ignoring the test split because it has no labels"),
    ]);
    await expect(loadTask({ data: fixture("train.parquet"), labels: ["bad", "good"] })).rejects.toThrow(
      /bad, good.*negative, positive/,
    );
  });
});

describe("in-memory data", () => {
  const texts = Array.from(
    { length: 60 },
    (_, i): InMemoryExample => ({
      text: ` Review "${i}"\n\u2028${i % 3 ? "good" : "bad\ud800"} `,
      label: i % 3 ? 1 : 0,
    }),
  );
  const pairs = texts.map(
    (example, i): InMemoryExample => ({ text: [`premise ${i}`, String(example.text)], label: "ab"[i % 2]! }),
  );
  const describeTask = async ({ load, ...task }: Task) => ({
    ...task,
    examples: await Promise.all(task.splits.map((split) => load(split))),
  });

  it.each([
    ["texts", texts, ["text"]],
    ["pairs", pairs, ["sentence1", "sentence2"]],
  ])("an array of %s equals its file", async (_, data, fields) => {
    const file = join(await makeFolder(), "data.jsonl");
    await writeExamplesFile(file, data);
    for (const evaluationOnly of [false, true]) {
      const task = await describeTask(await loadTask({ data, evaluationOnly }));
      expect(task).toEqual(await describeTask(await loadTask({ data: file, evaluationOnly })));
      expect(task).toMatchObject({
        name: "data",
        fields,
        splits: evaluationOnly ? ["test"] : ["train", "validation", "test"],
      });
      expect(task.examples.flat()).toHaveLength(60);
    }
    const ids = (await (await loadTask({ data, evaluationOnly: true })).load("test")).map(({ id }) => id);
    expect([ids[0], ids[59]]).toEqual(["data.jsonl:1", "data.jsonl:60"]);
  });

  it("names what is wrong with an example", async () => {
    const reject = (data: unknown, message: RegExp) =>
      expect(loadTask({ data: data as InMemoryExample[] })).rejects.toThrow(
        expect.objectContaining({ name: "UserError", message: expect.stringMatching(message) }),
      );
    await reject([], /^data: the array is empty/);
    await reject(
      [...texts, { text: 7, label: 1 }],
      /^data: \[60\]\.text: expected a text or a pair of texts, received 7$/,
    );
    await reject([...texts, { text: "x" }], /^data: \[60\]\.label: expected a string or a number, received nothing$/);
    await reject([...texts, null], /^data: \[60\]: expected object, received null$/);
    await reject([...texts, ...pairs], /^data\[60\] and data\[0\] differ: expected only texts or only pairs/);
    await reject(texts.slice(1, 3), /^data: column "label" has 1 different value\./);
    await expect((await loadTask({ data: [...texts, { text: " ", label: 0 }] })).load("train")).rejects.toThrow(
      /^data: 1 of 61 rows cannot be used: row 61 has no "text"/,
    );
    await expect(loadTask({ data: texts, labelColumn: "stars" })).rejects.toThrow(/^labelColumn cannot be combined/);
    await expect(loadTask({ data: texts, task: "sst2" })).rejects.toThrow(/^task cannot be combined/);
  });
});

it("a missing column named constructor is not a label", async () => {
  const rows = Array.from({ length: 40 }, (_, i) => ({
    text: `race ${i}`,
    constructor: ["ferrari", "mclaren"][i % 2],
  }));
  const lines = rows.map((row, i) => JSON.stringify(i === 5 ? { text: row.text } : row));
  const data = join(await makeFolder({ "races.jsonl": lines.join("\n") }), "races.jsonl");
  const task = await loadTask({ data, textColumn: ["text"], labelColumn: "constructor", skipBadRows: true });
  expect(task.labels).toEqual(["ferrari", "mclaren"]);
});

describe("files of splits and maps of labels", () => {
  const label = (i: number) => (i % 2 ? 5 : 1);
  const files = { "reviews.csv": csv(40, label), "held.csv": csv(6, label), "final.csv": csv(8, label) };

  it("reads validation and test splits from the files that are named", async () => {
    const folder = await makeFolder(files);
    const [data, validationData, testData] = Object.keys(files).map((name) => join(folder, name));
    const countAll = async (task: Task) =>
      Promise.all((["train", "validation", "test"] as const).map(async (split) => (await task.load(split)).length));
    const base = { data: data!, ...columns };
    expect(await countAll(await loadTask({ ...base, validationData, testData }))).toEqual([40, 6, 8]);
    expect(await countAll(await loadTask({ ...base, testData }))).toEqual([36, 4, 8]);
    // The named file stays the validation split, and the test split is held out.
    expect(await countAll(await loadTask({ ...base, validationData }))).toEqual([36, 6, 4]);
    await expect(loadTask({ task: "spam", testData })).rejects.toThrow("--test-data is for custom data");
  });

  it("names a task by its file, and a file named train by its folder", async () => {
    const folder = await makeFolder({ "train.csv": files["reviews.csv"], "reviews.csv": files["reviews.csv"] });
    const named = await loadTask({ data: join(folder, "reviews.csv"), ...columns });
    expect(named.name).toBe("reviews");
    const byFolder = await loadTask({ data: join(folder, "train.csv"), ...columns });
    expect(byFolder.name).toBe((await loadTask({ data: `${folder}/`, ...columns })).name);
    expect(byFolder.name).not.toBe("train");
  });

  it("maps the values of the label column", async () => {
    const data = join(await makeFolder({ "five.csv": csv(50, (i) => (i % 5) + 1) }), "five.csv");
    const labelMap = { 1: "negative", 2: "negative", 4: "positive", 5: "positive" };
    const task = await loadTask({ data, ...columns, labelMap, skipBadRows: true, evaluationOnly: true });
    expect(task.labels).toEqual(["negative", "positive"]);
    expect((await task.load("test")).map((example) => example.label).slice(0, 4)).toEqual([0, 0, 1, 1]);
    const strict = await loadTask({ data, ...columns, labelMap, evaluationOnly: true });
    await expect(strict.load("test")).rejects.toThrow('line 4 has the label "3", expected one of 1, 2, 4, 5');
    const asModel = { data, ...columns, labels: ["positive", "negative"], evaluationOnly: true };
    const known = await loadTask({ ...asModel, labelMap, skipBadRows: true });
    expect((await known.load("test"))[0]!.label).toBe(1);
    await expect(loadTask({ ...asModel, labelMap: { 1: "bad", 5: "positive" } })).rejects.toThrow(
      "--label-map: expected the labels positive, negative, received bad",
    );
    await expect(loadTask({ data, ...columns, labelMap: { 1: "bad" } })).rejects.toThrow("at least two labels");
  });
});
