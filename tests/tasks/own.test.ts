import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadTask } from "../../src/tasks/index.js";
import { makeFolder } from "./folder.js";

const csv = (count: number, label: (index: number) => string | number) =>
  `review,stars\n${Array.from({ length: count }, (_, index) => `review number ${index},${label(index)}\n`).join("")}`;
const columns = { textColumn: ["review"], label: "stars" };
const fixture = (name: string) => join("tests", "fixtures", "tasks", name);

describe("a table of one's own", () => {
  it("cuts a single file into train, select and test, with labels in the order of numbers", async () => {
    const data = join(await makeFolder({ "reviews.csv": csv(300, (i) => (i % 3 === 0 ? 10 : i % 3)) }), "reviews.csv");
    const task = await loadTask({ data, ...columns });
    expect(task).toMatchObject({
      name: "reviews",
      labels: ["1", "2", "10"],
      fields: ["review"],
      selectSplit: "select",
      reportSplit: "test",
    });
    const [train, select, test] = await Promise.all(
      (["train", "select", "test"] as const).map((split) => task.load(split)),
    );
    expect([train!.length, select!.length, test!.length]).toEqual([240, 30, 30]);
    for (const label of [0, 1, 2]) expect(test!.filter((example) => example.label === label)).toHaveLength(10);
    const again = await (await loadTask({ data, ...columns })).load("test");
    expect(again).toEqual(test);
    await expect(task.load("dev")).rejects.toThrow(/^reviews has no dev split: it has train, select, test$/);
    const whole = await loadTask({ data, ...columns, whole: true });
    await expect(whole.load("train")).rejects.toThrow(/it has test; it was opened for evaluation only$/);
  });

  it("takes the files of a folder as they are", async () => {
    const files = {
      "train.csv": csv(40, (i) => (i % 2 ? "yes" : "no")),
      "valid.csv": csv(4, () => "yes"),
      "test.csv": csv(6, () => "no"),
    };
    const three = await loadTask({ data: await makeFolder(files), ...columns });
    expect(three).toMatchObject({
      labels: ["no", "yes"],
      splits: ["train", "dev", "test"],
      selectSplit: "dev",
      reportSplit: "test",
    });
    expect(
      [await three.load("train"), await three.load("dev"), await three.load("test")].map((split) => split.length),
    ).toEqual([40, 4, 6]);
    const two = await loadTask({
      data: await makeFolder({ "train.csv": files["train.csv"], "dev.csv": files["valid.csv"] }),
      ...columns,
    });
    expect(two).toMatchObject({ splits: ["train", "select", "dev"], selectSplit: "select", reportSplit: "dev" });
    await expect(loadTask({ data: await makeFolder({ "reviews.csv": "x" }) })).rejects.toThrow(
      /expected a file named train .*found reviews\.csv.*--data/,
    );
  });

  it("reads pairs by two columns", async () => {
    const rows = Array.from({ length: 20 }, (_, i) => `a ${i}\tb ${i}\t${i % 2}\n`).join("");
    const data = join(await makeFolder({ "pairs.tsv": `left\tright\tsame\n${rows}` }), "pairs.tsv");
    const task = await loadTask({ data, textColumn: ["right", "left"], label: "same" });
    expect(task).toMatchObject({ fields: ["right", "left"], modifiableFields: [0, 1] });
    expect((await task.load("train"))[0]!.texts).toEqual([expect.stringMatching(/^b /), expect.stringMatching(/^a /)]);
  });

  it("refuses a label of dev that train does not have", async () => {
    const files = { "train.csv": csv(40, (i) => i % 2), "dev.csv": csv(4, () => 7) };
    const task = await loadTask({ data: await makeFolder(files), ...columns });
    await expect(task.load("dev")).rejects.toThrow(/the label "7", which is none of 0, 1/);
  });

  it("refuses columns that cannot be what they are said to be", async () => {
    const data = join(await makeFolder({ "reviews.csv": csv(80, (i) => i) }), "reviews.csv");
    await expect(loadTask({ data, ...columns })).rejects.toThrow(/80 different values in 80 rows; that is no label/);
    await expect(loadTask({ data, textColumn: ["reviw"], label: "stars" })).rejects.toThrow(
      /no column "reviw" \(did you mean "review"\?\)/,
    );
    await expect(loadTask({ data, textColumn: ["review"] })).rejects.toThrow(
      /--label-column COLUMN; its columns are review, stars/,
    );
    await expect(loadTask({ data, textColumn: ["stars"], label: "stars" })).rejects.toThrow(/text and label at once/);
    await expect(loadTask({ data: `${data}x`, ...columns })).rejects.toThrow(/no such file/);
    const same = join(await makeFolder({ "same.csv": csv(9, () => 1) }), "same.csv");
    await expect(loadTask({ data: same, ...columns })).rejects.toThrow(/needs two labels or more/);
  });

  it("names rows that cannot be read before it judges columns and labels by the others", async () => {
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
      await expect(open("pretty.jsonl", { text: undefined, ...more })).rejects.toThrow(
        /no row can be used: line 1 is not JSON/,
      );
      await expect(open("commas.csv", more)).rejects.toThrow(
        /commas\.csv: no row can be used: line 2 has 3 fields where the header has 2/,
      );
      await expect(open("broken.jsonl", more)).rejects.toThrow(
        /broken\.jsonl: 1 of 2 rows cannot be used: line 2 is not JSON.* without them: .*"stars" has 1 different values/,
      );
    }
    await expect(open("mostly.jsonl", { label: "star" })).rejects.toThrow(
      /line 3 is not JSON.* without them: .* has no column "star"/,
    );
    await expect((await open("mostly.jsonl")).load("train")).rejects.toThrow(
      /1 of 43 rows cannot be used: line 3 is not JSON/,
    );
    expect(await (await open("mostly.jsonl", { skipBadRows: true })).load("train")).not.toHaveLength(0);
  });

  it("names rows of other splits that cannot be read, too", async () => {
    const train = csv(40, (i) => i % 2);
    const dev = await loadTask({
      data: await makeFolder({ "train.csv": train, "dev.jsonl": '{\n"review"\n' }),
      ...columns,
    });
    await expect(dev.load("dev")).rejects.toThrow(/dev\.jsonl: no row can be used: line 1 is not JSON/);
    const test = await loadTask({
      data: await makeFolder({ "train.csv": train, "test.csv": "review,stars\na, b,1\n" }),
      ...columns,
    });
    await expect(test.load("test")).rejects.toThrow(/test\.csv: no row can be used: line 2 has 3 fields/);
  });

  it("takes a file whole for evaluation, under the model's labels", async () => {
    const labels = ["negative", "positive"];
    const folder = await makeFolder({
      "names.csv": csv(6, () => "positive"),
      "numbers.csv": csv(6, () => 1),
      "other.csv": csv(6, () => "spam"),
    });
    const notices: string[] = [];
    const open = (name: string) =>
      loadTask({
        data: join(folder, name),
        ...columns,
        labels,
        whole: true,
        onWarning: (message) => notices.push(message),
      });
    for (const name of ["names.csv", "numbers.csv"]) {
      const task = await open(name);
      expect(task).toMatchObject({ splits: ["test"], reportSplit: "test", labels });
      expect((await task.load("test")).map((example) => example.label)).toEqual([1, 1, 1, 1, 1, 1]);
    }
    expect(notices).toEqual([expect.stringContaining("0 as negative, 1 as positive")]);
    await expect(open("other.csv")).rejects.toThrow(/expected the labels negative, positive in "stars", received spam/);
  });

  it("reads Parquet with the class names it carries, and leaves out a test split without labels", async () => {
    const notices: string[] = [];
    const task = await loadTask({ data: fixture(""), onWarning: (message) => notices.push(message) });
    expect(task).toMatchObject({
      labels: ["negative", "positive"],
      fields: ["sentence"],
      splits: ["train", "select", "dev"],
    });
    expect((await task.load("dev")).map(({ texts, label }) => [texts[0], label])).toEqual([
      ["café fine", 1],
      ["dull 🎬", 0],
      ["so so", 0],
    ]);
    expect(notices).toEqual([
      expect.stringContaining("taking sentence as text"),
      expect.stringContaining("has no labels and is left out"),
    ]);
    await expect(loadTask({ data: fixture("train.parquet"), labels: ["bad", "good"] })).rejects.toThrow(
      /bad, good.*negative, positive/,
    );
  });
});
