import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { listen } from "../../src/base/events.js";
import { loadTask, taskNames } from "../../src/tasks/index.js";
import { formatSplit, parseSplit, type Task } from "../../src/tasks/task.js";
import { jsonLines, makeFolder } from "./folder.js";

afterEach(() => vi.unstubAllEnvs());

const rows = (count: number, line: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => `${line(index)}\n`).join("");
const pairs = (count: number, labels: readonly string[]) =>
  `index\tsentence1\tsentence2\tlabel\n${rows(count, (i) => `${i}\tpremise ${i}\thypothesis ${i}\t${labels[i % labels.length]}`)}`;

async function sizes(task: Task) {
  return Object.fromEntries(
    await Promise.all(task.splits.map(async (split) => [split, (await task.load(split)).length])),
  );
}

describe("GLUE", () => {
  const sst2 = {
    "train.tsv": `sentence\tlabel\n${rows(60, (i) => `phrase ${i} \t${i % 2}`)}`,
    "dev.tsv": "sentence\tlabel\nfine\t1\ndull\t0\n",
  };

  it("reads a dataset from its folder, a parent folder or TEMPER_DATA", async () => {
    const files = Object.fromEntries(Object.entries(sst2).map(([name, content]) => [`glue/SST-2/${name}`, content]));
    const root = await makeFolder(files);
    for (const data of [root, join(root, "glue"), join(root, "glue", "SST-2")]) {
      const task = await loadTask({ task: "sst2", data });
      expect(await sizes(task)).toEqual({ train: 54, validation: 6, test: 2 });
      expect(task).toMatchObject({
        labels: ["negative", "positive"],
        modifiableFields: [0],
      });
      expect(task.sourceNames).toEqual({ test: "dev" });
      expect(await task.load("test")).toEqual([
        { id: "dev.tsv:2", texts: ["fine"], label: 1 },
        { id: "dev.tsv:3", texts: ["dull"], label: 0 },
      ]);
    }
    vi.stubEnv("TEMPER_DATA", root);
    expect(await sizes(await loadTask({ task: "SST-2" }))).toMatchObject({ test: 2 });
  });

  it("uses GLUE's order of the labels", async () => {
    const nli = ["neutral", "contradiction", "entailment"];
    const mnli = (count: number) => pairs(count, nli).replace("label", "gold_label");
    const root = await makeFolder({
      "RTE/train.tsv": pairs(20, ["not_entailment", "entailment"]),
      "RTE/dev.tsv": pairs(2, ["not_entailment", "entailment"]),
      "QNLI/train.tsv": pairs(20, ["not_entailment", "entailment"]).replace(
        "sentence1\tsentence2",
        "question\tsentence",
      ),
      "QNLI/dev.tsv": pairs(2, ["not_entailment", "entailment"]).replace("sentence1\tsentence2", "question\tsentence"),
      "MNLI/train.tsv": mnli(30),
      "MNLI/dev_matched.tsv": mnli(3),
      "MNLI/dev_mismatched.tsv": mnli(6),
    });
    const labels = async (task: string) =>
      (await (await loadTask({ task, data: root })).load("test")).map((example) => example.label);
    expect(await labels("rte")).toEqual([1, 0]);
    expect(await labels("qnli")).toEqual([1, 0]);
    expect(await labels("mnli")).toEqual([1, 2, 0]);
    expect(await labels("mnli-mm")).toEqual([1, 2, 0, 1, 2, 0]);
  });

  it("skips the broken rows of the published QQP files", async () => {
    const header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";
    const train = `${header}${rows(20, (i) => `${i}\t1\t2\twhy ${i}\thow ${i}\t${i % 2}`)}21\t1\t2\tbroken\n`;
    const data = await makeFolder({ "train.tsv": train, "dev.tsv": `${header}0\t1\t2\ta\tb\t1\n` });
    const warnings: string[] = [];
    const task = await loadTask({ task: "qqp", data, ...listen({ warning: ({ message }) => warnings.push(message) }) });
    expect(await sizes(task)).toEqual({ train: 18, validation: 2, test: 1 });
    expect(warnings).toEqual([expect.stringContaining("skipped 1 of 21 rows")]);
  });

  it("lists the columns if the file belongs to another dataset", async () => {
    const task = await loadTask({ task: "rte", data: await makeFolder(sst2) });
    await expect(task.load("test")).rejects.toThrow(/no column "sentence1".*Its columns are sentence, label/);
  });
});

describe("AdvGLUE", () => {
  const parts = {
    sst2: [{ idx: 0, sentence: "a treat", label: 1 }],
    "mnli-mm": [
      { idx: 0, premise: "p", hypothesis: "h", label: 2 },
      { idx: 1, premise: "p", hypothesis: "i", label: 0 },
    ],
  };

  it("uses the labels of the matching GLUE task and has only a test split", async () => {
    const data = await makeFolder({ "advglue/dev.json": JSON.stringify(parts) });
    const task = await loadTask({ task: "advglue:mnli-mm", data });
    expect(task).toMatchObject({
      splits: ["test"],
      labels: ["entailment", "neutral", "contradiction"],
    });
    expect(task.sourceNames).toEqual({ test: "dev" });
    expect((await task.load("test")).map((example) => example.label)).toEqual([2, 0]);
    await expect(task.load("train")).rejects.toThrow(/has no train split.*train on mnli-mm instead/);
    const file = join(data, "advglue", "dev.json");
    expect(await sizes(await loadTask({ task: "advglue:sst2", data: file }))).toEqual({ test: 1 });
    const missing = await loadTask({ task: "advglue:rte", data });
    await expect(missing.load("test")).rejects.toThrow(/no part "rte"/);
  });

  it("rejects an unknown label", async () => {
    const data = await makeFolder({
      "dev.json": JSON.stringify({ sst2: [...parts.sst2, { sentence: "x", label: 2 }] }),
    });
    await expect((await loadTask({ task: "advglue:sst2", data })).load("test")).rejects.toThrow(
      /the label "2", expected one of 0, 1/,
    );
  });
});

describe("SNLI", () => {
  it("ignores pairs without a gold label; only the hypothesis is modifiable", async () => {
    const pair = (index: number, gold: string) => ({
      gold_label: gold,
      sentence1: `p ${index}`,
      sentence2: `h ${index}`,
      pairID: `id-${index}`,
    });
    const lines = jsonLines([pair(0, "neutral"), pair(1, "-"), pair(2, "entailment"), pair(3, "contradiction")]);
    const data = await makeFolder(
      Object.fromEntries(["train", "dev", "test"].map((split) => [`snli_1.0/snli_1.0_${split}.jsonl`, lines])),
    );
    const task = await loadTask({ task: "snli", data });
    expect(task).toMatchObject({
      modifiableFields: [1],
      splits: ["train", "validation", "test"],
    });
    expect(task.sourceNames).toEqual({ validation: "dev" });
    const examples = await task.load("test");
    expect(examples.map((example) => [example.id, example.label])).toEqual([
      ["id-0", 1],
      ["id-2", 0],
      ["id-3", 2],
    ]);
  });
});

describe("IMDB", () => {
  it("reads the same examples from aclImdb's folders and from JSON lines", async () => {
    const review = (label: number, index: number) => `Review ${label}${index}.<br /><br />Second line<br/>third.`;
    const folders: Record<string, string> = {};
    for (const split of ["train", "test"]) {
      for (let i = 0; i < 12; i++) {
        folders[`aclImdb/${split}/pos/${i}_9.txt`] = review(1, i);
        folders[`aclImdb/${split}/neg/${i}_2.txt`] = review(0, i);
      }
      folders[`aclImdb/${split}/unsup/0_0.txt`] = "unlabeled";
    }
    const lines = jsonLines(
      [0, 1].flatMap((label) =>
        Array.from({ length: 12 }, (_, i) => ({ id: i, rating: 1, label, text: review(label, i) })),
      ),
    );
    const fromFolders = await loadTask({ task: "imdb", data: await makeFolder(folders) });
    const fromLines = await loadTask({
      task: "imdb",
      data: await makeFolder({ "train.jsonl": lines, "test.jsonl": lines }),
    });
    expect(await sizes(fromFolders)).toEqual({ train: 22, validation: 2, test: 24 });
    for (const split of ["train", "validation", "test"] as const) {
      const [one, other] = await Promise.all([fromFolders, fromLines].map(async (task) => task.load(split)));
      expect(one!.map(({ texts, label }) => ({ texts, label }))).toEqual(
        other!.map(({ texts, label }) => ({ texts, label })),
      );
    }
    expect((await fromFolders.load("test"))[0]).toEqual({
      id: "test/neg/0_2.txt",
      texts: ["Review 00. Second line third."],
      label: 0,
    });
  });
});

describe("MR", () => {
  it("reads Latin-1 and holds out fixed splits", async () => {
    const text = (word: string) =>
      Buffer.from(
        rows(50, (i) => `caf\u00e9 ${word} ${i} `),
        "latin1",
      );
    const task = await loadTask({
      task: "mr",
      data: await makeFolder({ "rt-polarity.pos": text("good"), "rt-polarity.neg": text("bad") }),
    });
    expect(await sizes(task)).toEqual({ train: 80, validation: 10, test: 10 });
    const train = await task.load("train");
    expect(train.every((example) => /^caf\u00e9 (good|bad) \d+$/.test(example.texts[0]!))).toBe(true);
    expect(train.every((example) => example.label === (example.texts[0]!.includes("good") ? 1 : 0))).toBe(true);
  });
});

describe("AG News", () => {
  const news = (count: number) => rows(count, (i) => `"${(i % 4) + 1}","Title, ${i}","A ""quoted"" item ${i}"`);

  it("joins title and description, and reads classes from 1", async () => {
    const data = await makeFolder({ "ag_news_csv/train.csv": news(40), "ag_news_csv/test.csv": news(4) });
    for (const folder of [data, join(data, "ag_news_csv")]) {
      const task = await loadTask({ task: "ag-news", data: folder });
      expect(task).toMatchObject({ labels: ["World", "Sports", "Business", "Sci/Tech"], modifiableFields: [0] });
      expect(await sizes(task)).toEqual({ train: 36, validation: 4, test: 4 });
      expect((await task.load("test"))[2]).toEqual({
        id: "test.csv:3",
        texts: ['Title, 2 A "quoted" item 2'],
        label: 2,
      });
    }
    expect((await loadTask({ task: "AG_News", data })).name).toBe("ag-news");
  });

  it("rejects a class beyond the four, and a file with a header", async () => {
    const load = async (test: string) =>
      (await loadTask({ task: "ag-news", data: await makeFolder({ "train.csv": news(8), "test.csv": test }) })).load(
        "test",
      );
    await expect(load('"5","a","b"\n"1","a","b"\n')).rejects.toThrow(
      /line 1 has the label "5", expected one of 1, 2, 3, 4/,
    );
    await expect(load(`Class,Title,Description\n${news(2)}`)).rejects.toThrow(/line 1 has the label "Class"/);
    await expect(load('"1","only a title"\n"2","a","b"\n')).rejects.toThrow(/line 1 has 2 fields/);
  });
});

describe("MSGS", () => {
  it("tests on the disambiguating part with linguistic labels", async () => {
    const row = (sentence: string, condition: string, linguistic: number, surface: number) => ({
      sentence,
      condition,
      linguistic_feature_label: linguistic,
      surface_feature_label: surface,
    });
    const data = await makeFolder({
      "control_raising_length/train.jsonl": jsonLines([row("a", "training", 1, 1), row("b", "training", 0, 0)]),
      "control_raising_length/test.jsonl": jsonLines([
        row("d", "training", 1, 1),
        row("e", "test", 0, 1),
        row("f", "control", 0, 0),
      ]),
    });
    const task = await loadTask({ task: "msgs:control_raising_length", data });
    expect(task).toMatchObject({
      labels: ["raising", "control"],
      metrics: ["matthews", "accuracy"],
    });
    expect(task.sourceNames).toEqual({ validation: "in-domain", test: "disambiguating" });
    expect((await task.load("test")).map(({ texts, label }) => [texts[0], label])).toEqual([["e", 0]]);
    expect((await task.load("validation")).map(({ texts }) => texts[0])).toEqual(["d"]);
  });
});

describe("loadTask", () => {
  it("suggests a similar name and lists all tasks", async () => {
    await expect(loadTask({ task: "sts2" })).rejects.toThrow(
      /Unknown task "sts2" \(did you mean "sst2"\?\).*advglue:sst2.*snli/,
    );
    await expect(loadTask({})).rejects.toThrow(/Expected a task/);
  });

  it("explains where to get a missing dataset and which files it needs", async () => {
    const empty = await makeFolder();
    for (const task of taskNames.filter((name) => name !== "spam")) {
      await expect(loadTask({ task, data: empty })).rejects.toThrow(/Expected .*from .*TEMPER_DATA/);
      await expect(loadTask({ task, data: join(empty, "nowhere") })).rejects.toThrow(/nowhere/);
    }
  });
});

describe("splits", () => {
  it("parseSplit suggests a similar name", () => {
    expect(["train", "validation", "test"].map(parseSplit)).toEqual(["train", "validation", "test"]);
    expect(() => parseSplit("tests")).toThrow(/"tests" \(did you mean "test"\?\)\. Use train, validation or test\.$/);
  });

  it("formatSplit adds the name that the dataset uses", () => {
    const sourceNames = { test: "dev" };
    expect(formatSplit({ name: "sst2", sourceNames, benchmark: "GLUE" }, "test")).toBe("sst2 test (GLUE dev set)");
    expect(formatSplit({ name: "reviews", sourceNames }, "test")).toBe("reviews test (dev set)");
    expect(formatSplit({ name: "reviews", sourceNames }, "train")).toBe("reviews train");
  });
});
