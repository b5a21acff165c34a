import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { listen } from "../../src/base/events.js";
import { parseExamples, type ReadOptions } from "../../src/tasks/parse-examples.js";
import { readTable } from "../../src/tasks/read-table.js";
import { jsonLines, makeFolder } from "./folder.js";

const columns = { texts: ["text"], label: "label", values: ["0", "1"] };

async function read(name: string, content: string | Uint8Array, options: ReadOptions = {}) {
  const table = await readTable(join(await makeFolder({ [name]: content }), name));
  return parseExamples(table, columns, options, name);
}

const words = fc.string({ unit: "grapheme", maxLength: 12 }).filter((text) => text.trim() !== "");

describe("readTable", () => {
  it("reads CSV with commas, quotes and newlines inside fields", async () => {
    const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
    await fc.assert(
      fc.asyncProperty(fc.array(words, { minLength: 1, maxLength: 5 }), async (texts) => {
        const examples = await read(
          "a.csv",
          `label,text\r\n${texts.map((text, i) => `${i % 2},${quote(text)}\r\n`).join("")}`,
        );
        expect(examples.map((example) => example.texts[0])).toEqual(texts.map((text) => text.trim()));
      }),
      { numRuns: 30 },
    );
  });

  it.each([
    ["Windows in the header", 'text,label\r\n"good, if long",1\nbad,0\n'],
    ["Windows in the rows", 'text,label\n"good, if long","1"\r\nbad,0\r\n'],
    ["classic Mac OS", 'text,label\r"good, if long",1\rbad,0\r'],
  ])("reads CSV with the line endings of %s", async (_, content) => {
    expect((await read("a.csv", content)).map(({ id, texts, label }) => [id, texts[0], label])).toEqual([
      ["a.csv:2", "good, if long", 1],
      ["a.csv:3", "bad", 0],
    ]);
  });

  it("does not interpret quotes in TSV", async () => {
    const examples = await read("a.tsv", 'text\tlabel\n"a" b\t1\n"open\t0\r\n\n');
    expect(examples).toEqual([
      { id: "a.tsv:2", texts: ['"a" b'], label: 1 },
      { id: "a.tsv:3", texts: ['"open'], label: 0 },
    ]);
  });

  it("reads the same examples from JSON lines, a JSON array, and CSV with semicolons or a byte-order mark", async () => {
    const items = [
      { text: "good", label: 1 },
      { text: "bad", label: 0 },
    ];
    const expected = [
      ["good", 1],
      ["bad", 0],
    ];
    for (const [name, content] of [
      ["a.jsonl", jsonLines(items)],
      ["a.json", JSON.stringify(items)],
      ["a.csv", "\uFEFFtext;label\ngood;1\nbad;0\n"],
      ["a.csv", "\uFEFFtext,label\ngood,1\nbad,0"],
    ] as const) {
      expect((await read(name, content)).map(({ texts, label }) => [texts[0], label])).toEqual(expected);
    }
  });

  it("reads Parquet in common compressions, with its class names", async () => {
    for (const [name, rows] of [
      ["train", 40],
      ["validation", 3],
      ["test", 2],
    ] as const) {
      const table = await readTable(`tests/fixtures/tasks/${name}.parquet`);
      expect(table.rows).toHaveLength(rows);
      expect(table.columns).toEqual(["sentence", "label", "idx", "origin"]);
      expect(table.classNames).toEqual({ label: ["negative", "positive"] });
    }
    const plain = await readTable("tests/fixtures/tasks/plain.parquet");
    expect(plain.classNames).toEqual({});
    expect(() => parseExamples(plain, { ...columns, texts: ["sentence"] }, {}, "plain")).toThrow(
      /1 of 4 rows .*row 2 has no "sentence"/,
    );
  });
});

describe("bad data", () => {
  const cases: [string, string, string | Uint8Array, RegExp][] = [
    ["an empty file", "a.csv", "", /has no rows/],
    ["only a header", "a.tsv", "text\tlabel\n", /has no rows/],
    [
      "a wrong column",
      "a.csv",
      "texts,label\nx,1\n",
      /no column "text" \(did you mean "texts"\?\)\. Its columns are texts, label/,
    ],
    ["a column with a comma", "a.csv", '"Name, first",y\nx,1\n', /Its columns are "Name, first", y/],
    ["a duplicate column", "a.csv", "text,label,text\nx,1,y\n", /has 2 columns named "text"\. Expected one/],
    [
      "an unknown label",
      "a.csv",
      "text,label\nx,1\ny,2\n",
      /1 of 2 rows .*line 3 has the label "2", expected one of 0, 1/,
    ],
    ["an empty text", "a.csv", "text,label\nx,1\n ,0\n", /line 3 has no "text"/],
    ["a missing label", "a.jsonl", '{"text":"x","label":1}\n\n{"text":"y"}\n', /line 3 has no "label"/],
    ["a short row", "a.tsv", "text\tlabel\nx\t1\ny\n", /line 3 has 1 fields, but the header has 2/],
    ["broken JSON", "a.jsonl", '{"text":"x","label":1}\n{"text":\n', /line 2 is not JSON/],
    ["a value that is not an object", "a.jsonl", '{"text":"x","label":1}\n7\n', /line 2 is not an object/],
    ["a JSON object", "a.json", "{}", /expected an array of objects/],
    ["an unclosed quote", "a.csv", 'text,label\n"x,1\ny,0\n', /unbalanced quotes/],
    ["a stray quote", "a.csv", 'text,label\nx "y" z",1\n', /unbalanced quotes/],
    ["Latin-1", "a.csv", Buffer.from("text,label\ncaf\u00e9,1\n", "latin1"), /not UTF-8: line 2 .*iconv/],
    ["another extension", "a.xlsx", "text", /unknown extension\. Expected a file that ends in \.tsv, \.csv/],
    ["invalid Parquet", "a.parquet", "not at all", /Cannot read .*a\.parquet as Parquet/],
  ];
  it.each(cases)("rejects %s", async (_, name, content, message) => {
    await expect(read(name, content)).rejects.toThrow(
      expect.objectContaining({ name: "UserError", message: expect.stringMatching(message) }),
    );
  });

  it("lists only some of 300,000 columns", async () => {
    const header = Array.from({ length: 300_000 }, (_, i) => `c${i}`).join(",");
    const error = await read("a.csv", `${header}\n${header}\n`).catch((each: Error) => each);
    expect((error as Error).message).toMatch(/has no column "text".* Its columns are c0, c1/);
    expect((error as Error).message.length).toBeLessThan(2000);
  });

  it("counts bad rows and names the first five", async () => {
    const lines = Array.from({ length: 9 }, (_, index) => `text ${index},${index < 2 ? 1 : 5}\n`).join("");
    await expect(read("a.csv", `text,label\n${lines}`)).rejects.toThrow(
      /7 of 9 rows .*line 4 .*line 8 .*and 2 more.*--skip-bad-rows/,
    );
  });

  it("skips bad rows with a warning if asked to", async () => {
    const warnings: string[] = [];
    const options = { skipBadRows: true, ...listen({ warning: ({ message }) => warnings.push(message) }) };
    const examples = await read("a.csv", "text,label\nx,1\n,0\ny,0\nz,9\n", options);
    expect(examples.map((example) => example.id)).toEqual(["a.csv:2", "a.csv:4"]);
    expect(warnings).toEqual([
      expect.stringMatching(/skipped 2 of 4 rows: line 3 has no "text"; line 5 has the label "9"/),
    ]);
    await expect(read("a.csv", "text,label\n,0\n", options)).rejects.toThrow(/no row can be used/);
  });
});
